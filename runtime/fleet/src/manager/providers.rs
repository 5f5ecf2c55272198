//! Providers while they run: started, replaced, restarted after a failure, removed. Entry point: [`Providers::put`].
//!
//! It owns the table of providers. Clusters are frozen, engaged and disengaged under its lock, and never the other way round.

use super::engagements::Engagements;
use super::options::END_TIMEOUT;
use super::watches::Watches;
use crate::backoff::Backoff;
use crate::engage::{ClusterSpec, Engage, EngageError};
use crate::name::ClusterName;
use crate::provider::{Problem, Provider, ProviderError};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A provider that ran for so long before it failed is started again without the delay of earlier failures.
const SETTLED: Duration = Duration::from_secs(60);

/// A provider as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProviderStatus {
    /// Its name.
    pub name: String,
    /// Whether it has engaged every cluster that it knows, at least once.
    pub listed: bool,
    /// Why it does not run, if it does not, and parts of it that cannot be used.
    pub problems: Vec<Problem>,
}

/// A provider and the task that runs it.
pub(super) struct Running {
    provider: Arc<dyn Provider>,
    /// Cancelled while clusters are frozen when the provider is replaced or removed, and when a drain begins: from then on it changes
    /// nothing.
    stop: CancellationToken,
    /// Why it does not run, while it does not.
    failure: Arc<Mutex<Option<String>>>,
    /// Whether it has engaged every cluster that it knows, at least once.
    listed: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Running {
    /// Why it does not run, if it does not, and parts of it that cannot be used.
    fn problems(&self) -> Vec<Problem> {
        let failure = self.failure.lock().clone();
        let failure = failure.map(|message| Problem {
            subject: self.provider.name().to_owned(),
            message,
        });
        failure
            .into_iter()
            .chain(self.provider.problems())
            .collect()
    }
}

/// The providers of a manager.
pub(super) struct Providers {
    host: Handle,
    engagements: Arc<Engagements>,
    watches: Arc<Watches>,
    /// Cancelled when a drain begins: ends every provider.
    draining: CancellationToken,
    tasks: TaskTracker,
    by_name: Mutex<BTreeMap<String, Running>>,
}

impl Providers {
    pub(super) fn new(
        host: Handle,
        engagements: Arc<Engagements>,
        watches: Arc<Watches>,
        draining: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            host,
            engagements,
            watches,
            draining,
            tasks,
            by_name: Mutex::default(),
        }
    }

    /// Starts a provider in place of the one of its name, if there is one. Clusters that both know stay engaged; the others leave
    /// once the new one has engaged every cluster that it knows.
    pub(super) fn put(&self, provider: Arc<dyn Provider>) {
        let name = provider.name().to_owned();
        let mut by_name = self.by_name.lock();
        let frozen = self.engagements.freeze();
        let before = by_name.remove(&name).map(|before| {
            before.stop.cancel();
            before.task
        });
        let stop = self.draining.child_token();
        let failure = Arc::new(Mutex::new(None));
        let listed = Arc::new(AtomicBool::new(false));
        let run = ProviderTask {
            engagements: self.engagements.clone(),
            provider: provider.clone(),
            name: name.clone(),
            stop: stop.clone(),
            failure: failure.clone(),
            listed: listed.clone(),
        };
        let task = self.tasks.spawn_on(run.run(before), &self.host);
        let running = Running {
            provider,
            stop,
            failure,
            listed,
            task,
        };
        by_name.insert(name, running);
        let has_provider = provides_clusters(&by_name);
        self.watches
            .set_has_provider(has_provider, &frozen.clusters());
    }

    /// Removes a provider and disengages its clusters. Returns whether it was there.
    pub(super) fn remove(&self, name: &str) -> bool {
        let mut by_name = self.by_name.lock();
        let mut frozen = self.engagements.freeze();
        let Some(removed) = by_name.remove(name) else {
            return false;
        };
        removed.stop.cancel();
        frozen.disengage_others(name, &BTreeSet::new());
        let has_provider = provides_clusters(&by_name);
        self.watches
            .set_has_provider(has_provider, &frozen.clusters());
        true
    }

    /// Every provider, sorted by name.
    pub(super) fn statuses(&self) -> Vec<ProviderStatus> {
        let by_name = self.by_name.lock();
        let status = |running: &Running| ProviderStatus {
            name: running.provider.name().to_owned(),
            listed: running.listed.load(Ordering::Acquire),
            problems: running.problems(),
        };
        by_name.values().map(status).collect()
    }

