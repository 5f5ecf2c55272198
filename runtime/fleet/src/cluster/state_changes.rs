//! The clusters that have changed their state, for the one task that acts on it. Entry point: [`StateChanges::next`].
//!
//! One task for all clusters, and not one for each: of thousands of clusters nearly all are at rest.

use crate::name::ClusterName;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// Names of clusters that changed since they were asked for last. At most one per cluster.
#[derive(Default)]
pub(crate) struct StateChanges {
    changed: Mutex<BTreeSet<ClusterName>>,
    noted: Notify,
}

impl StateChanges {
    pub(crate) fn note(&self, cluster: &ClusterName) {
        self.changed.lock().insert(cluster.clone());
        self.noted.notify_one();
    }

    /// Waits for changes, and takes them. Dropping the future loses none.
    pub(crate) async fn next(&self) -> BTreeSet<ClusterName> {
        loop {
            let changed = std::mem::take(&mut *self.changed.lock());
            if !changed.is_empty() {
                return changed;
            }
            self.noted.notified().await;
        }
    }
}
