//! The objects of a store and the rules by which they change; without locks and I/O. Entry points: [`State::observe`],
//! [`State::record_write`] and [`State::replace`].
//!
//! Events, lists and answers to own writes arrive in any order. Versions decide:
//! * An event or an answer counts if its version is newer than the cached one.
//! * A list counts if it is not older than the watch. It removes what it lacks, except objects that are newer than the list.
//! * An own delete leaves a tombstone by uid, so that no late event, list or answer restores the object. An eviction leaves one up to
//!   the version that moved the object out of the selection. A tombstone ends with the delete event, or
//!   after [`TOMBSTONE_LIFE`].
//! * After [`State::await_list`] only the next list counts, whatever the versions say: it is of another history.
//!
//! Where versions are not integers, they are 0 here, and the last state that arrives counts.

use super::index::Index;
use super::sorted::Sorted;
use super::{Change, StaleList, number};
use crate::json::Object;
use crate::request::ObjectKey;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most tombstones of a store. While all of them are fresh, further deletes add none.
const MAX_TOMBSTONES: usize = 10_000;
/// A tombstone counts no longer than this, in case the watch never shows the delete.
const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct State {
    pub(super) objects: Sorted<Entry>,
    /// Resource version that list and watch have reached, as the server gave it.
    pub(super) version: String,
    /// `version` as a number; `None` where it is not one.
    pub(super) number: Option<u64>,
    pub(super) indexes: BTreeMap<Arc<str>, Index>,
    /// By uid: objects that own writes removed and whose removal the watch has not passed yet.
    pub(super) tombstones: HashMap<Box<str>, Tombstone>,
    /// Set from a reset or a rebuild until the next list. Meanwhile `objects` holds the previous history, and events and own writes may
    /// belong to it too, so they are ignored.
    pub(super) awaits_list: bool,
    /// Sum of the lengths of the texts of `objects`.
    pub(super) bytes: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) object: Object,
    /// 0 where versions are not integers.
    pub(super) version: u64,
}

impl Entry {
    /// Whether another state replaces this one. `list`: the version of the list that contains the other state.
    fn yields_to(&self, other: &Object, version: u64, list: Option<u64>) -> bool {
        match version.cmp(&self.version) {
            Ordering::Greater => true,
            // A version belongs to one object. If a list has it with another uid, the cached object was damaged on its way.
            Ordering::Equal => list.is_some() && self.object.uid() != other.uid(),
            // A newer list can only contain an older state if the server was restored from a backup.
            Ordering::Less => list.is_some_and(|list| self.version <= list),
        }
    }
}

pub(super) struct Tombstone {
    since: Instant,
    /// States of the object up to this version are ignored.
    until: u64,
}

impl State {
    /// Records an object that exists, from a watch event.
    pub(super) fn observe(&mut self, object: Object) -> Option<Change> {
        if self.awaits_list {
            return None;
        }
        let version = object.resource_version().into_owned();
        let change = self.apply(object, false, None);
        self.reached(&version);
        change
    }

    /// Records the state that an own write gave an object.
    pub(super) fn record_write(&mut self, object: Object) -> Option<Change> {
        // The watch may have passed both the write and a later delete before the answer came.
        let is_passed = match (number(&object.resource_version()), self.number) {
            (Some(version), Some(reached)) => version <= reached,
            _ => false,
        };
        if self.awaits_list || (is_passed && !self.objects.contains(&object.key())) {
            return None;
        }
        self.apply(object, false, None)
    }

    /// Records a state unless the cached one is newer. `list`: the version of the list that contains the state.
    fn apply(&mut self, object: Object, initial: bool, list: Option<u64>) -> Option<Change> {
        let version = number(&object.resource_version()).unwrap_or(0);
        if self.is_tombstoned(&object, version) {
            return None;
        }
        let key = self.interned(object.key());
        let held = self.objects.get(&key);
        if version != 0 && held.is_some_and(|held| !held.yields_to(&object, version, list)) {
            return None;
        }
        let old = held.map(|held| held.object.clone());
        self.put(key, object.clone(), version);
        Some(Change {
            old,
            new: Some(object),
            initial,
        })
    }

    /// Whether a tombstone hides this state.
    fn is_tombstoned(&self, object: &Object, version: u64) -> bool {
        if self.tombstones.is_empty() {
            return false;
        }
        self.tombstones
            .get(&*object.uid())
            .is_some_and(|tombstone| {
                version <= tombstone.until && tombstone.since.elapsed() < TOMBSTONE_LIFE
            })
    }

    /// The key with the namespace's text of a neighbouring key, so that a namespace is in memory once.
    fn interned(&self, mut key: ObjectKey) -> ObjectKey {
        let before = self.objects.last_before(&key);
        let after = || self.objects.first_from(&key);
        let neighbour = before
            .filter(|(other, _)| other.namespace == key.namespace)
            .or_else(after)
            .filter(|(other, _)| other.namespace == key.namespace);
        if let Some((other, _)) = neighbour {
            key.namespace = other.namespace.clone();
        }
        key
    }

