//! The clusters that have changed their state, for the one task that acts on it. Entry point: [`StateChanges::next`].
//!
//! One task for all clusters, and not one for each: of thousands of clusters nearly all are at rest.

use super::FleetChanges;
use crate::name::ClusterName;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// Names of clusters that changed since they were asked for last. At most one per cluster.
#[derive(Default)]
pub(crate) struct StateChanges {
    changed: Mutex<BTreeMap<ClusterName, StateChange>>,
    noted: Notify,
    /// Noted for every change, also for one that concerns no key.
    fleet: FleetChanges,
}

/// How a cluster changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StateChange {
    /// What made keys of it fail may be repaired.
    pub(crate) is_repaired: bool,
}

impl StateChanges {
    /// The changes of the clusters of a fleet.
    pub(crate) fn of(fleet: FleetChanges) -> Self {
        Self {
            fleet,
            ..Self::default()
        }
    }

    /// Notes that what is shown of a cluster has changed.
    pub(crate) fn note_shown(&self) {
        self.fleet.note();
    }

    pub(crate) fn note(&self, cluster: &ClusterName, is_repaired: bool) {
        let mut changed = self.changed.lock();
        changed.entry(cluster.clone()).or_default().is_repaired |= is_repaired;
        drop(changed);
        self.noted.notify_one();
    }

    /// Waits for changes, and takes them. Dropping the future loses none.
    pub(crate) async fn next(&self) -> BTreeMap<ClusterName, StateChange> {
        loop {
            let changed = std::mem::take(&mut *self.changed.lock());
            if !changed.is_empty() {
                return changed;
            }
            self.noted.notified().await;
        }
    }
}
