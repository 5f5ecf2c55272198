//! Controllers that are registered, added and replaced while the manager runs. Entry point: [`Core::put_controller`].

use super::attach::Attachments;
use super::core::{Core, END};
use crate::cluster::Caller;
use crate::controller::Controller;
use crate::kind::GroupVersionKind;
use crate::metrics::{AttemptCounts, ControllerMetrics, FailedBy};
use crate::name::{ControllerName, TenantName};
use crate::queue::{Add, Added, ControllerId, Origin, Token};
use crate::request::Request;
use crate::source::Offer;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Most problems that a status lists.
const MAX_PROBLEMS: usize = 20;

/// A controller as it is now.
struct Current {
    controller: Arc<Controller>,
    /// Whom its calls are made for.
    caller: Caller,
}

impl Current {
    fn new(controller: Controller) -> Self {
        let caller = Caller::new(controller.tenant.clone(), controller.name.clone());
        let caller = caller.with_indexes(controller.indexes.clone());
        Self {
            controller: Arc::new(controller),
            caller,
        }
    }
}

/// A controller and what the manager keeps of it.
pub(super) struct Registered {
    pub(super) id: ControllerId,
    pub(super) metrics: Arc<ControllerMetrics>,
    /// Replaced as a whole when the controller is put again.
    current: ArcSwap<Current>,
    pub(super) attachments: Mutex<Attachments>,
    core: Weak<Core>,
    /// Told when its share of the queue, which was full, has room.
    pub(super) drained: Notify,
    /// Kinds of its watches so far, in the order of their [`Origin`]s from 1 on. At most [`u8::MAX`].
    kinds: Mutex<Vec<GroupVersionKind>>,
    /// Cancelled when the controller has been removed and its runs have had their time. Another one when it is put again before that.
    removed: Mutex<CancellationToken>,
}

impl Registered {
    pub(super) fn controller(&self) -> Arc<Controller> {
        self.current.load().controller.clone()
    }

    /// Whom its calls are made for.
    pub(super) fn caller(&self) -> Caller {
        self.current.load().caller.clone()
    }

    /// Cancelled when what runs must end because the controller is no more.
    pub(super) fn removed(&self) -> CancellationToken {
        self.removed.lock().clone()
    }

    /// The number for a watched kind; none of its own beyond the 255th.
    pub(super) fn origin(&self, kind: &GroupVersionKind) -> Origin {
        let mut kinds = self.kinds.lock();
        let there = kinds.iter().position(|there| there == kind);
        let at = there.unwrap_or(kinds.len());
        let Ok(number) = u8::try_from(at + 1) else {
            return Origin::default();
        };
        if there.is_none() {
            kinds.push(kind.clone());
        }
        Origin(number)
    }

    /// The kind of a number.
    pub(super) fn kind(&self, origin: Origin) -> Option<GroupVersionKind> {
        let at = usize::from(origin.0).checked_sub(1)?;
        self.kinds.lock().get(at).cloned()
    }

    /// Events that wait for its mapper, and requests of what is gone that wait for room in the queue.
    pub(super) fn events_waiting(&self) -> (usize, usize) {
        let attachments = self.attachments.lock();
        let waiting = attachments
            .values()
            .flatten()
            .map(|source| source.waiting());
        waiting.fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Waits until its share of the queue has room.
    pub(super) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Listens before it looks, so that room that comes in between is not missed.
            drained.as_mut().enable();
            let Some(core) = self.core.upgrade() else {
                return std::future::pending().await;
            };
            if core.queue.lock().has_room(self.id) {
                return;
            }
            drop(core);
            drained.await;
        }
    }
}

impl Offer for Registered {
    fn offer(&self, request: &Request, add: Add) -> bool {
        let Some(core) = self.core.upgrade() else {
            return true;
        };
        !matches!(core.enqueue(self, request, add), Some(Added::Full))
    }

    fn caller(&self) -> Caller {
        Registered::caller(self)
    }

    fn lost(&self) {
        self.metrics.deletion_lost();
    }
}

/// A controller as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ControllerStatus {
    /// Its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Keys that could run now.
    pub ready: usize,
    /// Keys that run.
    pub running: usize,
    /// Keys that wait for a time that their last run asked for.
    pub delayed: usize,
    /// Keys that wait to be tried again.
    pub backoff: usize,
    /// Keys that wait because they have run too often lately.
    pub throttled: usize,
    /// Keys that failed for good and wait for an event.
    pub terminal: usize,
    /// Attempts that ended.
    pub attempts: AttemptCounts,
    /// Those that failed by whose fault they were.
    pub failed_by: FailedBy,
    /// The error that came last, while the last run of any key failed.
    pub last_error: Option<String>,
    /// Clusters it is attached to.
    pub clusters: usize,
    /// What keeps a watch of it from running, by cluster.
    pub problems: Vec<String>,
}

impl Core {
    /// Puts a request into the queue. `None`: its cluster is not engaged, so there is no work.
    pub(super) fn enqueue(&self, of: &Registered, request: &Request, add: Add) -> Option<Added> {
        let mut queue = self.queue.lock();
        // Looked at under the lock: a cluster that leaves is taken out of the fleet before its keys leave the queue.
        self.fleet.cluster(&request.cluster)?;
        let now = Instant::now();
        let added = queue.add(now, of.id, request, add);
        let news = queue.has_news(now); // a key that waited for its time may run now
        drop(queue);
        if news {
            self.wake.notify_one();
        }
        Some(added)
    }

