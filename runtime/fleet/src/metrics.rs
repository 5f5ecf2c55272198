//! Metrics of controllers, named after controller-runtime's with `tenant`, `reconciler` and `cluster` added. Entry point:
//! [`Metrics::new`].
//!
//! Series are bounded: tenants and reconcilers come from the operator, clusters from providers, and a cluster's series go when it
//! does.

use crate::name::{ClusterName, ControllerName, TenantName};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// Upper bounds of the buckets of reconcile times, in seconds.
const BUCKETS: [f64; 16] = [
    0.000_05, 0.000_2, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// How attempts end, as `result` labels: controller-runtime's words, and `terminal` and `gone`.
pub(crate) const RESULTS: [&str; 5] = ["success", "requeue_after", "error", "terminal", "gone"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    tenant: String,
    reconciler: String,
    cluster: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Owner {
    tenant: String,
    reconciler: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

/// Handles to every metric. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    reconciles: Family<Attempt, Counter>,
    times: Family<Owner, Histogram, fn() -> Histogram>,
    active: Family<Owner, Gauge>,
    panics: Family<Owner, Counter>,
    timeouts: Family<Owner, Counter>,
    adds: Family<Owner, Counter>,
    depth: Family<Owner, Gauge>,
    clusters: Family<State, Gauge>,
}

impl Default for Metrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            times: Family::new_with_constructor(times),
            active: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            adds: Family::default(),
            depth: Family::default(),
            clusters: Family::default(),
        }
    }
}

impl Metrics {
    /// Makes the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        // The library adds `_total` to counters.
        registry.register(
            "controller_runtime_reconcile",
            "Finished attempts by result",
            metrics.reconciles.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Time of an attempt",
            metrics.times.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Attempts that run now",
            metrics.active.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_panics",
            "Attempts that panicked",
            metrics.panics.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_timeouts",
            "Attempts cut off at their deadline",
            metrics.timeouts.clone(),
        );
        registry.register(
            "workqueue_adds",
            "Requests offered to the queue",
            metrics.adds.clone(),
        );
        registry.register(
            "workqueue_depth",
            "Requests that wait to run now",
            metrics.depth.clone(),
        );
        registry.register(
            "windlass_clusters",
            "Engaged clusters by state",
            metrics.clusters.clone(),
        );
        metrics
    }

    pub(crate) fn started(&self, tenant: &TenantName, controller: &ControllerName) {
        self.active.get_or_create(&owner(tenant, controller)).inc();
    }

    pub(crate) fn finished(
        &self,
        tenant: &TenantName,
        controller: &ControllerName,
        cluster: &ClusterName,
        result: &'static str,
        time: Duration,
    ) {
        let owner = owner(tenant, controller);
        self.active.get_or_create(&owner).dec();
        self.times.get_or_create(&owner).observe(time.as_secs_f64());
        self.reconciles
            .get_or_create(&attempt(tenant, controller, cluster, result))
            .inc();
    }

    pub(crate) fn panicked(&self, tenant: &TenantName, controller: &ControllerName) {
        self.panics.get_or_create(&owner(tenant, controller)).inc();
    }

    pub(crate) fn timed_out(&self, tenant: &TenantName, controller: &ControllerName) {
        self.timeouts
            .get_or_create(&owner(tenant, controller))
            .inc();
    }

    /// Counts requests that a controller's sources offer.
    pub(crate) fn adds(&self, tenant: &TenantName, controller: &ControllerName) -> Counter {
        self.adds.get_or_create(&owner(tenant, controller)).clone()
    }

    pub(crate) fn set_depth(&self, tenant: &TenantName, controller: &ControllerName, ready: usize) {
        self.depth
            .get_or_create(&owner(tenant, controller))
            .set(i64::try_from(ready).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_clusters(&self, state: &'static str, count: usize) {
        self.clusters
            .get_or_create(&State { state })
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Drops the series of a controller in a cluster that has left.
    pub(crate) fn forget_cluster(
        &self,
        tenant: &TenantName,
        controller: &ControllerName,
        cluster: &ClusterName,
    ) {
        for result in RESULTS {
            self.reconciles
                .remove(&attempt(tenant, controller, cluster, result));
        }
    }

    /// Drops the series of a controller that was removed.
    pub(crate) fn forget_controller<'a>(
        &self,
        tenant: &TenantName,
        controller: &ControllerName,
        clusters: impl Iterator<Item = &'a ClusterName>,
    ) {
        for cluster in clusters {
            self.forget_cluster(tenant, controller, cluster);
        }
        let owner = owner(tenant, controller);
        self.times.remove(&owner);
        self.active.remove(&owner);
        self.panics.remove(&owner);
        self.timeouts.remove(&owner);
        self.adds.remove(&owner);
        self.depth.remove(&owner);
    }
}

fn times() -> Histogram {
    Histogram::new(BUCKETS)
}

fn owner(tenant: &TenantName, controller: &ControllerName) -> Owner {
    Owner {
        tenant: tenant.to_string(),
        reconciler: controller.to_string(),
    }
}

fn attempt(
    tenant: &TenantName,
    controller: &ControllerName,
    cluster: &ClusterName,
    result: &'static str,
) -> Attempt {
    Attempt {
        tenant: tenant.to_string(),
        reconciler: controller.to_string(),
        cluster: cluster.to_string(),
        result,
    }
}
