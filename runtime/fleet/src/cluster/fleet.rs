//! The clusters that are engaged now. Entry point: [`Fleet::cluster`].

use super::Cluster;
use crate::name::ClusterName;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The engaged clusters, as reconcilers see them. Cheap to clone; always current.
#[derive(Clone, Default)]
pub struct Fleet {
    clusters: Arc<RwLock<BTreeMap<ClusterName, Arc<Cluster>>>>,
}

impl Fleet {
    /// All clusters, the local one included, sorted by name.
    #[must_use]
    pub fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.clusters.read().values().cloned().collect()
    }

    /// A cluster by name; `""` is the local one. `None`: it is not engaged, or no longer.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<Arc<Cluster>> {
        self.clusters.read().get(name).cloned()
    }

    pub(crate) fn insert(&self, cluster: Arc<Cluster>) -> Option<Arc<Cluster>> {
        self.clusters
            .write()
            .insert(cluster.name().clone(), cluster)
    }

    /// Removes a cluster, unless another one has its name by now.
    pub(crate) fn remove(&self, cluster: &Arc<Cluster>) {
        let mut clusters = self.clusters.write();
        if clusters
            .get(cluster.name())
            .is_some_and(|current| Arc::ptr_eq(current, cluster))
        {
            clusters.remove(cluster.name());
        }
    }
}