    /// Adds a controller, or replaces the one of the same tenant and name: sources that stay the same go on undisturbed.
    pub(super) fn put_controller(self: &Arc<Self>, controller: Controller) {
        // Taken first, so that no cluster comes or goes between registering and attaching.
        let engaged = self.engaged.lock();
        let key = (controller.tenant.clone(), controller.name.clone());
        let held = self.leadership.holds(&controller);
        let options = self.queue_options(&controller);
        let there = self.controllers.read().by_name.get(&key).cloned();
        let registered = match there.or_else(|| self.revive(&key)) {
            Some(there) => {
                self.queue.lock().set_controller(there.id, options);
                there.current.store(Arc::new(Current::new(controller)));
                there
            }
            None => {
                let id = self.queue.lock().add_controller(
                    &controller.tenant,
                    controller.name.clone(),
                    options,
                );
                let metrics = self
                    .metrics
                    .controller(&controller.tenant, &controller.name);
                let registered = Arc::new(Registered {
                    id,
                    metrics,
                    current: ArcSwap::from_pointee(Current::new(controller)),
                    attachments: Mutex::default(),
                    core: Arc::downgrade(self),
                    drained: Notify::new(),
                    kinds: Mutex::default(),
                    removed: Mutex::default(),
                });
                let mut controllers = self.controllers.write();
                controllers.by_name.insert(key, registered.clone());
                controllers.by_id.insert(id, registered.clone());
                registered
            }
        };
        self.queue.lock().hold_controller(registered.id, held);
        let clusters = engaged
            .values()
            .map(|engaged| engaged.cluster.clone())
            .collect::<Vec<_>>();
        self.reattach(&registered, &clusters);
        drop(engaged);
        self.wake.notify_one();
    }

    /// A controller that is put again before its last run has ended goes on with that run: a key must not run twice at once.
    fn revive(&self, key: &(TenantName, ControllerName)) -> Option<Arc<Registered>> {
        let mut controllers = self.controllers.write();
        let there = controllers.leaving.remove(key)?;
        if !self.queue.lock().revive_controller(there.id) {
            return None;
        }
        *there.removed.lock() = CancellationToken::new();
        controllers.by_name.insert(key.clone(), there.clone());
        controllers.by_id.insert(there.id, there.clone());
        Some(there)
    }

    /// Takes a controller out: its sources stop, its keys leave; what runs is left to finish. Returns whether it was there.
    pub(super) async fn remove_controller(
        &self,
        tenant: &TenantName,
        name: &ControllerName,
    ) -> bool {
        let key = (tenant.clone(), name.clone());
        let (registered, running) = {
            // Nothing is attached to a controller once it is out: attaching happens under this lock.
            let _engaged = self.engaged.lock();
            let mut controllers = self.controllers.write();
            let Some(registered) = controllers.by_name.remove(&key) else {
                return false;
            };
            controllers.by_id.remove(&registered.id);
            controllers.leaving.insert(key.clone(), registered.clone());
            let mut queue = self.queue.lock();
            let running = queue.remove_controller(Instant::now(), registered.id);
            (registered, running)
        };
        let removed = registered.removed();
        let attachments = std::mem::take(&mut *registered.attachments.lock());
        drop(attachments);
        let limit = Instant::now() + self.drain_timeout();
        self.await_runs(&running, limit).await;
        removed.cancel();
        self.await_runs(&running, limit + END).await;
        let mut controllers = self.controllers.write();
        // Another token is that of one that has been put again meanwhile.
        if controllers
            .leaving
            .get(&key)
            .is_some_and(|there| there.removed().is_cancelled() && there.id == registered.id)
        {
            controllers.leaving.remove(&key);
            self.metrics.forget_controller(&registered.metrics);
        }
        true
    }

    async fn await_runs(&self, running: &[Token], limit: Instant) {
        for token in running {
            self.await_run(*token, limit).await;
        }
    }

    /// Waits for the end of a run, but no longer than until a limit.
    async fn await_run(&self, token: Token, limit: Instant) {
        loop {
            let finished = self.finished.notified();
            tokio::pin!(finished);
            // Listens before it looks, so that an end in between is not missed.
            finished.as_mut().enable();
            let left = limit.saturating_duration_since(Instant::now());
            if self.queue.lock().running(token).is_none() || left.is_zero() {
                return;
            }
            let _ = tokio::time::timeout(left, finished).await;
        }
    }

    /// Watches of a controller that do not run as they should, in all clusters.
    pub(super) fn failing_watches(registered: &Registered) -> usize {
        let attachments = registered.attachments.lock();
        let sources = attachments.values().flatten();
        sources.filter(|source| source.problem().is_some()).count()
    }

    pub(super) fn controller_status(&self, registered: &Registered) -> ControllerStatus {
        let controller = registered.controller();
        let queue = self.queue.lock();
        let counts = queue.counts(registered.id);
        let last_error = queue.last_error(registered.id);
        drop(queue);
        let attachments = registered.attachments.lock();
        let problems = attachments
            .values()
            .flatten()
            .filter_map(|source| source.problem())
            .take(MAX_PROBLEMS)
            .collect();
        ControllerStatus {
            tenant: controller.tenant.to_string(),
            name: controller.name.to_string(),
            ready: counts.ready,
            running: counts.running,
            delayed: counts.delayed,
            backoff: counts.backoff,
            throttled: counts.throttled,
            terminal: counts.terminal,
            attempts: registered.metrics.counts(),
            failed_by: registered.metrics.failed_by(),
            last_error: last_error.map(|message| message.to_string()),
            clusters: attachments.len(),
            problems,
        }
    }
}
