//! The queue, shared by everything that enqueues, dispatches and asks. Entry point: [`SharedQueue::add`].
//!
//! It owns the queue's lock. No method waits under it, and of all locks only the fleet's is taken under it. A method that may
//! make a key ready wakes the dispatcher.

use crate::cluster::{Cluster, Fleet};
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::paused::WallTime;
use crate::portion::Portion;
use crate::queue::{
    Add, Added, ClusterMode, ControllerId, Limits, Outcome, Queue, QueueOptions, Run,
    TenantOptions, Token,
};
use crate::request::Request;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The longest time by which the clock moves at once: a year.
const LONGEST_LEAP: Duration = Duration::from_secs(365 * 86_400);

pub(super) struct SharedQueue {
    queue: Mutex<Queue>,
    fleet: Fleet,
    /// Notified when there may be more for the dispatcher to do.
    changed: Notify,
    /// Notified at the end of every run.
    run_ended: Notify,
    /// Milliseconds that its clock is ahead of the machine's.
    ahead: AtomicU64,
}

/// Everything that the queue has for the dispatcher.
pub(super) struct Dispatch {
    /// Keys to run now.
    pub(super) runs: Vec<Run>,
    /// Keys that have become hot.
    pub(super) hot_keys: Vec<(ControllerId, Request)>,
    /// Controllers that refused requests and have room again.
    pub(super) drained: Vec<ControllerId>,
    /// When the next key becomes ready.
    pub(super) next: Option<Instant>,
}

impl SharedQueue {
    pub(super) fn new(limits: Limits, fleet: Fleet) -> Self {
        Self {
            queue: Mutex::new(Queue::new(Instant::now(), limits)),
            fleet,
            changed: Notify::new(),
            run_ended: Notify::new(),
            ahead: AtomicU64::new(0),
        }
    }

    /// The time by its clock. What it decides is by this one.
    pub(super) fn now(&self) -> Instant {
        Instant::now() + self.ahead()
    }

    /// The time of the wall clock, as far ahead.
    pub(super) fn wall_time(&self) -> WallTime {
        WallTime::after(self.ahead())
    }

    fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead.load(Ordering::SeqCst))
    }

    /// Moves its clock forward, by at most [`LONGEST_LEAP`]: what waits for a time that has passed then is ready.
    pub(super) fn advance(&self, by: Duration) {
        let by = by.min(LONGEST_LEAP).as_millis() as u64;
        // Under the lock: no key is taken or ends between two times.
        let queue = self.queue.lock();
        self.ahead.fetch_add(by, Ordering::SeqCst);
        drop(queue);
        self.changed.notify_one();
    }

    /// Adds a request. `None`: its cluster is not engaged, so there is no work.
    pub(super) fn add(
        &self,
        controller: ControllerId,
        request: &Request,
        add: Add,
    ) -> Option<Added> {
        let mut queue = self.queue.lock();
        // Checked under the lock: a cluster that leaves is taken out of the fleet before its keys leave the queue.
        self.fleet.cluster(&request.cluster)?;
        let now = self.now();
        let added = queue.add(now, controller, request, add);
        let has_news = queue.has_news(now); // a key that waited for its time may run now
        drop(queue);
        if has_news {
            self.changed.notify_one();
        }
        Some(added)
    }

    /// Takes every key that may run now.
    pub(super) fn take(&self) -> Dispatch {
        let now = self.now();
        let mut queue = self.queue.lock();
        Dispatch {
            runs: std::iter::from_fn(|| queue.get(now)).collect(),
            hot_keys: std::iter::from_fn(|| queue.hot_key()).collect(),
            drained: std::iter::from_fn(|| queue.drained()).collect(),
            // The dispatcher waits by the machine's clock.
            next: queue
                .next_wake()
                .map(|at| at.checked_sub(self.ahead()).unwrap_or(at)),
        }
    }

    /// Waits until [`Self::take`] may return more than it did.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes back a run. It ends on a thread of the reconcilers, so the dispatcher is woken only if it has something to do.
    pub(super) fn done(&self, token: Token, outcome: Outcome) {
        let mut queue = self.queue.lock();
        let now = self.now();
        queue.done(now, token, outcome);
        let has_news = queue.has_news(now);
        drop(queue);
        if has_news {
            self.changed.notify_one();
        }
        self.run_ended.notify_waiters();
    }

    /// Waits for the end of runs, but no longer than until a limit.
    pub(super) async fn await_runs(&self, runs: &[Token], limit: Instant) {
        for run in runs {
            self.await_run(*run, limit).await;
        }
    }

    async fn await_run(&self, run: Token, limit: Instant) {
        loop {
            let ended = self.run_ended.notified();
            tokio::pin!(ended);
            // Listens before it checks, so that an end in between is not missed.
            ended.as_mut().enable();
            let left = limit.saturating_duration_since(Instant::now());
            if self.queue.lock().running(run).is_none() || left.is_zero() {
                return;
            }
            let _ = tokio::time::timeout(left, ended).await;
        }
    }

    /// Answers a question about the queue. The question must take no lock.
    pub(super) fn read<A>(&self, question: impl FnOnce(&Queue) -> A) -> A {
        question(&self.queue.lock())
    }

    /// Whether a controller may add keys. If not, it is among [`Dispatch::drained`] once it may.
    pub(super) fn has_room(&self, controller: ControllerId) -> bool {
        self.queue.lock().has_room(controller)
    }

    fn change<A>(&self, change: impl FnOnce(&mut Queue) -> A) -> A {
        let result = change(&mut self.queue.lock());
        self.changed.notify_one();
        result
    }

    pub(super) fn set_concurrency(&self, global: usize, per_cluster: usize) {
        self.change(|queue| {
            queue.set_limits(Limits {
                global,
                per_cluster,
                ..queue.limits()
            });
        });
    }

    pub(super) fn set_portion(&self, portion: Portion) {
        self.change(|queue| queue.set_portion(portion));
    }

    pub(super) fn set_tenant(&self, name: &TenantName, options: TenantOptions) {
        self.change(|queue| queue.set_tenant(name, options));
    }

    pub(super) fn add_controller(
        &self,
        tenant: &TenantName,
        name: ControllerName,
        options: QueueOptions,
    ) -> ControllerId {
        self.change(|queue| queue.add_controller(tenant, name, options))
    }

    pub(super) fn set_controller(&self, controller: ControllerId, options: QueueOptions) {
        self.change(|queue| queue.set_controller(controller, options));
    }

    /// Undoes a removal. `false`: the controller's last run has ended, so nothing of it is left.
    pub(super) fn revive_controller(&self, controller: ControllerId) -> bool {
        self.change(|queue| queue.revive_controller(controller))
    }

    /// Removes a controller and its keys. Returns its runs that have not ended.
    pub(super) fn remove_controller(&self, controller: ControllerId) -> Vec<Token> {
        self.change(|queue| queue.remove_controller(self.now(), controller))
    }

    /// Holds the keys of a controller, or releases them.
    pub(super) fn hold_controller(&self, controller: ControllerId, held: bool) {
        self.change(|queue| queue.hold_controller(controller, held));
    }

    /// Holds the keys of a controller in one cluster, or releases them.
    pub(super) fn hold_in_cluster(
        &self,
        controller: ControllerId,
        cluster: &ClusterName,
        held: bool,
    ) {
        self.change(|queue| queue.hold_in_cluster(controller, cluster, held));
    }

    /// Sets the state of a cluster, unless the cluster is ending.
    pub(super) fn set_cluster(&self, cluster: &Cluster, state: ClusterMode) {
        self.change(|queue| {
            // Checked under the lock: a cluster that leaves is cancelled before the queue removes it, and another one may have
            // its name by now.
            if !cluster.token().is_cancelled() {
                queue.set_cluster(cluster.name(), state);
            }
        });
    }

    /// Has keys run soon that failed through no fault of their reconcilers: what made them fail in a cluster may be repaired. Reconcilers
    /// reach the local cluster from the keys of all clusters.
    pub(super) fn wake(&self, cluster: &ClusterName) {
        let one = (!cluster.is_local()).then_some(cluster);
        self.change(|queue| queue.wake(self.now(), one));
    }

    /// Has paused keys look at their pauses again.
    pub(super) fn wake_paused(&self) {
        self.change(|queue| queue.wake_paused(self.now()));
    }

    /// Removes the keys of a controller in one cluster.
    pub(super) fn remove_in_cluster(&self, controller: ControllerId, cluster: &ClusterName) {
        self.change(|queue| queue.remove_in_cluster(self.now(), controller, cluster));
    }

    /// Removes a cluster and its keys.
    pub(super) fn remove_cluster(&self, name: &ClusterName) {
        self.change(|queue| queue.remove_cluster(self.now(), name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Cause;
    use crate::request::ObjectKey;
    use std::time::Duration;

    #[tokio::test]
    async fn a_run_that_is_taken_back_unstarted_ends_the_wait_for_it() {
        let shared = SharedQueue::new(Limits::default(), Fleet::default());
        let controller = shared.add_controller(
            &TenantName::default(),
            ControllerName::new("c").unwrap(),
            QueueOptions::default(),
        );
        let cluster = ClusterName::new("alpha").unwrap();
        let request = Request::new(cluster.clone(), ObjectKey::cluster_scoped("a"));
        {
            let mut queue = shared.queue.lock();
            queue.set_cluster(&cluster, ClusterMode::Ready);
            let add = Add::now(Cause::Operator);
            let added = queue.add(Instant::now(), controller, &request, add);
            assert_ne!(added, Added::Full);
        }
        let run = shared.take().runs.remove(0);
        let runs = [run.token];
        let limit = Duration::from_secs(600);
        let wait = shared.await_runs(&runs, Instant::now() + limit);
        tokio::pin!(wait);
        assert!(futures::poll!(&mut wait).is_pending());
        shared.done(run.token, Outcome::Gone);
        tokio::time::timeout(limit / 10, wait).await.unwrap();
    }
}