    fn put(&mut self, key: ObjectKey, object: Object, version: u64) {
        for index in self.indexes.values_mut() {
            if let Some(held) = self.objects.get(&key) {
                index.remove(&key, &held.object);
            }
            index.insert(&key, &object);
        }
        self.bytes += object.json().len();
        if let Some(held) = self.objects.insert(key, Entry { object, version }) {
            self.bytes -= held.object.json().len();
        }
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Object> {
        let held = self.objects.remove(key)?;
        self.bytes -= held.object.json().len();
        for index in self.indexes.values_mut() {
            index.remove(key, &held.object);
        }
        Some(held.object)
    }

    /// Removes an object that is gone, from a watch event.
    pub(super) fn delete(&mut self, object: &Object) -> Option<Change> {
        if self.awaits_list {
            return None;
        }
        self.tombstones.remove(&*object.uid());
        let change = self.remove(object);
        self.reached(&object.resource_version());
        change
    }

    /// Removes an object that an own write has moved out of the selection.
    pub(super) fn evict(&mut self, object: &Object, now: Instant) -> Option<Change> {
        let until = number(&object.resource_version())?;
        if self.number.is_none_or(|reached| reached < until) {
            self.add_tombstone(&object.uid(), until, now);
        }
        // Sinks get the last state that was selected.
        let held = self.objects.get(&object.key())?.object.clone();
        self.remove(object).map(|change| Change {
            old: Some(held),
            ..change
        })
    }

    /// Removes an object unless a newer state, or a newer object of the same name, is cached.
    fn remove(&mut self, object: &Object) -> Option<Change> {
        let key = object.key();
        let held = self.objects.get(&key)?;
        if held.version > number(&object.resource_version()).unwrap_or(u64::MAX) {
            return None;
        }
        self.take(&key);
        // The event's state may be newer than the cached one.
        Some(Change::deleted(object.clone()))
    }

    /// Removes an object that an own write has deleted. Without a uid it is the cached one.
    pub(super) fn record_delete(
        &mut self,
        key: &ObjectKey,
        uid: Option<&str>,
        now: Instant,
    ) -> Option<Change> {
        let held = self.objects.get(key).map(|held| held.object.clone());
        match (uid, &held) {
            // Even if it is not cached: the event of its creation may be on its way.
            (Some(uid), _) => self.add_tombstone(uid, u64::MAX, now),
            (None, Some(held)) => self.add_tombstone(&held.uid(), u64::MAX, now),
            (None, None) => {}
        }
        if uid.is_some_and(|uid| held.is_none_or(|held| uid != held.uid())) {
            return None;
        }
        self.take(key).map(Change::deleted)
    }

    fn add_tombstone(&mut self, uid: &str, until: u64, now: Instant) {
        if self.tombstones.len() >= MAX_TOMBSTONES {
            self.prune(now);
        }
        if self.tombstones.len() < MAX_TOMBSTONES {
            self.tombstones
                .insert(uid.into(), Tombstone { since: now, until });
        }
    }

    fn prune(&mut self, now: Instant) {
        self.tombstones
            .retain(|_, tombstone| now.duration_since(tombstone.since) < TOMBSTONE_LIFE);
    }

    /// Replaces all objects by those of a list, except objects that are newer than the list.
    pub(super) fn replace(
        &mut self,
        objects: Vec<Object>,
        version: String,
        initial: bool,
    ) -> Result<Vec<Change>, StaleList> {
        let list = number(&version);
        if let (Some(list), Some(held)) = (list, self.number)
            && list < held
        {
            return Err(StaleList { list, held });
        }
        let is_other_history = self.awaits_list;
        let mut changes = Vec::new();
        let mut present: HashSet<ObjectKey> = HashSet::with_capacity(objects.len());
        for object in objects {
            present.insert(object.key());
            changes.extend(if is_other_history {
                self.put_other_history(object, initial)
            } else {
                self.apply(object, initial, list)
            });
        }
        // A list cannot contain an own write that is newer.
        let is_covered =
            |entry: &Entry| is_other_history || list.is_none_or(|list| entry.version <= list);
        let gone: Vec<ObjectKey> = self
            .objects
            .iter()
            .filter(|(key, entry)| !present.contains(key) && is_covered(entry))
            .map(|(key, _)| key.clone())
            .collect();
        changes.extend(
            gone.iter()
                .filter_map(|key| self.take(key))
                .map(Change::deleted),
        );
        // Fresh tombstones stay: the list may be older than an own delete.
        self.prune(Instant::now());
        self.awaits_list = false;
        self.number = list;
        self.version = version;
        Ok(changes)
    }

    /// Records an object of the first list of another history. Versions of two histories cannot be compared, but contents can.
    fn put_other_history(&mut self, object: Object, initial: bool) -> Option<Change> {
        let key = self.interned(object.key());
        let old = self.objects.get(&key).map(|held| held.object.clone());
        if old.as_ref().is_some_and(|old| old.json() == object.json()) {
            return None;
        }
        let version = number(&object.resource_version()).unwrap_or(0);
        self.put(key, object.clone(), version);
        Some(Change {
            old,
            new: Some(object),
            initial,
        })
    }

    /// Removes all objects.
    pub(super) fn reset(&mut self) -> Vec<Change> {
        let changes = self.remove_where(|_| true);
        self.await_list();
        changes
    }

    /// Removes the objects of some keys.
    pub(super) fn remove_where(&mut self, is_one: impl Fn(&ObjectKey) -> bool) -> Vec<Change> {
        let keys = self.objects.iter().map(|(key, _)| key);
        let keys: Vec<ObjectKey> = keys.filter(|key| is_one(key)).cloned().collect();
        let removed = keys.iter().filter_map(|key| self.take(key));
        removed.map(Change::deleted).collect()
    }

    /// Ignores everything until the next list. The cached objects stay until then.
    pub(super) fn await_list(&mut self) {
        self.tombstones.clear();
        self.version.clear();
        self.number = None;
        self.awaits_list = true;
    }

    /// Records a version that the watch has reached. Returns whether it is a later one.
    pub(super) fn reached(&mut self, version: &str) -> bool {
        if self.awaits_list || version.is_empty() || *version == *self.version {
            return false;
        }
        match (number(version), self.number) {
            (Some(new), Some(held)) if new <= held => false,
            (new, _) => {
                self.number = new;
                version.clone_into(&mut self.version);
                true
            }
        }
    }
}
