//! What a store holds and the rules by which it changes. Entry points: [`State::observe`], [`State::record_write`] and
//! [`State::replace`].

use super::index::Index;
use super::sorted::Sorted;
use super::{Change, StaleList, number};
use crate::json::Object;
use crate::request::ObjectKey;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most tombstones kept per store. While so many are fresh, further deletes leave none.
const MAX_TOMBSTONES: usize = 10_000;
/// A tombstone that no watch event has resolved by then counts no longer.
const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct State {
    pub(super) objects: Sorted<Entry>,
    /// Resource version that list and watch have reached; text as the server gave it.
    pub(super) version: String,
    /// `version` as a number; `None` where it is not one, and then time travel is not detected.
    pub(super) number: Option<u64>,
    pub(super) indexes: BTreeMap<Arc<str>, Index>,
    /// By uid: what own writes took out of the store and the watch has not passed yet.
    pub(super) tombstones: HashMap<Box<str>, Tombstone>,
    /// Set by a reset or a rebuild until the next list: what comes in meanwhile may be of the server or the history before. While it
    /// is set, what `objects` holds is of that history, and the next list replaces it whatever the versions say.
    pub(super) awaits_list: bool,
    /// Sum of the texts of `objects`.
    pub(super) bytes: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) object: Object,
    /// 0 where versions are not integers.
    pub(super) version: u64,
}

pub(super) struct Tombstone {
    since: Instant,
    /// News of the object up to this version are late.
    until: u64,
}

impl State {
    /// Takes in what the watch says of an object that exists.
    pub(super) fn observe(&mut self, object: Object) -> Option<Change> {
        if self.awaits_list {
            return None;
        }
        let version = object.resource_version().into_owned();
        let change = self.apply(object, false, None);
        self.reached(&version);
        change
    }

    /// Takes in what an own write made of an object.
    pub(super) fn record_write(&mut self, object: Object) -> Option<Change> {
        // The answer may come after the watch has passed the write and a later deletion.
        let passed = match (number(&object.resource_version()), self.number) {
            (Some(version), Some(reached)) => version <= reached,
            _ => false,
        };
        if self.awaits_list || (passed && !self.objects.contains(&object.key())) {
            return None;
        }
        self.apply(object, false, None)
    }

    /// `list` is the version of the list that the object is of.
    fn apply(&mut self, object: Object, initial: bool, list: Option<u64>) -> Option<Change> {
        let version = number(&object.resource_version()).unwrap_or(0);
        if self.is_late(&object, version) {
            return None;
        }
        let key = self.shared(object.key());
        let old = match self.objects.get(&key) {
            // A version is of one object: where a list has it under another uid, what is held was garbled on its way.
            Some(held)
                if held.version == version
                    && version != 0
                    && (list.is_none() || held.object.uid() == object.uid()) =>
            {
                return None;
            }
            // A list that is newer than the state held, and has an older one, tells that this state was taken back: the server's
            // past was restored from before it.
            Some(held)
                if held.version > version
                    && version != 0
                    && list.is_none_or(|list| held.version > list) =>
            {
                return None;
            }
            Some(held) => Some(held.object.clone()),
            None => None,
        };
        self.put(key, object.clone(), version);
        Some(Change {
            old,
            new: Some(object),
            initial,
        })
    }

    /// Whether own writes have taken the object out since.
    fn is_late(&self, object: &Object, version: u64) -> bool {
        if self.tombstones.is_empty() {
            return false;
        }
        self.tombstones
            .get(&*object.uid())
            .is_some_and(|tombstone| {
                version <= tombstone.until && tombstone.since.elapsed() < TOMBSTONE_LIFE
            })
    }

