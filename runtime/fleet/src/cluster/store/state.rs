//! What a store holds and the rules by which it changes. Entry points: [`State::apply`] and [`State::replace`].

use super::index::Index;
use super::{Change, StaleList, number};
use crate::json::Object;
use crate::request::ObjectKey;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most tombstones kept per store; the oldest goes first.
const MAX_TOMBSTONES: usize = 10_000;
/// A tombstone that no watch event has resolved by then is dropped.
const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct State {
    pub(super) objects: BTreeMap<ObjectKey, Entry>,
    /// Resource version that list and watch have reached; text as the server gave it.
    pub(super) version: String,
    /// `version` as a number; `None` where it is not one, and then time travel is not detected.
    pub(super) number: Option<u64>,
    pub(super) indexes: BTreeMap<Arc<str>, Index>,
    /// Uids of objects that this process deleted and the watch has not passed yet.
    pub(super) tombstones: HashMap<Box<str>, Instant>,
    /// Sum of the texts of `objects`.
    pub(super) bytes: usize,
}

pub(super) struct Entry {
    pub(super) object: Object,
    /// 0 where versions are not integers.
    pub(super) version: u64,
}

impl State {
    pub(super) fn apply(&mut self, object: Object, initial: bool) -> Option<Change> {
        let version = number(&object.resource_version()).unwrap_or(0);
        if !self.tombstones.is_empty() && self.tombstones.contains_key(&*object.uid()) {
            return None;
        }
        let key = object.key();
        let old = match self.objects.get(&key) {
            Some(held) if held.version >= version && version != 0 => return None,
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

    pub(super) fn delete(&mut self, object: &Object) -> Option<Change> {
        self.tombstones.remove(&*object.uid());
        let key = object.key();
        let held = self.objects.get(&key)?;
        let newer = held.version > number(&object.resource_version()).unwrap_or(u64::MAX);
        if newer && held.object.uid() != object.uid() {
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

    pub(super) fn bury(
        &mut self,
        key: &ObjectKey,
        uid: Option<&str>,
        now: Instant,
    ) -> Option<Change> {
        let held = self.objects.get(key)?;
        if uid.is_some_and(|uid| uid != held.object.uid()) {
            return None;
        }
        self.tombstones
            .retain(|_, at| now.duration_since(*at) < TOMBSTONE_LIFE);
        if self.tombstones.len() < MAX_TOMBSTONES {
            self.tombstones
                .insert(held.object.uid().as_ref().into(), now);
        }
        let old = self.take(key);
        Some(Change {
            old,
            new: None,
            initial: false,
        })
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
        let mut changes = Vec::new();
        let mut present: HashSet<ObjectKey> = HashSet::with_capacity(objects.len());
        for object in objects {
            present.insert(object.key());
            changes.extend(self.apply(object, initial));
        }
        // An own write may be newer than the list: what the list cannot know of stays.
        let gone = |entry: &Entry| list.is_none_or(|list| entry.version <= list);
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
        self.tombstones.clear();
        self.number = list;
        self.version = version;
        Ok(changes)
    }

    pub(super) fn reset(&mut self) -> Vec<Change> {
        let keys: Vec<ObjectKey> = self.objects.keys().cloned().collect();
        let changes = keys
            .iter()
            .map(|key| Change {
                old: self.take(key),
                new: None,
                initial: false,
            })
            .collect();
        self.tombstones.clear();
        self.version.clear();
        self.number = None;
        changes
    }

    pub(super) fn reached(&mut self, version: &str) {
        match (number(version), self.number) {
            (Some(new), Some(held)) if new <= held => {}
            (new, _) => {
                self.number = new;
                version.clone_into(&mut self.version);
            }
        }
    }
}
