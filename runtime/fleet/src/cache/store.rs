//! Cached objects of one resource. Entry points: [`Store::apply`], fed by a watch, [`Store::record_write`], fed by own writes;
//! [`Store::get`] and [`Store::page`] read.
//!
//! Objects are kept as the raw JSON that the server sent, without managedFields. A reader never goes back in time: an object
//! older than the one held is ignored, a list older than the store is refused, own writes are put in at once, and an own delete
//! leaves a tombstone until the watch has passed it.

mod index;
mod page;
mod progress;
mod sinks;
mod sorted;
mod rules;
#[cfg(test)]
mod tests;

pub(crate) use index::IndexPath;
pub(crate) use page::{ByIndex, Query};
pub(crate) use progress::{Problem, Progress};

use crate::api::Projection;
use crate::json::{Identity, JsonError, Object};
use crate::kind::{GroupVersionKind, Resource};
use crate::request::ObjectKey;
use futures::FutureExt;
use index::Index;
use parking_lot::{Mutex, RwLock};
use rules::State;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{Notify, watch};

/// What of a resource a store holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StoreKey {
    pub(crate) kind: GroupVersionKind,
    /// `None`: all namespaces, or the resource is cluster-scoped.
    pub(crate) namespace: Option<Arc<str>>,
    /// Canonical label and field selectors that the server filters by; empty: none.
    pub(crate) label_selector: Arc<str>,
    pub(crate) field_selector: Arc<str>,
    pub(crate) projection: Projection,
}

impl StoreKey {
    /// Everything of a kind, or of it in one namespace.
    pub(crate) fn whole(
        kind: GroupVersionKind,
        namespace: Option<Arc<str>>,
        projection: Projection,
    ) -> Self {
        Self {
            kind,
            namespace,
            label_selector: "".into(),
            field_selector: "".into(),
            projection,
        }
    }

    pub(crate) fn is_selective(&self) -> bool {
        !self.label_selector.is_empty() || !self.field_selector.is_empty()
    }
}

/// One change of a cached object. `old` is absent on creation, `new` on deletion.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) old: Option<Object>,
    pub(crate) new: Option<Object>,
    /// Part of the first list, or of a replay for a late subscriber.
    pub(crate) initial: bool,
}

impl Change {
    /// The object in its newest known state.
    pub(crate) fn object(&self) -> Option<&Object> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// Receives the changes of a store in order. Must not block and must not write to the store; reading any store is fine.
pub(crate) trait Sink: Send + Sync {
    fn changed(&self, change: &Change);
}

/// A list that is older than what the store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's list (version {list}) is older than the cache (version {held})")]
pub(crate) struct StaleList {
    pub(crate) list: u64,
    pub(crate) held: u64,
}

/// Why a text is no object of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("an object without metadata.resourceVersion")]
    NoVersion,
    #[error("an object of another kind")]
    OtherKind,
    #[error("an object of another namespace")]
    OtherNamespace,
}

/// Cached objects of one [`StoreKey`].
pub(crate) struct Store {
    pub(crate) key: StoreKey,
    pub(crate) resource: Arc<Resource>,
    /// Held by whoever changes the store, from the change until every sink has seen it: sinks see changes in order.
    writer: Mutex<Sinks>,
    state: RwLock<State>,
    progress: watch::Sender<Progress>,
    /// Highest version of an object event seen; 0 where versions are not integers.
    seen: AtomicU64,
    /// The version that nothing older is missing up to: at least `seen`. Apart from `progress`, whose watchers need not wake for
    /// every event.
    reached: watch::Sender<u64>,
    /// Told when the store was reset, or found to lack something, and must be listed anew.
    relist: Notify,
    repairs: AtomicU64,
    /// Set while the store asks to be compared with its server soon.
    comparison_asked: AtomicBool,
}

type Sinks = Vec<(u64, Arc<dyn Sink>)>;

impl Store {
    pub(crate) fn new(key: StoreKey, resource: Arc<Resource>) -> Self {
        let (progress, _) = watch::channel(Progress::default());
        Self {
            key,
            resource,
            writer: Mutex::default(),
            state: RwLock::default(),
            progress,
            seen: AtomicU64::new(0),
            reached: watch::channel(0).0,
            relist: Notify::new(),
            repairs: AtomicU64::new(0),
            comparison_asked: AtomicBool::new(false),
        }
    }

    /// Makes an object of this store from the server's text.
    pub(crate) fn ingest(&self, text: &[u8]) -> Result<Object, Unfit> {
        let kind = &self.resource.kind;
        let object = Object::ingest(text, kind)?;
        if object.resource_version().is_empty() {
            return Err(Unfit::NoVersion);
        }
        if self.key.namespace.is_some()
            && self.key.namespace.as_deref() != object.namespace().as_deref()
        {
            return Err(Unfit::OtherNamespace);
        }
        if self.key.projection == Projection::Metadata {
            return Ok(object.metadata_of(kind));
        }
        if object.kind() != *kind.kind {
            return Err(Unfit::OtherKind);
        }
        Ok(object)
    }

