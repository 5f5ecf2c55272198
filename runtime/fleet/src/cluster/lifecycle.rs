//! The states of a cluster, and the task that moves it through them. Entry point: [`Cluster::live`].
//!
//! `Connecting → Syncing → Ready ⇄ Degraded → Gone`.

use super::backend::Backend;
use super::store::{Problem, Store};
use super::{Cluster, ClusterConfig, Transports};
use crate::api::{ApiCode, ApiError};
use crate::backoff::Backoff;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// How long one attempt to connect may take, with all that discovery asks.
const ATTEMPT: Duration = Duration::from_secs(60);

/// Where a cluster stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub enum ClusterState {
    /// Not reached yet.
    Connecting,
    /// Reached; first lists are on their way.
    Syncing,
    /// Every cache is in step, or its server has definitely refused it.
    Ready,
    /// Was ready; a watch cannot be kept up. Keys wait, but one that probes.
    Degraded,
    /// Disengaged.
    Gone,
}

impl ClusterState {
    /// The word in logs, metrics and status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "Connecting",
            Self::Syncing => "Syncing",
            Self::Ready => "Ready",
            Self::Degraded => "Degraded",
            Self::Gone => "Gone",
        }
    }
}

/// A state, why, and since when.
#[derive(Debug, Clone)]
pub(crate) struct Now {
    pub(crate) state: ClusterState,
    pub(crate) reason: String,
    pub(crate) since: SystemTime,
    /// Set for ever when another server answers under this cluster's address: this one must end, and another begin.
    pub(crate) usurped: bool,
}

pub(super) struct Lifecycle {
    now: watch::Sender<Now>,
    /// Sources that are still being attached.
    pending: AtomicUsize,
}

impl Lifecycle {
    pub(super) fn new() -> Self {
        let now = Now {
            state: ClusterState::Connecting,
            reason: "not reached yet".into(),
            since: SystemTime::now(),
            usurped: false,
        };
        Self {
            now: watch::channel(now).0,
            pending: AtomicUsize::new(0),
        }
    }

    pub(super) fn now(&self) -> Now {
        self.now.borrow().clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Now> {
        self.now.subscribe()
    }

    /// Moves to a state; a new reason alone keeps the time.
    fn set(&self, state: ClusterState, reason: &str) -> bool {
        let mut moved = false;
        self.now.send_if_modified(|now| {
            // Nothing comes after the end.
            if now.state == ClusterState::Gone {
                return false;
            }
            moved = now.state != state;
            if !moved && now.reason == reason {
                return false;
            }
            if moved {
                now.since = SystemTime::now();
            }
            now.state = state;
            reason.clone_into(&mut now.reason);
            true
        });
        moved
    }
}

impl Lifecycle {
    fn usurp(&self) {
        self.now.send_modify(|now| now.usurped = true);
    }
}

/// Whether a store's server lists less than the store has seen.
fn is_stale(store: &Store) -> bool {
    let progress = store.progress();
    let now = progress.borrow();
    now.problem.as_ref().is_some_and(|problem| problem.stale)
}

/// Watches of a store beyond its first.
fn resumed(store: &Store) -> u64 {
    store.progress().borrow().watches.saturating_sub(1)
}

/// Held while a source is being attached: the cluster stays `Syncing`.
pub(crate) struct Pending(Arc<Cluster>);

impl Pending {
    pub(super) fn new(cluster: Arc<Cluster>) -> Self {
        cluster.lifecycle.pending.fetch_add(1, Ordering::SeqCst);
        Self(cluster)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.lifecycle.pending.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

impl Cluster {
    /// Connects, then follows the stores, until the cluster's token ends it.
    pub(super) async fn live(self: Arc<Self>, transports: Arc<Transports>) {
        let (backend, config, identity) = self.connect(&transports).await;
        let backend = Arc::new(backend);
        self.backend.store(Some(backend.clone()));
        // Exchanged before the connection could be seen; whoever exchanges later sees it.
        let now = self.config();
        if !now.same(&config) {
            transports.exchange(&backend.connection, &now);
        }
        self.enter(ClusterState::Syncing, "first lists are on their way");
        self.follow(&backend, identity).await;
    }

    /// Goes on with other credentials for the same server: caches and keys stay, watches resume.
    pub(crate) fn exchange(&self, config: ClusterConfig, transports: &Transports) {
        self.config.store(Arc::new(config.clone()));
        if let Some(backend) = self.backend() {
            transports.exchange(&backend.connection, &config);
        }
        self.reconfigured.notify_one();
        tracing::info!(cluster = %self.name, "credentials exchanged");
    }

    fn enter(&self, state: ClusterState, reason: &str) {
        if self.lifecycle.set(state, reason) {
            tracing::info!(cluster = %self.name, state = state.as_str(), reason, "cluster changed state");
        }
    }

    /// Tries until it succeeds. Returns what it succeeded with, too.
    async fn connect(&self, transports: &Transports) -> (Backend, ClusterConfig, Option<String>) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        let mut rng = fastrand::Rng::new();
        loop {
            let config = self.config();
            let attempt = tokio::select! {
                attempt = self.try_connect(&config, transports) => attempt,
                () = self.reconfigured.notified() => continue,
            };
            let error = match attempt {
                Ok((backend, identity)) => return (backend, config, identity),
                Err(error) => error,
            };
            if self.lifecycle.now().reason != error.message {
                tracing::warn!(cluster = %self.name, code = error.code.as_str(), reason = error.message, "cluster not reached");
            }
            self.lifecycle.set(ClusterState::Connecting, &error.message);
            let delay = backoff
                .next(&mut rng)
                .max(error.retry_after.unwrap_or_default());
            let _ = tokio::time::timeout(delay, self.reconfigured.notified()).await;
        }
    }

    async fn try_connect(
        &self,
        config: &ClusterConfig,
        transports: &Transports,
    ) -> Result<(Backend, Option<String>), ApiError> {
        let attempt = async {
            let vital = self.name.is_local();
            let backend = Backend::connect(
                transports.connect(config, vital, self.metrics.clone()),
                self.caches.clone(),
                self.token.child_token(),
                self.tasks.clone(),
                self.changed.clone(),
            )
            .await?;
            let identity = backend.identity().await?;
            Ok((backend, identity))
        };
        match tokio::time::timeout(ATTEMPT, attempt).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ApiError::host(
                ApiCode::Timeout,
                format!(
                    "{} has not told within {ATTEMPT:?} what it serves",
                    config.server()
                ),
            )),
        }
    }

