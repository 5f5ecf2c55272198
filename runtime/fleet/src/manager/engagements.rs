//! The engaged clusters: engaged, changed, replaced and ended. Entry point: [`Engagements::engage`].
//!
//! It owns the table of engaged clusters. Everything that starts or ends watches happens under its lock, which others get as
//! [`Engagements::freeze`]: so no watch runs in a cluster that has left, and no controller misses a cluster that comes.

mod replacement;

use super::carriers::Carriers;
use super::recent::RecentRuns;
use super::same_server::{Place, SameServer, Sight};
use super::shared_queue::SharedQueue;
use super::watches::Watches;
use crate::cluster::{
    Awaited, Cluster, ClusterConfig, ClusterObjects, Fleet, Parts, Reach, SharedOptions,
    StateChanges, Transports,
};
use crate::engage::{ClusterSpec, EngageError, Reroute};
use crate::hub::{Hub, HubError};
use crate::metrics::Metrics;
use crate::name::ClusterName;
use crate::provider::Problem;
use crate::queue;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// An engaged cluster.
struct Engaged {
    spec: ClusterSpec,
    /// Name of the provider that engaged it first, and alone may change it.
    provider: Arc<str>,
    cluster: Arc<Cluster>,
    /// Replaces the cluster once its caches are filled.
    replacement: Option<Box<Replacement>>,
    /// Whether another provider was refused the name, and waits for it.
    contested: bool,
}

/// A cluster whose caches are being filled while another still serves under its name.
struct Replacement {
    spec: ClusterSpec,
    cluster: Arc<Cluster>,
}

/// In boxes, because the nodes of such a map are half empty.
type Table = BTreeMap<ClusterName, Box<Engaged>>;

/// The parts that clusters are built from, and those that have to be informed of clusters.
pub(super) struct Environment {
    pub(super) host: Handle,
    pub(super) metrics: Metrics,
    pub(super) transports: Arc<Transports>,
    pub(super) caches: SharedOptions,
    pub(super) fleet: Fleet,
    pub(super) queue: Arc<SharedQueue>,
    pub(super) recent: Arc<RecentRuns>,
    pub(super) watches: Arc<Watches>,
    /// Whether clusters that are one server are all worked on.
    pub(super) duplicate_clusters: bool,
    /// Where clusters are reached in place of their own servers.
    pub(super) reroute: Option<Arc<dyn Reroute>>,
    /// Cancelled when a drain begins: nothing is engaged any more.
    pub(super) draining: CancellationToken,
    /// Cancelled when a drain has run out of time: ends every cluster.
    pub(super) cut_off: CancellationToken,
    /// Clusters that are ending.
    pub(super) tasks: TaskTracker,
}

/// The engaged clusters.
pub(super) struct Engagements {
    environment: Environment,
    carriers: Carriers,
    engaged: Mutex<Table>,
    /// Clusters that are one server. Locked after `engaged`.
    same_server: Mutex<SameServer>,
    /// The clusters whose keys are to be held or released.
    changes: Arc<StateChanges>,
    /// The clusters as objects of the local one.
    objects: Arc<ClusterObjects>,
    /// Cancelled when all clusters have been ended.
    ended: CancellationToken,
    /// Changes when a name becomes free that a provider was refused.
    freed: watch::Sender<()>,
}

/// No cluster comes or goes while this lives. Not to be held across an await.
pub(super) struct Frozen<'a> {
    engagements: &'a Engagements,
    engaged: MutexGuard<'a, Table>,
}

/// Whether the credentials of a new specification can be exchanged in place. Another certificate authority may vouch for another server
/// under the same address, and no key may run there before that server has given its identity.
fn may_exchange(cluster: &Cluster, now: &ClusterSpec, new: &ClusterSpec) -> bool {
    let is_unused = cluster.backend().is_none();
    new.same_but_credentials(now) && (is_unused || new.config.same_authority(&now.config))
}

