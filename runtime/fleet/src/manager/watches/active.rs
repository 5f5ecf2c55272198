//! One watch of one controller in one cluster. Entry point: [`ActiveWatch`].
//!
//! It owns the state of the watch. Its task, which changes that state, holds it weakly: the watch ends when it is dropped.
//! The task lives while the watch has something to do or to wait for. A watch whose caches are filled and that owes no object is at rest,
//! without a task, until it is woken: of thousands of watches nearly all are.
//! Locks: `startup`, then `subscriptions`, then those of stores. The others are taken alone.

use super::links::WatchLinks;
use super::plan::WatchPlan;
use super::running::RunningWatches;
use super::startup::Startup;
use super::visibility::Visibility;
use super::work::Work;
use crate::cache::store::Store;
use crate::cluster::{Cluster, Fleet, IndexUse, StoreUse};
use crate::manager::registrations::Registration;
use crate::name::ClusterName;
use crate::queue::Cause;
use crate::request::ObjectKey;
use crate::source::mapped::MappedEvents;
use crate::source::{Enqueue, SourceSink, WatchTask};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tokio_util::sync::CancellationToken;

/// One watch of one controller in one cluster. Dropping it ends the watch.
pub(super) struct ActiveWatch {
    links: Arc<WatchLinks>,
    /// Set when its controller was replaced, which may declare other indexes, until the task has declared them.
    replaced: AtomicBool,
    subscriptions: Mutex<Vec<Subscription>>,
    /// Held as long as the watch lives: an index goes with its last user.
    indexes: Mutex<Vec<IndexUse>>,
    /// References that it holds until it has its caches.
    startup: Mutex<Startup>,
    /// Why it does not run, while it does not.
    problem: Mutex<Option<String>>,
    /// Whether its caches have been filled once, or cannot be: until then its controller's keys of the cluster are held.
    in_step: AtomicBool,
    /// Ends the tasks of its mapper, if it has one.
    mapping: Option<CancellationToken>,
}

/// A store that a watch follows.
pub(super) struct Subscription {
    user: StoreUse,
    id: u64,
    sink: Arc<SourceSink>,
}

impl Subscription {
    /// Subscribes a sink to a store.
    pub(super) fn new(user: StoreUse, sink: Arc<SourceSink>) -> Self {
        let id = user.store().subscribe(sink.clone());
        Self { user, id, sink }
    }

    /// Subscribes a sink to a store in place of another store that it follows until then.
    pub(super) fn moved(user: StoreUse, from: &StoreUse, sink: Arc<SourceSink>) -> Self {
        let id = user.store().take_over(sink.clone(), from.store());
        Self { user, id, sink }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.user.store().unsubscribe(self.id);
    }
}

impl Drop for ActiveWatch {
    fn drop(&mut self) {
        self.links.work.end();
        if let Some(mapping) = &self.mapping {
            mapping.cancel();
        }
    }
}

impl ActiveWatch {
    /// A watch that has not begun: see [`Self::wake`].
    pub(super) fn new(
        cluster: Arc<Cluster>,
        plan: Arc<WatchPlan>,
        startup: Startup,
        registration: Arc<Registration>,
        running: Weak<RunningWatches>,
        fleet: Fleet,
    ) -> Arc<Self> {
        let maps = matches!(plan.watch.enqueue, Enqueue::Mapped(_));
        Arc::new_cyclic(|watch| Self {
            mapping: maps.then(|| cluster.token().child_token()),
            links: Arc::new(WatchLinks {
                running,
                registration,
                watch: watch.clone(),
                cluster,
                plan,
                fleet,
                work: Work::default(),
            }),
            replaced: AtomicBool::new(false),
            subscriptions: Mutex::default(),
            indexes: Mutex::default(),
            startup: Mutex::new(startup),
            problem: Mutex::default(),
            in_step: AtomicBool::new(false),
        })
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.links.cluster
    }

    pub(super) fn plan(&self) -> &Arc<WatchPlan> {
        &self.links.plan
    }

