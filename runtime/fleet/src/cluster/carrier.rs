//! The whole server below the clusters that are parts of it. Entry point: [`Carrier::new`].
//!
//! It connects, watches and keeps caches as a cluster does, but has no keys and is not in the fleet.

use super::{Cluster, ClusterConfig, Transports};
use std::sync::Arc;

/// A server that several clusters are parts of, or that a provider reads. Ends with its last user.
pub(crate) struct Carrier {
    cluster: Arc<Cluster>,
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
            end: Box::new(end),
        }
    }

    /// The cluster of the whole server.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Whether it can have further users: another server may answer under its address by now.
    pub(crate) fn is_usable(&self) -> bool {
        !self.cluster.states().borrow().identity_changed && !self.cluster.token().is_cancelled()
    }

    /// Continues with other credentials for the same server, if they are other ones.
    pub(crate) fn exchange(&self, config: &ClusterConfig, transports: &Transports) {
        if !self.cluster.config().same(config) {
            self.cluster.exchange(config.clone(), transports);
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        (self.end)(self.cluster.clone());
    }
}
