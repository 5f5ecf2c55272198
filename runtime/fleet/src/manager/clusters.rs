//! Clusters that come and go. Entry point: [`Core::engage`].

use super::core::Core;
use crate::cluster::{Cluster, ClusterState, Parts, Reach};
use crate::engage::{ClusterSpec, EngageError};
use crate::name::ClusterName;
use crate::queue;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a cluster that took another's place may take until its sources hold its caches themselves.
const TAKEN_OVER: Duration = Duration::from_secs(60);

/// An engaged cluster.
pub(super) struct Engaged {
    pub(super) spec: ClusterSpec,
    /// Name of the provider that engaged it first, and alone may change it.
    pub(super) provider: String,
    pub(super) cluster: Arc<Cluster>,
    /// What takes its place once it is ready to.
    successor: Option<Successor>,
    /// Whether another provider was refused the name, and waits for it.
    contested: bool,
}

/// A cluster whose caches are being filled while another still serves under its name.
struct Successor {
    spec: ClusterSpec,
    cluster: Arc<Cluster>,
}

impl Core {
    /// Begins work on a cluster in the name of a provider, unless that has been stopped.
    pub(super) fn engage(
        self: &Arc<Self>,
        provider: &str,
        stop: &CancellationToken,
        spec: ClusterSpec,
    ) -> Result<(), EngageError> {
        let mut engaged = self.engaged.lock();
        // Looked at under the lock: a drain that begins now, and the provider's end, take what was engaged before.
        if stop.is_cancelled() {
            return Err(EngageError::Stopping);
        }
        if let Some(there) = engaged.get_mut(&spec.name) {
            if there.provider != provider {
                there.contested = true;
                return Err(EngageError::Duplicate {
                    name: spec.name,
                    by: there.provider.clone(),
                });
            }
            self.change(there, spec);
            return Ok(());
        }
        let cluster = self.start_cluster(&spec);
        engaged.insert(
            spec.name.clone(),
            Engaged {
                spec,
                provider: provider.to_owned(),
                cluster: cluster.clone(),
                successor: None,
                contested: false,
            },
        );
        self.serve(&cluster);
        drop(engaged);
        tracing::info!(cluster = %cluster.name(), provider, server = cluster.config().server(), "cluster engaged");
        Ok(())
    }

    /// Brings an engaged cluster in line with what its provider says now.
    fn change(self: &Arc<Self>, there: &mut Engaged, spec: ClusterSpec) {
        let stops = spec.stops(&there.spec);
        if let Some(successor) = there.successor.as_mut().filter(|_| !stops) {
            if successor.spec.same(&spec) {
                return;
            }
            if successor.spec.same_but_credentials(&spec) {
                let config = spec.config.clone();
                successor.cluster.exchange(config, &self.transports);
                successor.spec = spec;
                return;
            }
        }
        self.drop_successor(there);
        if there.spec.same(&spec) {
            return;
        }
        if there.spec.same_but_credentials(&spec) && there.cluster.is_same_server(&spec.config) {
            there
                .cluster
                .exchange(spec.config.clone(), &self.transports);
            there.spec = spec;
            return;
        }
        let cluster = self.start_cluster(&spec);
        if stops || !there.cluster.has_served() {
            tracing::info!(cluster = %spec.name, server = spec.config.server(), "cluster replaced");
            there.spec = spec;
            self.take_over(there, cluster);
            return;
        }
        tracing::info!(
            cluster = %spec.name,
            server = spec.config.server(),
            before = there.spec.config.server(),
            "the cluster is replaced once the caches of the new one are filled; work on the one before goes on"
        );
        there.cluster.set_replacement(Some(cluster.clone()));
        there.successor = Some(Successor {
            spec,
            cluster: cluster.clone(),
        });
        let succeed = self.clone().succeed(there.cluster.clone(), cluster.clone());
        let stop = cluster.token().clone();
        cluster.tasks().spawn_on(
            async move { stop.run_until_cancelled(succeed).await },
            &self.host,
        );
    }

    /// Fills a successor's caches, then has it take over. Until then, however long that takes, the old cluster serves.
    async fn succeed(self: Arc<Self>, old: Arc<Cluster>, new: Arc<Cluster>) {
        let filled = new.fill_like(&old).await;
        drop(old);
        {
            let mut engaged = self.engaged.lock();
            let there = engaged.get_mut(new.name());
            let is_next = |there: &&mut Engaged| {
                let next = there.successor.as_ref();
                next.is_some_and(|next| Arc::ptr_eq(&next.cluster, &new))
            };
            let Some(there) = there.filter(is_next) else {
                return;
            };
            if self.draining.is_cancelled() {
                return;
            }
            let Some(successor) = there.successor.take() else {
                return;
            };
            there.spec = successor.spec;
            self.take_over(there, successor.cluster);
        }
        // By then its sources hold the caches themselves.
        let mut states = new.states();
        let ready = states.wait_for(|now| now.state == ClusterState::Ready);
        let _ = tokio::time::timeout(TAKEN_OVER, ready).await;
        drop(filled);
    }

