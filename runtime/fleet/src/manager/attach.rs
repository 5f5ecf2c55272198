//! Controllers' watches in clusters: a task for each brings up its stores and subscribes. Entry point: [`Core::reattach`].

mod moves;

use super::clusters::Engaged;
use super::controllers::Registered;
use super::core::Core;
use crate::cluster::store::StoreKey;
use crate::cluster::{Arrivals, Backend, Cluster, IndexUse, Pending, StoreUse};
use crate::controller::Controller;
use crate::grant::{Grant, Namespaces, Verb};
use crate::kind::{GroupVersionKind, Resource};
use crate::name::ClusterName;
use crate::request::ObjectKey;
use crate::source::mapped::MappedEvents;
use crate::source::{Enqueue, Offer, SourceSink, Watch};
use moves::unserved;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How often a source whose controller's share of the queue was full looks for room.
const ROOM: Duration = Duration::from_millis(100);

/// The watches of one controller by cluster.
pub(super) type Attachments = HashMap<ClusterName, Vec<Arc<Source>>>;

/// One watch of one controller in one cluster. Dropping it ends the watch.
pub(super) struct Source {
    cluster: Arc<Cluster>,
    what: What,
    subscriptions: Mutex<Vec<Subscription>>,
    /// Held as long as the watch lives; the indexes go with their last user.
    indexes: Mutex<Vec<IndexUse>>,
    /// Why it does not run, while it does not.
    problem: Mutex<Option<String>>,
    _stop: DropGuard,
}

/// What a watch makes of an object.
pub(super) enum Sight {
    /// It is cached in this version, and its events enqueue it.
    Admitted(String),
    /// It is cached, and the watch leaves it out.
    LeftOut(&'static str),
    /// The watch does not run.
    Problem(String),
    /// The watch is being brought up.
    Starting,
    /// There is no such object.
    Absent,
}

impl Sight {
    /// Lower tells more.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Admitted(_) => 0,
            Self::LeftOut(_) => 1,
            Self::Problem(_) => 2,
            Self::Starting => 3,
            Self::Absent => 4,
        }
    }

    /// For people.
    pub(super) fn describe(&self, kind: &str) -> String {
        match self {
            Self::Admitted(version) => format!(
                "nothing is left to do: the object is cached at version {version}, and no event has come since its last run"
            ),
            Self::LeftOut(why) => format!("the watch of {kind} leaves the object out: {why}"),
            Self::Problem(problem) => format!("the watch of {kind} does not run: {problem}"),
            Self::Starting => format!("the watch of {kind} is being brought up"),
            Self::Absent => format!(
                "there is no such {kind} in the cluster, as far as this reconciler may see: check namespace and name"
            ),
        }
    }
}

/// All that makes a source: two that are equal need not be exchanged.
#[derive(Clone, PartialEq)]
struct What {
    watch: Watch,
    grant: Arc<Grant>,
    primary: Option<GroupVersionKind>,
    /// The stores' name of the index of a `by-index` rule.
    index: Option<Arc<str>>,
}

struct Subscription {
    user: StoreUse,
    id: u64,
    sink: Arc<SourceSink>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.user.store().unsubscribe(self.id);
    }
}

impl Source {
    pub(super) fn problem(&self) -> Option<String> {
        let cluster = self.cluster.name();
        self.problem
            .lock()
            .as_ref()
            .map(|problem| format!("{cluster}: {}: {problem}", self.what.watch.kind))
    }

    /// What it watches.
    pub(super) fn kind(&self) -> String {
        self.what.watch.kind.to_string()
    }

    /// What it makes of the object of a key.
    pub(super) fn sees(&self, key: &ObjectKey) -> Sight {
        if let Some(problem) = self.problem.lock().clone() {
            return Sight::Problem(problem);
        }
        let subscriptions = self.subscriptions.lock();
        if subscriptions.is_empty() {
            return Sight::Starting;
        }
        let sights = subscriptions.iter().map(|subscription| {
            let store = subscription.user.store();
            let problem = store.progress().borrow().problem.clone();
            match (problem, store.get(key)) {
                (Some(problem), _) => Sight::Problem(problem.message),
                (None, None) => Sight::Absent,
                (None, Some((object, _))) => match subscription.sink.leaves_out(&object) {
                    Some(why) => Sight::LeftOut(why),
                    None => Sight::Admitted(object.resource_version().to_string()),
                },
            }
        });
        sights.min_by_key(Sight::rank).unwrap_or(Sight::Starting)
    }

