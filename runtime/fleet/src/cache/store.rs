//! The cached objects of one resource, or of a selection of them. Entry point: [`Store`].
//!
//! A [watch](super::watch) feeds it, clients' own writes go in before their answers come out, readers and sinks use it.
//! Objects are kept as the JSON that the server sent, without managedFields.
//!
//! Invariants:
//! * No reader goes back in time. An object that is older than the cached one is ignored, a list that is older than the store is
//!   refused, and an own delete leaves a tombstone until the watch has passed it.
//! * Every sink sees every change, in the order in which readers see them.
//! * After [`Store::reset`] and [`Store::rebuild`] nothing counts before the next list.
//!
//! Cost: an object's text, an entry in a sorted map, and its keys in each index. A reader locks the store for one lookup; a page works
//! on a copy that is made in constant time. A writer waits until every sink has seen its change; readers do not.
//!
//! Not guaranteed:
//! * Without integer resource versions ([`Store::is_monotonic`]) the last state that arrives counts, even if it is an older one.
//! * A tombstone counts for a minute at most. If the watch is later than that, a deleted object may appear until its delete event.
//! * The store is as new as its watch. [`drift`](super::drift) finds events that the server never sent.
//!
//! Rooms: `rules` decides which changes count, `left_out` which namespaces, `excerpt` how much of an object is kept, `writer` publishes them, `reader` and `page` answer,
//! `index` finds objects by a field, `sinks` holds the subscribers, `progress` says how far the store is, `sorted` is the map below all
//! of it.

mod excerpt;
mod index;
mod left_out;
#[cfg(test)]
mod namespace_tests;
mod page;
mod progress;
mod reader;
mod rules;
mod sinks;
mod sorted;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use excerpt::Excerpt;
pub(crate) use index::IndexPath;
pub(crate) use left_out::LeftOut;
pub(crate) use page::{ByIndex, Page, Query, Visible, projected};
pub(crate) use progress::{Problem, Progress};
pub(crate) use sinks::{Change, Sink};

use crate::api::Projection;
use crate::json::{JsonError, Object, ObjectVersion};
use crate::kind::{GroupVersionKind, Resource};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rules::State;
use sinks::Sinks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::{Notify, watch};

/// Which objects a store holds, and how much of each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StoreKey {
    pub(crate) kind: GroupVersionKind,
    /// `None`: all namespaces, or the resource is cluster-scoped.
    pub(crate) namespace: Option<Arc<str>>,
    /// Canonical label and field selectors that the server filters by; empty: none.
    pub(crate) label_selector: Arc<str>,
    pub(crate) field_selector: Arc<str>,
    pub(crate) projection: Projection,
    /// What is kept of each object. `None`: all of it.
    pub(crate) excerpt: Option<Excerpt>,
}

impl StoreKey {
    /// All objects of a kind, or those of one namespace.
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
            excerpt: None,
        }
    }

    /// Whether its objects have all that a reader of this projection wants. An excerpt has all metadata.
    pub(crate) fn has(&self, wanted: Projection) -> bool {
        let is_whole = self.projection == Projection::Full && self.excerpt.is_none();
        is_whole || wanted == Projection::Metadata
    }

    pub(crate) fn is_selective(&self) -> bool {
        !self.label_selector.is_empty() || !self.field_selector.is_empty()
    }

    /// Whether it has one namespace, or objects of some labels. A wider store may take its place.
    pub(crate) fn is_narrow(&self) -> bool {
        self.namespace.is_some() || !self.label_selector.is_empty()
    }

    /// Whether it has every object that another one of the same kind has, and more.
    pub(crate) fn is_wider_than(&self, other: &Self) -> bool {
        self != other
            && (self.namespace.is_none() || self.namespace == other.namespace)
            && (self.label_selector.is_empty() || self.label_selector == other.label_selector)
            && self.field_selector == other.field_selector
    }
}

/// A list that is older than the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's list (version {list}) is older than the cache (version {held})")]
pub(crate) struct StaleList {
    pub(crate) list: u64,
    pub(crate) held: u64,
}

