//! The task of one watch in one cluster: waits for its kind, opens its stores and follows them. Entry point: [`Task::run`].

use super::moves::unserved;
use super::what::{NoStore, What};
use super::{Source, Subscription};
use crate::cache::store::{Progress, StoreKey};
use crate::cluster::{Backend, Cluster, CrdArrival, IndexUse};
use crate::kind::Resource;
use crate::manager::controllers::Registered;
use crate::manager::core::Core;
use crate::source::mapped::MappedEvents;
use crate::source::rescan::Rescan;
use crate::source::{Enqueue, Offer, SourceSink, Watch};
use parking_lot::Mutex;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// How long a watch that got no cache waits before it asks for one again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The task of a source. Holds the source weakly: the source's end is what ends the task.
pub(super) struct Task {
    pub(super) core: Weak<Core>,
    pub(super) registered: Weak<Registered>,
    pub(super) source: Weak<Source>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) replaced: Arc<Notify>,
    pub(super) what: What,
    pub(super) token: CancellationToken,
}

impl Task {
    /// Brings the watch up and follows its stores, until it is dropped.
    pub(super) async fn run(self) {
        let Ok(backend) = self.cluster.connected().await else {
            return;
        };
        loop {
            let resource = self.resolve(&backend).await;
            self.declare_indexes(&backend).await;
            while self.follow(&backend, &resource).await {}
            self.unsubscribe();
            backend.discovery.forget(&self.what.watch.kind);
        }
    }

    /// Follows the stores of the watch. Returns whether to go on, with such stores as were refused; if not, the kind is not served
    /// any more.
    async fn follow(&self, backend: &Arc<Backend>, resource: &Arc<Resource>) -> bool {
        let known = self.sinks();
        let refused = self.subscribe(backend, resource).err();
        self.succeed(&known, !matches!(refused, Some(NoStore::Crowded(_))));
        let again = match &refused {
            Some(NoStore::Crowded(_)) => ASK_AGAIN,
            // What is not granted stays so for as long as the watch lives.
            Some(NoStore::Denied(_)) | None => Duration::MAX,
        };
        self.set_problem(refused.map(|refused| refused.to_string()));
        let serve = self.serve(self.sinks());
        tokio::pin!(serve);
        let again = tokio::time::sleep(again);
        tokio::pin!(again);
        let filled = self.filled();
        tokio::pin!(filled);
        loop {
            tokio::select! {
                () = &mut serve => {}
                () = &mut filled => {}
                () = self.replaced.notified() => {
                    self.declare_indexes(backend).await;
                    self.sinks().iter().for_each(|sink| sink.rescan.wake());
                }
                () = self.widen(backend, resource) => {}
                () = &mut again => return true,
                () = unserved(self.stores()) => return false,
            }
        }
    }

    /// Notes once the caches of the watch are filled, or cannot be. Never returns.
    async fn filled(&self) {
        for store in self.stores() {
            // The sender lives as long as the store.
            let _ = store.progress().wait_for(Progress::is_decided).await;
        }
        self.note_in_step();
        std::future::pending().await
    }

    /// The watch keeps no key of its controller waiting any more.
    fn note_in_step(&self) {
        let (Some(core), Some(registered), Some(source)) = (
            self.core.upgrade(),
            self.registered.upgrade(),
            self.source.upgrade(),
        ) else {
            return;
        };
        if !source.in_step.swap(true, Ordering::AcqRel) {
            core.settle(&registered, self.cluster.name());
        }
    }

    /// Waits for the kind to be served.
    async fn resolve(&self, backend: &Arc<Backend>) -> Arc<Resource> {
        let kind = &self.what.watch.kind;
        let mut arrival = None;
        loop {
            match backend.discovery.resolve(&backend.connection, kind).await {
                Ok(resource) => return resource,
                Err(error) => self.set_problem(Some(error.message)),
            }
            // A kind that is not there yet must not keep the cluster's other keys waiting.
            if let Some(source) = self.source.upgrade() {
                source.start.lock().let_go();
            }
            self.note_in_step();
            arrival
                .get_or_insert_with(|| CrdArrival::new(backend, kind))
                .wait()
                .await;
        }
    }

    /// Notes why the watch does not run, and logs it once.
    fn set_problem(&self, problem: Option<String>) {
        let Some(source) = self.source.upgrade() else {
            return;
        };
        let mut known = source.problem.lock();
        if let Some(problem) = &problem
            && known.as_ref() != Some(problem)
        {
            tracing::warn!(cluster = %self.cluster.name(), kind = %self.what.watch.kind, problem, "watch does not run");
        }
        *known = problem;
    }

    async fn declare_indexes(&self, backend: &Backend) {
        let Some(registered) = self.registered.upgrade() else {
            return;
        };
        let controller = registered.controller();
        drop(registered);
        let mut uses: Vec<IndexUse> = Vec::new();
        for ((kind, _), index) in controller.indexes.iter() {
            let used = backend.stores.declare_index(kind, &index.id, &index.path);
            uses.push(used.await);
        }
        let Some(source) = self.source.upgrade() else {
            return;
        };
        // Those that stay have been declared once more before they are let go, and so are not filled anew.
        let before = std::mem::replace(&mut *source.indexes.lock(), uses);
        drop(before);
    }