    /// Whether no mapped event waits for its code.
    pub(super) fn is_idle(&self) -> bool {
        self.subscriptions.lock().iter().all(|subscription| {
            subscription
                .sink
                .mapped
                .as_ref()
                .is_none_or(MappedEvents::is_idle)
        })
    }

    /// Offers every object of the watch once more.
    pub(super) fn offer_again(&self) {
        let pairs: Vec<_> = self
            .subscriptions
            .lock()
            .iter()
            .map(|s| (s.user.clone(), s.sink.clone()))
            .collect();
        for (user, sink) in pairs {
            user.store().offer_again(&*sink);
        }
    }

    /// Whether the watch is what brings in the controller's own objects.
    pub(super) fn is_primary(&self) -> bool {
        self.what.watch.enqueue == Enqueue::Primary
    }
}

impl Core {
    /// Attaches every controller to a cluster that was just engaged. Called under the lock of engaged clusters.
    pub(super) fn attach_cluster(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        let registered: Vec<_> = self.controllers.read().by_name.values().cloned().collect();
        for registered in registered {
            self.attach(&registered, cluster, Vec::new());
        }
    }

    /// Brings a controller's sources in step with what it is now. Called under the lock of engaged clusters.
    pub(super) fn reattach(
        self: &Arc<Self>,
        registered: &Arc<Registered>,
        clusters: &[Arc<Cluster>],
    ) {
        let mut before = std::mem::take(&mut *registered.attachments.lock());
        for cluster in clusters {
            let kept = before.remove(cluster.name()).unwrap_or_default();
            self.attach(registered, cluster, kept);
        }
    }

    /// Brings every controller's sources in step, after a change of what they engage by default.
    pub(super) fn reattach_all(self: &Arc<Self>, engaged: &BTreeMap<ClusterName, Engaged>) {
        let clusters: Vec<_> = engaged.values().map(|e| e.cluster.clone()).collect();
        let registered: Vec<_> = self.controllers.read().by_name.values().cloned().collect();
        for registered in registered {
            self.reattach(&registered, &clusters);
        }
    }

    pub(super) fn detach_cluster(&self, name: &ClusterName) {
        for registered in self.controllers.read().by_name.values() {
            let sources = registered.attachments.lock().remove(name);
            drop(sources);
        }
    }

    pub(super) fn detach_all(&self) {
        for registered in self.controllers.read().by_name.values() {
            let attachments = std::mem::take(&mut *registered.attachments.lock());
            drop(attachments);
        }
    }

    /// Starts the watches that engage a cluster, but for those that run already.
    fn attach(
        self: &Arc<Self>,
        registered: &Arc<Registered>,
        cluster: &Arc<Cluster>,
        mut there: Vec<Arc<Source>>,
    ) {
        let controller = registered.controller();
        let has_provider = self.has_provider.load(Ordering::Acquire);
        let mut sources = Vec::new();
        for watch in &controller.watches {
            if !controller
                .selection
                .engages(watch.clusters, cluster, has_provider)
            {
                continue;
            }
            let what = what(&controller, watch);
            let kept = there
                .iter()
                .position(|source| source.what == what && Arc::ptr_eq(&source.cluster, cluster));
            sources.push(match kept {
                Some(at) => there.swap_remove(at),
                None => self.start_source(registered, cluster, what),
            });
        }
        if !sources.is_empty() {
            registered
                .attachments
                .lock()
                .insert(cluster.name().clone(), sources);
        }
    }

    fn start_source(
        self: &Arc<Self>,
        registered: &Arc<Registered>,
        cluster: &Arc<Cluster>,
        what: What,
    ) -> Arc<Source> {
        let token = cluster.token().child_token();
        let source = Arc::new(Source {
            cluster: cluster.clone(),
            what,
            subscriptions: Mutex::default(),
            indexes: Mutex::default(),
            problem: Mutex::default(),
            _stop: token.clone().drop_guard(),
        });
        let task = Task {
            core: Arc::downgrade(self),
            registered: Arc::downgrade(registered),
            source: Arc::downgrade(&source),
            cluster: cluster.clone(),
            what: source.what.clone(),
            token: token.clone(),
        };
        let pending = cluster.pending();
        cluster.tasks().spawn_on(
            async move { token.run_until_cancelled(task.run(pending)).await },
            &self.host,
        );
        source
    }
}

