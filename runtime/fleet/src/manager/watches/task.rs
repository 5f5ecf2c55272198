//! The task of one watch in one cluster: waits for its kind, opens its stores, and enqueues what is owed. Entry point: [`Task::run`].

use super::active::{ActiveWatch, Subscription};
use super::enqueue;
use super::links::WatchLinks;
use super::plan::NoStore;
use super::stores::{may_widen, store_key, widen};
use crate::cluster::{Backend, CrdArrival, IndexUse};
use crate::kind::Resource;
use crate::source::mapped::MappedEvents;
use crate::source::{ControllerQueue, Enqueue, SourceSink};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::Instrument;

/// How long a watch that got no cache waits before it asks for one again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The task of one watch in one cluster.
pub(super) struct Task {
    links: Arc<WatchLinks>,
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

impl Task {
    pub(super) fn new(links: Arc<WatchLinks>) -> Self {
        Self { links }
    }

    /// Brings the watch up, and works until nothing is left to do. It can be run again at any time: what is there already stays.
    pub(super) async fn run(self) {
        let Ok(backend) = self.links.cluster.connected().await else {
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
            if let Some(watch) = self.links.watch.upgrade() {
                watch.unsubscribe();
            }
            backend.discovery.forget(&self.links.plan.watch.kind);
        }
    }

    /// Follows the stores of the watch, such as are not refused.
    async fn follow(&self, backend: &Arc<Backend>, resource: &Arc<Resource>) -> End {
        let links = &self.links;
        Box::pin(self.declare_indexes(backend)).await;
        let known = links.sinks();
        let refused = self.subscribe(backend, resource).err();
        self.finish_startup(&known, !matches!(refused, Some(NoStore::TooMany(_))));
        let asks_again = match &refused {
            Some(NoStore::TooMany(_)) => true,
            // A grant does not change as long as the watch lives.
            Some(NoStore::Denied(_) | NoStore::NotInScope(_)) | None => false,
        };
        links.set_problem(refused.map(|refused| refused.to_string()));
        let mut again = asks_again.then(|| Box::pin(tokio::time::sleep(ASK_AGAIN)));
        let (mut enqueue, mut widening) = (None, None);
        loop {
            let Some(watch) = links.watch.upgrade() else {
                return End::Rest;
            };
            if watch.take_replaced() {
                Box::pin(self.declare_indexes(backend)).await;
                watch.sinks().iter().for_each(|sink| sink.look_again());
            }
            let progress: Vec<_> = watch.stores().iter().map(|s| s.progress()).collect();
            if progress.iter().any(|now| now.borrow().is_unserved()) {
                return End::Unserved;
            }
            if progress.iter().all(|now| now.borrow().is_decided()) {
                links.note_in_step();
            }
            match watch.owes() || links.resync().is_some() {
                true => {
                    _ = enqueue.get_or_insert_with(|| Box::pin(enqueue::run(links, watch.sinks())))
                }
                false => enqueue = None,
            }
            if watch.stores().iter().any(|store| may_widen(&store.key)) {
                widening.get_or_insert_with(|| Box::pin(widen(links, backend, resource)));
            }
            let waits = enqueue.is_some() || widening.is_some() || again.is_some();
            if !waits {
                match links.work.rest() {
                    true => return End::Rest,
                    false => continue,
                }
            }
            drop(watch);
            tokio::select! {
                () = links.work.woken() => {}
                () = reached(&mut enqueue) => {}
                () = reached(&mut widening) => widening = None,
                () = reached(&mut again) => return End::AskAgain,
            }
        }
    }

    /// Waits for the kind to be served.
    async fn resolve(&self, backend: &Arc<Backend>) -> Arc<Resource> {
        let kind = &self.links.plan.watch.kind;
        let mut arrival = None;
        loop {
            match backend.discovery.resolve(&backend.connection, kind).await {
                Ok(resource) => return resource,
                Err(error) => self.links.set_problem(Some(error.message)),
            }
            // A kind that is not there yet must not keep the cluster's other keys waiting.
            if let Some(watch) = self.links.watch.upgrade() {
                watch.with_startup(|startup| startup.release());
            }
            self.links.note_in_step();
            arrival
                .get_or_insert_with(|| CrdArrival::new(backend, kind))
                .wait()
                .await;
        }
    }

