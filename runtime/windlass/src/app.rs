//! The state of the running program: its manager, documents, statuses and metrics. Entry point: [`App`].

mod machine;
pub(crate) mod own_events;
pub(crate) mod release;
pub(crate) mod rollback;

pub(crate) use machine::machine;

use crate::config::kinds::ManagerSpec;
use crate::config::load::Configuration;
use crate::status::guest_registry::GuestRegistry;
use crate::status::heartbeat::Heartbeat;
use crate::status::history::History;
use crate::status::pressure::Pressure;
use crate::status::reconcilers::Statuses;
use arc_swap::{ArcSwap, ArcSwapOption};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rollback::Rollbacks;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tokio::sync::Semaphore;
use windlass_files::Problem;
use windlass_fleet::manager::ManagerHandle;

/// Searches for callers at once.
const SEARCHES: usize = 2;

/// The running program, as `run` changes it and the admin endpoints show it.
pub(crate) struct App {
    /// The manager.
    pub(crate) manager: ManagerHandle,
    /// The status of each reconciler.
    pub(crate) statuses: Arc<Statuses>,
    /// The guests that serve, and their tenants.
    pub(crate) guest_registry: Arc<GuestRegistry>,
    /// The documents in effect.
    pub(crate) configuration: ArcSwap<Configuration>,
    /// The problems of the current documents.
    pub(crate) problems: ArcSwap<Vec<String>>,
    /// Changed fields of the Manager that need a restart.
    pub(crate) needs_restart: ArcSwap<Vec<&'static str>>,
    /// The limits of the process that are nearly used up.
    pub(crate) pressure: ArcSwap<Pressure>,
    /// Set once the clusters of the start are synced. It stays set.
    pub(crate) synced: AtomicBool,
    /// The Reconcilers of the local cluster that a start waits for: those that served before it; none: its objects have not been read.
    pub(crate) awaited: ArcSwapOption<BTreeSet<String>>,
    /// Set once the guests of the start are loaded or refused. It stays set.
    pub(crate) loaded: AtomicBool,
    /// When the program started to serve.
    pub(crate) started: Instant,
    /// When it started, on the clock of this machine.
    pub(crate) since: jiff::Timestamp,
    /// A heartbeat for each runtime.
    pub(crate) heartbeats: Vec<Heartbeat>,
    /// What the reconcilers did in the last hour.
    pub(crate) history: Arc<History>,
    /// Sends rollbacks to the reconcilers.
    pub(crate) rollbacks: Rollbacks,
    /// Searches for callers that may be under way at once: each makes many calls.
    pub(crate) searches: Semaphore,
    /// Why the admin endpoints are not served as the Manager asks.
    admin_problems: ArcSwap<Vec<String>>,
    problem_count: Gauge,
    /// By limit of the process.
    short_of: Family<[(&'static str, &'static str); 1], Gauge>,
    registry: Registry,
}

/// The Lease of the processes that share the work.
pub(crate) struct SharedLease {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name: of the election, or of the assignment of shards.
    pub(crate) name: String,
    /// The name of this process among them.
    pub(crate) process: String,
}

impl App {
    /// The Lease by which this process shares the work with others, if it does.
    pub(crate) fn shared_lease(&self) -> Option<SharedLease> {
        let election = self.manager.election().map(|election| SharedLease {
            namespace: election.namespace,
            name: election.name,
            process: election.candidate,
        });
        election.or_else(|| {
            self.manager.shards().map(|shards| SharedLease {
                namespace: shards.namespace,
                name: shards.name,
                process: shards.member,
            })
        })
    }

    /// Registers its metrics.
    pub(crate) fn new(
        manager: ManagerHandle,
        statuses: Arc<Statuses>,
        guest_registry: Arc<GuestRegistry>,
        configuration: Configuration,
        mut registry: Registry,
        heartbeats: Vec<Heartbeat>,
        rollbacks: Rollbacks,
    ) -> Arc<Self> {
        let problem_count = Gauge::default();
        registry.register(
            "windlass_configuration_problems",
            "Documents, and what they name, that are not in effect as they are now",
            problem_count.clone(),
        );
        let short_of = Family::default();
        registry.register(
            "windlass_process_short_of",
            "Whether the process has nearly used up what the label names: as the readiness condition of that name",
            short_of.clone(),
        );
        Arc::new(Self {
            manager,
            statuses,
            guest_registry,
            configuration: ArcSwap::from_pointee(configuration),
            problems: ArcSwap::default(),
            needs_restart: ArcSwap::default(),
            pressure: ArcSwap::default(),
            synced: AtomicBool::new(false),
            awaited: ArcSwapOption::empty(),
            loaded: AtomicBool::new(false),
            started: Instant::now(),
            since: jiff::Timestamp::now(),
            heartbeats,
            history: Arc::default(),
            rollbacks,
            searches: Semaphore::new(SEARCHES),
            admin_problems: ArcSwap::default(),
            problem_count,
            short_of,
            registry,
        })
    }

    /// Sets the problems of the documents, and logs the new ones. `kept` are those of documents of which an earlier version stays in effect.
    pub(crate) fn report_problems(&self, problems: &[Problem], kept: &[Problem]) {
        let texts = problems.iter().map(ToString::to_string).collect();
        let known = self.problems.swap(Arc::new(texts));
        for problem in problems {
            let text = problem.to_string();
            if known.contains(&text) {
                continue;
            }
            if kept.contains(problem) {
                tracing::error!(
                    problem = text,
                    "the document is not in effect, its last good version stays in effect"
                );
            } else {
                tracing::error!(problem = text, "left out until it is corrected");
            }
        }
    }

    /// Sets the problems of the admin endpoints, and logs the new ones.
    pub(crate) fn report_admin_problems(&self, problems: Vec<String>) {
        let problems = Arc::new(problems);
        let known = self.admin_problems.swap(problems.clone());
        for problem in problems.iter().filter(|problem| !known.contains(problem)) {
            tracing::error!(
                problem,
                "the admin endpoints are not served as the Manager asks"
            );
        }
    }

    /// Applies the concurrency of a Manager. While memory is short, fewer reconciles run at once.
    pub(crate) fn apply_concurrency(&self, spec: &ManagerSpec) {
        let bound = self.pressure.load().bound(spec.concurrency());
        self.manager.set_concurrency(&bound);
    }

    /// Why the documents are not fully in effect.
    pub(crate) fn all_problems(&self) -> Vec<String> {
        let reconcilers = self
            .statuses
            .all()
            .into_values()
            .filter_map(|entry| entry.problem);
        let admin = self.admin_problems.load_full();
        self.problems
            .load()
            .iter()
            .chain(admin.iter())
            .cloned()
            .chain(reconcilers)
            .collect()
    }

    /// The metrics as OpenMetrics text.
    ///
    /// # Errors
    /// When a metric cannot be encoded.
    pub(crate) fn metrics(&self) -> Result<String, fmt::Error> {
        let problems = self.all_problems().len();
        self.problem_count
            .set(i64::try_from(problems).unwrap_or(i64::MAX));
        let pressure = self.pressure.load();
        for (resource, short) in [
            ("descriptors", pressure.descriptors),
            ("memory", pressure.memory),
        ] {
            let series = self.short_of.get_or_create(&[("resource", resource)]);
            series.set(i64::from(short));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