fn what(controller: &Controller, watch: &Watch) -> What {
    let index = match (&watch.enqueue, &controller.primary) {
        (Enqueue::ByIndex(name), Some(primary)) => controller
            .indexes
            .get(&(primary.clone(), name.clone()))
            .map(|index| index.id.clone()),
        _ => None,
    };
    What {
        watch: watch.clone(),
        grant: controller.grant.clone(),
        primary: controller.primary.clone(),
        index,
    }
}

/// The task of a source. Holds the source weakly: the source's end is what ends the task.
struct Task {
    core: std::sync::Weak<Core>,
    registered: std::sync::Weak<Registered>,
    source: std::sync::Weak<Source>,
    cluster: Arc<Cluster>,
    what: What,
    token: CancellationToken,
}

impl Task {
    async fn run(self, pending: Pending) {
        let Ok(backend) = self.cluster.connected().await else {
            return;
        };
        let mut pending = Some(pending);
        loop {
            let resource = self.resolve(&backend, &mut pending).await;
            self.declare_indexes(&backend);
            let sinks = match self.subscribe(&backend, &resource) {
                Ok(sinks) => sinks,
                Err(problem) => {
                    tracing::warn!(cluster = %self.cluster.name(), kind = %self.what.watch.kind, problem, "watch not started");
                    return self.set_problem(Some(problem));
                }
            };
            pending = None;
            self.set_problem(None);
            let serve = self.serve(sinks);
            tokio::pin!(serve);
            loop {
                tokio::select! {
                    () = &mut serve => return,
                    () = self.widen(&backend, &resource) => {}
                    () = unserved(self.stores()) => break,
                }
            }
            self.unsubscribe();
            backend.discovery.forget(&self.what.watch.kind);
        }
    }

    /// Waits for the kind to be served.
    async fn resolve(
        &self,
        backend: &Arc<Backend>,
        pending: &mut Option<Pending>,
    ) -> Arc<Resource> {
        let kind = &self.what.watch.kind;
        let mut arrivals = None;
        loop {
            match backend.discovery.resolve(&backend.connection, kind).await {
                Ok(resource) => return resource,
                Err(error) => self.set_problem(Some(error.message)),
            }
            // A kind that is not there yet must not keep the cluster's other keys waiting.
            *pending = None;
            arrivals
                .get_or_insert_with(|| Arrivals::new(backend, kind))
                .wait()
                .await;
        }
    }

    fn set_problem(&self, problem: Option<String>) {
        if let Some(source) = self.source.upgrade() {
            *source.problem.lock() = problem;
        }
    }

    fn declare_indexes(&self, backend: &Backend) {
        let Some(registered) = self.registered.upgrade() else {
            return;
        };
        let controller = registered.controller();
        let declared = controller
            .indexes
            .iter()
            .map(|((kind, _), index)| backend.stores.declare_index(kind, &index.id, &index.path));
        let uses: Vec<IndexUse> = declared.collect();
        if let Some(source) = self.source.upgrade() {
            let before = std::mem::replace(&mut *source.indexes.lock(), uses);
            drop(before);
        }
    }

    /// Opens the stores of the watch and subscribes to each.
    fn subscribe(
        &self,
        backend: &Arc<Backend>,
        resource: &Arc<Resource>,
    ) -> Result<Vec<Arc<SourceSink>>, String> {
        let (Some(registered), Some(source)) = (self.registered.upgrade(), self.source.upgrade())
        else {
            return Ok(Vec::new());
        };
        let mut sinks = Vec::new();
        for namespace in self.namespaces(resource)? {
            let key = self.store_key(backend, resource, namespace.clone());
            let user = backend
                .stores
                .open(key, resource)
                .map_err(|e| e.to_string())?;
            let offer: Arc<dyn Offer> = registered.clone();
            let sink = Arc::new(SourceSink {
                cluster: self.cluster.clone(),
                backend: backend.clone(),
                watch: self.what.watch.clone(),
                namespace,
                primary: self.what.primary.clone(),
                index: self.what.index.clone(),
                offer,
                mapped: matches!(self.what.watch.enqueue, Enqueue::Mapped(_))
                    .then(MappedEvents::default),
                rescan: Notify::new(),
                missed: Mutex::default(),
            });
            if sink.mapped.is_some() {
                let (token, events) = (self.token.clone(), MappedEvents::run(sink.clone()));
                self.cluster.tasks().spawn_on(
                    async move { token.run_until_cancelled(events).await },
                    backend.connection.host(),
                );
            }
            let id = user.store().subscribe(sink.clone());
            source.subscriptions.lock().push(Subscription {
                user,
                id,
                sink: sink.clone(),
            });
            sinks.push(sink);
        }
        Ok(sinks)
    }

