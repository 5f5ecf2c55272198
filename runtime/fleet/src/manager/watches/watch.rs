//! One watch of one controller in one cluster: its state. Entry point: [`ActiveWatch`].
//!
//! The task that changes the state holds it weakly: the watch ends when it is dropped.
//!
//! Lock order: the state of a watch, then those of stores and of the queue, then the task's. What a watch gives up is dropped without the
//! lock, because the last use of a store, an index or another watch ends it.

use super::plan::WatchPlan;
use crate::cache::store::Store;
use crate::cluster::{Cluster, IndexUse, Pending, StoreUse};
use crate::name::ClusterName;
use crate::queue::Cause;
use crate::request::ObjectKey;
use crate::source::mapped::MappedEvents;
use crate::source::{Enqueue, SourceSink, WatchTask};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::DropGuard;

/// One watch of one controller in one cluster. Dropping it ends the watch.
pub(super) struct ActiveWatch {
    /// Ends its tasks.
    _end: DropGuard,
    task: Arc<dyn WatchTask>,
    cluster: Arc<Cluster>,
    plan: Arc<WatchPlan>,
    /// Whether its caches have been filled once, or cannot be: until then its controller's keys of the cluster are held. Beside the state,
    /// because the table of watches asks under its own lock.
    in_step: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    subscriptions: Vec<Subscription>,
    /// Held as long as the watch lives: an index goes with its last user.
    indexes: Vec<IndexUse>,
    startup: Startup,
    /// Why it does not run, while it does not.
    problem: Option<String>,
    /// Whether its controller was replaced, which may declare other indexes, and the task has not declared them yet.
    replaced: bool,
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

