//! The usage of a guest, and the limits that it hit, for status and metrics. Entry points: [`Limit`] and [`Usage`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A limit that a call can hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// The call's time.
    Timeout,
    /// A time slice that could not be ended.
    Slice,
    /// Memory of an instance.
    Memory,
    /// Memory of the tenant.
    TenantMemory,
    /// Table elements.
    Tables,
    /// Handles held at once.
    Handles,
    /// Depth of calls.
    Stack,
    /// Bytes that a guest hands to the host at once.
    HostCallBytes,
    /// Calls of the host's functions.
    HostCalls,
    /// Size of an object for the guest.
    ObjectBytes,
    /// Size of an answer for the guest.
    ResponseBytes,
    /// Operations of a batch.
    BatchOperations,
    /// Log lines of a call.
    LogBytes,
    /// Log lines of the reconciler per second.
    LogRate,
    /// API calls of the reconciler that begin per second.
    RequestRate,
    /// API calls of the tenant that begin per second.
    TenantRequestRate,
    /// API calls of the tenant under way.
    TenantRequests,
    /// Events that are recorded.
    Events,
    /// Size of a recording of a run.
    RecordBytes,
}

impl Limit {
    pub(crate) const ALL: [Self; 19] = [
        Self::Timeout,
        Self::Slice,
        Self::Memory,
        Self::TenantMemory,
        Self::Tables,
        Self::Handles,
        Self::Stack,
        Self::HostCallBytes,
        Self::HostCalls,
        Self::ObjectBytes,
        Self::ResponseBytes,
        Self::BatchOperations,
        Self::LogBytes,
        Self::LogRate,
        Self::RequestRate,
        Self::TenantRequestRate,
        Self::TenantRequests,
        Self::Events,
        Self::RecordBytes,
    ];

    /// The name in metrics and status: the field that sets the limit, if there is one, with `tenant.` before a tenant's field.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Slice => "slice",
            Self::Memory => "memory",
            Self::TenantMemory => "tenant.memory",
            Self::Tables => "tableElements",
            Self::Handles => "handles",
            Self::Stack => "stack",
            Self::HostCallBytes => "hostCallBytes",
            Self::HostCalls => "hostCalls",
            Self::ObjectBytes => "objectBytes",
            Self::ResponseBytes => "responseBytes",
            Self::BatchOperations => "batchOperations",
            Self::LogBytes => "logBytes",
            Self::LogRate => "logBytesPerSecond",
            Self::RequestRate => "requestsPerSecond",
            Self::TenantRequestRate => "tenant.requestsPerSecond",
            Self::TenantRequests => "tenant.requestsInFlight",
            Self::Events => "events",
            Self::RecordBytes => "record.bytes",
        }
    }
}

/// The names of all limits that a call can hit, as [`GuestStatus::limit_hits`](crate::GuestStatus::limit_hits) has them.
pub fn limits() -> impl Iterator<Item = &'static str> {
    Limit::ALL.into_iter().map(Limit::as_str)
}

/// `memory_usual` decays by 1/16 a call (half-life: 11 calls). Faster would reserve too little for guests whose calls differ. Slower would
/// make a tenant's calls wait for memory that is never used.
const DECAY: usize = 16;

/// The usage of a guest, over all of its revisions.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Processor time, in nanoseconds.
    computed: AtomicU64,
    /// Time that calls were ready and had no worker, in nanoseconds.
    waited: AtomicU64,
    /// Most of one instance, in bytes.
    memory_peak: AtomicUsize,
    /// Memory that instances had lately, in bytes. Rises at once, and decays.
    memory_usual: AtomicUsize,
    hits: [AtomicU64; Limit::ALL.len()],
}

impl Usage {
    /// Counts processor time of a call.
    pub(crate) fn computed_for(&self, time: Duration) {
        self.computed
            .fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    /// Counts time that a call was ready and had no worker.
    pub(crate) fn waited_for(&self, time: Duration) {
        self.waited.fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    /// Records the memory of an instance that still runs.
    pub(crate) fn had(&self, memory: usize) {
        self.memory_peak.fetch_max(memory, Ordering::Relaxed);
        self.memory_usual.fetch_max(memory, Ordering::Relaxed);
    }

    /// Records the memory of an instance that ended.
    pub(crate) fn gone(&self, memory: usize) {
        self.had(memory);
        let down = |usual: usize| Some(usual - usual.saturating_sub(memory) / DECAY);
        let order = Ordering::Relaxed;
        let _ = self.memory_usual.fetch_update(order, order, down);
    }

    /// Counts that a call hit a limit: it was refused, or had to wait.
    pub(crate) fn hit(&self, limit: Limit) {
        self.hits[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn computed(&self) -> Duration {
        Duration::from_nanos(self.computed.load(Ordering::Relaxed))
    }

    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    pub(crate) fn memory_peak(&self) -> usize {
        self.memory_peak.load(Ordering::Relaxed)
    }

    /// An estimate of the next instance's memory, in bytes.
    pub(crate) fn memory_usual(&self) -> usize {
        self.memory_usual.load(Ordering::Relaxed)
    }

    /// The limits that were hit, and how often.
    pub(crate) fn hits(&self) -> BTreeMap<&'static str, u64> {
        let counts = Limit::ALL.map(|limit| {
            let count = self.hits[limit as usize].load(Ordering::Relaxed);
            (limit.as_str(), count)
        });
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// A duration in nanoseconds.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_counted_by_itself() {
        let usage = Usage::default();
        for (at, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, at);
            (0..=at).for_each(|_| usage.hit(limit));
        }
        let hits = usage.hits();
        assert_eq!(hits.len(), Limit::ALL.len(), "no word is used twice");
        assert_eq!((hits["timeout"], hits["tenant.requestsInFlight"]), (1, 17));
    }
}