    /// Where the grant lets the watch look: everywhere at once, or in each namespace by itself.
    fn namespaces(&self, resource: &Resource) -> Result<Vec<Option<Arc<str>>>, String> {
        let facts = self.cluster.facts(true);
        let granted = |verb| {
            self.what
                .grant
                .namespaces(&facts, &resource.kind.group, &resource.plural, verb)
        };
        match (granted(Verb::List), granted(Verb::Watch)) {
            (Namespaces::All, Namespaces::All) => Ok(vec![None]),
            (list, watch) if resource.namespaced => {
                let both: Vec<_> = match (&list, &watch) {
                    (Namespaces::Only(names), other) | (other, Namespaces::Only(names)) => names
                        .iter()
                        .filter(|name| other.contains(Some(name)))
                        .cloned()
                        .map(Some)
                        .collect(),
                    _ => Vec::new(),
                };
                if both.is_empty() {
                    Err(self.missing(resource))
                } else {
                    Ok(both)
                }
            }
            _ => Err(self.missing(resource)),
        }
    }

    fn missing(&self, resource: &Resource) -> String {
        format!("no rule grants list and watch on {}", resource.plural)
    }

    /// The store to use: one of everything if there is one, else one of the namespace. A watch's selector filters its source; it
    /// scopes the store too as long as nobody needs the rest of the kind.
    fn store_key(
        &self,
        backend: &Backend,
        resource: &Resource,
        namespace: Option<Arc<str>>,
    ) -> StoreKey {
        let watch = &self.what.watch;
        let mut key = StoreKey::whole(resource.kind.clone(), None, watch.projection);
        if let Some(fields) = &watch.field_selector {
            // Only the server can tell fields.
            key.field_selector = fields.to_string().into();
        }
        let there = |key: &StoreKey| {
            backend.stores.with_kind(&resource.kind, |stores| {
                stores.iter().any(|store| store.key == *key)
            })
        };
        if there(&key) {
            return key;
        }
        key.namespace = namespace;
        let labels: Arc<str> = watch
            .label_selector
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
            .into();
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
        let same_watches = core.controllers.read().by_name.values().all(|registered| {
            let controller = registered.controller();
            let of_kind = controller
                .watches
                .iter()
                .filter(|watch| watch.kind == *kind)
                .cloned()
                .collect::<Vec<_>>();
            of_kind.iter().all(|watch| {
                watch
                    .label_selector
                    .as_ref()
                    .is_some_and(|selector| selector.to_string() == labels)
            })
        });
        same_stores && same_watches
    }

    /// Offers a store again whenever its requests found no room, once there is some.
    async fn serve(&self, sinks: Vec<Arc<SourceSink>>) {
        let each = sinks.into_iter().map(|sink| async move {
            loop {
                sink.rescan.notified().await;
                loop {
                    // Slept at least once: an offer looks at every object of the store, and must not follow upon another.
                    tokio::time::sleep(ROOM).await;
                    let mapper_has_room = sink.mapped.as_ref().is_none_or(MappedEvents::has_room);
                    if mapper_has_room && self.has_room() {
                        break;
                    }
                }
                if sink.offer_missed() {
                    self.offer_again(&sink);
                }
            }
        });
        futures::future::join_all(each).await;
    }

    fn offer_again(&self, sink: &Arc<SourceSink>) {
        let Some(source) = self.source.upgrade() else {
            return;
        };
        let user = source
            .subscriptions
            .lock()
            .iter()
            .find(|subscription| Arc::ptr_eq(&subscription.sink, sink))
            .map(|subscription| subscription.user.clone());
        if let Some(user) = user {
            user.store().offer_again(&**sink);
        }
    }

    fn has_room(&self) -> bool {
        let (Some(core), Some(registered)) = (self.core.upgrade(), self.registered.upgrade())
        else {
            return false;
        };
        core.queue.lock().room(registered.id) > 0
    }
}
