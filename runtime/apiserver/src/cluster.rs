//! One served cluster: [`Cluster`], the handle for seeding, asserting and disturbing it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, Verb};
use crate::convert;
use crate::hook::Hook;
use crate::origin::Source;
use crate::part::Part;
use crate::patch::Patch;
use crate::resource::{Resource, group_version};
use crate::state::State;
use crate::status::ApiError;
use crate::write::WriteOptions;
use crate::write::delete::DeleteOptions;

/// Requests kept per cluster; older ones are forgotten.
const LOG_LIMIT: usize = 10_000;
/// Different (verb, resource) pairs counted per cluster.
const COUNTER_LIMIT: usize = 1_000;

/// How far versions jump when a backup is restored.
const BUMP: u64 = 1_000_000;

/// Field manager of writes through [`Cluster`].
const MANAGER: &str = "windlass-apiserver";

/// A served cluster. Clones are the same cluster; calls go through the same code as requests.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) name: String,
    state: Mutex<State>,
    /// Rung when there is clean-up to do.
    cleanup: Notify,
    /// Cancelled and replaced when watches are cut.
    watches: Mutex<CancellationToken>,
    /// Cancelled when the cluster is removed or the server ends.
    pub(crate) closed: CancellationToken,
    down: AtomicBool,
    /// Watches that are being served.
    watchers: AtomicUsize,
    log: Mutex<Log>,
    pub(crate) hook: Option<Arc<dyn Hook>>,
    /// Whether a watch may begin with a list (`sendInitialEvents`).
    pub(crate) streaming_lists: bool,
    /// The cluster that it stands for, if it is a fork.
    source: Option<Source>,
}

/// What a cluster held at some time.
#[derive(Debug)]
pub struct Backup(State);

/// A watch that is being served.
pub(crate) struct OpenWatch(Cluster);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.inner.watchers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Log {
    calls: VecDeque<Arc<Call>>,
    counts: BTreeMap<(Verb, String), u64>,
}

