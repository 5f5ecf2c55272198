//! Providers while they run: started, replaced, restarted after a failure, removed. Entry point: [`Core::put_provider`].

use super::core::{Core, END};
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
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A provider that ran for so long before it failed is started again as quickly as one that never failed.
const SETTLED: Duration = Duration::from_secs(60);

/// The providers of a manager by name.
pub(super) type Providers = BTreeMap<String, Running>;

/// A provider as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProviderStatus {
    /// Its name.
    pub name: String,
    /// Whether it has told of all that it knows, at least once.
    pub listed: bool,
    /// What it cannot use, and why it does not run if it does not.
    pub problems: Vec<Problem>,
}

/// A provider and the task that runs it.
pub(super) struct Running {
    provider: Arc<dyn Provider>,
    /// Cancelled under the lock of engaged clusters when the provider is replaced or removed, and when a drain begins: from then on
    /// it changes nothing.
    stop: CancellationToken,
    /// Why it does not run, while it does not.
    failure: Arc<Mutex<Option<String>>>,
    /// Whether it has told of all that it knows, at least once.
    listed: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Running {
    /// What it cannot use, and why it does not run if it does not.
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

impl Core {
    /// Starts a provider in place of the one of its name, if there is one. Clusters that both know stay engaged; those that the new
    /// one does not tell of leave once it has told of all that it knows.
    pub(super) fn put_provider(self: &Arc<Self>, provider: Arc<dyn Provider>) {
        let name = provider.name().to_owned();
        let engaged = self.engaged.lock();
        let mut providers = self.providers.lock();
        let before = providers.remove(&name).map(|before| {
            before.stop.cancel();
            before.task
        });
        let stop = self.draining.child_token();
        let failure = Arc::new(Mutex::new(None));
        let listed = Arc::new(AtomicBool::new(false));
        let run = Discovery {
            core: self.clone(),
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
        providers.insert(name, running);
        drop(providers);
        if !self.has_provider.swap(true, Ordering::AcqRel) {
            self.reattach_all(&engaged);
        }
    }

    /// Takes a provider out; its clusters are disengaged. Returns whether it was there.
    pub(super) fn remove_provider(self: &Arc<Self>, name: &str) -> bool {
        let mut engaged = self.engaged.lock();
        let mut providers = self.providers.lock();
        let Some(removed) = providers.remove(name) else {
            return false;
        };
        let last = providers.is_empty();
        drop(providers);
        removed.stop.cancel();
        self.disengage_but(&mut engaged, name, &BTreeSet::new());
        if last {
            self.has_provider.store(false, Ordering::Release);
            self.reattach_all(&engaged);
        }
        true
    }

    /// Every provider, sorted by name.
    pub(super) fn provider_statuses(&self) -> Vec<ProviderStatus> {
        let providers = self.providers.lock();
        let status = |running: &Running| ProviderStatus {
            name: running.provider.name().to_owned(),
            listed: running.listed.load(Ordering::Acquire),
            problems: running.problems(),
        };
        providers.values().map(status).collect()
    }

    /// What providers cannot use at the moment, those that do not run among it.
    pub(super) fn provider_problems(&self) -> Vec<Problem> {
        let providers = self.providers.lock();
        providers.values().flat_map(Running::problems).collect()
    }

    /// Disengages a provider's clusters but some.
    fn disengage_but(
        self: &Arc<Self>,
        engaged: &mut BTreeMap<ClusterName, super::clusters::Engaged>,
        provider: &str,
        kept: &BTreeSet<ClusterName>,
    ) {
        let leaves = |name: &ClusterName, of: &super::clusters::Engaged| {
            !name.is_local() && of.provider == provider && !kept.contains(name)
        };
        let gone: Vec<ClusterName> = engaged
            .iter()
            .filter(|(name, of)| leaves(name, of))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(of) = engaged.remove(&name) {
                tracing::info!(cluster = %name, provider, "cluster disengaged");
                self.retire(of);
            }
        }
    }
}

/// The task of a provider.
struct Discovery {
    core: Arc<Core>,
    provider: Arc<dyn Provider>,
    name: String,
    stop: CancellationToken,
    failure: Arc<Mutex<Option<String>>>,
    listed: Arc<AtomicBool>,
}

impl Discovery {
    /// Runs the provider until it is stopped, after the one that it replaces; one that fails is started again with growing delay.
    async fn run(self, before: Option<JoinHandle<()>>) {
        if let Some(before) = before {
            let _ = tokio::time::timeout(END, before).await;
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

    /// One run of the provider. A panic is a failure; one that does not return when it is stopped is dropped after a while.
    async fn once(&self) -> Result<(), ProviderError> {
        let engage = Arc::new(ProviderEngage {
            core: self.core.clone(),
            provider: self.name.clone(),
            stop: self.stop.clone(),
            told: Mutex::new(Some(BTreeSet::new())),
            listed: self.listed.clone(),
            freed: tokio::sync::Mutex::new(self.core.freed.subscribe()),
        });
        // Called inside of the future, so that a panic before the first await counts as well.
        let run = async { self.provider.clone().run(engage, self.stop.clone()).await };
        let overdue = async {
            self.stop.cancelled().await;
            tokio::time::sleep(END).await;
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

/// What a provider is given for one run: engages clusters in its name.
struct ProviderEngage {
    core: Arc<Core>,
    provider: String,
    /// The provider's; looked at under the lock of engaged clusters.
    stop: CancellationToken,
    /// What this run has told of, until it has told of everything.
    told: Mutex<Option<BTreeSet<ClusterName>>>,
    /// Whether any run has.
    listed: Arc<AtomicBool>,
    /// Changes when a name becomes free that somebody waits for.
    freed: tokio::sync::Mutex<watch::Receiver<()>>,
}

impl Engage for ProviderEngage {
    fn engage(&self, spec: ClusterSpec) -> Result<(), EngageError> {
        if spec.name.is_local() {
            return Err(EngageError::Local);
        }
        if let Some(told) = &mut *self.told.lock() {
            told.insert(spec.name.clone());
        }
        self.core.engage(&self.provider, &self.stop, spec)
    }

    fn disengage(&self, name: &ClusterName) {
        if let Some(told) = &mut *self.told.lock() {
            told.remove(name);
        }
        self.core.disengage(&self.provider, &self.stop, name);
    }

    fn listed(&self) {
        let Some(told) = self.told.lock().take() else {
            return;
        };
        self.listed.store(true, Ordering::Release);
        let mut engaged = self.core.engaged.lock();
        if !self.stop.is_cancelled() {
            self.core.disengage_but(&mut engaged, &self.provider, &told);
        }
    }

    fn freed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // The sender lives as long as the core, which is held here.
            let _ = self.freed.lock().await.changed().await;
        })
    }
}
