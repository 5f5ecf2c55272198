//! Controllers' watches in clusters: a task for each brings up its stores and subscribes. Entry point: [`Core::reattach`].

mod moves;
mod offers;
mod start;
mod task;
mod what;

use super::clusters::Engaged;
use super::controllers::Registered;
use super::core::Core;
use crate::cluster::{Cluster, IndexUse, StoreUse};
use crate::name::ClusterName;
use crate::request::ObjectKey;
use crate::source::{Enqueue, SourceSink};
use parking_lot::Mutex;
use start::Start;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use task::Task;
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;
use what::What;

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
    /// Whether its caches have been filled once, or cannot be: until then its controller's keys of the cluster are held.
    in_step: AtomicBool,
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
    /// Why it does not run, or what its server does to it. A server that cannot be reached is its cluster's problem.
    pub(super) fn problem(&self) -> Option<String> {
        let cluster = self.cluster.name();
        let own = self.problem.lock().clone();
        let problem = own.or_else(|| self.cache_problem())?;
        Some(format!("{cluster}: {}: {problem}", self.what.watch.kind))
    }

    fn cache_problem(&self) -> Option<String> {
        self.subscriptions.lock().iter().find_map(|subscription| {
            let problem = subscription
                .user
                .store()
                .progress()
                .borrow()
                .problem
                .clone()?;
            (!problem.unreachable).then_some(problem.message)
        })
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
            if !controller.selection.engages(watch, cluster, has_provider) {
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
        self.settle(registered, cluster.name());
    }

    /// Holds a controller's keys of a cluster until all its watches there are in step.
    pub(super) fn settle(&self, registered: &Registered, cluster: &ClusterName) {
        // Held until the queue knows, so that an older answer cannot follow a newer one, and no cluster that has left is named.
        let attachments = registered.attachments.lock();
        let sources = attachments.get(cluster).map_or(&[][..], Vec::as_slice);
        let held = !sources
            .iter()
            .all(|source| source.in_step.load(Ordering::Acquire));
        self.queue
            .lock()
            .hold_in_cluster(registered.id, cluster, held);
        drop(attachments);
        self.wake.notify_one();
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
            in_step: AtomicBool::new(false),
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
