//! The options of a manager. Entry point: [`ManagerOptions`].

use crate::cluster::{CacheOptions, TransportOptions};
use crate::kind::GroupKind;
use crate::queue::{HotKeyLimit, Limits};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long ending tasks may take once they are cancelled.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(15);

/// How many keys run at once. A key runs from when it is handed to its reconciler until that returns, whatever it waits for.
///
/// A controller's own limit is its [`ControllerOptions::concurrency`](crate::controller::ControllerOptions), as
/// `MaxConcurrentReconciles` is in controller-runtime; `kinds` is what `GroupKindConcurrency` is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concurrency {
    /// Over everything. Default: 512.
    pub global: usize,
    /// In one cluster, over all tenants. Default: 128.
    pub per_cluster: usize,
    /// In a controller of a primary kind, if the controller has no limit of its own. Default: none.
    pub kinds: BTreeMap<GroupKind, usize>,
}

impl Default for Concurrency {
    fn default() -> Self {
        let Limits {
            global,
            per_cluster,
            ..
        } = Limits::default();
        Self {
            global,
            per_cluster,
            kinds: BTreeMap::new(),
        }
    }
}

/// Options of a manager.
#[derive(Debug, Clone)]
pub struct ManagerOptions {
    /// How many keys run at once.
    pub concurrency: Concurrency,
    /// Keys that a controller may have in the queue. Beyond that its sources scan their caches again once there is room.
    /// Default: 1,000,000.
    pub keys_per_controller: usize,
    /// How often one key may run.
    pub hot_key: HotKeyLimit,
    /// How long a drain waits for reconciles before it cancels them. Default: 30 s.
    pub drain_timeout: Duration,
    /// Bounds on calls to API servers.
    pub transport: TransportOptions,
    /// How caches follow their servers.
    pub caches: CacheOptions,
    /// Whether clusters that are one server, by the identity that it gives, are all worked on. Default: false, only the first one is. The
    /// local cluster counts for itself.
    pub duplicate_clusters: bool,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            concurrency: Concurrency::default(),
            keys_per_controller: Limits::default().keys_per_controller,
            hot_key: HotKeyLimit::default(),
            drain_timeout: Duration::from_secs(30),
            transport: TransportOptions::default(),
            caches: CacheOptions::default(),
            duplicate_clusters: false,
        }
    }
}