    /// Opens the stores of the watch and subscribes to each, but for those that it follows already.
    fn subscribe(&self, backend: &Arc<Backend>, resource: &Arc<Resource>) -> Result<(), NoStore> {
        let (Some(core), Some(registered), Some(source)) = (
            self.core.upgrade(),
            self.registered.upgrade(),
            self.source.upgrade(),
        ) else {
            return Ok(());
        };
        let followed = self.sinks();
        for namespace in self.what.namespaces(&self.cluster, resource)? {
            if followed.iter().any(|sink| sink.namespace == namespace) {
                continue;
            }
            let key = self.store_key(backend, resource, namespace.clone());
            let user = backend
                .stores
                .open(key, resource)
                .map_err(NoStore::Crowded)?;
            let offer: Arc<dyn Offer> = registered.clone();
            let sink = Arc::new(SourceSink {
                cluster: self.cluster.clone(),
                fleet: core.fleet.clone(),
                backend: backend.clone(),
                watch: self.what.watch.clone(),
                grant: self.what.grant.clone(),
                namespace,
                primary: self.what.primary.clone(),
                index: self.what.index.clone(),
                offer,
                origin: registered.origin(&self.what.watch.kind),
                mapped: matches!(self.what.watch.enqueue, Enqueue::Mapped(_))
                    .then(MappedEvents::default),
                rescan: Rescan::default(),
                missed: Mutex::default(),
                settled: Notify::new(),
                targets: Mutex::default(),
            });
            if sink.mapped.is_some()
                && let Some(core) = self.core.upgrade()
            {
                let controller = registered.controller();
                let span = tracing::info_span!("map", tenant = %controller.tenant, reconciler = %controller.name);
                let (token, events) = (self.token.clone(), MappedEvents::run(sink.clone()));
                let events = async move { token.run_until_cancelled(events).await };
                // Code that maps is as busy as code that reconciles.
                self.cluster
                    .tasks()
                    .spawn_on(events.instrument(span), &core.host);
            }
            let id = user.store().subscribe(sink.clone());
            source
                .subscriptions
                .lock()
                .push(Subscription { user, id, sink });
        }
        Ok(())
    }

    /// The watch has more caches than those it knew: what the watches before it were to tell still is told there. Once it has `all`,
    /// those before it end.
    fn succeed(&self, known: &[Arc<SourceSink>], all: bool) {
        let Some(source) = self.source.upgrade() else {
            return;
        };
        let mut start = source.start.lock();
        let mut heirs = source.sinks();
        heirs.retain(|sink| !known.iter().any(|known| Arc::ptr_eq(known, sink)));
        start.tell(&heirs);
        // Only now: what came in between was told to both.
        let done = all.then(|| start.succeed());
        drop(start);
        drop(done);
    }

    /// Where the watch's events go now.
    fn sinks(&self) -> Vec<Arc<SourceSink>> {
        let source = self.source.upgrade();
        source.map(|source| source.sinks()).unwrap_or_default()
    }

    /// The store to use: one of everything if there is one, else one of the namespace. A watch's selector filters its source; it
    /// scopes the store too as long as nobody needs the rest of the kind.
    pub(super) fn store_key(
        &self,
        backend: &Backend,
        resource: &Resource,
        namespace: Option<Arc<str>>,
    ) -> StoreKey {
        let (labels, fields) = self.what.selectors();
        let mut key = StoreKey::whole(resource.kind.clone(), None, self.what.watch.projection);
        // Only the server can tell fields.
        key.field_selector = fields;
        let there = |key: &StoreKey| {
            backend.stores.with_kind(&resource.kind, |stores| {
                stores.iter().any(|store| store.key == *key)
            })
        };
        if there(&key) {
            return key;
        }
        key.namespace = namespace;
        if !labels.is_empty() && self.alone(backend, &labels) {
            key.label_selector = labels;
        }
        key
    }

    /// Whether every user of the kind has this selector.
    fn alone(&self, backend: &Backend, labels: &str) -> bool {
        let kind = &self.what.watch.kind;
        let Some(core) = self.core.upgrade() else {
            return false;
        };
        let same_stores = backend.stores.with_kind(kind, |stores| {
            stores
                .iter()
                .all(|store| &*store.key.label_selector == labels)
        });
        let has_provider = core.has_provider.load(Ordering::Acquire);
        let same_watches = core.controllers.read().by_name.values().all(|registered| {
            let controller = registered.controller();
            let here = |watch: &&Watch| {
                let selection = &controller.selection;
                watch.kind == *kind && selection.engages(watch, &self.cluster, has_provider)
            };
            controller.watches.iter().filter(here).all(|watch| {
                let selector = watch.label_selector.as_ref();
                selector.is_some_and(|selector| selector.to_string() == labels)
            })
        });
        same_stores && same_watches
    }
}