impl Cluster {
    pub(crate) fn new(
        name: &str,
        state: State,
        streaming_lists: bool,
        hook: Option<Arc<dyn Hook>>,
        closed: CancellationToken,
        source: Option<Source>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                name: name.to_owned(),
                state: Mutex::new(state),
                cleanup: Notify::new(),
                watches: Mutex::new(closed.child_token()),
                closed,
                down: AtomicBool::new(false),
                watchers: AtomicUsize::new(0),
                log: Mutex::default(),
                hook,
                streaming_lists,
                source,
            }),
        }
    }

    /// Its name, as in its URL.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As the API answers, `no matches for kind` for a kind that is not served.
    pub fn create(&self, object: Value) -> Result<Value, ApiError> {
        self.with(|state| {
            let target = Target::of(state, &object)?;
            state
                .create(&target.resource, &target.namespace, object, &options())
                .map(|outcome| outcome.object)
        })
    }

    /// Creates an object or puts it over the stored one by a forced server-side apply.
    ///
    /// # Errors
    /// As the API answers, `no matches for kind` for a kind that is not served.
    pub fn apply(&self, object: Value) -> Result<Value, ApiError> {
        self.with(|state| {
            let target = Target::of(state, &object)?;
            let options = WriteOptions {
                force: true,
                ..options()
            };
            let outcome = state.patch(
                &target.resource,
                (&target.namespace, &target.name),
                Part::Main,
                (Patch::Apply, &object),
                &options,
            )?;
            Ok(outcome.object)
        })
    }

    /// Merges `patch` into an object (JSON merge patch).
    ///
    /// # Errors
    /// As the API answers.
    pub fn merge(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        self.merge_part(Part::Main, (api_version, kind), (namespace, name), patch)
    }

    /// Merges `patch` into the status of an object, through its subresource.
    ///
    /// # Errors
    /// As the API answers, also where the kind has no such subresource.
    pub fn merge_status(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        self.merge_part(Part::Status, (api_version, kind), (namespace, name), patch)
    }

    fn merge_part(
        &self,
        part: Part,
        (api_version, kind): (&str, &str),
        key: (&str, &str),
        patch: &Value,
    ) -> Result<Value, ApiError> {
        self.with(|state| {
            let resource = kind_of(state, api_version, kind)?;
            state
                .patch(&resource, key, part, (Patch::Merge, patch), &options())
                .map(|outcome| outcome.object)
        })
    }

    /// One object; `None` where it does not exist.
    ///
    /// # Errors
    /// `no matches for kind` for a kind that is not served.
    pub fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ApiError> {
        self.with(|state| {
            let resource = kind_of(state, api_version, kind)?;
            Ok(state
                .object(&resource, namespace, name)
                .ok()
                .map(|object| convert::from_storage(object, &resource)))
        })
    }

    /// Every object of a kind, in one namespace or (empty) in all, ordered by namespace and name.
    ///
    /// # Errors
    /// `no matches for kind` for a kind that is not served.
    pub fn list(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Result<Vec<Value>, ApiError> {
        self.with(|state| {
            let resource = kind_of(state, api_version, kind)?;
            let prefix = if namespace.is_empty() {
                String::new()
            } else {
                format!("{namespace}/")
            };
            Ok(state
                .store
                .range(&resource.collection(), &prefix)
                .map(|object| convert::from_storage(object, &resource))
                .collect())
        })
    }

    /// Every object, by kind, namespace and name, also those that a new cluster has.
    pub fn objects(&self) -> Vec<Value> {
        self.with(|state| {
            let kinds = state.store.collections();
            let served = kinds.filter_map(|id| state.registry.of_collection(id));
            let objects = served.flat_map(|resource| {
                let objects = state.store.range(&resource.collection(), "");
                objects.map(|object| convert::from_storage(object, resource))
            });
            objects.collect()
        })
    }

    /// Deletes an object as a request without options would.
    ///
    /// # Errors
    /// As the API answers.
    pub fn delete(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        self.with(|state| {
            let resource = kind_of(state, api_version, kind)?;
            state
                .delete(&resource, namespace, name, &DeleteOptions::default())
                .map(drop)
        })
    }

    /// Does at once what is done in the background after a change: collects garbage, and empties namespaces and definitions that end.
    pub fn settle(&self) {
        while self.inner.state.lock().clean_up_one() {}
    }

    /// The version of the newest change.
    pub fn version(&self) -> u64 {
        self.with(|state| state.store.version())
    }

    /// The uid of the namespace `kube-system`, which identifies a cluster.
    pub fn uid(&self) -> String {
        self.with(|state| {
            state
                .namespace("kube-system")
                .map(|namespace| namespace.head.uid.to_string())
                .unwrap_or_default()
        })
    }

    /// Forgets the past: lists and watches from older versions end with 410, running watches go on.
    pub fn compact(&self) {
        self.with(|state| state.store.compact());
    }

    /// All that the cluster holds now, for [`Cluster::restore`].
    pub fn backup(&self) -> Backup {
        Backup(self.with(|state| state.backup(state.store.version())))
    }

    /// Puts the cluster back to a backup, as one whose data were lost and restored as etcd's manual has it: the objects are those of
    /// the backup, versions go on above all that were ever given out, and the past is forgotten. Running watches break. Does nothing
    /// to a workspace of kcp, whose versions are those of its whole shard.
    pub fn restore(&self, backup: &Backup) {
        self.with(|state| {
            if state.store.is_below() {
                return;
            }
            let above = state.store.version().max(backup.0.store.version()) + BUMP;
            *state = backup.0.backup(above);
        });
        self.cut_watches();
    }

    /// As [`Cluster::restore`], but versions go back with the objects, and those that were given out since are given out again for
    /// something else.
    pub fn roll_back(&self, backup: &Backup) {
        self.with(|state| {
            if !state.store.is_below() {
                *state = backup.0.backup(backup.0.store.version());
            }
        });
        self.cut_watches();
    }

    /// Breaks every watch that is running, in the middle of its body.
    pub fn cut_watches(&self) {
        let fresh = self.inner.closed.child_token();
        std::mem::replace(&mut *self.inner.watches.lock(), fresh).cancel();
    }

    /// Moves its clock forward: the times that it notes on objects from now on are so much later. What it has promised for a time, as the end of a
    /// watch, goes by the machine's clock.
    pub fn advance(&self, by: Duration) {
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        self.with(|state| state.ahead = state.ahead.saturating_add(by));
    }

    /// Makes the cluster unreachable (`true`): running watches break, connections of new requests are closed unanswered.
    pub fn down(&self, down: bool) {
        self.inner.down.store(down, Ordering::SeqCst);
        if down {
            self.cut_watches();
        }
    }

    /// The last 10,000 requests, oldest first.
    pub fn requests(&self) -> Vec<Arc<Call>> {
        self.inner.log.lock().calls.iter().cloned().collect()
    }

    /// How many requests of this kind came since the start, `resource` being a plural (empty for discovery and the like).
    pub fn count(&self, verb: Verb, resource: &str) -> u64 {
        self.inner
            .log
            .lock()
            .counts
            .get(&(verb, resource.to_owned()))
            .copied()
            .unwrap_or_default()
    }

    /// Runs `work` under the cluster's lock and sees to what follows from it.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.inner.state.lock();
        let result = work(&mut state);
        let dirty = !state.work.is_empty();
        drop(state);
        if dirty {
            self.inner.cleanup.notify_one();
        }
        result
    }

    /// The cluster that it stands for, if it is a fork.
    pub(crate) fn source(&self) -> Option<&Source> {
        self.inner.source.as_ref()
    }

    pub(crate) fn is_down(&self) -> bool {
        self.inner.down.load(Ordering::SeqCst)
    }

    /// How many watches it is serving.
    pub fn watchers(&self) -> usize {
        self.inner.watchers.load(Ordering::SeqCst)
    }

    /// Counts a watch for as long as the answer is kept.
    pub(crate) fn count_watch(&self) -> OpenWatch {
        self.inner.watchers.fetch_add(1, Ordering::SeqCst);
        OpenWatch(self.clone())
    }

    pub(crate) fn watch_token(&self) -> CancellationToken {
        self.inner.watches.lock().clone()
    }

    pub(crate) fn record(&self, call: &Arc<Call>) {
        let mut log = self.inner.log.lock();
        if log.calls.len() == LOG_LIMIT {
            log.calls.pop_front();
        }
        log.calls.push_back(Arc::clone(call));
        let key = (call.verb, call.resource.clone());
        if log.counts.len() < COUNTER_LIMIT || log.counts.contains_key(&key) {
            *log.counts.entry(key).or_default() += 1;
        }
    }

    /// Garbage collection and namespace deletion, until the cluster is closed.
    pub(crate) async fn clean_up(self) {
        loop {
            tokio::select! {
                () = self.inner.closed.cancelled() => return,
                () = self.inner.cleanup.notified() => {}
            }
            while self.inner.state.lock().clean_up_one() {
                // Requests get their turn between two pieces of work.
                tokio::task::yield_now().await;
            }
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

/// Where an object belongs.
struct Target {
    resource: Arc<Resource>,
    namespace: String,
    name: String,
}

impl Target {
    fn of(state: &State, object: &Value) -> Result<Self, ApiError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = kind_of(state, &text(&object["apiVersion"]), &text(&object["kind"]))?;
        let named = text(&object["metadata"]["namespace"]);
        let namespace = match (resource.namespaced, named.is_empty()) {
            (false, _) => String::new(),
            (true, true) => "default".to_owned(),
            (true, false) => named,
        };
        Ok(Self {
            resource,
            namespace,
            name: text(&object["metadata"]["name"]),
        })
    }
}

fn kind_of(state: &State, api_version: &str, kind: &str) -> Result<Arc<Resource>, ApiError> {
    let (group, version) = group_version(api_version);
    let found = state.registry.find_kind(group, version, kind).cloned();
    let text = || {
        format!(
            "no matches for kind {kind:?} in version {api_version:?}: create its CustomResourceDefinition first"
        )
    };
    found.ok_or_else(|| ApiError::new(404, "NotFound", text()))
}

fn options() -> WriteOptions {
    WriteOptions {
        manager: MANAGER.to_owned(),
        ..WriteOptions::default()
    }
}
