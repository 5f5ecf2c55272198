//! The states of a cluster, and the task that moves it through them. Entry point: [`Cluster::live`].
//!
//! `Connecting → Syncing → Ready ⇄ Degraded → Gone`. Until it is `Gone`, a cluster connects once and then follows its stores.
//!
//! Invariants:
//! * `Gone` is final, and so is a changed identity: a cluster is never used for another server. The manager starts a new one.
//! * A state says how the caches are; [`Reach`] says whether keys may run. A watch that the server refuses or fails degrades the cluster,
//!   and holds only the keys of the controllers that use the watch. A server that cannot be reached holds all keys.
//!
//! Cost: one task for a server, which reads the progress of all stores whenever one of them changes; none for a part of a server.
//!
//! Not guaranteed: `Ready` is as recent as the watches. A server that has died is noticed when a watch fails or is overdue.

mod now;

pub use now::ClusterState;
pub(crate) use now::{Now, Reach};

use super::backend::Backend;
use super::{Cluster, ClusterConfig, StateChanges, Transports};
use crate::api::{ApiCode, ApiError};
use crate::backoff::Backoff;
use crate::cache::store::{Problem, Store};
use crate::name::ClusterName;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Longest time of one attempt to connect, with discovery.
const ATTEMPT: Duration = Duration::from_secs(60);

pub(super) struct Lifecycle {
    now: Mutex<Now>,
    /// Says that `now` has changed, once somebody has waited for that. A channel takes more than all else here, and there are thousands of
    /// parts of servers that nobody waits for.
    changed: OnceLock<watch::Sender<()>>,
    /// Number of sources that are still being attached. A part of a server begins with one more, until [`Cluster::attached`]: its server may
    /// be ready before.
    pending: AtomicUsize,
    /// Whether a part of this server waits for caches that are not filled. It is set before the part looks at them: they may be filled right
    /// after, while no state changes.
    awaited: AtomicBool,
    /// Whose states these are.
    name: ClusterName,
    /// Where a change is noted that concerns the cluster's keys.
    changes: Arc<StateChanges>,
}

impl Lifecycle {
    pub(super) fn new(name: ClusterName, changes: Arc<StateChanges>, is_part: bool) -> Self {
        let now = Now {
            state: ClusterState::Connecting,
            reason: "not reached yet".into(),
            since: SystemTime::now(),
            reach: Reach::None,
            next_attempt: None,
            identity_changed: false,
            repairs: 0,
            duplicate: None,
        };
        Self {
            now: Mutex::new(now),
            changed: OnceLock::new(),
            pending: AtomicUsize::new(is_part.into()),
            awaited: AtomicBool::new(false),
            name,
            changes,
        }
    }

    pub(super) fn now(&self) -> Now {
        self.now.lock().clone().shown()
    }

    /// Whether the caches were in sync once, also if the cluster is not worked on.
    pub(super) fn has_served(&self) -> bool {
        self.now.lock().has_served()
    }

    /// Notifies of changes of [`Self::now`] that come after this.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        let channel = || watch::channel(()).0;
        self.changed.get_or_init(channel).subscribe()
    }

    /// Changes what is not final, and returns whether the state is another one. Another reason alone keeps the time.
    fn update(&self, change: impl FnOnce(&mut Now)) -> bool {
        let mut now = self.now.lock();
        if now.state == ClusterState::Gone {
            return false;
        }
        let before = now.clone();
        change(&mut now);
        let moved = now.state != before.state;
        // A failed attempt to connect too: another cluster may wait for it, which may be the same server.
        let of_keys = |of: &Now| (of.reach, of.identity_changed, of.next_attempt.is_some());
        let concerns_keys = of_keys(&now) != of_keys(&before);
        let is_repaired = now.repairs != before.repairs;
        if moved {
            now.since = SystemTime::now();
        }
        let is_change = *now != before;
        drop(now);
        // Who subscribes after this look reads the new state.
        if let Some(changed) = self.changed.get().filter(|_| is_change) {
            changed.send_replace(());
        }
        if is_change {
            self.changes.note_shown();
        }
        if concerns_keys || is_repaired {
            self.changes.note(&self.name, is_repaired);
        }
        moved
    }

    /// Moves to a state, and returns whether it is another one.
    fn set(&self, state: ClusterState, reach: Reach, reason: &str) -> bool {
        self.update(|now| {
            let is_ready_again =
                now.state == ClusterState::Degraded && state == ClusterState::Ready;
            let is_reached_again = now.reach == Reach::Doubtful && reach == Reach::Full;
            now.repairs += u64::from(is_ready_again || is_reached_again);
            (now.state, now.reach) = (state, reach);
            if *now.reason != *reason {
                now.reason = reason.into();
            }
        })
    }

    /// Takes over the state of the whole server, unless caches are still `filling` that this part of it needs. Returns whether the state is
    /// another one.
    pub(super) fn follow(&self, whole: &Self, filling: usize) -> bool {
        self.update(|now| {
            // Read under the lock of the part's state, so that the last to get it has the newest.
            let whole = whole.now();
            let pending = self.pending.load(Ordering::SeqCst) + filling;
            let is_reached = whole.state != ClusterState::Connecting;
            now.identity_changed |= whole.identity_changed;
            (now.reach, now.next_attempt) = (whole.reach, whole.next_attempt);
            now.repairs = whole.repairs;
            if is_reached && pending > 0 && !now.has_served() {
                now.state = ClusterState::Syncing;
                now.reason = "its caches are not filled yet".into();
            } else {
                (now.state, now.reason) = (whole.state, whole.reason);
            }
        })
    }

    /// Notes that something is repaired that may have made keys fail.
    fn repaired(&self) {
        self.update(|now| now.repairs += 1);
    }

    fn set_next_attempt(&self, at: Option<SystemTime>) {
        self.update(|now| now.next_attempt = at);
    }

    /// Has [`Self::changes`] notified once no cache of this server is being filled.
    pub(super) fn await_caches(&self) {
        self.awaited.store(true, Ordering::SeqCst);
    }

    /// Wakes the parts that wait for caches: none is being filled.
    fn tell_waiting(&self) {
        if self.awaited.swap(false, Ordering::SeqCst)
            && let Some(changed) = self.changed.get()
        {
            changed.send_replace(());
        }
    }

    /// Says why the cluster is not worked on; none: it is. Returns whether that is a change.
    pub(super) fn set_duplicate(&self, reason: Option<Arc<str>>) -> bool {
        let mut is_change = false;
        self.update(|now| {
            is_change = now.duplicate != reason;
            now.duplicate = reason;
            if is_change {
                now.since = SystemTime::now();
            }
        });
        is_change
    }

    fn set_identity_changed(&self) {
        self.update(|now| now.identity_changed = true);
    }
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
        self.0.one_less_pending();
    }
}