    /// Has its task look for work. A watch begins with that.
    pub(super) fn wake(&self) {
        self.links.clone().wake();
    }

    /// Ends the tasks of its mapper, when the watch ends.
    pub(super) fn mapping(&self) -> CancellationToken {
        self.mapping.clone().unwrap_or_default()
    }

    /// Notes that its controller was replaced.
    pub(super) fn controller_replaced(&self) {
        self.replaced.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether its controller has been replaced since this was asked last.
    pub(super) fn take_replaced(&self) -> bool {
        self.replaced.swap(false, Ordering::AcqRel)
    }

    pub(super) fn kind(&self) -> String {
        self.plan().watch.kind.to_string()
    }

    /// Whether the watch enqueues the controller's own objects.
    pub(super) fn is_primary(&self) -> bool {
        self.plan().watch.enqueue == Enqueue::Primary
    }

    pub(super) fn is_in_step(&self) -> bool {
        self.in_step.load(Ordering::Acquire)
    }

    /// Notes that the watch keeps no key of its controller waiting any more. Returns whether that is new.
    pub(super) fn note_in_step(&self) -> bool {
        !self.in_step.swap(true, Ordering::AcqRel)
    }

    /// Why it does not run, or why its caches are not filled. A server that cannot be reached is its cluster's problem.
    pub(super) fn problem(&self) -> Option<String> {
        let cluster = self.cluster().name();
        let own = self.problem.lock().clone();
        let problem = own.or_else(|| self.cache_problem())?;
        Some(format!("{cluster}: {}: {problem}", self.plan().watch.kind))
    }

    fn cache_problem(&self) -> Option<String> {
        self.subscriptions.lock().iter().find_map(|subscription| {
            let progress = subscription.user.store().progress();
            let problem = progress.borrow().problem.clone()?;
            (!problem.unreachable).then_some(problem.message)
        })
    }

    /// Notes why the watch does not run. Returns whether that is a new problem.
    pub(super) fn set_problem(&self, problem: Option<&str>) -> bool {
        let mut known = self.problem.lock();
        let is_new = problem.is_some() && known.as_deref() != problem;
        *known = problem.map(str::to_owned);
        is_new
    }

    /// How it sees the object of a key.
    pub(super) fn visibility(&self, key: &ObjectKey) -> Visibility {
        if let Some(problem) = self.problem.lock().clone() {
            return Visibility::NotRunning(problem);
        }
        let subscriptions = self.subscriptions.lock();
        let each = subscriptions.iter().map(|subscription| {
            let store = subscription.user.store();
            let problem = store.progress().borrow().problem.clone();
            let stored = self.cluster().scope().stored_key(key).ok();
            let held = stored.and_then(|key| store.get(&key));
            match (problem, held) {
                (Some(problem), _) => Visibility::NotRunning(problem.message),
                (None, None) => Visibility::Absent,
                (None, Some((object, _))) => match subscription.sink.why_left_out(&object) {
                    Some(why) => Visibility::LeftOut(why),
                    None => Visibility::Admitted(object.resource_version().to_string()),
                },
            }
        });
        each.min_by_key(Visibility::rank)
            .unwrap_or(Visibility::Starting)
    }

    /// Whether objects or requests wait for room in the queue.
    pub(super) fn owes(&self) -> bool {
        let subscriptions = self.subscriptions.lock();
        subscriptions.iter().any(|of| of.sink.owes())
    }

    /// Whether it owes no object to its controller, and no mapped event waits for its code.
    pub(super) fn is_idle(&self) -> bool {
        self.subscriptions.lock().iter().all(|subscription| {
            let sink = &subscription.sink;
            !sink.owes() && sink.mapped.as_deref().is_none_or(MappedEvents::is_idle)
        })
    }

    /// How many events wait for their code, and how many requests for deleted objects wait for room.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let subscriptions = self.subscriptions.lock();
        let waiting = subscriptions.iter().map(|subscription| {
            let sink = &subscription.sink;
            let unmapped = sink.mapped.as_deref().map_or(0, MappedEvents::len);
            (unmapped, sink.missed())
        });
        waiting.fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Scans again for the requests that a mapper made for a cluster while the cluster was away.
    pub(super) fn cluster_arrived(&self, cluster: &ClusterName) {
        for subscription in self.subscriptions.lock().iter() {
            let sink = &subscription.sink;
            if sink.has_target(cluster) {
                sink.enqueue_all(Cause::Cluster);
            }
        }
    }

    /// Enqueues every object of the watch again.
    pub(super) fn enqueue_all(&self) {
        for subscription in self.subscriptions.lock().iter() {
            subscription.sink.enqueue_all(Cause::Reload);
        }
    }

    /// The sinks of its events: one for each store.
    pub(super) fn sinks(&self) -> Vec<Arc<SourceSink>> {
        let subscriptions = self.subscriptions.lock();
        subscriptions.iter().map(|of| of.sink.clone()).collect()
    }

    /// The stores that it follows.
    pub(super) fn stores(&self) -> Vec<Arc<Store>> {
        let subscriptions = self.subscriptions.lock();
        let stores = subscriptions.iter().map(|of| of.user.store().clone());
        stores.collect()
    }

    /// Holds on the stores that it follows, each with its sink.
    pub(super) fn store_uses(&self) -> Vec<(StoreUse, Arc<SourceSink>)> {
        let subscriptions = self.subscriptions.lock();
        let uses = subscriptions.iter();
        uses.map(|of| (of.user.clone(), of.sink.clone())).collect()
    }

    pub(super) fn add_subscription(&self, subscription: Subscription) {
        let mut subscriptions = self.subscriptions.lock();
        // Nearly all watches have one.
        subscriptions.reserve_exact(1);
        subscriptions.push(subscription);
    }

    /// Replaces the subscription of the same sink.
    pub(super) fn replace_subscription(&self, subscription: Subscription) {
        let replaced = {
            let mut subscriptions = self.subscriptions.lock();
            subscriptions
                .iter_mut()
                .find(|of| Arc::ptr_eq(&of.sink, &subscription.sink))
                .map(|of| std::mem::replace(of, subscription))
        };
        // Unsubscribes from the store without the lock.
        drop(replaced);
    }

    /// Ends its subscriptions. Events that wait for the mapper are left to the next ones.
    pub(super) fn unsubscribe(&self) {
        let subscriptions = std::mem::take(&mut *self.subscriptions.lock());
        for subscription in &subscriptions {
            subscription.sink.close();
        }
        let sinks = subscriptions.iter().map(|of| of.sink.clone());
        self.startup.lock().leave(sinks);
        drop(subscriptions);
    }

    /// Replaces the indexes that it uses.
    pub(super) fn set_indexes(&self, indexes: Vec<IndexUse>) {
        // Indexes that stay have been declared once more before they are released, and so are not filled anew.
        let before = std::mem::replace(&mut *self.indexes.lock(), indexes);
        drop(before);
    }

    /// Changes the references that it holds until it has its caches.
    pub(super) fn with_startup<A>(&self, change: impl FnOnce(&mut Startup) -> A) -> A {
        change(&mut self.startup.lock())
    }

    /// Holds on those of its caches that another watch in its place would use too.
    pub(super) fn caches_for(&self, plan: &WatchPlan) -> Vec<StoreUse> {
        let subscriptions = self.subscriptions.lock();
        let users = subscriptions.iter().map(|of| of.user.clone());
        users
            .filter(|user| plan.would_use(self.cluster(), user.store()))
            .collect()
    }

    /// Whether it sees exactly the objects that another watch in its place would see.
    pub(super) fn is_like(&self, plan: &WatchPlan) -> bool {
        let all = self.subscriptions.lock();
        let would_use = |of: &Subscription| plan.would_use(self.cluster(), of.user.store());
        !all.is_empty() && all.iter().all(would_use)
    }
}