impl Frozen<'_> {
    /// The clusters that are engaged.
    pub(super) fn clusters(&self) -> Vec<Arc<Cluster>> {
        let engaged = self.engaged.values();
        engaged.map(|engaged| engaged.cluster.clone()).collect()
    }

    /// The clusters that each provider has engaged.
    pub(super) fn names_by_provider(&self) -> BTreeMap<String, BTreeSet<ClusterName>> {
        let mut names: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
        for (name, engaged) in self.engaged.iter() {
            let of_provider = names.entry(engaged.provider.to_string()).or_default();
            of_provider.insert(name.clone());
        }
        names
    }

    /// What is wrong with the clusters that are not worked on because another one is the same server, by provider.
    pub(super) fn duplicates(&self) -> BTreeMap<String, Vec<Problem>> {
        let mut problems: BTreeMap<String, Vec<Problem>> = BTreeMap::new();
        for (name, _) in self.engagements.same_server.lock().behind() {
            let Some(engaged) = self.engaged.get(name) else {
                continue;
            };
            let of_provider = problems.entry(engaged.provider.to_string()).or_default();
            of_provider.push(Problem {
                subject: name.to_string(),
                message: engaged.cluster.now().reason.to_string(),
            });
        }
        problems
    }

    /// Disengages a provider's clusters except some.
    pub(super) fn disengage_others(&mut self, provider: &str, kept: &BTreeSet<ClusterName>) {
        let leaves = |name: &ClusterName, engaged: &Engaged| {
            !name.is_local() && *engaged.provider == *provider && !kept.contains(name)
        };
        let gone: Vec<ClusterName> = self
            .engaged
            .iter()
            .filter(|(name, engaged)| leaves(name, engaged))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.engagements.remove(&mut self.engaged, provider, &name);
        }
    }
}

impl Engagements {
    pub(super) fn new(environment: Environment) -> Self {
        let carriers = Carriers {
            host: environment.host.clone(),
            metrics: environment.metrics.clone(),
            transports: environment.transports.clone(),
            caches: environment.caches.clone(),
            cut_off: environment.cut_off.clone(),
            tasks: environment.tasks.clone(),
            by_server: Mutex::default(),
        };
        let changes = Arc::new(StateChanges::of(environment.fleet.changes().clone()));
        let objects = Arc::new(ClusterObjects::new(environment.fleet.clone()));
        Self {
            environment,
            carriers,
            engaged: Mutex::default(),
            same_server: Mutex::default(),
            changes,
            objects,
            ended: CancellationToken::new(),
            freed: watch::Sender::new(()),
        }
    }

    /// Until the answer is dropped a provider has still to say which clusters it knows.
    pub(super) fn await_list(&self) -> Awaited {
        self.environment.fleet.awaits()
    }

