//! Metrics, named after controller-runtime's with the labels `tenant`, `reconciler` and `cluster` added. Entry point:
//! [`Metrics::new`].
//!
//! Series are bounded. Tenants and reconcilers come from the operator. Clusters come from outside: up to a limit each has series of
//! its own, and the others are counted together as cluster [`OTHER`]. Counters have a label for the cluster. Histograms have none, because
//! each is dozens of series. The series of a cluster or of a controller are removed with it.

mod cluster;
mod controller;
mod exposition;
#[cfg(test)]
mod tests;

pub(crate) use cluster::ClusterMetrics;
pub use controller::AttemptTotals;
pub(crate) use controller::{ControllerMetrics, End};

use crate::name::{ClusterName, ControllerName, TenantName};
use crate::queue::{Counts, Totals};
use controller::PairLimit;
use exposition::Exposition;
use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The label `cluster` of all clusters beyond the limit. Its counters include clusters that have left; its gauges are sums.
pub const OTHER: &str = "__other__";

/// Bounds on series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricLimits {
    /// Clusters that have series of their own. Default: 1000.
    pub clusters: usize,
    /// Pairs of a controller and a cluster that have series of their own. Default: 10,000.
    pub pairs: usize,
}

impl Default for MetricLimits {
    fn default() -> Self {
        Self {
            clusters: 1000,
            pairs: 10_000,
        }
    }
}

/// Attempts that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct AttemptCounts {
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts that failed, terminal ones included.
    pub failed: u64,
}

impl AttemptCounts {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.succeeded + self.failed
    }
}

impl std::iter::Sum for AttemptCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, one| Self {
            succeeded: sum.succeeded + one.succeeded,
            failed: sum.failed + one.failed,
        })
    }
}

/// Failed attempts by whose fault they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct FailedBy {
    /// The reconciler's.
    pub guest: u64,
    /// This process's.
    pub host: u64,
    /// An API server's.
    pub api: u64,
}

/// Handle to every metric. Cheap to clone. The default is in no registry.
#[derive(Debug, Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    controllers: RwLock<BTreeMap<(TenantName, ControllerName), Arc<ControllerMetrics>>>,
    clusters: Mutex<Clusters>,
    pairs: Arc<PairLimit>,
    /// Managers whose state is read at each scrape.
    observed: Mutex<Vec<Weak<dyn Observe>>>,
}

#[derive(Debug)]
struct Clusters {
    limit: usize,
    /// Clusters with series of their own, and the engagements of that name: a cluster may be replaced while it runs.
    labelled: BTreeMap<ClusterName, (Arc<ClusterMetrics>, usize)>,
    /// All others together.
    other: Arc<ClusterMetrics>,
    /// Whether any cluster has been counted there.
    overflowed: bool,
    /// The last id of a cluster. Never reused.
    last: u64,
}

/// State that is read at each scrape, not counted.
pub(crate) trait Observe: Send + Sync + std::fmt::Debug {
    fn observe(&self) -> Snapshot;
}

/// A manager at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) controllers: Vec<ControllerNow>,
    pub(crate) clusters: Vec<ClusterNow>,
    pub(crate) providers: Vec<ProviderNow>,
    /// One at most for each manager.
    pub(crate) leases: Vec<LeaseNow>,
    /// One at most for each manager.
    pub(crate) shards: Vec<ShardsNow>,
    /// Of each manager.
    pub(crate) answers: Vec<AnswersNow>,
}

/// The bytes of answers that a manager holds, at one time.
#[derive(Debug)]
pub(crate) struct AnswersNow {
    pub(crate) held: usize,
    pub(crate) peak: usize,
    pub(crate) limit: usize,
    pub(crate) rejected: u64,
}

/// A lease that a manager tries to hold, at one time.
#[derive(Debug)]
pub(crate) struct LeaseNow {
    pub(crate) name: String,
    pub(crate) leads: bool,
    pub(crate) slow_renewals: u64,
}

/// A sharded fleet as a manager knows it, at one time.
#[derive(Debug)]
pub(crate) struct ShardsNow {
    pub(crate) name: String,
    pub(crate) held: u32,
    pub(crate) ownerless: u32,
    pub(crate) moves: u64,
}

/// A controller at one time.
#[derive(Debug)]
pub(crate) struct ControllerNow {
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) concurrency: usize,
    pub(crate) counts: Counts,
    /// Watches that are refused or fail although their server can be reached.
    pub(crate) failing_watches: usize,
    pub(crate) totals: Totals,
    /// Events that wait for its mapper.
    pub(crate) unmapped: usize,
    /// Requests for deleted objects that wait for room in the queue.
    pub(crate) missed: usize,
    /// How long each run that has not ended lasts already.
    pub(crate) running: Vec<Duration>,
}

/// A cluster at one time.
#[derive(Debug)]
pub(crate) struct ClusterNow {
    pub(crate) metrics: Arc<ClusterMetrics>,
    pub(crate) state: &'static str,
    pub(crate) ready: bool,
    pub(crate) stores: usize,
    /// Open connections to its server; shared ones count for each cluster.
    pub(crate) connections: usize,
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
    pub(crate) events_dropped: u64,
    /// Whether another server waits to take over.
    pub(crate) replacement_pending: bool,
}