    async fn declare_indexes(&self, backend: &Backend) {
        let controller = self.links.registration.controller();
        let mut uses: Vec<IndexUse> = Vec::new();
        for ((kind, _), index) in controller.indexes.iter() {
            let used = backend.stores.declare_index(kind, &index.id, &index.path);
            uses.push(used.await);
        }
        if let Some(watch) = self.links.watch.upgrade() {
            watch.set_indexes(uses);
        }
    }

    /// Opens the stores of the watch and subscribes to each, but for those that it follows already.
    fn subscribe(&self, backend: &Arc<Backend>, resource: &Arc<Resource>) -> Result<(), NoStore> {
        let links = &self.links;
        let Some(watch) = links.watch.upgrade() else {
            return Ok(());
        };
        let followed = watch.sinks();
        for namespace in links.plan.namespaces(&links.cluster, resource)? {
            if followed.iter().any(|sink| sink.namespace == namespace) {
                continue;
            }
            let key = store_key(links, backend, resource, namespace.clone());
            let user = backend
                .stores
                .open(key, resource)
                .map_err(NoStore::TooMany)?;
            let sink = Arc::new(self.sink(backend, namespace));
            if sink.mapped.is_some() {
                self.run_mapper(&watch, &sink);
            }
            watch.add_subscription(Subscription::new(user, sink));
        }
        Ok(())
    }

    fn sink(&self, backend: &Arc<Backend>, namespace: Option<Arc<str>>) -> SourceSink {
        let WatchLinks {
            registration,
            cluster,
            plan,
            fleet,
            ..
        } = &*self.links;
        let queue: Arc<dyn ControllerQueue> = registration.clone();
        SourceSink {
            cluster: cluster.clone(),
            fleet: fleet.clone(),
            task: self.links.clone(),
            backend: backend.clone(),
            watch: plan.watch.clone(),
            grant: plan.grant.clone(),
            namespace,
            primary: plan.primary.clone(),
            index: plan.index.clone(),
            queue,
            origin: registration.origin(&plan.watch.kind),
            mapped: matches!(plan.watch.enqueue, Enqueue::Mapped(_)).then(Box::default),
            debts: OnceLock::new(),
        }
    }

    /// Runs the mapper of a sink's events. Code that maps is as busy as code that reconciles, so it has a task of its own.
    fn run_mapper(&self, watch: &ActiveWatch, sink: &Arc<SourceSink>) {
        let controller = self.links.registration.controller();
        // At `error`, as the span of a run is.
        let span =
            tracing::error_span!("map", tenant = %controller.tenant, reconciler = %controller.name);
        let events = MappedEvents::run(sink.clone()).instrument(span);
        let cluster = &self.links.cluster;
        crate::task::spawn(cluster.tasks(), cluster.host(), watch.mapping(), events);
    }

    /// Gives the watch's new sinks what the replaced watches left unfinished. Ends these once the watch has `all` its stores.
    fn finish_startup(&self, known: &[Arc<SourceSink>], all: bool) {
        let Some(watch) = self.links.watch.upgrade() else {
            return;
        };
        let done = watch.with_startup(|startup| {
            let mut new = watch.sinks();
            new.retain(|sink| !known.iter().any(|known| Arc::ptr_eq(known, sink)));
            startup.pass_on(&new);
            // Only now: both have had the events that came in between.
            all.then(|| startup.finish())
        });
        // Dropped without the lock.
        drop(done);
    }
}

/// Returns when a future is ready, if there is one.
async fn reached(future: &mut Option<impl Future<Output = ()> + Unpin>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