    /// Problems of all providers at the moment.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let by_name = self.by_name.lock();
        by_name.values().flat_map(Running::problems).collect()
    }
}

fn provides_clusters(by_name: &BTreeMap<String, Running>) -> bool {
    let mut all = by_name.values();
    all.any(|running| running.provider.provides_clusters())
}

/// The task of a provider.
struct ProviderTask {
    engagements: Arc<Engagements>,
    provider: Arc<dyn Provider>,
    name: String,
    stop: CancellationToken,
    failure: Arc<Mutex<Option<String>>>,
    listed: Arc<AtomicBool>,
}

impl ProviderTask {
    /// Waits for the provider that it replaces, then runs the provider until it is stopped. After a failure the provider is started
    /// again, with growing delay.
    async fn run(self, before: Option<JoinHandle<()>>) {
        if let Some(before) = before {
            let _ = tokio::time::timeout(END_TIMEOUT, before).await;
        }
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let mut rng = fastrand::Rng::new();
        while !self.stop.is_cancelled() {
            let started = Instant::now();
            let Err(error) = self.once().await else {
                return;
            };
            if self.stop.is_cancelled() {
                return;
            }
            if started.elapsed() > SETTLED {
                backoff.reset();
            }
            let delay = backoff.next(&mut rng);
            tracing::error!(provider = self.name, error = %error, delay_ms = delay.as_millis() as u64, "provider failed");
            *self.failure.lock() = Some(format!("{error}; it is started again"));
            let pause = tokio::time::sleep(delay);
            if self.stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
            *self.failure.lock() = None;
        }
    }

    /// One run of the provider. A panic is a failure. A run that does not end when it is stopped is dropped after a while.
    async fn once(&self) -> Result<(), ProviderError> {
        let engage = Arc::new(ProviderEngage {
            engagements: self.engagements.clone(),
            provider: self.name.clone(),
            stop: self.stop.clone(),
            known: Mutex::new(Some(BTreeSet::new())),
            listed: self.listed.clone(),
            freed: tokio::sync::Mutex::new(self.engagements.freed()),
        });
        // Called inside of the future, so that a panic before the first await counts as well.
        let run = async { self.provider.clone().run(engage, self.stop.clone()).await };
        let overdue = async {
            self.stop.cancelled().await;
            tokio::time::sleep(END_TIMEOUT).await;
        };
        let ended = tokio::select! {
            ended = AssertUnwindSafe(run).catch_unwind() => ended,
            () = overdue => return Ok(()),
        };
        ended.unwrap_or_else(|_| {
            Err(ProviderError {
                provider: self.name.clone(),
                reason: "it panicked".to_owned(),
            })
        })
    }
}

/// Engages clusters in the name of a provider, for one run of it.
struct ProviderEngage {
    engagements: Arc<Engagements>,
    provider: String,
    /// The provider's; checked while clusters are frozen.
    stop: CancellationToken,
    /// The clusters that this run knows, until it has engaged all of them.
    known: Mutex<Option<BTreeSet<ClusterName>>>,
    /// Whether any run has.
    listed: Arc<AtomicBool>,
    /// Changes when a name becomes free that a provider was refused.
    freed: tokio::sync::Mutex<watch::Receiver<()>>,
}

impl Engage for ProviderEngage {
    fn engage(&self, spec: ClusterSpec) -> Result<(), EngageError> {
        if spec.name.is_local() {
            return Err(EngageError::Local);
        }
        if let Some(known) = &mut *self.known.lock() {
            known.insert(spec.name.clone());
        }
        self.engagements.engage(&self.provider, &self.stop, spec)
    }

    fn disengage(&self, name: &ClusterName) {
        if let Some(known) = &mut *self.known.lock() {
            known.remove(name);
        }
        self.engagements.disengage(&self.provider, &self.stop, name);
    }

    fn listed(&self) {
        let Some(known) = self.known.lock().take() else {
            return;
        };
        self.listed.store(true, Ordering::Release);
        let mut frozen = self.engagements.freeze();
        if !self.stop.is_cancelled() {
            frozen.disengage_others(&self.provider, &known);
        }
    }

    fn freed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // The sender lives as long as the engagements, which are held here.
            let _ = self.freed.lock().await.changed().await;
        })
    }
}
