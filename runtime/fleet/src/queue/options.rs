//! The queue's limits, the options of its classes, and how a request is added. Entry point: [`Limits`].

use crate::backoff::Backoff;
use std::time::Duration;

/// Limits over all of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most runs at once. Default: 512.
    pub global: usize,
    /// Most runs at once in one cluster, over all tenants. Default: 128.
    pub per_cluster: usize,
    /// Most keys that a controller may have in the queue, running ones included and terminal ones not. Default: 1,000,000.
    pub keys_per_controller: usize,
    /// How often one key may run.
    pub hot_key: HotKeyLimit,
    /// Most keys of a controller whose last failure is kept for status, and most terminal ones that are kept at all. Default: 10,000.
    pub failures_per_controller: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            global: 512,
            per_cluster: 128,
            keys_per_controller: 1_000_000,
            hot_key: HotKeyLimit::default(),
            failures_per_controller: 10_000,
        }
    }
}

/// How often one key may run, so that a key that is enqueued without end leaves time for others: a reconciler's own write enqueues its
/// key, two reconcilers undo each other's work, an object changes all the time.
///
/// A run that was enqueued while the run before was under way, as by the reconciler's own write, counts ten times. A run that the run
/// before asked for sooner than 100 ms after its own beginning counts twenty times. A key that is over the limit is *hot*: it is
/// throttled, and its events merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotKeyLimit {
    /// Runs of one key in a second, in the long run. 0 counts as 1. Default: 100.
    pub per_second: u32,
    /// Runs by which a key may be ahead of that. Default: 1,000.
    pub burst: u32,
}

impl Default for HotKeyLimit {
    fn default() -> Self {
        Self {
            per_second: 100,
            burst: 1000,
        }
    }
}

/// What a tenant gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantOptions {
    /// Its share of slot time relative to other tenants'. 0 counts as 1. Default: 1.
    pub weight: u32,
    /// Most runs at once, up to the global limit. Default: half of that, or all of it while no other tenant has a controller.
    pub concurrency: Option<usize>,
}

impl Default for TenantOptions {
    fn default() -> Self {
        Self {
            weight: 1,
            concurrency: None,
        }
    }
}

/// How the queue treats a controller's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// Most runs at once, over all clusters: 1 is one at a time. Default: no limit but the tenant's.
    pub concurrency: Option<usize>,
    /// Most runs at once in one cluster. Default: 4.
    pub per_cluster: usize,
    /// Delays of failing keys, each key counting for itself. Default: 5 ms doubling to 1000 s.
    pub backoff: Backoff,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            concurrency: None,
            per_cluster: 4,
            backoff: Backoff::new(Duration::from_millis(5), Duration::from_secs(1000)),
        }
    }
}

/// How a cluster's keys may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClusterMode {
    /// Up to the limits.
    #[default]
    Ready,
    /// One at a time over all controllers, to find out whether the cluster works.
    Probing,
    /// Not at all.
    Held,
}

/// What enqueued a key, for status and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Cause {
    /// The first list of a cluster's objects, or a rescan of a store.
    #[default]
    List,
    /// An object was created.
    Create,
    /// An object was changed.
    Update,
    /// An object was deleted.
    Delete,
    /// A periodic pass over all objects.
    Resync,
    /// A cluster became ready again, or changed.
    Cluster,
    /// A reconciler was reloaded.
    Reload,
    /// An operator asked for it.
    Operator,
    /// The run before asked for it.
    Requeue,
    /// The run before failed.
    Retry,
}

impl Cause {
    /// The word in logs, metrics and status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Resync => "resync",
            Self::Cluster => "cluster",
            Self::Reload => "reload",
            Self::Operator => "operator",
            Self::Requeue => "requeue",
            Self::Retry => "retry",
        }
    }
}

/// Which of its controller's sources enqueued a key, for status: a number that the controller gives, 0 where none did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Origin(pub u8);

/// How a request is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Add {
    /// Higher runs earlier within its controller, but for one run of four, so that lower ones do not starve. Default: 0.
    pub priority: i32,
    /// Not before this time has passed. Default: at once.
    pub after: Option<Duration>,
    /// What enqueues it.
    pub cause: Cause,
    /// Which source does.
    pub origin: Origin,
}

impl Add {
    /// The priority of the first list and of updates that change nothing.
    pub const LOW_PRIORITY: i32 = -100;

    /// At once, with priority 0.
    #[must_use]
    pub fn now(cause: Cause) -> Self {
        Self {
            cause,
            ..Self::default()
        }
    }

    /// At once, behind what has a higher priority, but for one run of four.
    #[must_use]
    pub fn low(cause: Cause) -> Self {
        Self {
            priority: Self::LOW_PRIORITY,
            cause,
            ..Self::default()
        }
    }

    /// The same, by a source.
    #[must_use]
    pub fn by(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }
}

/// What became of a request that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a request that was refused must be offered again"]
pub enum Added {
    /// It waits.
    New,
    /// An equal request waits already and gets the higher priority and the earlier time.
    Merged,
    /// An equal request is running and will run again.
    MarkedDirty,
    /// Refused: the controller has [`Limits::keys_per_controller`] keys. Offer it again when [`super::Queue::drained`] names the controller.
    Full,
    /// Refused: the controller has been removed.
    Gone,
}
