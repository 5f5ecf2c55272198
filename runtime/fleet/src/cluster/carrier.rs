//! The whole server below the clusters that are parts of it. Entry point: [`Carrier::new`].
//!
//! It connects, watches and keeps caches as a cluster does, but has no keys and is not in the fleet.

use super::{Cluster, ClusterConfig, Transports};
use crate::name::ClusterName;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// A server that several clusters are parts of, or that a provider reads. Ends with its last user.
pub(crate) struct Carrier {
    cluster: Arc<Cluster>,
    /// The clusters that are parts of it, in the order of their names. Two of one name may be there while one replaces the other: their
    /// addresses in memory tell them apart.
    parts: Mutex<BTreeMap<(ClusterName, usize), Weak<Cluster>>>,
    /// Ends the cluster.
    end: Box<dyn Fn(Arc<Cluster>) + Send + Sync>,
}

impl Carrier {
    /// `end` is called with the cluster when the last user has gone.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        end: impl Fn(Arc<Cluster>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            cluster,
            parts: Mutex::default(),
            end: Box::new(end),
        }
    }

    pub(super) fn add(&self, part: &Arc<Cluster>) {
        self.parts.lock().insert(key(part), Arc::downgrade(part));
    }

    pub(super) fn remove(&self, part: &Cluster) {
        self.parts.lock().remove(&key(part));
    }

    pub(super) fn parts(&self) -> Vec<Arc<Cluster>> {
        let parts = self.parts.lock();
        parts.values().filter_map(Weak::upgrade).collect()
    }

    /// The cluster of the whole server.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Whether it can have further users: another server may answer under its address by now.
    pub(crate) fn is_usable(&self) -> bool {
        !self.cluster.now().identity_changed && !self.cluster.token().is_cancelled()
    }

    /// Continues with other credentials for the same server, if they are other ones.
    pub(crate) fn exchange(&self, config: &ClusterConfig, transports: &Transports) {
        if !self.cluster.config().same(config) {
            self.cluster.exchange(config.clone(), transports);
        }
    }
}

fn key(part: &Cluster) -> (ClusterName, usize) {
    (part.name().clone(), std::ptr::from_ref(part).addr())
}

impl Drop for Carrier {
    fn drop(&mut self) {
        (self.end)(self.cluster.clone());
    }
}
