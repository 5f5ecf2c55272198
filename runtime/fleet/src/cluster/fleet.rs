//! The clusters that are engaged now. Entry point: [`Fleet::cluster`].

use super::Cluster;
use crate::http::transport::Transports;
use crate::name::ClusterName;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// The engaged clusters, as reconcilers see them. Cheap to clone; always current.
#[derive(Clone, Default)]
pub struct Fleet {
    clusters: Arc<RwLock<Clusters>>,
    changes: FleetChanges,
    /// Providers that have still to say which clusters they know.
    awaited: Arc<AtomicUsize>,
    /// For calls to other servers than the clusters'. `None`: there are none.
    transports: Option<Arc<Transports>>,
}

/// A provider that has still to say which clusters it knows: until this is dropped the fleet is not whole.
pub(crate) struct Awaited(Fleet);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::Relaxed);
        self.0.changes.note();
    }
}

/// Says that a cluster has come, has gone, or has another state or description. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FleetChanges(Arc<watch::Sender<()>>);

impl FleetChanges {
    pub(crate) fn note(&self) {
        self.0.send_replace(());
    }

    /// Changes with each.
    pub(crate) fn changed(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}

impl Default for FleetChanges {
    fn default() -> Self {
        Self(Arc::new(watch::channel(()).0))
    }
}

#[derive(Default)]
struct Clusters {
    by_name: BTreeMap<ClusterName, Arc<Cluster>>,
    /// Names of clusters by a second name of them. A cluster of that very name comes first.
    by_alias: BTreeMap<ClusterName, ClusterName>,
    /// The keys of `by_alias` by their values.
    alias_of: BTreeMap<ClusterName, ClusterName>,
}

impl Fleet {
    /// Without a cluster.
    pub(crate) fn new(transports: Arc<Transports>) -> Self {
        Self {
            transports: Some(transports),
            ..Self::default()
        }
    }

    pub(crate) fn transports(&self) -> Option<&Arc<Transports>> {
        self.transports.as_ref()
    }

    /// All clusters, the local one included, sorted by name.
    #[must_use]
    pub fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.clusters.read().by_name.values().cloned().collect()
    }

    /// A cluster by name, or by its [alias](crate::engage::ClusterSpec::alias); `""` is the local one. `None`: it is not engaged, or no
    /// longer.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<Arc<Cluster>> {
        let clusters = self.clusters.read();
        let found = clusters.by_name.get(name);
        let of_alias = || clusters.by_name.get(clusters.by_alias.get(name)?);
        found.or_else(of_alias).cloned()
    }

    /// From now until the answer is dropped the fleet is not whole.
    pub(crate) fn awaits(&self) -> Awaited {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        Awaited(self.clone())
    }

    /// Whether no provider has still to say which clusters it knows.
    pub(crate) fn is_whole(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn changes(&self) -> &FleetChanges {
        &self.changes
    }

    /// Puts a cluster in the place of the one of its name.
    pub(crate) fn insert(&self, cluster: Arc<Cluster>) -> Option<Arc<Cluster>> {
        let mut clusters = self.clusters.write();
        clusters.set_alias(&cluster);
        let before = clusters.by_name.insert(cluster.name().clone(), cluster);
        drop(clusters);
        self.changes.note();
        before
    }

    /// Takes over the description that a cluster has now.
    pub(crate) fn described(&self, cluster: &Cluster) {
        self.clusters.write().set_alias(cluster);
        self.changes.note();
    }

    /// Removes a cluster, unless another one has its name by now.
    pub(crate) fn remove(&self, cluster: &Arc<Cluster>) {
        let mut clusters = self.clusters.write();
        let current = clusters.by_name.get(cluster.name());
        if current.is_some_and(|current| Arc::ptr_eq(current, cluster)) {
            clusters.by_name.remove(cluster.name());
            clusters.forget_alias(cluster.name());
            drop(clusters);
            self.changes.note();
        }
    }
}

impl Clusters {
    /// Of two clusters with one alias the first has it.
    fn set_alias(&mut self, cluster: &Cluster) {
        let name = cluster.name();
        self.forget_alias(name);
        let Some(alias) = cluster.alias() else {
            return;
        };
        if !self.by_alias.contains_key(&alias) {
            self.by_alias.insert(alias.clone(), name.clone());
            self.alias_of.insert(name.clone(), alias);
        }
    }

    fn forget_alias(&mut self, name: &ClusterName) {
        if let Some(alias) = self.alias_of.remove(name) {
            self.by_alias.remove(&alias);
        }
    }
}