impl Cluster {
    /// Connects, then follows the stores, until the cluster's token ends the task.
    pub(super) async fn live(self: Arc<Self>, transports: Arc<Transports>) {
        let (backend, config) = self.connect(&transports).await;
        let backend = Arc::new(backend);
        self.backend.store(Some(backend.clone()));
        // Credentials that were exchanged before `backend` was set; later exchanges see `backend`.
        let now = self.config();
        if !now.same(&config) {
            transports.exchange(&backend.connection, &now);
        }
        self.enter(
            ClusterState::Syncing,
            Reach::Full,
            "the first lists are not complete",
        );
        self.follow(&backend).await;
    }

    pub(super) fn one_less_pending(&self) {
        self.lifecycle.pending.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_one();
        self.follow_whole();
    }

    /// Continues with other credentials for the same server: caches and keys stay, watches resume.
    pub(crate) fn exchange(&self, config: ClusterConfig, transports: &Transports) {
        self.config.store(Arc::new(config.clone()));
        if let Some(carrier) = self.carrier.load_full() {
            return carrier.exchange(&config, transports);
        }
        if let Some(backend) = self.backend() {
            transports.exchange(&backend.connection, &config);
        }
        self.reconfigured.notify_one();
        self.lifecycle.repaired();
        tracing::info!(cluster = %self.name, "credentials exchanged");
    }

    fn enter(&self, state: ClusterState, reach: Reach, reason: &str) {
        if self.lifecycle.set(state, reach, reason) {
            self.log_state();
        }
    }

    pub(super) fn log_state(&self) {
        let now = self.lifecycle.now();
        tracing::info!(cluster = %self.name, state = now.state.as_str(), reason = &*now.reason, "cluster changed state");
    }

