//! The task of one watch in one cluster: waits for its kind, opens its stores and follows them. Entry point: [`Task::run`].

use super::active::Subscription;
use super::enqueue;
use super::links::WatchLinks;
use super::plan::NoStore;
use super::stores::{store_key, unserved, widen};
use crate::cache::store::Progress;
use crate::cluster::{Backend, CrdArrival, Fleet, IndexUse};
use crate::kind::Resource;
use crate::source::mapped::MappedEvents;
use crate::source::rescan::Rescan;
use crate::source::{ControllerQueue, Enqueue, SourceSink};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// How long a watch that got no cache waits before it asks for one again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The task of one watch in one cluster.
pub(super) struct Task {
    pub(super) links: WatchLinks,
    pub(super) host: Handle,
    pub(super) fleet: Fleet,
    /// Notified when the controller of the watch was replaced.
    pub(super) replaced: Arc<Notify>,
    pub(super) token: CancellationToken,
}

impl Task {
    /// Brings the watch up and follows its stores, until it is dropped.
    pub(super) async fn run(self) {
        let Ok(backend) = self.links.cluster.connected().await else {
            return;
        };
        loop {
            // In boxes that are freed afterwards: what waits now takes little while the watch runs.
            let resource = Box::pin(self.resolve(&backend)).await;
            Box::pin(self.declare_indexes(&backend)).await;
            while self.follow(&backend, &resource).await {}
            if let Some(watch) = self.links.watch.upgrade() {
                watch.unsubscribe();
            }
            backend.discovery.forget(&self.links.plan.watch.kind);
        }
    }

    /// Follows the stores of the watch. Returns whether to go on, with such stores as were refused; if not, the kind is not served
    /// any more.
    async fn follow(&self, backend: &Arc<Backend>, resource: &Arc<Resource>) -> bool {
        let links = &self.links;
        let known = links.sinks();
        let refused = self.subscribe(backend, resource).err();
        self.finish_startup(&known, !matches!(refused, Some(NoStore::TooMany(_))));
        let asks_again = match &refused {
            Some(NoStore::TooMany(_)) => true,
            // A grant does not change as long as the watch lives.
            Some(NoStore::Denied(_) | NoStore::NotInScope(_)) | None => false,
        };
        links.set_problem(refused.map(|refused| refused.to_string()));
        let enqueue = enqueue::run(links, links.sinks());
        tokio::pin!(enqueue);
        let again = ask_again(asks_again);
        tokio::pin!(again);
        let filled = self.filled();
        tokio::pin!(filled);
        loop {
            tokio::select! {
                () = &mut enqueue => {}
                () = &mut filled => {}
                () = self.replaced.notified() => {
                    Box::pin(self.declare_indexes(backend)).await;
                    links.sinks().iter().for_each(|sink| sink.rescan.wake());
                }
                () = widen(links, backend, resource) => {}
                () = &mut again => return true,
                () = unserved(links.stores()) => return false,
            }
        }
    }

    /// Notes once the caches of the watch are filled, or cannot be. Never returns.
    async fn filled(&self) {
        for store in self.links.stores() {
            // The sender lives as long as the store.
            let _ = store.progress().wait_for(Progress::is_decided).await;
        }
        self.links.note_in_step();
        std::future::pending().await
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
                self.run_mapper(&sink);
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
            ..
        } = &self.links;
        let queue: Arc<dyn ControllerQueue> = registration.clone();
        SourceSink {
            cluster: cluster.clone(),
            fleet: self.fleet.clone(),
            backend: backend.clone(),
            watch: plan.watch.clone(),
            grant: plan.grant.clone(),
            namespace,
            primary: plan.primary.clone(),
            index: plan.index.clone(),
            queue,
            origin: registration.origin(&plan.watch.kind),
            mapped: matches!(plan.watch.enqueue, Enqueue::Mapped(_)).then(Box::default),
            rescan: Rescan::default(),
            missed: Mutex::default(),
            settled: Notify::new(),
            targets: Mutex::default(),
        }
    }

    /// Runs the mapper of a sink's events. Code that maps is as busy as code that reconciles, so it has a task of its own.
    fn run_mapper(&self, sink: &Arc<SourceSink>) {
        let controller = self.links.registration.controller();
        let span =
            tracing::info_span!("map", tenant = %controller.tenant, reconciler = %controller.name);
        let events = MappedEvents::run(sink.clone()).instrument(span);
        let tasks = self.links.cluster.tasks();
        crate::task::spawn(tasks, &self.host, self.token.clone(), events);
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

/// Returns when stores that were refused are to be asked for again, if any were.
async fn ask_again(refused: bool) {
    if !refused {
        return std::future::pending().await;
    }
    Box::pin(tokio::time::sleep(ASK_AGAIN)).await;
}
