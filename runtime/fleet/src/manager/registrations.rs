//! The controllers of a manager. Entry point: [`Registrations::put`].
//!
//! It owns the tables of controllers and the limits of controllers that set none of their own. Under its locks only the queue's is
//! taken.

use super::leadership::Leadership;
use super::shared_queue::SharedQueue;
use crate::cluster::Caller;
use crate::controller::Controller;
use crate::kind::{GroupKind, GroupVersionKind};
use crate::metrics::{ControllerMetrics, Metrics};
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::queue::{Add, Added, ControllerId, Origin, QueueOptions, Token};
use crate::request::Request;
use crate::source::ControllerQueue;
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A controller as it is now.
struct Current {
    controller: Arc<Controller>,
    /// Names the controller in its calls to API servers.
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

/// A controller of the manager, however often it is replaced by one of the same name.
pub(super) struct Registration {
    pub(super) id: ControllerId,
    pub(super) metrics: Arc<ControllerMetrics>,
    /// Replaced as a whole when the controller is put again.
    current: ArcSwap<Current>,
    queue: Arc<SharedQueue>,
    leadership: Arc<Leadership>,
    /// Notified when the queue has room again for its keys.
    drained: Notify,
    /// Kinds of its watches so far, in the order of their [`Origin`]s from 1 on. At most [`u8::MAX`].
    kinds: Mutex<Vec<GroupVersionKind>>,
    /// Cancelled when the controller has been removed and its runs have had their time. Another one when it is put again before that.
    removed: Mutex<CancellationToken>,
}

impl Registration {
    pub(super) fn controller(&self) -> Arc<Controller> {
        self.current.load().controller.clone()
    }

    pub(super) fn caller(&self) -> Caller {
        self.current.load().caller.clone()
    }

    /// How often every object is enqueued again, if at all.
    pub(super) fn resync(&self) -> Option<Duration> {
        self.controller().options.resync
    }

    /// Cancelled when its runs must end because the controller has been removed.
    pub(super) fn removed(&self) -> CancellationToken {
        self.removed.lock().clone()
    }

    /// The number for a watched kind; the 256th kind and later ones share the default.
    pub(super) fn origin(&self, kind: &GroupVersionKind) -> Origin {
        let mut kinds = self.kinds.lock();
        let known = kinds.iter().position(|known| known == kind);
        let Ok(number) = u8::try_from(known.unwrap_or(kinds.len()) + 1) else {
            return Origin::default();
        };
        if known.is_none() {
            kinds.push(kind.clone());
        }
        Origin(number)
    }

    /// The kind of a number.
    pub(super) fn kind(&self, origin: Origin) -> Option<GroupVersionKind> {
        let at = usize::from(origin.0).checked_sub(1)?;
        self.kinds.lock().get(at).cloned()
    }

    /// Whether another process has the keys of a cluster, or none has: nothing of it is for this queue.
    pub(super) fn is_elsewhere(&self, cluster: &ClusterName) -> bool {
        !self.leadership.watches(cluster) && self.controller().needs_lease
    }

    /// Waits until the queue has room for its keys.
    pub(super) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Listens before it checks, so that room that comes in between is not missed.
            drained.as_mut().enable();
            if self.queue.has_room(self.id) {
                return;
            }
            drained.await;
        }
    }

    /// Wakes the tasks that wait in [`Self::room`].
    pub(super) fn note_room(&self) {
        self.drained.notify_waiters();
    }
}

impl ControllerQueue for Registration {
    fn enqueue(&self, request: &Request, add: Add) -> bool {
        // As for a cluster that is not engaged: when this process is about to own it, mappers are asked again.
        if self.is_elsewhere(&request.cluster) {
            return true;
        }
        !matches!(self.queue.add(self.id, request, add), Some(Added::Full))
    }

    fn caller(&self) -> Caller {
        Registration::caller(self)
    }

    fn count_lost_deletion(&self) {
        self.metrics.deletion_lost();
    }
}

type FullName = (TenantName, ControllerName);

#[derive(Default)]
struct Table {
    by_name: BTreeMap<FullName, Arc<Registration>>,
    by_id: HashMap<ControllerId, Arc<Registration>>,
    /// Controllers that were removed and of which a run has not ended.
    leaving: HashMap<FullName, Arc<Registration>>,
}

impl Table {
    fn insert(&mut self, name: FullName, registration: &Arc<Registration>) {
        self.by_name.insert(name, registration.clone());
        self.by_id.insert(registration.id, registration.clone());
    }
}

/// A controller that has been removed, and its runs that have not ended.
pub(super) struct Removed {
    name: FullName,
    pub(super) registration: Arc<Registration>,
    pub(super) runs: Vec<Token>,
    /// Cancels the runs.
    pub(super) cancelled: CancellationToken,
}

/// The controllers of a manager.
pub(super) struct Registrations {
    queue: Arc<SharedQueue>,
    leadership: Arc<Leadership>,
    metrics: Metrics,
    table: RwLock<Table>,
    /// Limits of controllers that have none of their own, by primary kind.
    kind_limits: Mutex<BTreeMap<GroupKind, usize>>,
}

