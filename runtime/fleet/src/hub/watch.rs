//! The objects of one kind in a hub, as they are now. Entry point: [`HubWatch`].
//!
//! It holds stores of the hub's backend, which it shares with every other user of the same objects: one list and watch each. A task of
//! the cluster opens them once the hub is reached and the kind is served, and again after the kind was gone for a while.

use super::{Hub, HubObject, WatchSelection};
use crate::api::Projection;
use crate::cache::store::{Change, Excerpt, Progress, Sink, Store, StoreKey};
use crate::cluster::{Backend, Cluster, CrdArrival, StoreUse, TooManyStores};
use crate::kind::{GroupVersionKind, Resource};
use crate::request::ObjectKey;
use futures::future::select_all;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::DropGuard;

/// How long a watch that got no store waits before it asks for one again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The objects of a kind in a hub that a selection selects. Ends when it is dropped.
///
/// # Contract
/// Level-triggered: after [`HubWatch::changed`] the holder reads what there is now, and compares. An object that is absent says something
/// only where [`HubWatch::knows`] its key, which must be asked *before* the objects are read.
pub struct HubWatch {
    shared: Arc<Shared>,
    hub: Hub,
    _stop: DropGuard,
}

/// What the task and the holder of a watch share.
struct Shared {
    kinds: Vec<GroupVersionKind>,
    selection: WatchSelection,
    excerpt: Option<Excerpt>,
    stores: Mutex<Vec<Subscription>>,
    /// Why there are no stores, while there are none.
    problem: Mutex<Option<String>>,
    changed: Arc<Changes>,
}

/// Notifies of changes, of objects and of everything else.
#[derive(Default)]
struct Changes(Notify);

impl Sink for Changes {
    fn changed(&self, _: &Change) {
        self.0.notify_one();
    }
}

/// A store that a watch holds.
struct Subscription {
    user: StoreUse,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.user.store().unsubscribe(self.id);
    }
}

impl HubWatch {
    pub(super) fn start(
        hub: Hub,
        kinds: Vec<GroupVersionKind>,
        selection: WatchSelection,
        excerpt: Option<Excerpt>,
    ) -> Self {
        let shared = Arc::new(Shared {
            kinds,
            selection,
            excerpt,
            stores: Mutex::default(),
            problem: Mutex::default(),
            changed: Arc::default(),
        });
        let cluster = hub.cluster();
        let stop = cluster.token().child_token();
        // The task holds the cluster and not the hub, so that a hub can end.
        let task = Task {
            shared: shared.clone(),
            cluster: cluster.clone(),
        };
        let token = stop.clone();
        crate::task::spawn(cluster.tasks(), cluster.host(), token, task.run());
        Self {
            shared,
            hub,
            _stop: stop.drop_guard(),
        }
    }

    /// Waits for a change of the objects, of [`HubWatch::listed`] or of [`HubWatch::problem`] since this returned last. Several changes
    /// count as one. For one caller at a time; may be cancelled without loss.
    pub async fn changed(&self) {
        self.shared.changed.0.notified().await;
    }

    /// Whether every list is in, so that an object that is absent does not exist.
    #[must_use]
    pub fn listed(&self) -> bool {
        let stores = self.shared.stores.lock();
        !stores.is_empty() && stores.iter().all(|of| is_listed(of.user.store()))
    }

    /// Whether the list that would have this object is in. An error makes nothing unknown that was known, except when the hub says that it
    /// does not serve the kind.
    #[must_use]
    pub fn knows(&self, key: &ObjectKey) -> bool {
        let stores = self.shared.stores.lock();
        stores.iter().any(|of| {
            let store = of.user.store();
            let covers = store.key.namespace.is_none() || store.key.namespace == key.namespace;
            covers && is_listed(store)
        })
    }

    /// The objects, sorted by key within each namespace.
    #[must_use]
    pub fn objects(&self) -> Vec<HubObject> {
        let stores = self.stores();
        let objects = stores.iter().flat_map(|store| store.objects());
        objects.map(HubObject::new).collect()
    }

    /// An object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<HubObject> {
        let found = self.stores().into_iter().find_map(|store| store.get(key));
        found.map(|(object, _)| HubObject::new(object))
    }

    /// Why objects are missing or old, if they may be: the hub is not reached, does not serve the kind, or refuses to list it.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let kind = self.kind();
        if let Some(problem) = self.shared.problem.lock().clone() {
            return Some(problem);
        }
        self.stores().iter().find_map(|store| {
            let progress = store.progress();
            let problem = progress.borrow().problem.clone()?;
            let place = match &store.key.namespace {
                Some(namespace) => format!(" in namespace {namespace}"),
                None => String::new(),
            };
            Some(format!("{kind}{place}: {}", problem.message))
        })
    }

    /// The kind that is watched, or the first one if none is served yet.
    #[must_use]
    pub fn kind(&self) -> GroupVersionKind {
        let stores = self.shared.stores.lock();
        let watched = stores.first().map(|of| of.user.store().key.kind.clone());
        drop(stores);
        watched
            .or_else(|| self.shared.kinds.first().cloned())
            .unwrap_or_else(|| GroupVersionKind::new("", "", ""))
    }

    /// The hub that it watches.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    fn stores(&self) -> Vec<Arc<Store>> {
        let stores = self.shared.stores.lock();
        stores.iter().map(|of| of.user.store().clone()).collect()
    }
}