    async fn follow(&self, backend: &Arc<Backend>, mut identity: Option<String>) {
        let (mut was_ready, mut resumed_before) = (false, 0);
        loop {
            let stores = backend.stores.all();
            let (state, reason) = self.judge(&stores, was_ready);
            let recovered = state == ClusterState::Ready && self.state() == ClusterState::Degraded;
            // A watch that was taken up again may be another server's, which would wait in silence for versions to come.
            let watches = stores.iter().map(|store| resumed(store)).sum::<u64>();
            let taken_up = watches > std::mem::replace(&mut resumed_before, watches);
            let suspect = recovered || taken_up || stores.iter().any(|store| is_stale(store));
            if suspect && is_usurped(backend, &mut identity).await {
                tracing::warn!(cluster = %self.name, "another cluster answers under this name: it is engaged anew");
                self.lifecycle.usurp();
                return;
            }
            was_ready |= state == ClusterState::Ready;
            self.enter(state, &reason);
            self.changed.notified().await;
        }
    }

    /// The state that the stores make. A kind that fails by itself, such as one of an aggregated server that is down, is no reason
    /// to keep the keys of the others waiting: it is one only where nothing else is in step either.
    fn judge(&self, stores: &[Arc<Store>], was_ready: bool) -> (ClusterState, String) {
        let mut syncing = self.lifecycle.pending.load(Ordering::SeqCst);
        let (mut in_step, mut trouble, mut of_a_kind, mut refused) = (0, None, None, None);
        for store in stores {
            let progress = store.progress().borrow().clone();
            let reason = |problem: &Problem| format!("{}: {}", store.key.kind, problem.message);
            match &progress.problem {
                // Waiting would not change it. Told all the same: somebody may have to allow it.
                Some(problem) if problem.definite => refused = Some(reason(problem)),
                Some(problem) if problem.unreachable => trouble = Some(reason(problem)),
                Some(problem) => of_a_kind = Some(reason(problem)),
                None if progress.synced => in_step += 1,
                None => syncing += 1,
            }
        }
        if in_step == 0 {
            trouble = trouble.or(of_a_kind.take());
        }
        match (trouble, was_ready) {
            (Some(reason), true) => (ClusterState::Degraded, reason),
            (Some(reason), false) => (ClusterState::Syncing, reason),
            (None, false) if syncing > 0 => (
                ClusterState::Syncing,
                format!("{syncing} caches are not filled yet"),
            ),
            (None, _) => {
                let reason = of_a_kind
                    .or(refused)
                    .map_or("all caches are in step".to_owned(), |reason| {
                        format!("in step but for {reason}")
                    });
                (ClusterState::Ready, reason)
            }
        }
    }

    /// Ends everything: watches stop, calls answer `cluster-gone`. Returns when the last task has ended.
    pub(crate) async fn end(&self) {
        self.token.cancel();
        self.lifecycle.set(ClusterState::Gone, "disengaged");
        tracing::info!(cluster = %self.name, state = "Gone", reason = "disengaged", "cluster changed state");
        self.tasks.close();
        self.tasks.wait().await;
        // Whoever still holds the cluster holds no caches and sockets with it.
        self.backend.store(None);
        self.replacement.store(None);
    }
}

/// After trouble, and while a server tells of a past that is over: another server may answer under the same address, and shares
/// nothing with the one before. One that does not say who it is is no other.
async fn is_usurped(backend: &Backend, identity: &mut Option<String>) -> bool {
    let Ok(Some(now)) = backend.identity().await else {
        return false;
    };
    identity.get_or_insert_with(|| now.clone()) != &now
}