    /// As [`Self::ingest`], of a list that may tell of what is held already: that is shared, so that a list anew costs no second
    /// copy of everything.
    pub(crate) fn ingest_listed(&self, text: &[u8]) -> Result<Object, Unfit> {
        if self.shares_with_lists() {
            let listed = Identity::scan(text)?;
            if let Some((held, _)) = self.get(&listed.key)
                && !listed.version.is_empty()
                && (held.uid(), held.resource_version()) == (listed.uid, listed.version)
            {
                return Ok(held);
            }
        }
        self.ingest(text)
    }

    /// Whether what is held can stand for what is listed in the same version: not while two histories meet.
    fn shares_with_lists(&self) -> bool {
        let state = self.state.read();
        state.objects.len() > 0 && !state.awaits_list
    }

    // --- changes ---

    /// Takes in an object that the watch says exists now. Returns whether the watch has come further.
    pub(crate) fn apply(&self, object: Object) -> bool {
        let version = object.resource_version().into_owned();
        self.observe(&version, |state| state.observe(object))
    }

    /// Takes in an object that the watch says is gone. Returns whether the watch has come further.
    pub(crate) fn delete(&self, object: &Object) -> bool {
        self.observe(&object.resource_version(), |state| state.delete(object))
    }

    fn observe(&self, version: &str, observe: impl FnOnce(&mut State) -> Option<Change>) -> bool {
        let sinks = self.writer.lock();
        let (change, further) = {
            // One lock for both, so that an own write cannot come in between.
            let mut state = self.state.write();
            let before = state.version.clone();
            let change = observe(&mut state);
            (change, state.version != before && state.version == version)
        };
        self.publish(&sinks, change.into_iter());
        self.note_reached();
        further
    }

    /// Takes in what an own write made of an object, unless the watch knows better.
    pub(crate) fn record_write(&self, object: Object) {
        let sinks = self.writer.lock();
        let change = self.state.write().record_write(object);
        self.publish(&sinks, change.into_iter());
    }

    /// An own write has made an object one that the store does not ask for: it leaves at once, and late news of it are ignored.
    pub(crate) fn evict(&self, object: &Object, now: Instant) {
        let sinks = self.writer.lock();
        let change = self.state.write().evict(object, now);
        self.publish(&sinks, change.into_iter());
    }

    /// An own delete that the server has confirmed: the object leaves at once, and late news of it are ignored.
    pub(crate) fn record_delete(&self, key: &ObjectKey, uid: Option<&str>, now: Instant) {
        let sinks = self.writer.lock();
        let change = self.state.write().record_delete(key, uid, now);
        self.publish(&sinks, change.into_iter());
    }

    /// Takes in a whole list: what is not in it is gone.
    ///
    /// # Errors
    /// [`StaleList`], and then nothing has changed.
    pub(crate) fn replace(&self, objects: Vec<Object>, version: String) -> Result<(), StaleList> {
        let sinks = self.writer.lock();
        let initial = !self.progress.borrow().synced;
        let changes = self.state.write().replace(objects, version, initial)?;
        self.publish(&sinks, changes.into_iter());
        drop(sinks);
        self.note_reached();
        self.progress
            .send_if_modified(|p| !std::mem::replace(&mut p.synced, true));
        Ok(())
    }

    /// Forgets everything, as for a new cluster: objects leave with their events, and older versions are welcome again.
    pub(crate) fn reset(&self) {
        let sinks = self.writer.lock();
        let changes = self.state.write().reset();
        self.publish(&sinks, changes.into_iter());
        drop(sinks);
        self.progress.send_modify(|p| *p = Progress::default());
        self.forget_versions();
        self.relist.notify_one();
    }

    /// The server's history was lost: from now on only the next list counts, whatever its version. Until it is in, readers see what
    /// is held, and events and own writes are ignored.
    pub(crate) fn rebuild(&self) {
        let _sinks = self.writer.lock();
        self.state.write().await_list();
        self.forget_versions();
    }

    fn forget_versions(&self) {
        self.seen.store(0, Ordering::Release);
        self.reached.send_replace(0);
    }

    /// Waits until the store must be listed anew.
    pub(crate) async fn relist_asked(&self) {
        self.relist.notified().await;
    }

    /// Whether the store must be listed anew; true once for each time that it was asked.
    pub(crate) fn take_relist(&self) -> bool {
        self.relist.notified().now_or_never().is_some()
    }

