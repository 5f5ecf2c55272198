//! Clusters that come and go. Entry point: [`Core::engage`].

use super::core::Core;
use crate::cluster::{Cluster, ClusterState, Parts};
use crate::engage::{ClusterSpec, EngageError};
use crate::name::ClusterName;
use crate::queue;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// An engaged cluster.
pub(super) struct Engaged {
    pub(super) spec: ClusterSpec,
    /// Name of the provider that engaged it first, and alone may change it.
    pub(super) provider: String,
    pub(super) cluster: Arc<Cluster>,
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
        if let Some(there) = engaged.get(&spec.name) {
            if there.provider != provider {
                return Err(EngageError::Duplicate {
                    name: spec.name,
                    by: there.provider.clone(),
                });
            }
            if there.spec.same(&spec) {
                return Ok(());
            }
        }
        if let Some(there) = engaged.remove(&spec.name) {
            self.leave(there.cluster);
        }
        let cluster = self.start_cluster(&spec);
        self.queue
            .lock()
            .set_cluster(&spec.name, queue::ClusterState::Held);
        self.fleet.insert(cluster.clone());
        engaged.insert(
            spec.name.clone(),
            Engaged {
                spec,
                provider: provider.to_owned(),
                cluster: cluster.clone(),
            },
        );
        // Under the lock, so that a controller that is added meanwhile does not miss the cluster.
        self.attach_cluster(&cluster);
        drop(engaged);
        tracing::info!(cluster = %cluster.name(), provider, server = cluster.config().server(), "cluster engaged");
        Ok(())
    }

    fn start_cluster(self: &Arc<Self>, spec: &ClusterSpec) -> Arc<Cluster> {
        let parts = Parts {
            name: spec.name.clone(),
            config: spec.config.clone(),
            labels: spec.labels.clone(),
            properties: spec.properties.clone(),
            metrics: self.metrics.cluster(&spec.name, &spec.config.host()),
        };
        let cluster = Cluster::start(
            parts,
            self.transports.clone(),
            &self.host,
            self.cut_off.child_token(),
        );
        let follow = self.clone().follow(cluster.clone());
        let stop = cluster.token().clone();
        cluster.tasks().spawn_on(
            async move { stop.run_until_cancelled(follow).await },
            &self.host,
        );
        cluster
    }

    /// Holds or lets go the cluster's keys as its state changes.
    async fn follow(self: Arc<Self>, cluster: Arc<Cluster>) {
        let mut states = cluster.states();
        loop {
            let state = match states.borrow_and_update().state {
                ClusterState::Ready => queue::ClusterState::Ready,
                ClusterState::Degraded => queue::ClusterState::Probing,
                ClusterState::Connecting | ClusterState::Syncing | ClusterState::Gone => {
                    queue::ClusterState::Held
                }
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
            self.leave(there.cluster);
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
