//! Providers while they run: started, replaced, restarted after a failure, removed. Entry point: [`Providers::put`].
//!
//! It owns the table of providers. Clusters are frozen, engaged and disengaged under its lock, and never the other way round.

use super::engagements::Engagements;
use super::options::END_TIMEOUT;
use super::watches::Watches;
use crate::backoff::Backoff;
use crate::cluster::{Awaited, ClusterConfig};
use crate::engage::{ClusterSpec, Engage, EngageError};
use crate::hub::{Hub, HubError};
use crate::name::ClusterName;
use crate::provider::{Problem, Provider, ProviderError};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A provider that ran for so long before it failed is started again without the delay of earlier failures.
const SETTLED: Duration = Duration::from_secs(60);

/// How long the first list of clusters as objects waits for a provider to say which clusters it knows.
const LISTED_WITHIN: Duration = Duration::from_secs(30);

/// A provider as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProviderStatus {
    /// Its name.
    pub name: String,
    /// Clusters that it knows: `engaged`, `refused`, and those that cannot be engaged as they are now, which `problems` tells of.
    pub found: usize,
    /// Clusters that are engaged in its name, whatever their state is.
    pub engaged: usize,
    /// Clusters that it was refused, because other providers' clusters have their names.
    pub refused: usize,
    /// How long ago it last engaged every cluster that it knew; `None`: it has not yet.
    pub last_listed: Option<Duration>,
    /// Why it does not run, if it does not, parts of it that cannot be used, and clusters that another cluster is too.
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
    reported: Arc<Mutex<Reported>>,
    task: JoinHandle<()>,
}

/// What a provider has reported, in all of its runs.
#[derive(Default)]
struct Reported {
    /// When it last engaged every cluster that it knew.
    last_listed: Option<Instant>,
    /// Names that it was refused up to then, and since the time before.
    refused: BTreeSet<ClusterName>,
    /// Names that it was refused since then. A provider does not say that it gave up such a name: it only asks for it no more.
    refused_since: BTreeSet<ClusterName>,
    /// Names that it has kept, as those that it was refused.
    kept: BTreeSet<ClusterName>,
    kept_since: BTreeSet<ClusterName>,
    /// Until it has listed, ends or takes longer than [`LISTED_WITHIN`].
    awaited: Option<Awaited>,
}

impl Reported {
    fn refuse(&mut self, name: &ClusterName) {
        self.refused_since.insert(name.clone());
    }

    fn keep(&mut self, name: &ClusterName) {
        self.kept_since.insert(name.clone());
    }

    fn forget(&mut self, name: &ClusterName) {
        let sets = [
            &mut self.refused,
            &mut self.refused_since,
            &mut self.kept,
            &mut self.kept_since,
        ];
        for names in sets {
            names.remove(name);
        }
    }

    fn list(&mut self) {
        self.last_listed = Some(Instant::now());
        self.awaited = None;
        self.refused = std::mem::take(&mut self.refused_since);
        self.kept = std::mem::take(&mut self.kept_since);
    }

    fn refused(&self) -> usize {
        self.refused.union(&self.refused_since).count()
    }

    /// Number of the clusters that it knows, some of which are engaged.
    fn found(&self, engaged: &BTreeSet<ClusterName>) -> usize {
        let others = [
            &self.refused,
            &self.refused_since,
            &self.kept,
            &self.kept_since,
        ];
        let others: BTreeSet<&ClusterName> = others.into_iter().flatten().collect();
        engaged.len()
            + others
                .into_iter()
                .filter(|name| !engaged.contains(*name))
                .count()
    }
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
        let reported = Arc::new(Mutex::new(Reported {
            awaited: Some(self.engagements.await_list()),
            ..Reported::default()
        }));
        let run = ProviderTask {
            engagements: self.engagements.clone(),
            provider: provider.clone(),
            name: name.clone(),
            stop: stop.clone(),
            failure: failure.clone(),
            reported: reported.clone(),
        };
        let task = self.tasks.spawn_on(run.run(before), &self.host);
        let running = Running {
            provider,
            stop,
            failure,
            reported,
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
        let frozen = self.engagements.freeze();
        let (mut engaged, mut duplicates) = (frozen.names_by_provider(), frozen.duplicates());
        drop(frozen);
        let status = |(name, running): (&String, &Running)| {
            let engaged = engaged.remove(name).unwrap_or_default();
            let (found, refused, last_listed) = {
                let reported = running.reported.lock();
                let found = reported.found(&engaged);
                (found, reported.refused(), reported.last_listed)
            };
            let mut problems = running.problems();
            problems.extend(duplicates.remove(name).unwrap_or_default());
            ProviderStatus {
                name: name.clone(),
                found,
                engaged: engaged.len(),
                refused,
                last_listed: last_listed.map(|at| at.elapsed()),
                problems,
            }
        };
        by_name.iter().map(status).collect()
    }

    /// Whether a provider has yet to say which clusters there are, and may still be about to.
    pub(super) fn any_awaited(&self) -> bool {
        let by_name = self.by_name.lock();
        let mut all = by_name.values();
        all.any(|running| running.reported.lock().awaited.is_some())
    }

    /// Why providers do not run, and what they cannot use, at the moment.
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
    reported: Arc<Mutex<Reported>>,
}

impl ProviderTask {
    /// Runs the provider until it is stopped.
    async fn run(self, before: Option<JoinHandle<()>>) {
        let attempts = self.attempts(before);
        tokio::pin!(attempts);
        if tokio::time::timeout(LISTED_WITHIN, &mut attempts)
            .await
            .is_err()
        {
            self.reported.lock().awaited = None;
            attempts.await;
        }
        self.reported.lock().awaited = None;
    }

    /// Waits for the provider that it replaces, then runs the provider until it is stopped. After a failure the provider is started
    /// again, with growing delay.
    async fn attempts(&self, before: Option<JoinHandle<()>>) {
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
            provider: self.name.as_str().into(),
            stop: self.stop.clone(),
            known: Mutex::new(Some(BTreeSet::new())),
            reported: self.reported.clone(),
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
    provider: Arc<str>,
    /// The provider's; checked while clusters are frozen.
    stop: CancellationToken,
    /// The clusters that this run knows, until it has engaged all of them.
    known: Mutex<Option<BTreeSet<ClusterName>>>,
    /// Of all runs.
    reported: Arc<Mutex<Reported>>,
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
        let name = spec.name.clone();
        let result = self.engagements.engage(&self.provider, &self.stop, spec);
        match &result {
            Ok(()) => self.reported.lock().forget(&name),
            Err(EngageError::Duplicate { .. }) => self.reported.lock().refuse(&name),
            Err(_) => {}
        }
        result
    }

    fn hub(&self, config: Option<ClusterConfig>) -> Result<Hub, HubError> {
        self.engagements.hub(&self.provider, &self.stop, config)
    }

    fn disengage(&self, name: &ClusterName) {
        if let Some(known) = &mut *self.known.lock() {
            known.remove(name);
        }
        self.reported.lock().forget(name);
        self.engagements.disengage(&self.provider, &self.stop, name);
    }

    fn keep(&self, name: &ClusterName) {
        if let Some(known) = &mut *self.known.lock() {
            known.insert(name.clone());
        }
        self.reported.lock().keep(name);
    }

    fn listed(&self) {
        self.reported.lock().list();
        let Some(known) = self.known.lock().take() else {
            return;
        };
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