impl Registrations {
    pub(super) fn new(
        queue: Arc<SharedQueue>,
        leadership: Arc<Leadership>,
        metrics: Metrics,
        kind_limits: BTreeMap<GroupKind, usize>,
    ) -> Self {
        Self {
            queue,
            leadership,
            metrics,
            table: RwLock::default(),
            kind_limits: Mutex::new(kind_limits),
        }
    }

    /// Every controller, sorted by tenant and name.
    pub(super) fn all(&self) -> Vec<Arc<Registration>> {
        self.table.read().by_name.values().cloned().collect()
    }

    pub(super) fn by_name(
        &self,
        tenant: &TenantName,
        name: &ControllerName,
    ) -> Option<Arc<Registration>> {
        let name = (tenant.clone(), name.clone());
        self.table.read().by_name.get(&name).cloned()
    }

    pub(super) fn by_id(&self, id: ControllerId) -> Option<Arc<Registration>> {
        self.table.read().by_id.get(&id).cloned()
    }

    /// Registers a controller, or replaces the one of the same tenant and name. `held`: whether its keys wait for the lease.
    pub(super) fn put(&self, controller: Controller, held: bool) -> Arc<Registration> {
        let name = (controller.tenant.clone(), controller.name.clone());
        let options = self.queue_options(&controller);
        let known = self.table.read().by_name.get(&name).cloned();
        let registration = match known.or_else(|| self.revive(&name)) {
            Some(known) => {
                self.queue.set_controller(known.id, options);
                known.current.store(Arc::new(Current::new(controller)));
                known
            }
            None => self.register(name, controller, options),
        };
        self.queue.hold_controller(registration.id, held);
        registration
    }

    fn register(
        &self,
        name: FullName,
        controller: Controller,
        options: QueueOptions,
    ) -> Arc<Registration> {
        let registration = Arc::new(Registration {
            id: self.queue.add_controller(&name.0, name.1.clone(), options),
            metrics: self.metrics.controller(&name.0, &name.1),
            current: ArcSwap::from_pointee(Current::new(controller)),
            queue: self.queue.clone(),
            leadership: self.leadership.clone(),
            drained: Notify::new(),
            kinds: Mutex::default(),
            removed: Mutex::default(),
        });
        self.table.write().insert(name, &registration);
        registration
    }

    /// A controller that is put again before its last run has ended goes on with that run: a key must not run twice at once.
    fn revive(&self, name: &FullName) -> Option<Arc<Registration>> {
        let mut table = self.table.write();
        let known = table.leaving.remove(name)?;
        if !self.queue.revive_controller(known.id) {
            return None;
        }
        *known.removed.lock() = CancellationToken::new();
        table.insert(name.clone(), &known);
        Some(known)
    }

    /// Removes a controller and its keys. `None`: there is no such controller.
    pub(super) fn remove(&self, tenant: &TenantName, name: &ControllerName) -> Option<Removed> {
        let name = (tenant.clone(), name.clone());
        let mut table = self.table.write();
        let registration = table.by_name.remove(&name)?;
        table.by_id.remove(&registration.id);
        table.leaving.insert(name.clone(), registration.clone());
        let runs = self.queue.remove_controller(registration.id);
        Some(Removed {
            name,
            cancelled: registration.removed(),
            registration,
            runs,
        })
    }

    /// Forgets a removed controller after its runs have ended, unless it has been put again meanwhile.
    pub(super) fn forget(&self, removed: &Removed) {
        let mut table = self.table.write();
        // A token that is not cancelled belongs to a controller that has been put again and removed again.
        let is_same = |leaving: &Arc<Registration>| {
            leaving.removed().is_cancelled() && leaving.id == removed.registration.id
        };
        if table.leaving.get(&removed.name).is_some_and(is_same) {
            table.leaving.remove(&removed.name);
            self.metrics
                .forget_controller(&removed.registration.metrics);
        }
    }

    /// Changes the limits of controllers that have none of their own.
    pub(super) fn set_kind_limits(&self, limits: &BTreeMap<GroupKind, usize>) {
        self.kind_limits.lock().clone_from(limits);
        for registration in self.all() {
            let options = self.queue_options(&registration.controller());
            self.queue.set_controller(registration.id, options);
        }
    }

    /// How many keys of a controller run at once. `None`: as many as its tenant may have.
    pub(super) fn concurrency_of(&self, controller: &Controller) -> Option<usize> {
        let of_kind = || {
            let primary = controller.primary.as_ref()?;
            self.kind_limits.lock().get(&primary.group_kind()).copied()
        };
        let options = &controller.options;
        let of_any = options.concurrency.or_else(of_kind);
        of_any.into_iter().chain(options.most_concurrency).min()
    }

    fn queue_options(&self, controller: &Controller) -> QueueOptions {
        QueueOptions {
            concurrency: self.concurrency_of(controller),
            per_cluster: controller.options.concurrency_per_cluster,
            backoff: controller.options.backoff,
        }
    }
}
