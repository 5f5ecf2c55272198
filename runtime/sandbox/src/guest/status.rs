//! A guest's state and counts. Entry points: [`GuestStatus`] and [`Counters`].

use crate::component::revision::Revision;
use crate::description::Description;
use crate::tenant::context::GuestContext;
use crate::tenant::denials::Denials;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use windlass_fleet::grant::{ClusterRule, Right};
use windlass_fleet::{Action, ClusterName, Failure, Rule};

/// A guest as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct GuestStatus {
    /// Its owner.
    pub tenant: String,
    /// The reconciler's name.
    pub name: String,
    /// The guest's own title.
    pub title: String,
    /// The digest of the revision in use, in hexadecimal.
    pub digest: String,
    /// Bytes of its component.
    pub size: usize,
    /// When it began to serve, in seconds since the epoch.
    pub loaded: u64,
    /// Calls of `reconcile`.
    pub calls: u64,
    /// Failures by reason: `error` (the guest's own), `trap`, `timeout`, `memory`, `stack`, `handle`, `host-call`, `capacity`.
    pub failures: BTreeMap<&'static str, u64>,
    /// Limits that its calls hit, and how often: `memory`, `tenant.memory`, `timeout`, `hostCalls`, … A limit has the name of its field.
    pub limit_hits: BTreeMap<&'static str, u64>,
    /// Calls to servers that are no API servers, by their end: `2xx`, `3xx`, `4xx`, `5xx`, `denied`, or `failed` without an answer.
    pub http_calls: BTreeMap<&'static str, u64>,
    /// Processor time of its calls, in seconds: reconciling, mapping and describing.
    pub cpu_seconds: f64,
    /// Time that its calls were ready to run and had no processor, in seconds.
    pub cpu_waited_seconds: f64,
    /// Most linear memory that an instance had, in bytes.
    pub memory_peak: usize,
    /// Idle instances.
    pub idle_instances: usize,
    /// Linear memory of all live instances of its tenant, in bytes.
    pub tenant_memory: usize,
    /// Calls that no rule grants, or that its tenant does not allow.
    pub denials: u64,
    /// The rules that would grant the former: the first 32 different ones.
    pub missing_rules: Vec<Rule>,
    /// Requests of its mapper for clusters that no rule opens.
    pub requests_dropped: u64,
}

/// The current parts of a guest.
pub(super) struct Now<'a> {
    pub(super) revision: &'a Revision,
    pub(super) description: &'a Description,
    pub(super) guest: &'a GuestContext,
    pub(super) idle: usize,
}

/// A guest's counts, over all revisions.
#[derive(Debug)]
pub(super) struct Counters {
    calls: AtomicU64,
    requests_dropped: AtomicU64,
    /// Keys are the reasons of failures, a closed set.
    failures: Mutex<BTreeMap<&'static str, u64>>,
    /// When the revision and configuration in use began to serve, by the wall clock.
    loaded: Mutex<SystemTime>,
}

/// Requests of a mapper that are dropped: how many for each cluster, and the least right that a rule for it may grant.
#[derive(Default)]
pub(super) struct Dropped(BTreeMap<ClusterName, (u64, Right)>);

impl Dropped {
    pub(super) fn add(&mut self, cluster: &ClusterName, right: impl FnOnce() -> Right) {
        let of_cluster = self.0.entry(cluster.clone());
        of_cluster.or_insert_with(|| (0, right())).0 += 1;
    }
}

impl Counters {
    pub(super) fn new() -> Self {
        Self {
            calls: AtomicU64::new(0),
            requests_dropped: AtomicU64::new(0),
            failures: Mutex::default(),
            loaded: Mutex::new(SystemTime::now()),
        }
    }

    pub(super) fn called(&self, outcome: &Result<Action, Failure>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Err(failure) = outcome {
            *self.failures.lock().entry(failure.reason).or_default() += 1;
        }
    }

    /// Counts requests of a mapper for clusters that no rule opens. The span around it names the guest.
    pub(super) fn requests_dropped(&self, dropped: Dropped, denials: &Denials) {
        let count: u64 = dropped.0.values().map(|(count, _)| count).sum();
        let Some((cluster, (_, right))) = dropped.0.first_key_value() else {
            return;
        };
        let rule = |cluster: &ClusterName, right: &Right| Rule {
            clusters: Some(ClusterRule::only(cluster)),
            ..right.rule()
        };
        tracing::warn!(
            count,
            %cluster,
            clusters = dropped.0.len(),
            rule = format!("- {}", rule(cluster, right)),
            "requests of a mapper are dropped: no rule opens their cluster; this rule would"
        );
        for (cluster, (_, right)) in &dropped.0 {
            denials.keep_missing(rule(cluster, right));
        }
        self.requests_dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// A revision begins to serve, perhaps the same with another configuration.
    pub(super) fn loaded(&self) {
        *self.loaded.lock() = SystemTime::now();
    }

    pub(super) fn status(&self, now: &Now<'_>) -> GuestStatus {
        let guest = now.guest;
        let (usage, denials) = (guest.usage(), &guest.history.denials);
        GuestStatus {
            tenant: guest.tenant.name().to_string(),
            name: guest.name.to_string(),
            title: now.description.title.clone(),
            digest: now.revision.digest().to_string(),
            size: now.revision.size(),
            loaded: seconds(*self.loaded.lock()),
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.lock().clone(),
            limit_hits: usage.hits(),
            http_calls: guest.history.outside.counts(),
            cpu_seconds: usage.computed().as_secs_f64(),
            cpu_waited_seconds: usage.waited().as_secs_f64(),
            memory_peak: usage.memory_peak(),
            idle_instances: now.idle,
            tenant_memory: guest.tenant.memory_used(),
            denials: denials.count(),
            missing_rules: denials.rules(),
            requests_dropped: self.requests_dropped.load(Ordering::Relaxed),
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