    /// The key with its namespace in memory that all keys of the namespace share: they stand side by side.
    fn shared(&self, mut key: ObjectKey) -> ObjectKey {
        let before = self.objects.last_before(&key);
        let after = || self.objects.first_from(&key);
        let neighbour = before
            .filter(|(there, _)| there.namespace == key.namespace)
            .or_else(after)
            .filter(|(there, _)| there.namespace == key.namespace);
        if let Some((there, _)) = neighbour {
            key.namespace = there.namespace.clone();
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

    /// Takes out what the watch says is gone.
    pub(super) fn delete(&mut self, object: &Object) -> Option<Change> {
        if self.awaits_list {
            return None;
        }
        self.tombstones.remove(&*object.uid());
        let change = self.remove(object);
        self.reached(&object.resource_version());
        change
    }

    /// Takes out an object that an own write has made one that the store does not ask for.
    pub(super) fn evict(&mut self, object: &Object, now: Instant) -> Option<Change> {
        let until = number(&object.resource_version())?;
        if self.number.is_none_or(|reached| reached < until) {
            self.add_tombstone(&object.uid(), until, now);
        }
        // Told in the state that the store asked for: the new one is of no interest to who listens.
        let held = self.objects.get(&object.key())?.object.clone();
        self.remove(object).map(|change| Change {
            old: Some(held),
            ..change
        })
    }

    fn remove(&mut self, object: &Object) -> Option<Change> {
        let key = object.key();
        let held = self.objects.get(&key)?;
        // One of the same name made since, or one that an own write has brought back.
        if held.version > number(&object.resource_version()).unwrap_or(u64::MAX) {
            return None;
        }
        self.take(&key);
        // The event carries the last state, which may be newer than the one held.
        Some(Change {
            old: Some(object.clone()),
            new: None,
            initial: false,
        })
    }

    /// Takes out an object that an own write has deleted. Without a uid it is the one held.
    pub(super) fn record_delete(
        &mut self,
        key: &ObjectKey,
        uid: Option<&str>,
        now: Instant,
    ) -> Option<Change> {
        let held = self.objects.get(key).map(|held| held.object.clone());
        match (uid, &held) {
            // Even if it is not held: news that it was made may be on their way.
            (Some(uid), _) => self.add_tombstone(uid, u64::MAX, now),
            (None, Some(held)) => self.add_tombstone(&held.uid(), u64::MAX, now),
            (None, None) => {}
        }
        if uid.is_some_and(|uid| held.is_none_or(|held| uid != held.uid())) {
            return None;
        }
        let old = self.take(key)?;
        Some(Change {
            old: Some(old),
            new: None,
            initial: false,
        })
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
        let anew = self.awaits_list;
        let mut changes = Vec::new();
        let mut present: HashSet<ObjectKey> = HashSet::with_capacity(objects.len());
        for object in objects {
            present.insert(object.key());
            changes.extend(match anew {
                true => self.put_anew(object, initial),
                false => self.apply(object, initial, list),
            });
        }
        // An own write may be newer than the list: what the list cannot know of stays.
        let gone = |entry: &Entry| anew || list.is_none_or(|list| entry.version <= list);
        let gone: Vec<ObjectKey> = self
            .objects
            .iter()
            .filter(|(key, entry)| !present.contains(key) && gone(entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            let old = self.take(&key);
            changes.push(Change {
                old,
                new: None,
                initial: false,
            });
        }
        // A list may be older than an own delete, so tombstones outlive it.
        self.prune(Instant::now());
        self.awaits_list = false;
        self.number = list;
        self.version = version;
        Ok(changes)
    }

    /// Takes in an object of the first list of another history: versions of the two cannot be compared, contents can.
    fn put_anew(&mut self, object: Object, initial: bool) -> Option<Change> {
        let key = self.shared(object.key());
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

    pub(super) fn reset(&mut self) -> Vec<Change> {
        let keys: Vec<ObjectKey> = self.objects.iter().map(|(key, _)| key.clone()).collect();
        let changes = keys
            .iter()
            .map(|key| Change {
                old: self.take(key),
                new: None,
                initial: false,
            })
            .collect();
        self.await_list();
        changes
    }

    /// Forgets which versions were reached. What is held stays until the next list replaces it.
    pub(super) fn await_list(&mut self) {
        self.tombstones.clear();
        self.version.clear();
        self.number = None;
        self.awaits_list = true;
    }

    /// Notes progress of the watch. Returns whether it is any.
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