    fn visibility(&self, cluster: &Cluster, key: &ObjectKey) -> Visibility {
        let store = self.user.store();
        if let Some(problem) = &store.progress().borrow().problem {
            return Visibility::NotRunning(problem.message.clone());
        }
        let stored = cluster.scope().stored_key(key).ok();
        let Some((object, _)) = stored.and_then(|key| store.get(&key)) else {
            return Visibility::Absent;
        };
        match self.sink.why_left_out(&object) {
            Some(why) => Visibility::LeftOut(why),
            None => Visibility::Admitted(object.resource_version().to_string()),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.user.store().unsubscribe(self.id);
    }
}

impl ActiveWatch {
    /// A watch that has not begun: see [`Self::wake`]. `end` ends its tasks.
    pub(super) fn new(
        cluster: Arc<Cluster>,
        plan: Arc<WatchPlan>,
        startup: Startup,
        task: Arc<dyn WatchTask>,
        end: DropGuard,
    ) -> Self {
        let state = State {
            startup,
            ..State::default()
        };
        Self {
            _end: end,
            task,
            cluster,
            plan,
            in_step: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    pub(super) fn plan(&self) -> &WatchPlan {
        &self.plan
    }

    /// Has its task look for work. A watch begins with that.
    pub(super) fn wake(&self) {
        self.task.clone().wake();
    }

    /// Notes that its controller was replaced.
    pub(super) fn controller_replaced(&self) {
        self.state.lock().replaced = true;
        self.wake();
    }

    /// Whether its controller has been replaced since this was asked last.
    pub(super) fn take_replaced(&self) -> bool {
        std::mem::take(&mut self.state.lock().replaced)
    }

    pub(super) fn kind(&self) -> String {
        self.plan.watch.kind.to_string()
    }

    /// Whether the watch enqueues the controller's own objects.
    pub(super) fn is_primary(&self) -> bool {
        self.plan.watch.enqueue == Enqueue::Primary
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
        let own = self.state.lock().problem.clone();
        let problem =
            own.or_else(|| self.stores().iter().find_map(|store| cache_problem(store)))?;
        Some(format!(
            "{}: {}: {problem}",
            self.cluster.name(),
            self.kind()
        ))
    }

    /// Notes why the watch does not run, and logs it once.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        let before = std::mem::replace(&mut self.state.lock().problem, problem.clone());
        if let Some(problem) = problem.filter(|problem| before.as_ref() != Some(problem)) {
            tracing::warn!(cluster = %self.cluster.name(), kind = %self.plan.watch.kind, problem, "watch does not run");
        }
    }

    /// How it sees the object of a key.
    pub(super) fn visibility(&self, key: &ObjectKey) -> Visibility {
        let state = self.state.lock();
        if let Some(problem) = &state.problem {
            return Visibility::NotRunning(problem.clone());
        }
        let followed = state.subscriptions.iter();
        let each = followed.map(|followed| followed.visibility(&self.cluster, key));
        each.min().unwrap_or(Visibility::Starting)
    }

    /// Whether objects or requests wait for room in the queue.
    pub(super) fn owes(&self) -> bool {
        self.sinks().iter().any(|sink| sink.owes())
    }

    /// Whether it owes no object to its controller, and no mapped event waits for its code.
    pub(super) fn is_idle(&self) -> bool {
        let maps_nothing =
            |sink: &SourceSink| sink.mapped.as_deref().is_none_or(MappedEvents::is_idle);
        let sinks = self.sinks();
        sinks.iter().all(|sink| !sink.owes() && maps_nothing(sink))
    }

    /// The object and the reason of a mapper that failed last.
    pub(super) fn map_failure(&self) -> Option<String> {
        let sinks = self.sinks();
        sinks.iter().find_map(|sink| {
            let failure = sink.mapped.as_deref()?.failure()?;
            let (kind, cluster) = (&sink.watch.kind, sink.cluster.name());
            Some(format!("{kind} {failure} (cluster {:?})", cluster.as_str()))
        })
    }

    /// How many events wait for their code, and how many requests for deleted objects wait for room.
    pub(super) fn waiting(&self) -> (usize, usize) {
        self.sinks()
            .iter()
            .fold((0, 0), |(unmapped, missed), sink| {
                let events = sink.mapped.as_deref().map_or(0, MappedEvents::len);
                (unmapped + events, missed + sink.missed())
            })
    }

    /// Scans again for the requests that a mapper made for a cluster while the cluster was away.
    pub(super) fn cluster_arrived(&self, cluster: &ClusterName) {
        let sinks = self.sinks();
        let of_cluster = sinks.iter().filter(|sink| sink.has_target(cluster));
        of_cluster.for_each(|sink| sink.enqueue_all(Cause::Cluster));
    }

    /// Enqueues every object of the watch again.
    pub(super) fn enqueue_all(&self) {
        let sinks = self.sinks();
        sinks
            .iter()
            .for_each(|sink| sink.enqueue_all(Cause::Reload));
    }

    /// The sinks of its events: one for each store.
    pub(super) fn sinks(&self) -> Vec<Arc<SourceSink>> {
        self.each(|followed| followed.sink.clone())
    }

    /// The stores that it follows.
    pub(super) fn stores(&self) -> Vec<Arc<Store>> {
        self.each(|followed| followed.user.store().clone())
    }

    /// Holds on the stores that it follows, each with its sink.
    pub(super) fn store_uses(&self) -> Vec<(StoreUse, Arc<SourceSink>)> {
        self.each(|followed| (followed.user.clone(), followed.sink.clone()))
    }

    /// The store that one of its sinks follows.
    pub(super) fn store_of(&self, sink: &Arc<SourceSink>) -> Option<StoreUse> {
        let state = self.state.lock();
        let mut followed = state.subscriptions.iter();
        let followed = followed.find(|followed| Arc::ptr_eq(&followed.sink, sink))?;
        Some(followed.user.clone())
    }

    fn each<A>(&self, read: impl Fn(&Subscription) -> A) -> Vec<A> {
        self.state.lock().subscriptions.iter().map(read).collect()
    }

    pub(super) fn add_subscription(&self, subscription: Subscription) {
        let mut state = self.state.lock();
        // Nearly all watches have one.
        state.subscriptions.reserve_exact(1);
        state.subscriptions.push(subscription);
    }

    /// Replaces the subscription of the same sink.
    pub(super) fn replace_subscription(&self, subscription: Subscription) {
        let mut state = self.state.lock();
        let mut followed = state.subscriptions.iter_mut();
        let place = followed.find(|followed| Arc::ptr_eq(&followed.sink, &subscription.sink));
        let ended = match place {
            Some(place) => std::mem::replace(place, subscription),
            None => subscription,
        };
        drop(state);
        drop(ended);
    }

    /// Ends its subscriptions. Events that wait for the mapper are left to the next ones.
    pub(super) fn unsubscribe(&self) {
        let mut state = self.state.lock();
        let ended = std::mem::take(&mut state.subscriptions);
        for followed in &ended {
            followed.sink.close();
            if followed.sink.has_unfinished() {
                add(&mut state.startup.unfinished, [followed.sink.clone()]);
            }
        }
        drop(state);
        drop(ended);
    }

    /// Replaces the indexes that it uses.
    pub(super) fn set_indexes(&self, indexes: Vec<IndexUse>) {
        // Indexes that stay have been declared once more before they are released, and so are not filled anew.
        let before = std::mem::replace(&mut self.state.lock().indexes, indexes);
        drop(before);
    }

    /// Gives up all that it holds from before it has its caches, but for unfinished events: it has to wait for its kind, and nothing else
    /// waits for it.
    pub(super) fn stop_starting(&self) {
        let mut state = self.state.lock();
        let unfinished = std::mem::take(&mut state.startup.unfinished);
        let waiting = Startup {
            unfinished,
            ..Startup::default()
        };
        let held = std::mem::replace(&mut state.startup, waiting);
        drop(state);
        drop(held);
    }

    /// Gives the sinks that are not `known` the events that the replaced watches left unfinished. Each handles those that it selects. Ends
    /// the replaced watches once this one has `all` its caches.
    pub(super) fn take_over(&self, known: &[Arc<SourceSink>], all: bool) {
        let mut state = self.state.lock();
        let is_known = |sink: &Arc<SourceSink>| known.iter().any(|one| Arc::ptr_eq(one, sink));
        for followed in &state.subscriptions {
            if !is_known(&followed.sink) {
                let unfinished = state.startup.unfinished.iter();
                unfinished.for_each(|unfinished| followed.sink.inherit(unfinished));
            }
        }
        // Only now: both have had the events that came in between.
        let held = all.then(|| std::mem::take(&mut state.startup));
        drop(state);
        drop(held);
    }
}

/// Why a cache is not filled, unless its server cannot be reached.
fn cache_problem(store: &Store) -> Option<String> {
    let problem = store.progress().borrow().problem.clone()?;
    (!problem.unreachable).then_some(problem.message)
}

/// What a starting watch holds, so that nothing is listed anew and no event is lost where it replaces others. Empty once the watch has its
/// caches.
#[derive(Default)]
pub(super) struct Startup {
    /// The cluster is not ready before the watch has its caches.
    _pending: Option<Pending>,
    /// Caches of the replaced watches that it will use too.
    caches: Vec<StoreUse>,
    /// Replaced watches that see the same objects: they go on until it has its caches.
    replaced: Vec<Arc<ActiveWatch>>,
    /// Sinks of replaced watches with events that are not mapped yet. Several watches may replace one, and each handles those of the
    /// events that it selects.
    unfinished: Vec<Arc<SourceSink>>,
}

impl Startup {
    /// Of a watch in a cluster.
    pub(super) fn new(cluster: &Arc<Cluster>) -> Self {
        Self {
            _pending: Some(cluster.pending()),
            ..Self::default()
        }
    }

