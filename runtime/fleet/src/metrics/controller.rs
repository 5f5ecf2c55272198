//! Counts of one controller: its attempts, by cluster, and how long they take. Entry point: [`ControllerMetrics`].

use super::{AttemptCounts, ClusterMetrics, FailedBy, OTHER};
use crate::name::{ControllerName, TenantName};
use crate::outcome::{Blame, Disposition, Failure};
use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of reconcile times, in seconds: controller-runtime's.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// Upper bounds of the buckets of the queue's times, in seconds: controller-runtime's.
const QUEUE_BUCKETS: [f64; 12] = [
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0,
];

/// Most reasons of failures that are counted apart; reasons are a closed set, but other crates choose it.
const MAX_REASONS: usize = 64;

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End<'a> {
    Success,
    RequeueAfter,
    /// A retry or a terminal failure: controller-runtime counts both as errors.
    Failed(&'a Failure),
    /// Its cluster has left, and its series too.
    Gone,
}

/// Attempts of one controller in one cluster.
#[derive(Debug)]
pub(crate) struct Attempts {
    pub(super) cluster: Arc<str>,
    pub(super) success: AtomicU64,
    pub(super) requeue_after: AtomicU64,
    pub(super) errors: AtomicU64,
    /// Of the errors.
    pub(super) terminal: AtomicU64,
    /// Of the errors.
    pub(super) panics: AtomicU64,
    /// Of the errors.
    pub(super) timeouts: AtomicU64,
}

impl Attempts {
    /// The counts that status shows.
    pub(super) fn counts(&self) -> AttemptCounts {
        let [success, requeue_after, errors] =
            [&self.success, &self.requeue_after, &self.errors].map(|c| c.load(Ordering::Relaxed));
        AttemptCounts {
            succeeded: success + requeue_after,
            failed: errors,
        }
    }

    fn new(cluster: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            success: AtomicU64::new(0),
            requeue_after: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            terminal: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
        })
    }
}

/// A limit on pairs of a controller and a cluster with series of their own, over all controllers.
#[derive(Debug)]
pub(super) struct PairLimit {
    limit: AtomicUsize,
    pub(super) used: AtomicUsize,
}

impl PairLimit {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
        }
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Release);
    }

    fn take(&self) -> bool {
        let limit = self.limit.load(Ordering::Acquire);
        let one_more = |used: usize| (used < limit).then_some(used + 1);
        let taken = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        taken.is_ok()
    }

    fn give_back(&self, pairs: usize) {
        self.used.fetch_sub(pairs, Ordering::AcqRel);
    }
}

/// Attempts since the controller was registered. Never less than before, unlike the counts of the clusters that there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct AttemptTotals {
    /// Attempts that ended.
    pub ended: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// The time that they took, all together.
    pub time: Duration,
}

/// Counts of one controller.
#[derive(Debug)]
pub(crate) struct ControllerMetrics {
    pub(super) tenant: TenantName,
    pub(super) name: ControllerName,
    pub(super) times: Histogram,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
    /// All attempts that ever ended, those of them that failed, and the nanoseconds that they took. In clusters that have left too.
    ended: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
    /// By blame and reason; at most [`MAX_REASONS`].
    failures: Mutex<BTreeMap<(Blame, &'static str), u64>>,
    /// By the cluster's id. Holds none of a cluster that has left.
    clusters: Mutex<HashMap<u64, Arc<Attempts>>>,
    /// Deletions that never reached its mapper.
    pub(super) deletions_lost: AtomicU64,
    /// In clusters without series of their own.
    other: Arc<Attempts>,
    /// For the entries of `clusters`.
    pairs: Arc<PairLimit>,
}

impl ControllerMetrics {
    pub(super) fn new(tenant: &TenantName, name: &ControllerName, pairs: Arc<PairLimit>) -> Self {
        Self {
            tenant: tenant.clone(),
            name: name.clone(),
            times: Histogram::new(RECONCILE_BUCKETS),
            waited: Histogram::new(QUEUE_BUCKETS),
            worked: Histogram::new(QUEUE_BUCKETS),
            ended: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            failures: Mutex::default(),
            clusters: Mutex::default(),
            deletions_lost: AtomicU64::new(0),
            other: Attempts::new(OTHER.into()),
            pairs,
        }
    }

    pub(super) fn key(&self) -> (TenantName, ControllerName) {
        (self.tenant.clone(), self.name.clone())
    }