    fn publish(&self, sinks: &Sinks, changes: impl Iterator<Item = Change>) {
        let mut seen = 0;
        for change in changes {
            seen = seen.max(
                change
                    .object()
                    .map_or(0, |o| number(&o.resource_version()).unwrap_or(0)),
            );
            for (_, sink) in sinks {
                sink.changed(&change);
            }
        }
        self.seen.fetch_max(seen, Ordering::AcqRel);
        self.raise(seen);
    }

    fn raise(&self, reached: u64) {
        self.reached.send_if_modified(|held| {
            let newer = reached > *held;
            *held = reached.max(*held);
            newer
        });
    }

    fn note_reached(&self) {
        self.raise(self.state.read().number.unwrap_or(0));
    }

    /// Progress without an object: a bookmark. Returns whether it is any.
    pub(crate) fn reached(&self, version: &str) -> bool {
        let further = self.state.write().reached(version);
        self.note_reached();
        further
    }

    /// Asks for the store to be listed anew, because it may lack something.
    pub(crate) fn ask_relist(&self) {
        self.repairs.fetch_add(1, Ordering::Relaxed);
        self.relist.notify_one();
    }

    /// Asks for the store to be compared with its server soon.
    pub(crate) fn ask_comparison(&self) {
        self.comparison_asked.store(true, Ordering::Release);
    }

    /// Whether the store asks to be compared; true once for each time that it was asked.
    pub(crate) fn take_comparison(&self) -> bool {
        self.comparison_asked.swap(false, Ordering::AcqRel)
    }

    /// How often the store was found to differ from its server for no other reason than an event that was never sent.
    pub(crate) fn repairs(&self) -> u64 {
        self.repairs.load(Ordering::Relaxed)
    }

    // --- indexes ---

    /// Adds an index, to be filled by [`Self::fill_index`]; one of the same name and path that is there already serves both.
    pub(crate) fn begin_index(&self, name: &str, path: &IndexPath) {
        let mut state = self.state.write();
        let there = state.indexes.get(name);
        if there.is_some_and(|index| index.path == *path) {
            return;
        }
        let gone = state.indexes.insert(name.into(), Index::new(path.clone()));
        drop(state);
        drop(gone);
    }

    /// Takes one of the objects that were there before into an index, and lets changes and readers come in between. Returns whether there
    /// may be more; until then the index is not used for lists.
    pub(crate) fn fill_index(&self, name: &str) -> bool {
        let mut state = self.state.write();
        let State {
            indexes, objects, ..
        } = &mut *state;
        let index = indexes.get_mut(name);
        index.is_some_and(|index| index.fill_one(objects))
    }

    /// The indexes, for people.
    pub(crate) fn indexes(&self) -> Vec<String> {
        let state = self.state.read();
        let indexes = state.indexes.values();
        indexes.map(|index| index.path.to_string()).collect()
    }

    pub(crate) fn remove_index(&self, name: &str) {
        let gone = self.state.write().indexes.remove(name);
        drop(gone); // no more under the lock
    }

    // --- reads ---

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// The highest version of an object event seen.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// The version that the store has come to, with or without an object of that version.
    pub(crate) fn reached_version(&self) -> watch::Receiver<u64> {
        self.reached.subscribe()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.progress.borrow().synced
    }

    pub(crate) fn version(&self) -> String {
        self.state.read().version.clone()
    }

    /// Number of objects and bytes of their texts.
    pub(crate) fn size(&self) -> (usize, usize) {
        let state = self.state.read();
        (state.objects.len(), state.bytes)
    }

    /// Whether the server's versions are integers, without which time travel is not detected.
    pub(crate) fn is_monotonic(&self) -> bool {
        let state = self.state.read();
        state.version.is_empty() || state.number.is_some()
    }

    /// An object and its version.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<(Object, u64)> {
        self.state
            .read()
            .objects
            .get(key)
            .map(|entry| (entry.object.clone(), entry.version))
    }

    /// The version of an object, where versions are integers.
    pub(crate) fn version_of(&self, key: &ObjectKey) -> Option<u64> {
        self.state
            .read()
            .objects
            .get(key)
            .map(|entry| entry.version)
    }

    /// Calls `f` with key and version of every object.
    pub(crate) fn each_version(&self, mut f: impl FnMut(&ObjectKey, u64)) {
        for (key, entry) in self.state.read().objects.iter() {
            f(key, entry.version);
        }
    }

    /// Keys of the objects whose index holds a value.
    pub(crate) fn by_index(&self, name: &str, value: &str) -> Vec<ObjectKey> {
        self.state
            .read()
            .indexes
            .get(name)
            .map(|index| {
                index
                    .keys(value)
                    .iter()
                    .map(|(key, ())| key.clone())
                    .collect()
            })
            .unwrap_or_default()
    }
}

/// A resource version as a number, where it is one.
pub(crate) fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}