    /// Lets the watch, which has a plan, replace another one of its controller in the same cluster.
    pub(super) fn replace(&mut self, before: &Arc<ActiveWatch>, plan: &WatchPlan) {
        let would_use = |user: &StoreUse| plan.would_use(&before.cluster, user.store());
        let caches = before.each(|followed| followed.user.clone());
        add(&mut self.caches, caches.into_iter().filter(would_use));
        let (old, new) = (&before.plan.watch, &plan.watch);
        let mapped = |enqueue: &Enqueue| matches!(enqueue, Enqueue::Mapped(_));
        let same = old.enqueue == new.enqueue || mapped(&old.enqueue) && mapped(&new.enqueue);
        if old.kind != new.kind || !same {
            return;
        }
        // A watch that is starting itself passes on what it holds. Its sinks are read under the same lock, under which it hands
        // them the unfinished events.
        let state = before.state.lock();
        let sinks = state.subscriptions.iter().map(|of| of.sink.clone());
        add(&mut self.unfinished, sinks);
        let startup = &state.startup;
        add(&mut self.unfinished, startup.unfinished.iter().cloned());
        add(&mut self.caches, startup.caches.iter().cloned());
        let mut replaced = startup.replaced.clone();
        drop(state);
        replaced.push(before.clone());
        // Whether it sees exactly the objects that the new one will see.
        let is_like = |watch: &Arc<ActiveWatch>| {
            let stores = watch.stores();
            let would_use = |store: &Arc<Store>| plan.would_use(&watch.cluster, store);
            !stores.is_empty() && stores.iter().all(would_use)
        };
        add(&mut self.replaced, replaced.into_iter().filter(is_like));
    }
}

/// Adds those that are not there yet: a watch that is replaced again and again holds each once.
fn add<T>(to: &mut Vec<Arc<T>>, more: impl IntoIterator<Item = Arc<T>>) {
    for one in more {
        if !to.iter().any(|known| Arc::ptr_eq(known, &one)) {
            to.push(one);
        }
    }
}

/// How a watch sees an object, for the question why the object is not reconciled. The least of several watches explains most.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::manager) enum Visibility {
    /// It is cached in this version, and its events enqueue it.
    Admitted(String),
    /// It is cached, and the watch leaves it out for this reason.
    LeftOut(&'static str),
    /// The watch does not run, for this reason.
    NotRunning(String),
    /// The watch is starting.
    Starting,
    /// There is no such object.
    Absent,
}

impl Visibility {
    /// A sentence for people.
    pub(in crate::manager) fn describe(&self, kind: &str) -> String {
        match self {
            Self::Admitted(version) => format!(
                "nothing is left to do: the object is cached at version {version}, and no event has come since its last run"
            ),
            Self::LeftOut(why) => format!("the watch of {kind} leaves the object out: {why}"),
            Self::NotRunning(problem) => format!("the watch of {kind} does not run: {problem}"),
            Self::Starting => format!("the watch of {kind} is being brought up"),
            Self::Absent => format!(
                "there is no such {kind} in the cluster, as far as this reconciler may see: check namespace and name"
            ),
        }
    }
}
