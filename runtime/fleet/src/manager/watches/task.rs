//! The task of one watch in one cluster: waits for its kind, opens its stores, and enqueues what is owed. Entry point: [`start`].
//!
//! The task lives while the watch has something to do or to wait for. A watch whose caches are filled and that owes no object is at rest,
//! without a task, until it is woken: of thousands of watches nearly all are.
//!
//! A watch follows a store of its own selection as long as nobody needs the rest of the kind, else one of the whole kind.

use super::enqueue;
use super::plan::{NoStore, WatchPlan};
use super::running::RunningWatches;
use super::watch::{ActiveWatch, Startup, Subscription};
use crate::cache::store::{Store, StoreKey};
use crate::cluster::{Backend, Cluster, CrdArrival, Fleet, IndexUse, StoreUse};
use crate::kind::Resource;
use crate::manager::registrations::Registration;
use crate::source::mapped::MappedEvents;
use crate::source::{Enqueue, SourceSink, WatchTask};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// How long a watch that got no cache waits before it asks for one again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The task of one watch in one cluster.
///
/// Sinks hold this and not the watch: a sink is woken under the lock of its store, where the last reference to a watch must not be dropped.
/// A watch that is dropped unsubscribes from the store.
struct Task {
    running: Weak<RunningWatches>,
    registration: Arc<Registration>,
    /// Held weakly, because its end ends the task.
    watch: Weak<ActiveWatch>,
    cluster: Arc<Cluster>,
    plan: Arc<WatchPlan>,
    fleet: Fleet,
    /// Cancelled when the watch ends.
    ended: CancellationToken,
    wakes: Wakes,
}

/// Why a task does not follow its stores any more.
enum End {
    /// Nothing is left to do.
    Rest,
    /// Stores that were refused are to be asked for again.
    AskAgain,
    /// The server does not serve the kind any more.
    Unserved,
}

/// Starts a watch of a controller in a cluster.
pub(super) fn start(
    registration: &Arc<Registration>,
    cluster: &Arc<Cluster>,
    plan: Arc<WatchPlan>,
    startup: Startup,
    running: &Arc<RunningWatches>,
    fleet: &Fleet,
) -> Arc<ActiveWatch> {
    let ended = cluster.token().child_token();
    let watch = Arc::new_cyclic(|watch| {
        let task = Arc::new(Task {
            running: Arc::downgrade(running),
            registration: registration.clone(),
            watch: watch.clone(),
            cluster: cluster.clone(),
            plan: plan.clone(),
            fleet: fleet.clone(),
            ended: ended.clone(),
            wakes: Wakes::default(),
        });
        ActiveWatch::new(cluster.clone(), plan, startup, task, ended.drop_guard())
    });
    watch.wake();
    watch
}

impl WatchTask for Task {
    fn wake(self: Arc<Self>) {
        if self.wakes.starts() {
            self.spawn(self.clone().run());
        }
    }
}