    /// The counts of attempts in a cluster. For a cluster that has left, they are never shown.
    pub(crate) fn attempts(&self, cluster: &ClusterMetrics) -> Arc<Attempts> {
        if cluster.id == ClusterMetrics::OTHER_ID {
            return self.other.clone();
        }
        let mut clusters = self.clusters.lock();
        if let Some(there) = clusters.get(&cluster.id) {
            return there.clone();
        }
        // Checked under the same lock under which the cluster's series are dropped.
        if cluster.has_left() {
            return Attempts::new(cluster.cluster.clone());
        }
        if !self.pairs.take() {
            return self.other.clone();
        }
        let made = Attempts::new(cluster.cluster.clone());
        clusters.insert(cluster.id, made.clone());
        made
    }

    pub(super) fn forget(&self, cluster: &ClusterMetrics) {
        if self.clusters.lock().remove(&cluster.id).is_some() {
            self.pairs.give_back(1);
        }
    }

    pub(super) fn forget_all(&self) {
        let dropped = std::mem::take(&mut *self.clusters.lock()).len();
        self.pairs.give_back(dropped);
    }

    /// A deletion does not reach the mapper: too many events wait for it.
    pub(crate) fn deletion_lost(&self) {
        self.deletions_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// An attempt begins; its key has been ready for `waited`.
    pub(crate) fn started(&self, waited: Duration) {
        self.waited.observe(waited.as_secs_f64());
    }

    /// An attempt has ended.
    pub(crate) fn finished(&self, attempts: &Attempts, end: End<'_>, time: Duration) {
        self.times.observe(time.as_secs_f64());
        self.worked.observe(time.as_secs_f64());
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match end {
            End::Success => count(&attempts.success),
            End::RequeueAfter => count(&attempts.requeue_after),
            End::Gone => return,
            End::Failed(failure) => {
                self.note(failure);
                if failure.disposition == Disposition::Terminal {
                    count(&attempts.terminal);
                }
                match failure.reason {
                    "panic" => count(&attempts.panics),
                    "timeout" => count(&attempts.timeouts),
                    _ => 0,
                };
                count(&self.failed);
                count(&attempts.errors)
            }
        };
        count(&self.ended);
        // Together they wrap after five hundred years.
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn note(&self, failure: &Failure) {
        let mut failures = self.failures.lock();
        let reason = (failure.blame, failure.reason);
        let full = failures.len() >= MAX_REASONS && !failures.contains_key(&reason);
        let reason = if full { (reason.0, "other") } else { reason };
        *failures.entry(reason).or_default() += 1;
    }

    pub(super) fn failures(&self) -> Vec<(&'static str, &'static str, u64)> {
        let failures = self.failures.lock();
        failures
            .iter()
            .map(|((blame, reason), count)| (blame.as_str(), *reason, *count))
            .collect()
    }

    /// Attempts in all clusters. Linear in clusters.
    pub(crate) fn counts(&self) -> AttemptCounts {
        let clusters = self.clusters.lock();
        let all = clusters.values().chain([&self.other]);
        all.map(|attempts| attempts.counts()).sum()
    }

    /// What was ever done.
    pub(crate) fn totals(&self) -> AttemptTotals {
        let [ended, failed, nanos] =
            [&self.ended, &self.failed, &self.nanos].map(|all| all.load(Ordering::Relaxed));
        AttemptTotals {
            ended,
            failed,
            time: Duration::from_nanos(nanos),
        }
    }

    /// Failed attempts by whose fault they were.
    pub(crate) fn failed_by(&self) -> FailedBy {
        let mut by = FailedBy::default();
        for ((blame, _), count) in self.failures.lock().iter() {
            match blame {
                Blame::Guest => by.guest += count,
                Blame::Host => by.host += count,
                Blame::Api => by.api += count,
            }
        }
        by
    }

    /// Attempts by cluster. Clusters without series of their own are the last entry, if they have any attempts.
    pub(super) fn by_cluster(&self) -> Vec<Arc<Attempts>> {
        let mut all: Vec<_> = self.clusters.lock().values().cloned().collect();
        all.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        let other = &self.other;
        let counts = [&other.success, &other.requeue_after, &other.errors];
        if counts.iter().any(|count| count.load(Ordering::Relaxed) > 0) {
            all.push(other.clone());
        }
        all
    }
}

impl Drop for ControllerMetrics {
    fn drop(&mut self) {
        // Attempts may have added pairs after the controller's series were dropped.
        self.forget_all();
    }
}
