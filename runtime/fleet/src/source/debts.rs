//! What a sink still has to enqueue, and for whom. Nearly all sinks owe nothing, and have none. Entry point: [`Debts`].

use super::missed::Missed;
use super::rescan::Rescan;
use crate::name::ClusterName;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// Most clusters that a mapper's watch remembers to have made requests for.
const MAX_TARGETS: usize = 10_000;

/// What a sink still has to enqueue.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    /// Which objects of the store are owed: requests were refused for lack of room, or every object was asked for.
    pub(crate) rescan: Rescan,
    /// Requests refused for lack of room that no rescan would repeat: their objects are gone.
    pub(crate) missed: Mutex<Missed>,
    /// Notified when no request is missed any more.
    pub(crate) settled: Notify,
    /// Other clusters that the mapper has made requests for: requests for a cluster that is away must be made again. At most
    /// [`MAX_TARGETS`].
    targets: Mutex<BTreeSet<ClusterName>>,
}

impl Debts {
    /// Whether a request that found no room, or an object that was asked for, has not been enqueued since.
    pub(super) fn owes(&self) -> bool {
        self.rescan.is_owed() || !self.missed.lock().is_empty()
    }

    pub(super) fn note_target(&self, cluster: &ClusterName) {
        let mut targets = self.targets.lock();
        if targets.len() < MAX_TARGETS && !targets.contains(cluster) {
            targets.insert(cluster.clone());
        }
    }

    pub(super) fn has_target(&self, cluster: &ClusterName) -> bool {
        self.targets.lock().contains(cluster)
    }
}