/// Why a text is not an object of a store.
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
    #[error("an object that does not name its logical cluster")]
    NoWorkspace,
}

/// Cached objects of one [`StoreKey`].
pub(crate) struct Store {
    pub(crate) key: StoreKey,
    pub(crate) resource: Arc<Resource>,
    left_out: LeftOut,
    /// Whether it holds the objects of many logical clusters.
    of_workspaces: bool,
    /// Locked from a change of `state` until every sink has seen it, so that sinks see changes in order. Locked before `state`.
    writer: Mutex<Sinks>,
    state: RwLock<State>,
    progress: watch::Sender<Progress>,
    /// Highest version of an object that was published; 0 where versions are not integers.
    seen: AtomicU64,
    /// Version up to which no change is missing: at least `seen`. Not a part of `progress`, whose watchers would wake for every event.
    reached: watch::Sender<u64>,
    /// Notified when a new list is needed: the store was reset, or differs from its server.
    relist: Notify,
    repairs: AtomicU64,
    drift_check_requested: AtomicBool,
}

impl Store {
    /// An empty store that keeps objects of all namespaces of its key but those left out. `of_workspaces`: of many logical clusters.
    pub(crate) fn new(
        key: StoreKey,
        resource: Arc<Resource>,
        left_out: LeftOut,
        of_workspaces: bool,
    ) -> Self {
        let (progress, _) = watch::channel(Progress::default());
        Self {
            key,
            resource,
            left_out,
            of_workspaces,
            writer: Mutex::default(),
            state: RwLock::default(),
            progress,
            seen: AtomicU64::new(0),
            reached: watch::channel(0).0,
            relist: Notify::new(),
            repairs: AtomicU64::new(0),
            drift_check_requested: AtomicBool::new(false),
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
        let object = self.placed(object)?;
        if self.key.projection == Projection::Metadata {
            return Ok(object.metadata_of(kind));
        }
        if object.kind() != *kind.kind {
            return Err(Unfit::OtherKind);
        }
        Ok(match self.key.excerpt {
            Some(excerpt) => excerpt.of(object),
            None => object,
        })
    }

    /// The object with the key that it has here.
    pub(crate) fn placed(&self, object: Object) -> Result<Object, Unfit> {
        if self.of_workspaces {
            object.of_its_workspace().ok_or(Unfit::NoWorkspace)
        } else {
            Ok(object)
        }
    }

    /// Which object of this store a text is, and in which version.
    pub(crate) fn version_in<'t>(&self, text: &'t [u8]) -> Result<ObjectVersion<'t>, Unfit> {
        if !self.of_workspaces {
            return Ok(ObjectVersion::scan(text)?);
        }
        let object = self.placed(Object::parse(Bytes::copy_from_slice(text))?)?;
        Ok(ObjectVersion {
            key: object.key(),
            uid: object.uid().into_owned().into(),
            version: object.resource_version().into_owned().into(),
        })
    }

    /// As [`Self::ingest`], for an item of a list. An object that is cached in this very version is shared and not parsed again, so
    /// that a new list does not hold everything twice.
    pub(crate) fn ingest_listed(&self, text: &[u8]) -> Result<Object, Unfit> {
        if self.shares_with_lists() {
            let listed = ObjectVersion::scan(text)?;
            if let Some((held, _)) = self.get(&listed.key)
                && !listed.version.is_empty()
                && (held.uid(), held.resource_version()) == (listed.uid, listed.version)
            {
                return Ok(held);
            }
        }
        self.ingest(text)
    }

    /// Whether the same version means the same object: not between a rebuild and its list, when two histories meet.
    fn shares_with_lists(&self) -> bool {
        let state = self.state.read();
        // The key of a text in a cache of many logical clusters takes more than a look at its head.
        state.objects.len() > 0 && !state.awaits_list && !self.of_workspaces
    }
}

/// A resource version as a number, if it is one.
pub(crate) fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}