/// A provider at one time.
#[derive(Debug)]
pub(crate) struct ProviderNow {
    pub(crate) name: String,
    /// Clusters that are engaged in its name.
    pub(crate) engaged: usize,
    /// Clusters whose names other providers' clusters have.
    pub(crate) refused: usize,
    /// How long ago.
    pub(crate) last_listed: Option<Duration>,
    /// Files, contexts and clusters that it cannot use.
    pub(crate) problems: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::unread(MetricLimits::default())
    }
}

impl Metrics {
    /// Makes the metrics and registers them, with the default limits.
    pub fn new(registry: &mut Registry) -> Self {
        Self::with_limits(MetricLimits::default(), registry)
    }

    /// Makes the metrics and registers them.
    pub fn with_limits(limits: MetricLimits, registry: &mut Registry) -> Self {
        let metrics = Self::unread(limits);
        registry.register_collector(Box::new(Exposition(metrics.clone())));
        metrics
    }

    fn unread(limits: MetricLimits) -> Self {
        let clusters = Clusters {
            limit: limits.clusters,
            labelled: BTreeMap::new(),
            other: Arc::new(ClusterMetrics::other()),
            overflowed: false,
            last: ClusterMetrics::OTHER_ID,
        };
        Self {
            inner: Arc::new(Inner {
                controllers: RwLock::default(),
                clusters: Mutex::new(clusters),
                pairs: Arc::new(PairLimit::new(limits.pairs)),
                observed: Mutex::default(),
            }),
        }
    }

    /// Changes the bounds. Existing series stay. A cluster without series gets them when it is engaged again, and a pair at its next
    /// attempt.
    pub(crate) fn set_limits(&self, limits: MetricLimits) {
        self.inner.clusters.lock().limit = limits.clusters;
        self.inner.pairs.set_limit(limits.pairs);
    }

    /// Attempts of all controllers by cluster; clusters without series of their own are [`OTHER`]. Linear in pairs of a controller and a
    /// cluster.
    pub(crate) fn attempts_by_cluster(&self) -> BTreeMap<Arc<str>, AttemptCounts> {
        let controllers: Vec<_> = self.inner.controllers.read().values().cloned().collect();
        let mut by_cluster: BTreeMap<Arc<str>, AttemptCounts> = BTreeMap::new();
        for attempts in controllers
            .iter()
            .flat_map(|controller| controller.by_cluster())
        {
            let sum = by_cluster.entry(attempts.cluster.clone()).or_default();
            *sum = [*sum, attempts.counts()].into_iter().sum();
        }
        by_cluster
    }

    /// Reads a manager at each scrape, until it is dropped.
    pub(crate) fn observe(&self, manager: Weak<dyn Observe>) {
        self.inner.observed.lock().push(manager);
    }

    /// The metrics of a controller that is added now.
    pub(crate) fn controller(
        &self,
        tenant: &TenantName,
        name: &ControllerName,
    ) -> Arc<ControllerMetrics> {
        let key = (tenant.clone(), name.clone());
        let made = Arc::new(ControllerMetrics::new(
            tenant,
            name,
            self.inner.pairs.clone(),
        ));
        let replaced = self.inner.controllers.write().insert(key, made.clone());
        if let Some(replaced) = replaced {
            replaced.forget_all();
        }
        made
    }

    /// Drops the series of a removed controller, unless there is another one of its name by now.
    pub(crate) fn forget_controller(&self, controller: &Arc<ControllerMetrics>) {
        let key = controller.key();
        let mut controllers = self.inner.controllers.write();
        if controllers
            .get(&key)
            .is_some_and(|there| Arc::ptr_eq(there, controller))
        {
            controllers.remove(&key);
        }
        drop(controllers);
        controller.forget_all();
    }

    /// The metrics of a cluster that is engaged now; `host` is its server's authority.
    pub(crate) fn cluster(&self, name: &ClusterName, host: &str) -> Arc<ClusterMetrics> {
        let mut clusters = self.inner.clusters.lock();
        if let Some((there, engagements)) = clusters.labelled.get_mut(name) {
            *engagements += 1;
            return there.clone();
        }
        if clusters.labelled.len() >= clusters.limit {
            clusters.overflowed = true;
            return clusters.other.clone();
        }
        clusters.last += 1;
        let made = Arc::new(ClusterMetrics::new(clusters.last, name.as_str(), host));
        clusters.labelled.insert(name.clone(), (made.clone(), 1));
        made
    }

    /// Drops the series of a cluster that has left, unless another one of its name is engaged.
    pub(crate) fn forget_cluster(&self, name: &ClusterName, cluster: &Arc<ClusterMetrics>) {
        let mut clusters = self.inner.clusters.lock();
        let Some((there, engagements)) = clusters.labelled.get_mut(name) else {
            return;
        };
        if !Arc::ptr_eq(there, cluster) {
            return;
        }
        *engagements -= 1;
        if *engagements > 0 {
            return;
        }
        clusters.labelled.remove(name);
        drop(clusters);
        // This comes first: a run that asks for its series from now on gets series that are never shown.
        cluster.leave();
        let controllers: Vec<_> = self.inner.controllers.read().values().cloned().collect();
        for controller in controllers {
            controller.forget(cluster);
        }
    }
}