    /// Keeps clusters from coming and going while the answer lives.
    pub(super) fn freeze(&self) -> Frozen<'_> {
        Frozen {
            engagements: self,
            engaged: self.engaged.lock(),
        }
    }

    /// Changes when a name becomes free that a provider was refused.
    pub(super) fn freed(&self) -> watch::Receiver<()> {
        self.freed.subscribe()
    }

    /// Begins work on a cluster in the name of a provider, unless that has been stopped.
    pub(super) fn engage(
        self: &Arc<Self>,
        provider: &Arc<str>,
        stop: &CancellationToken,
        mut spec: ClusterSpec,
    ) -> Result<(), EngageError> {
        if let Some(reroute) = &self.environment.reroute {
            reroute.cluster(&mut spec);
        }
        let mut table = self.engaged.lock();
        // Checked under the lock: the end of the provider, or a drain that begins now, ends the clusters that were engaged before.
        if stop.is_cancelled() {
            return Err(EngageError::Stopping);
        }
        if let Some(engaged) = table.get_mut(&spec.name) {
            if engaged.provider != *provider {
                engaged.contested = true;
                return Err(EngageError::Duplicate {
                    name: spec.name,
                    by: engaged.provider.to_string(),
                });
            }
            self.change(engaged, spec);
            return Ok(());
        }
        let cluster = self.start(provider, &spec);
        table.insert(
            spec.name.clone(),
            Box::new(Engaged {
                spec,
                provider: provider.clone(),
                cluster: cluster.clone(),
                replacement: None,
                contested: false,
            }),
        );
        self.serve(&cluster);
        drop(table);
        tracing::info!(cluster = %cluster.name(), provider = &**provider, server = cluster.config().server(), "cluster engaged");
        Ok(())
    }

    /// The server that a provider reads: the local cluster (`None`), or one of its own.
    pub(super) fn hub(
        &self,
        provider: &str,
        stop: &CancellationToken,
        config: Option<ClusterConfig>,
    ) -> Result<Hub, HubError> {
        if stop.is_cancelled() {
            return Err(HubError::Stopping);
        }
        let reroute = self.environment.reroute.as_ref();
        let hub = match config {
            None => {
                let local = self.environment.fleet.cluster(&ClusterName::local());
                Hub::new(local.ok_or(HubError::NoLocal)?, None)
            }
            Some(config) => {
                let config = reroute.map_or(config.clone(), |to| to.hub(provider, &config));
                let carrier = self.carriers.get(provider, &config);
                carrier.exchange(&config, &self.environment.transports);
                Hub::new(carrier.cluster().clone(), Some(carrier))
            }
        };
        Ok(match reroute {
            Some(reroute) => {
                let original = reroute.original(hub.config());
                hub.in_place_of(original)
            }
            None => hub,
        })
    }

    /// Ends work on a cluster in the name of a provider, unless that has been stopped.
    pub(super) fn disengage(&self, provider: &str, stop: &CancellationToken, name: &ClusterName) {
        let mut table = self.engaged.lock();
        let owner = table.get(name).map(|engaged| &*engaged.provider);
        if owner == Some(provider) && !stop.is_cancelled() {
            self.remove(&mut table, provider, name);
        }
    }

    /// Ends work on all clusters, at the end of a drain.
    pub(super) fn end_all(&self) {
        let engaged = std::mem::take(&mut *self.engaged.lock());
        for mut engaged in engaged.into_values() {
            self.drop_replacement(&mut engaged);
            self.end(engaged.cluster);
        }
        self.ended.cancel();
    }

    /// Ends work on an engaged cluster, and on its replacement.
    fn remove(&self, table: &mut Table, provider: &str, name: &ClusterName) {
        let Some(mut engaged) = table.remove(name) else {
            return;
        };
        tracing::info!(cluster = %name, provider, "cluster disengaged");
        self.drop_replacement(&mut engaged);
        self.leave(engaged.cluster);
        // Another cluster may be the same server, and takes over.
        self.changes.note(name, false);
        if engaged.contested {
            // The table's lock is held, so a provider that waits for the name finds it free.
            self.freed.send_replace(());
        }
    }

    /// Brings an engaged cluster in line with its provider's new specification.
    fn change(self: &Arc<Self>, engaged: &mut Engaged, spec: ClusterSpec) {
        self.describe(engaged, &spec);
        let transports = &self.environment.transports;
        let stops = spec.stops(&engaged.spec);
        if let Some(replacement) = engaged.replacement.as_mut().filter(|_| !stops) {
            if replacement.spec.same(&spec) {
                return;
            }
            if may_exchange(&replacement.cluster, &replacement.spec, &spec) {
                let config = spec.config.clone();
                replacement.cluster.exchange(config, transports);
                replacement.spec = spec;
                return;
            }
        }
        self.drop_replacement(engaged);
        if engaged.spec.same(&spec) {
            return;
        }
        let cluster = &engaged.cluster;
        if may_exchange(cluster, &engaged.spec, &spec) {
            cluster.exchange(spec.config.clone(), transports);
            engaged.spec = spec;
            return;
        }
        if stops || !cluster.has_served() {
            tracing::info!(cluster = %spec.name, server = spec.config.server(), "cluster replaced");
            let cluster = self.start(&engaged.provider, &spec);
            engaged.spec = spec;
            self.replace(engaged, cluster);
            return;
        }
        self.prepare_replacement(engaged, spec);
    }

    /// Exchanges labels and properties in place. They belong to the name, so a replacement gets them as well.
    fn describe(&self, engaged: &mut Engaged, spec: &ClusterSpec) {
        if let Some(replacement) = &mut engaged.replacement
            && replacement.spec.describe_as(spec)
        {
            let cluster = &replacement.cluster;
            cluster.describe(spec.description());
        }
        let cluster = &engaged.cluster;
        if !engaged.spec.describe_as(spec) {
            return;
        }
        let new_labels = cluster.describe(spec.description());
        self.environment.fleet.described(cluster);
        if new_labels {
            tracing::info!(cluster = %spec.name, "labels exchanged");
            self.environment.watches.labels_changed(cluster);
        }
    }

    /// Ends an engaged cluster and goes on with another.
    fn replace(self: &Arc<Self>, engaged: &mut Engaged, cluster: Arc<Cluster>) {
        let old = std::mem::replace(&mut engaged.cluster, cluster.clone());
        old.set_replacement(None);
        self.leave(old);
        self.serve(&cluster);
    }

    /// Replaces a cluster by an empty one, as another server answers under its address.
    fn engage_anew(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        let mut table = self.engaged.lock();
        let engaged = table.get_mut(cluster.name());
        let is_current = |engaged: &&mut Box<Engaged>| Arc::ptr_eq(&engaged.cluster, cluster);
        let Some(engaged) = engaged.filter(is_current) else {
            return;
        };
        if self.environment.draining.is_cancelled() {
            return;
        }
        let fresh = self.start(&engaged.provider, &engaged.spec);
        let replacement = engaged.replacement.as_ref();
        fresh.set_replacement(replacement.map(|replacement| replacement.cluster.clone()));
        self.replace(engaged, fresh);
    }

    fn start(&self, provider: &Arc<str>, spec: &ClusterSpec) -> Arc<Cluster> {
        let Environment {
            host,
            metrics,
            transports,
            caches,
            cut_off,
            ..
        } = &self.environment;
        let is_part = !spec.scope.is_whole();
        let parts = Parts {
            name: spec.name.clone(),
            provider: (!spec.name.is_local()).then(|| provider.clone()),
            scope: spec.scope.clone(),
            carrier: is_part.then(|| self.carriers.get(provider, &spec.config)),
            config: spec.config.clone(),
            description: spec.description(),
            metrics: metrics.cluster(&spec.name, &spec.config.host()),
            caches: caches.clone(),
            changes: self.changes.clone(),
            made: spec.name.is_local().then(|| self.objects.clone() as _),
        };
        Cluster::start(parts, transports.clone(), host, cut_off.child_token())
    }

    /// Lets a cluster stand for its name: its keys enter the queue from now on. Called under the table's lock, so that a controller
    /// that is added meanwhile does not miss it.
    fn serve(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        let Environment {
            queue,
            fleet,
            watches,
            ..
        } = &self.environment;
        queue.set_cluster(cluster, queue::ClusterMode::Held);
        cluster.metrics().served_by(&cluster.config().host());
        fleet.insert(cluster.clone());
        // What it noted before may have been about the one that had its name.
        self.changes.note(cluster.name(), false);
        watches.attach_all(cluster);
        cluster.attached();
    }

    /// Holds or releases the keys of clusters as their states change, until all clusters have been ended.
    pub(super) async fn follow_states(self: Arc<Self>) {
        let follow = async {
            loop {
                for (name, change) in self.changes.next().await {
                    self.follow_state(&name);
                    if change.is_repaired {
                        self.environment.queue.wake(&name);
                    }
                }
            }
        };
        // It ends in this way alone.
        let _ = self.ended.run_until_cancelled(follow).await;
    }

    fn follow_state(self: &Arc<Self>, name: &ClusterName) {
        let table = self.engaged.lock();
        let cluster = table.get(name).map(|engaged| engaged.cluster.clone());
        drop(table);
        let place = self.place(name, cluster.as_ref());
        let Some(cluster) = cluster else {
            return;
        };
        if cluster.now().identity_changed {
            return self.engage_anew(&cluster);
        }
        if place == Place::Waiting {
            return self
                .environment
                .queue
                .set_cluster(&cluster, queue::ClusterMode::Held);
        }
        cluster.set_duplicate_of(match &place {
            Place::Behind(other) => Some(other),
            Place::First | Place::Waiting => None,
        });
        let now = cluster.now();
        let mode = match now.reach {
            Reach::Full => queue::ClusterMode::Ready,
            Reach::Doubtful => queue::ClusterMode::Probing,
            Reach::None => queue::ClusterMode::Held,
        };
        self.environment.queue.set_cluster(&cluster, mode);
    }

    /// Notes what is known of a cluster's server, and returns where the cluster stands. The local cluster has a role of its own, and may be a
    /// provider's cluster as well.
    fn place(&self, name: &ClusterName, cluster: Option<&Arc<Cluster>>) -> Place {
        if name.is_local() || self.environment.duplicate_clusters {
            return Place::First;
        }
        let mut same_server = self.same_server.lock();
        let affected = same_server.note(name, cluster.map(|cluster| Sight::of(cluster)));
        affected
            .iter()
            .for_each(|other| self.changes.note(other, false));
        same_server.place(name)
    }

    /// Ends work on a cluster: its keys leave the queue, its runs are cancelled, and nothing of it remains.
    fn leave(&self, cluster: Arc<Cluster>) {
        let Environment {
            metrics,
            fleet,
            queue,
            recent,
            watches,
            ..
        } = &self.environment;
        cluster.token().cancel();
        watches.running().end_in(cluster.name());
        // Out of the fleet first: from then on no key of it can enter the queue.
        fleet.remove(&cluster);
        queue.remove_cluster(cluster.name());
        recent.forget_cluster(cluster.name());
        metrics.forget_cluster(cluster.name(), cluster.metrics());
        self.end(cluster);
    }

    /// Waits in the background for the tasks of a cluster to end.
    fn end(&self, cluster: Arc<Cluster>) {
        let Environment { host, tasks, .. } = &self.environment;
        tasks.spawn_on(async move { cluster.end().await }, host);
    }

    /// Runs a task of a cluster until the cluster is cancelled.
    fn spawn(&self, cluster: &Arc<Cluster>, task: impl Future<Output = ()> + Send + 'static) {
        let stop = cluster.token().clone();
        crate::task::spawn(cluster.tasks(), &self.environment.host, stop, task);
    }
}