/// Whether a store has a list that counts. The store of a kind that is not served is emptied after a while: that is no list.
fn is_listed(store: &Store) -> bool {
    let progress = store.progress();
    let progress = progress.borrow();
    progress.synced && !is_unserved(&progress)
}

fn is_unserved(progress: &Progress) -> bool {
    let problem = progress.problem.as_ref();
    problem.is_some_and(crate::cache::store::Problem::is_unserved)
}

impl Shared {
    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock() = problem;
        self.changed.0.notify_one();
    }

    /// Replaces the stores. The former ones end outside the lock, which their end may need.
    fn set_stores(&self, stores: Vec<Subscription>) {
        let before = std::mem::replace(&mut *self.stores.lock(), stores);
        drop(before);
        self.changed.0.notify_one();
    }

    /// The namespaces of the stores.
    fn namespaces(&self, resource: &Resource) -> BTreeSet<Option<Arc<str>>> {
        let named = &self.selection.namespaces;
        if named.is_empty() || !resource.namespaced {
            return [None].into();
        }
        named
            .iter()
            .map(|name| Some(name.as_str().into()))
            .collect()
    }

    fn store_key(&self, resource: &Resource, namespace: Option<Arc<str>>) -> StoreKey {
        let mut key = StoreKey::whole(resource.kind.clone(), namespace, Projection::Full);
        key.label_selector = self.selection.label_selector.to_string().into();
        if let Some(name) = &self.selection.name {
            key.field_selector = format!("metadata.name={name}").into();
        }
        key.excerpt = self.excerpt;
        key
    }
}

/// The task of a watch, until it is dropped.
struct Task {
    shared: Arc<Shared>,
    cluster: Arc<Cluster>,
}

impl Task {
    async fn run(self) {
        let Some(backend) = self.connected().await else {
            return;
        };
        loop {
            let resource = self.resolve(&backend).await;
            match self.open(&backend, &resource) {
                Ok(progress) => {
                    self.shared.set_problem(None);
                    self.follow(progress).await;
                    backend.discovery.forget(&resource.kind);
                }
                Err(problem) => {
                    self.shared.set_problem(Some(problem.to_string()));
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
    }

    /// Waits for the hub's first connection, and reports why it takes long. `None`: the hub has ended.
    async fn connected(&self) -> Option<Arc<Backend>> {
        let mut changes = self.cluster.changes();
        let connected = self.cluster.connected();
        tokio::pin!(connected);
        loop {
            let now = self.cluster.now();
            // Without a next attempt the current one may still succeed.
            if now.next_attempt.is_some() {
                let reason = now.reason;
                self.shared
                    .set_problem(Some(format!("the hub is not reached: {reason}")));
            }
            tokio::select! {
                biased;
                backend = &mut connected => {
                    self.shared.set_problem(None);
                    return backend.ok();
                }
                changed = changes.changed() => changed.ok()?,
            }
        }
    }

    /// Waits until one of the kinds is served.
    async fn resolve(&self, backend: &Arc<Backend>) -> Arc<Resource> {
        let mut arrival = None;
        loop {
            let kinds = &self.shared.kinds;
            // Without a refresh of discovery for the first kind, as long as another one is known.
            if let Some(known) = kinds.iter().find_map(|kind| backend.discovery.get(kind)) {
                return known;
            }
            let mut problem = None;
            for kind in kinds {
                match backend.discovery.resolve(&backend.connection, kind).await {
                    Ok(resource) => return resource,
                    Err(error) => {
                        problem.get_or_insert(error.message);
                    }
                }
            }
            self.shared.set_problem(problem);
            let Some(kind) = self.shared.kinds.first() else {
                return std::future::pending().await;
            };
            arrival
                .get_or_insert_with(|| CrdArrival::new(backend, kind))
                .wait()
                .await;
        }
    }

    /// Opens the stores, and returns their progress.
    fn open(
        &self,
        backend: &Arc<Backend>,
        resource: &Arc<Resource>,
    ) -> Result<Vec<watch::Receiver<Progress>>, TooManyStores> {
        let mut stores = Vec::new();
        for namespace in self.shared.namespaces(resource) {
            let key = self.shared.store_key(resource, namespace);
            let user = backend.stores.open(key, resource)?;
            let id = user.store().subscribe(self.shared.changed.clone());
            stores.push(Subscription { user, id });
        }
        let progress = stores.iter().map(|of| of.user.store().progress()).collect();
        self.shared.set_stores(stores);
        Ok(progress)
    }

    /// Notifies of progress, until the hub does not serve the kind any more.
    async fn follow(&self, mut progress: Vec<watch::Receiver<Progress>>) {
        loop {
            let is_lost = |progress: &mut watch::Receiver<Progress>| {
                let now = progress.borrow_and_update();
                !now.synced && is_unserved(&now)
            };
            let lost = progress.iter_mut().any(is_lost);
            self.shared.changed.0.notify_one();
            if lost {
                return;
            }
            let changes = progress.iter_mut().map(|one| Box::pin(one.changed()));
            let (changed, ..) = select_all(changes).await;
            if changed.is_err() {
                return;
            }
        }
    }
}
