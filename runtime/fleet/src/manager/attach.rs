//! Controllers' watches in clusters: a task for each brings up its stores and subscribes. Entry point: [`Core::reattach`].

mod moves;
mod offers;
mod start;
mod what;

use super::clusters::Engaged;
use super::controllers::Registered;
use super::core::Core;
use crate::cluster::store::StoreKey;
use crate::cluster::{Arrivals, Backend, Cluster, IndexUse, StoreUse};
use crate::kind::Resource;
use crate::name::ClusterName;
use crate::request::ObjectKey;
use crate::source::mapped::MappedEvents;
use crate::source::rescan::Rescan;
use crate::source::{Enqueue, Offer, SourceSink, Watch};
use moves::unserved;
use parking_lot::Mutex;
use start::Start;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;
use what::{NoStore, What};

/// How long a watch that got no cache waits before it asks for one again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The watches of one controller by cluster.
pub(super) type Attachments = HashMap<ClusterName, Vec<Arc<Source>>>;

/// One watch of one controller in one cluster. Dropping it ends the watch.
pub(super) struct Source {
    cluster: Arc<Cluster>,
    what: What,
    subscriptions: Mutex<Vec<Subscription>>,
    /// Held as long as the watch lives; the indexes go with their last user.
    indexes: Mutex<Vec<IndexUse>>,
    /// What it holds until it has its caches.
    start: Mutex<Start>,
    /// Told when its controller was replaced, which may declare other indexes.
    replaced: Arc<Notify>,
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

    /// Whether the watch is what brings in the controller's own objects.
    pub(super) fn is_primary(&self) -> bool {
        self.what.watch.enqueue == Enqueue::Primary
    }

    /// Where its events go now: a sink for each store.
    fn sinks(&self) -> Vec<Arc<SourceSink>> {
        let subscriptions = self.subscriptions.lock();
        subscriptions.iter().map(|of| of.sink.clone()).collect()
    }

    /// Holds on those of its caches that another watch in its place would use too.
    fn caches_for(&self, what: &What) -> Vec<StoreUse> {
        let subscriptions = self.subscriptions.lock();
        let users = subscriptions.iter().map(|of| of.user.clone());
        users
            .filter(|user| what.would_use(&self.cluster, user.store()))
            .collect()
    }

    /// Whether it sees what another watch in its place would see, and no more.
    fn is_like(&self, what: &What) -> bool {
        let all = self.subscriptions.lock();
        let would_use = |of: &Subscription| what.would_use(&self.cluster, of.user.store());
        !all.is_empty() && all.iter().all(would_use)
    }
}

impl Core {
    /// Attaches every controller to a cluster that was just engaged. Called under the lock of engaged clusters.
    pub(super) fn attach_cluster(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        let registered: Vec<_> = self.controllers.read().by_name.values().cloned().collect();
        for registered in registered {
            for source in registered.attachments.lock().values().flatten() {
                source.welcome(cluster.name());
            }
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
            let what = What::of(&controller, watch);
            let kept = there
                .iter()
                .position(|source| source.what == what && Arc::ptr_eq(&source.cluster, cluster));
            sources.push(match kept {
                Some(at) => {
                    let source = there.swap_remove(at);
                    source.replaced.notify_one();
                    source
                }
                None => {
                    let mut start = Start::new(cluster);
                    for before in &there {
                        if Arc::ptr_eq(&before.cluster, cluster) {
                            start.follow(before, &what);
                        }
                    }
                    self.start_source(registered, cluster, what, start)
                }
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
        start: Start,
    ) -> Arc<Source> {
        let token = cluster.token().child_token();
        let source = Arc::new(Source {
            cluster: cluster.clone(),
            what,
            subscriptions: Mutex::default(),
            indexes: Mutex::default(),
            start: Mutex::new(start),
            replaced: Arc::default(),
            problem: Mutex::default(),
            _stop: token.clone().drop_guard(),
        });
        let task = Task {
            core: Arc::downgrade(self),
            registered: Arc::downgrade(registered),
            source: Arc::downgrade(&source),
            cluster: cluster.clone(),
            replaced: source.replaced.clone(),
            what: source.what.clone(),
            token: token.clone(),
        };
        cluster.tasks().spawn_on(
            async move { token.run_until_cancelled(task.run()).await },
            &self.host,
        );
        source
    }
}

/// The task of a source. Holds the source weakly: the source's end is what ends the task.
struct Task {
    core: std::sync::Weak<Core>,
    registered: std::sync::Weak<Registered>,
    source: std::sync::Weak<Source>,
    cluster: Arc<Cluster>,
    replaced: Arc<Notify>,
    what: What,
    token: CancellationToken,
}

impl Task {
    async fn run(self) {
        let Ok(backend) = self.cluster.connected().await else {
            return;
        };
        loop {
            let resource = self.resolve(&backend).await;
            self.declare_indexes(&backend);
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
        loop {
            tokio::select! {
                () = &mut serve => {}
                () = self.replaced.notified() => {
                    self.declare_indexes(backend);
                    self.sinks().iter().for_each(|sink| sink.rescan.wake());
                }
                () = self.widen(backend, resource) => {}
                () = &mut again => return true,
                () = unserved(self.stores()) => return false,
            }
        }
    }

    /// Waits for the kind to be served.
    async fn resolve(&self, backend: &Arc<Backend>) -> Arc<Resource> {
        let kind = &self.what.watch.kind;
        let mut arrivals = None;
        loop {
            match backend.discovery.resolve(&backend.connection, kind).await {
                Ok(resource) => return resource,
                Err(error) => self.set_problem(Some(error.message)),
            }
            // A kind that is not there yet must not keep the cluster's other keys waiting.
            if let Some(source) = self.source.upgrade() {
                source.start.lock().let_go();
            }
            arrivals
                .get_or_insert_with(|| Arrivals::new(backend, kind))
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

    fn declare_indexes(&self, backend: &Backend) {
        let (Some(registered), Some(source)) = (self.registered.upgrade(), self.source.upgrade())
        else {
            return;
        };
        let controller = registered.controller();
        let declared = controller
            .indexes
            .iter()
            .map(|((kind, _), index)| backend.stores.declare_index(kind, &index.id, &index.path));
        // Those that stay are declared once more before they are let go, and so are not filled anew.
        let uses: Vec<IndexUse> = declared.collect();
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
                    .spawn_on(events.instrument(span), &core.workers);
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
    fn store_key(
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
                watch.kind == *kind
                    && selection.engages(watch.clusters, &self.cluster, has_provider)
            };
            controller.watches.iter().filter(here).all(|watch| {
                let selector = watch.label_selector.as_ref();
                selector.is_some_and(|selector| selector.to_string() == labels)
            })
        });
        same_stores && same_watches
    }
}