    /// Connects; tries again until an attempt succeeds. Returns the configuration that succeeded, too.
    async fn connect(&self, transports: &Transports) -> (Backend, ClusterConfig) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        let mut rng = fastrand::Rng::new();
        loop {
            let config = self.config();
            let attempt = tokio::select! {
                attempt = self.try_connect(&config, transports) => attempt,
                () = self.reconfigured.notified() => continue,
            };
            let error = match attempt {
                Ok(backend) => return (backend, config),
                Err(error) => error,
            };
            if *self.lifecycle.now().reason != *error.message {
                tracing::warn!(cluster = %self.name, code = error.code.as_str(), reason = error.message, "cluster not reached");
            }
            self.lifecycle
                .set(ClusterState::Connecting, Reach::None, &error.message);
            let delay = backoff
                .next(&mut rng)
                .max(error.retry_after.unwrap_or_default());
            self.lifecycle
                .set_next_attempt(SystemTime::now().checked_add(delay));
            let _ = tokio::time::timeout(delay, self.reconfigured.notified()).await;
            self.lifecycle.set_next_attempt(None);
        }
    }

    async fn try_connect(
        &self,
        config: &ClusterConfig,
        transports: &Transports,
    ) -> Result<Backend, ApiError> {
        let vital = self.name.is_local();
        let attempt = Backend::connect(
            transports.connect(config, vital, self.metrics.clone()),
            self.caches.clone(),
            self.made.clone(),
            self.token.child_token(),
            self.tasks.clone(),
            self.changed.clone(),
        );
        match tokio::time::timeout(ATTEMPT, attempt).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ApiError::host(
                ApiCode::Timeout,
                format!(
                    "{} has not answered discovery within {ATTEMPT:?}",
                    config.server()
                ),
            )),
        }
    }

    /// Moves through the states as the stores change; returns once the server's identity has changed.
    async fn follow(&self, backend: &Arc<Backend>) {
        let mut was_ready = false;
        let mut changes = backend.continuity.changes();
        let mut kinds = backend.discovery.found();
        loop {
            if changes.borrow_and_update().identity_changed {
                tracing::warn!(cluster = %self.name, "another server answers under this cluster's address: it is engaged anew");
                self.lifecycle.set_identity_changed();
                return;
            }
            let syncing = self.lifecycle.pending.load(Ordering::SeqCst);
            let stores = backend.stores.all();
            let unknown = backend.discovery.failures();
            let (state, reach, reason) = state_of(&stores, syncing, was_ready, unknown);
            was_ready |= state == ClusterState::Ready;
            self.enter(state, reach, &reason);
            if filling(&stores) == 0 {
                self.lifecycle.tell_waiting();
            }
            tokio::select! {
                () = self.changed.notified() => {}
                _ = changes.changed() => {}
                // The sender lives as long as the backend, which is held here.
                _ = kinds.changed() => self.lifecycle.repaired(),
            }
        }
    }

    /// Ends everything: watches stop, calls answer `cluster-gone`. Returns when the last task has ended.
    pub(crate) async fn end(&self) {
        self.token.cancel();
        self.enter(ClusterState::Gone, Reach::None, "disengaged");
        self.tasks.close();
        self.tasks.wait().await;
        // Frees caches and sockets, even while others still hold the cluster.
        self.backend.store(None);
        self.leave_carrier();
        self.replacement.store(None);
    }
}

/// How many stores are waiting for their first list.
pub(super) fn filling(stores: &[Arc<Store>]) -> usize {
    let is_filling = |store: &&Arc<Store>| {
        let progress = store.progress();
        let progress = progress.borrow();
        !progress.synced && progress.problem.is_none()
    };
    stores.iter().filter(is_filling).count()
}

/// The state that follows from the stores, while `pending` sources are still being attached. `unknown`: why some kinds are not known.
fn state_of(
    stores: &[Arc<Store>],
    pending: usize,
    was_ready: bool,
    unknown: Option<String>,
) -> (ClusterState, Reach, String) {
    let (mut syncing, mut doubtful, mut failing, mut unserved) = (pending, None, None, None);
    for store in stores {
        let progress = store.progress().borrow().clone();
        let reason = |problem: &Problem| format!("{}: {}", store.key.kind, problem.message);
        match &progress.problem {
            Some(problem) if problem.unreachable || problem.stale => {
                doubtful = Some(reason(problem));
            }
            // Ordinary for the kind of a CustomResourceDefinition that does not exist now.
            Some(problem) if problem.is_unserved() => unserved = Some(reason(problem)),
            Some(problem) => failing = Some(reason(problem)),
            None if progress.synced => {}
            None => syncing += 1,
        }
    }
    let failed = if was_ready || syncing == 0 {
        ClusterState::Degraded
    } else {
        ClusterState::Syncing
    };
    match (doubtful, failing) {
        (Some(reason), _) if was_ready => (ClusterState::Degraded, Reach::Doubtful, reason),
        (Some(reason), _) => (ClusterState::Syncing, Reach::Doubtful, reason),
        (None, Some(reason)) => (failed, Reach::Full, reason),
        (None, None) if syncing > 0 && !was_ready => (
            ClusterState::Syncing,
            Reach::Full,
            format!("{syncing} caches are not filled yet"),
        ),
        (None, None) => {
            let reason = match (unserved, unknown) {
                (Some(reason), _) => format!("in sync, except for {reason}"),
                (None, Some(unknown)) => format!("all caches are in sync; {unknown}"),
                (None, None) => "all caches are in sync".to_owned(),
            };
            (ClusterState::Ready, Reach::Full, reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Result;

    /// Without sources that are still being attached.
    fn lifecycle(name: &str) -> Result<Lifecycle> {
        let changes = Arc::new(StateChanges::default());
        Ok(Lifecycle::new(ClusterName::new(name)?, changes, false))
    }

    /// The cache is filled before the server's task has seen that it was not: no state of the server changes.
    #[test]
    fn a_part_is_told_of_a_filled_cache_though_its_server_was_ready_all_the_time() -> Result<()> {
        let (whole, part) = (lifecycle("whole")?, lifecycle("part")?);
        whole.set(ClusterState::Ready, Reach::Full, "all caches are in sync");
        let mut changes = whole.changes();
        whole.await_caches();
        part.follow(&whole, 1);
        assert_eq!(part.now().state, ClusterState::Syncing);

        whole.set(ClusterState::Ready, Reach::Full, "all caches are in sync");
        whole.tell_waiting();
        assert!(changes.has_changed()?);
        changes.mark_unchanged();
        part.follow(&whole, 0);
        assert_eq!(part.now().state, ClusterState::Ready);

        whole.tell_waiting();
        assert!(!changes.has_changed()?, "nobody waits any more");
        Ok(())
    }
}