impl Task {
    /// Runs a task of the watch, until the watch ends.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (tasks, host) = (self.cluster.tasks(), self.cluster.host());
        crate::task::spawn(tasks, host, self.ended.clone(), task);
    }

    /// Brings the watch up, and works until nothing is left to do. It can be run again at any time: what is there already stays.
    async fn run(self: Arc<Self>) {
        let Ok(backend) = self.cluster.connected().await else {
            return;
        };
        loop {
            // In boxes that are freed afterwards: what waits now takes little meanwhile.
            let resource = Box::pin(self.resolve(&backend)).await;
            match Box::pin(self.follow(&backend, &resource)).await {
                End::Rest => return,
                End::AskAgain => continue,
                End::Unserved => {}
            }
            if let Some(watch) = self.watch.upgrade() {
                watch.unsubscribe();
            }
            backend.discovery.forget(&self.plan.watch.kind);
        }
    }

    /// Waits for the kind to be served.
    async fn resolve(&self, backend: &Arc<Backend>) -> Arc<Resource> {
        let kind = &self.plan.watch.kind;
        let mut arrival = None;
        loop {
            let error = match backend.resolve(kind).await {
                Ok(resource) => return resource,
                Err(error) => error,
            };
            // A kind that is not there yet must not keep the cluster's other keys waiting.
            if let Some(watch) = self.watch.upgrade() {
                watch.set_problem(Some(error.message));
                watch.stop_starting();
                self.note_in_step(&watch);
            }
            arrival
                .get_or_insert_with(|| CrdArrival::new(backend, kind))
                .wait()
                .await;
        }
    }

    /// Follows the stores of the watch, such as are not refused.
    async fn follow(self: &Arc<Self>, backend: &Arc<Backend>, resource: &Arc<Resource>) -> End {
        Box::pin(self.declare_indexes(backend)).await;
        let watch = self.watch.upgrade();
        let Some(asks_again) = watch.map(|watch| self.bring_up(&watch, backend, resource)) else {
            return End::Rest;
        };
        let mut again = asks_again.then(|| Box::pin(tokio::time::sleep(ASK_AGAIN)));
        let (mut enqueue, mut widening) = (None, None);
        loop {
            let Some(watch) = self.watch.upgrade() else {
                return End::Rest;
            };
            if watch.take_replaced() {
                Box::pin(self.declare_indexes(backend)).await;
                watch.sinks().iter().for_each(|sink| sink.look_again());
            }
            let stores = watch.stores();
            let progress: Vec<_> = stores.iter().map(|store| store.progress()).collect();
            if progress.iter().any(|now| now.borrow().is_unserved()) {
                return End::Unserved;
            }
            if progress.iter().all(|now| now.borrow().is_decided()) {
                self.note_in_step(&watch);
            }
            if !watch.owes() && self.registration.resync().is_none() {
                enqueue = None;
            } else if enqueue.is_none() {
                let run = enqueue::run(&self.registration, &self.watch, watch.sinks());
                enqueue = Some(Box::pin(run));
            }
            if widening.is_none() && stores.iter().any(|store| store.key.is_narrow()) {
                widening = Some(Box::pin(self.widen(backend, resource)));
            }
            if enqueue.is_none() && widening.is_none() && again.is_none() {
                if self.wakes.rest() {
                    return End::Rest;
                }
                continue;
            }
            drop((watch, stores, progress));
            tokio::select! {
                () = self.wakes.woken() => {}
                () = reached(&mut enqueue) => {}
                () = reached(&mut widening) => widening = None,
                () = reached(&mut again) => return End::AskAgain,
            }
        }
    }

    async fn declare_indexes(&self, backend: &Backend) {
        let controller = self.registration.controller();
        let mut uses: Vec<IndexUse> = Vec::new();
        for ((kind, _), index) in controller.indexes.iter() {
            let used = backend.stores.declare_index(kind, &index.id, &index.path);
            uses.push(used.await);
        }
        if let Some(watch) = self.watch.upgrade() {
            watch.set_indexes(uses);
        }
    }

    /// Follows the stores of the watch that are not refused. Returns whether to ask again for the others: a grant does not change as long
    /// as the watch lives.
    fn bring_up(
        self: &Arc<Self>,
        watch: &ActiveWatch,
        backend: &Arc<Backend>,
        resource: &Arc<Resource>,
    ) -> bool {
        let known = watch.sinks();
        let refused = self.subscribe(watch, &known, backend, resource).err();
        let asks_again = matches!(refused, Some(NoStore::TooMany(_)));
        watch.take_over(&known, !asks_again);
        watch.set_problem(refused.map(|refused| refused.to_string()));
        asks_again
    }

    /// Opens the stores of the watch and subscribes to each, but for those that it follows already.
    fn subscribe(
        self: &Arc<Self>,
        watch: &ActiveWatch,
        followed: &[Arc<SourceSink>],
        backend: &Arc<Backend>,
        resource: &Arc<Resource>,
    ) -> Result<(), NoStore> {
        for namespace in self.plan.namespaces(&self.cluster, resource)? {
            if followed.iter().any(|sink| sink.namespace == namespace) {
                continue;
            }
            let key = self.store_key(backend, resource, namespace.clone());
            let user = backend
                .stores
                .open(key, resource)
                .map_err(NoStore::TooMany)?;
            let sink = Arc::new(self.sink(backend, namespace));
            if sink.mapped.is_some() {
                self.run_mapper(&sink);
            }
            watch.add_subscription(Subscription::new(user, sink));
        }
        Ok(())
    }

    fn sink(self: &Arc<Self>, backend: &Arc<Backend>, namespace: Option<Arc<str>>) -> SourceSink {
        let plan = &self.plan;
        SourceSink {
            cluster: self.cluster.clone(),
            fleet: self.fleet.clone(),
            task: self.clone(),
            backend: backend.clone(),
            watch: plan.watch.clone(),
            grant: plan.grant.clone(),
            namespace,
            primary: plan.primary.clone(),
            index: plan.index.clone(),
            queue: self.registration.clone(),
            origin: self.registration.origin(&plan.watch.kind),
            mapped: matches!(plan.watch.enqueue, Enqueue::Mapped(_)).then(Box::default),
            debts: OnceLock::new(),
        }
    }

    /// Runs the mapper of a sink's events. Code that maps is as busy as code that reconciles, so it has a task of its own.
    fn run_mapper(&self, sink: &Arc<SourceSink>) {
        let controller = self.registration.controller();
        // At `error`, as the span of a run is.
        let span =
            tracing::error_span!("map", tenant = %controller.tenant, reconciler = %controller.name);
        self.spawn(MappedEvents::run(sink.clone()).instrument(span));
    }

    /// Notes that the watch keeps no key of its controller waiting any more.
    fn note_in_step(&self, watch: &ActiveWatch) {
        if let Some(running) = self.running.upgrade()
            && watch.note_in_step()
        {
            running.settle(&self.registration, self.cluster.name());
        }
    }

    /// The store to use: one of everything if there is one, else one of the namespace. A watch's selector filters its source; it
    /// scopes the store too as long as nobody needs the rest of the kind.
    fn store_key(
        &self,
        backend: &Backend,
        resource: &Resource,
        namespace: Option<Arc<str>>,
    ) -> StoreKey {
        let (labels, fields) = self.plan.selectors();
        let mut key = StoreKey::whole(resource.kind.clone(), None, self.plan.watch.projection);
        // Only the server can compare fields.
        key.field_selector = fields;
        let is_there = |stores: &[Arc<Store>]| stores.iter().any(|store| store.key == key);
        if backend.stores.with_kind(&resource.kind, is_there) {
            return key;
        }
        // One store of the whole server serves all clusters that are parts of it.
        key.namespace = namespace.filter(|_| self.cluster.scope().is_whole());
        let of_server = !resource.kind.is_of_host();
        if !labels.is_empty() && of_server && self.is_only_selection(backend, &labels) {
            key.label_selector = labels;
        }
        key
    }

    /// Whether every user of the kind has this selector.
    fn is_only_selection(&self, backend: &Backend, labels: &str) -> bool {
        let kind = &self.plan.watch.kind;
        let Some(running) = self.running.upgrade() else {
            return false;
        };
        let same_stores = backend.stores.with_kind(kind, |stores| {
            stores
                .iter()
                .all(|store| &*store.key.label_selector == labels)
        });
        same_stores && running.all_select(kind, &self.cluster, labels)
    }

    /// Moves the watch from a store of a selection or of a namespace to one of the whole kind, as soon as somebody needs the rest of
    /// it. The way back is never taken. Returns once it has moved.
    async fn widen(&self, backend: &Arc<Backend>, resource: &Arc<Resource>) {
        let mut published = backend.stores.published();
        loop {
            let Some(watch) = self.watch.upgrade() else {
                return std::future::pending().await;
            };
            let scoped = watch.store_uses().into_iter().find_map(|(user, sink)| {
                let key = self.store_key(backend, resource, sink.namespace.clone());
                key.is_wider_than(&user.store().key)
                    .then_some((user, sink, key))
            });
            drop(watch);
            if let Some((old, sink, key)) = scoped {
                return match backend.stores.open(key, resource) {
                    Ok(user) => Box::pin(self.follow_instead(user, &old, sink)).await,
                    Err(problem) => {
                        tracing::warn!(cluster = %self.cluster.name(), kind = %self.plan.watch.kind, %problem, "watch stays with its selection");
                        std::future::pending().await
                    }
                };
            }
            if published.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Moves a sink to another store. The old one serves until the new one knows as much.
    async fn follow_instead(&self, user: StoreUse, old: &StoreUse, sink: Arc<SourceSink>) {
        let mut progress = user.store().progress();
        if progress.wait_for(|progress| progress.synced).await.is_err() {
            return;
        }
        if let Some(watch) = self.watch.upgrade() {
            watch.replace_subscription(Subscription::moved(user, old, sink));
        }
    }
}

/// Returns when a future is ready, if there is one.
async fn reached(future: &mut Option<impl Future<Output = ()> + Unpin>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Wakes of a task that ends when it has nothing to do.
///
/// **Invariant: no wake is lost.** A wake is noted under the lock under which the task ends, so it reaches the task or starts the next one.
#[derive(Default)]
struct Wakes {
    /// Whether there is a task.
    is_busy: Mutex<bool>,
    /// Has a permit once the task has been woken, until it looks for work.
    woken: Notify,
}

impl Wakes {
    /// Wakes the task. `true`: there is none, and the caller must start one.
    #[must_use]
    fn starts(&self) -> bool {
        let mut is_busy = self.is_busy.lock();
        if *is_busy {
            self.woken.notify_one();
        }
        !std::mem::replace(&mut *is_busy, true)
    }

    /// Waits until the task has been woken. Dropping the future loses no wake.
    async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Ends the task's work, unless it has been woken again. If this returns `true`, the task must end.
    #[must_use]
    fn rest(&self) -> bool {
        let mut is_busy = self.is_busy.lock();
        *is_busy = pin!(self.woken.notified()).enable();
        !*is_busy
    }
}

#[cfg(test)]
mod tests {
    use super::Wakes;

    #[tokio::test]
    async fn a_watch_at_rest_is_started_by_a_wake_and_a_busy_one_is_woken() {
        let wakes = Wakes::default();
        assert!(wakes.starts());
        assert!(!wakes.starts());
        assert!(!wakes.rest(), "it was woken meanwhile");
        assert!(wakes.rest(), "that wake has been looked at");
        assert!(wakes.starts());
        assert!(!wakes.starts());
        wakes.woken().await;
        assert!(wakes.rest(), "the task has looked for work since");
    }
}