    /// Ends an engaged cluster and goes on with another.
    fn take_over(self: &Arc<Self>, there: &mut Engaged, cluster: Arc<Cluster>) {
        let old = std::mem::replace(&mut there.cluster, cluster.clone());
        old.set_replacement(None);
        self.leave(old);
        self.serve(&cluster);
    }

    pub(super) fn drop_successor(self: &Arc<Self>, there: &mut Engaged) {
        if let Some(successor) = there.successor.take() {
            there.cluster.set_replacement(None);
            let cluster = successor.cluster;
            cluster.token().cancel();
            self.metrics
                .forget_cluster(cluster.name(), cluster.metrics());
            self.end_cluster(cluster);
        }
    }

    /// Another server answers under the address of a cluster: nothing of the one before is kept.
    fn engage_anew(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        let mut engaged = self.engaged.lock();
        let there = engaged.get_mut(cluster.name());
        let is_current = |there: &&mut Engaged| Arc::ptr_eq(&there.cluster, cluster);
        let Some(there) = there.filter(is_current) else {
            return;
        };
        if self.draining.is_cancelled() {
            return;
        }
        let fresh = self.start_cluster(&there.spec);
        fresh.set_replacement(there.successor.as_ref().map(|next| next.cluster.clone()));
        self.take_over(there, fresh);
    }

    fn start_cluster(&self, spec: &ClusterSpec) -> Arc<Cluster> {
        let parts = Parts {
            name: spec.name.clone(),
            config: spec.config.clone(),
            labels: spec.labels.clone(),
            properties: spec.properties.clone(),
            metrics: self.metrics.cluster(&spec.name, &spec.config.host()),
            caches: self.caches.clone(),
        };
        Cluster::start(
            parts,
            self.transports.clone(),
            &self.host,
            self.cut_off.child_token(),
        )
    }

    /// Has a cluster stand for its name: its keys enter the queue from now on. Called under the lock of engaged clusters, so that a
    /// controller that is added meanwhile does not miss it.
    fn serve(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        self.queue
            .lock()
            .set_cluster(cluster.name(), queue::ClusterState::Held);
        cluster.metrics().served_by(&cluster.config().host());
        self.fleet.insert(cluster.clone());
        let follow = self.clone().follow(cluster.clone());
        let stop = cluster.token().clone();
        cluster.tasks().spawn_on(
            async move { stop.run_until_cancelled(follow).await },
            &self.host,
        );
        self.attach_cluster(cluster);
    }

    /// Holds or lets go the cluster's keys as its state changes.
    async fn follow(self: Arc<Self>, cluster: Arc<Cluster>) {
        let mut states = cluster.states();
        loop {
            let now = states.borrow_and_update().clone();
            if now.identity_changed {
                return self.engage_anew(&cluster);
            }
            let state = match now.reach {
                Reach::Full => queue::ClusterState::Ready,
                Reach::Doubtful => queue::ClusterState::Probing,
                Reach::None => queue::ClusterState::Held,
            };
            self.tell_queue(&cluster, state);
            if states.changed().await.is_err() {
                return;
            }
        }
    }

    fn tell_queue(&self, cluster: &Cluster, state: queue::ClusterState) {
        let mut queue = self.queue.lock();
        // Looked at under the lock: a cluster that leaves is cancelled before the queue forgets it, and another one may have its
        // name by now.
        if !cluster.token().is_cancelled() {
            queue.set_cluster(cluster.name(), state);
        }
        drop(queue);
        self.wake.notify_one();
    }

    pub(super) fn disengage(
        self: &Arc<Self>,
        provider: &str,
        stop: &CancellationToken,
        name: &ClusterName,
    ) {
        let mut engaged = self.engaged.lock();
        let theirs = engaged
            .get(name)
            .is_some_and(|there| there.provider == provider);
        if !theirs || stop.is_cancelled() {
            return;
        }
        if let Some(there) = engaged.remove(name) {
            tracing::info!(cluster = %name, provider, "cluster disengaged");
            self.retire(there);
        }
    }

    /// Ends work on an engaged cluster, and on what was to take its place. Called under the lock of engaged clusters, which the name has
    /// left: a provider that waits for it finds it free.
    pub(super) fn retire(self: &Arc<Self>, mut engaged: Engaged) {
        self.drop_successor(&mut engaged);
        self.leave(engaged.cluster);
        if engaged.contested {
            self.freed.send_replace(());
        }
    }

    /// Ends work on a cluster: its keys leave the queue, its runs are cancelled, and nothing of it remains.
    pub(super) fn leave(self: &Arc<Self>, cluster: Arc<Cluster>) {
        cluster.token().cancel();
        self.detach_cluster(cluster.name());
        // Out of the fleet first: from then on no key of it can enter the queue.
        self.fleet.remove(&cluster);
        self.queue
            .lock()
            .remove_cluster(Instant::now(), cluster.name());
        self.recent.forget_cluster(cluster.name());
        self.metrics
            .forget_cluster(cluster.name(), cluster.metrics());
        self.wake.notify_one();
        self.end_cluster(cluster);
    }

    pub(super) fn end_cluster(self: &Arc<Self>, cluster: Arc<Cluster>) {
        self.tasks
            .spawn_on(async move { cluster.end().await }, &self.host);
    }
}
