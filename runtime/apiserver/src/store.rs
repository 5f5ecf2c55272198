//! The objects of one cluster and their recent past: [`Store`].
//!
//! One counter gives every change its version. Each collection keeps its objects as serialised JSON and a bounded ring of
//! changes; a list at an older version is the present with the ring undone, a watch is a position in the ring.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::resource::CollectionId;

pub(crate) mod object;

pub(crate) use object::{Event, EventKind, Object};

/// The past asked for is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The oldest version that can still be served.
    pub(crate) oldest: u64,
}

#[derive(Debug)]
struct Collection {
    objects: BTreeMap<Box<str>, Arc<Object>>,
    history: VecDeque<Arc<Event>>,
    /// Every change after this version is in `history`.
    floor: u64,
    /// Holds the version of the newest change.
    bell: watch::Sender<u64>,
}

impl Collection {
    fn new(floor: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            floor,
            bell: watch::Sender::new(floor),
        }
    }
}

/// What the stores of several clusters have in common: their changes get versions of one row, and what they hold is kept together too.
pub(crate) trait Upper: std::fmt::Debug + Send + Sync {
    /// The version of the newest change in any of the stores.
    fn version(&self) -> u64;
    /// Gives the next change its version, and takes it over.
    fn take(&self, id: &CollectionId, make: &mut dyn FnMut(u64) -> Arc<Event>) -> Arc<Event>;
}

/// A dependent object: where it is kept and under which key.
pub(crate) type Place = (CollectionId, Box<str>);

/// The objects of one cluster.
#[derive(Debug)]
pub(crate) struct Store {
    /// The version of the newest change, where there is no `upper` that knows it.
    version: u64,
    upper: Option<Arc<dyn Upper>>,
    /// The version of the last explicit compaction.
    compacted: u64,
    /// Changes kept per collection.
    history_limit: usize,
    collections: HashMap<CollectionId, Collection>,
    /// Uid of an owner → its dependents. Holds exactly the owner references of the live objects.
    dependents: HashMap<Box<str>, BTreeSet<Place>>,
}

/// One page of a list.
pub(crate) struct Page {
    pub(crate) version: u64,
    pub(crate) objects: Vec<Arc<Object>>,
    /// Key of the first object that was left out, and how many were.
    pub(crate) rest: Option<(Box<str>, usize)>,
}

/// The key of an object inside its collection; sorts as etcd's keys do.
pub(crate) fn key(namespace: &str, name: &str) -> Box<str> {
    if namespace.is_empty() {
        name.into()
    } else {
        format!("{namespace}/{name}").into()
    }
}

fn starting(at: &str) -> (Bound<&str>, Bound<&str>) {
    (Bound::Included(at), Bound::Unbounded)
}

impl Store {
    pub(crate) fn new(history_limit: usize) -> Self {
        Self {
            version: 1,
            upper: None,
            compacted: 0,
            history_limit,
            collections: HashMap::new(),
            dependents: HashMap::new(),
        }
    }

    /// A store that is one of several with versions of one row.
    pub(crate) fn below(upper: Arc<dyn Upper>, history_limit: usize) -> Self {
        Self {
            upper: Some(upper),
            ..Self::new(history_limit)
        }
    }

    /// Whether its versions are those of other stores too.
    pub(crate) fn is_below(&self) -> bool {
        self.upper.is_some()
    }

    /// The version of the newest change.
    pub(crate) fn version(&self) -> u64 {
        self.upper
            .as_ref()
            .map_or(self.version, |upper| upper.version())
    }

    /// Makes a change under the next version.
    fn change(&mut self, id: &CollectionId, make: &mut dyn FnMut(u64) -> Arc<Event>) -> Arc<Event> {
        match &self.upper {
            Some(upper) => upper.take(id, make),
            None => {
                self.version += 1;
                make(self.version)
            }
        }
    }

    /// Keeps what happened in another store, its keys below `prefix`, under this store's next version.
    pub(crate) fn adopt(
        &mut self,
        id: &CollectionId,
        prefix: &str,
        make: &mut dyn FnMut(u64) -> Arc<Event>,
    ) -> Arc<Event> {
        self.version += 1;
        let event = make(self.version);
        let floor = self.compacted;
        let collection = self
            .collections
            .entry(id.clone())
            .or_insert_with(|| Collection::new(floor));
        let adopted = Arc::new(event.below(prefix));
        if event.kind == EventKind::Deleted {
            collection.objects.remove(&adopted.key);
        } else {
            let object = Arc::clone(&event.object);
            collection.objects.insert(adopted.key.clone(), object);
        }
        record(collection, self.history_limit, adopted);
        event
    }

    pub(crate) fn get(&self, id: &CollectionId, key: &str) -> Option<&Arc<Object>> {
        self.collections.get(id)?.objects.get(key)
    }

    /// An object as it was at a version, which the collection's history must reach back to.
    pub(crate) fn at(&self, id: &CollectionId, key: &str, version: u64) -> Option<&Arc<Object>> {
        let collection = self.collections.get(id)?;
        let newer = collection.history.iter().rev();
        let first_newer = newer
            .take_while(|event| event.version > version)
            .filter(|event| *event.key == *key)
            .last();
        match first_newer {
            Some(event) => event.previous.as_ref(),
            None => collection.objects.get(key),
        }
    }

    /// The oldest version of a collection that can still be read.
    pub(crate) fn floor(&self, id: &CollectionId) -> u64 {
        self.collections
            .get(id)
            .map_or(self.compacted, |collection| collection.floor)
    }

    /// All live objects of a collection whose key starts with `prefix`.
    pub(crate) fn range<'a>(
        &'a self,
        id: &CollectionId,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let objects = self
            .collections
            .get(id)
            .map(|collection| &collection.objects);
        let from = objects
            .into_iter()
            .flat_map(move |objects| objects.range::<str, _>(starting(prefix)));
        from.take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object)
    }

    /// Every collection that holds an object.
    pub(crate) fn collections(&self) -> impl Iterator<Item = &CollectionId> {
        self.collections
            .iter()
            .filter(|(_, collection)| !collection.objects.is_empty())
            .map(|(id, _)| id)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Stores `value` under a new version and returns what is stored now.
    pub(crate) fn put(&mut self, id: &CollectionId, value: Value) -> Arc<Object> {
        let text = |name: &str| value["metadata"][name].as_str().unwrap_or_default();
        let key = key(text("namespace"), text("name"));
        let previous = self.get(id, &key).cloned();
        let kind = if previous.is_some() {
            EventKind::Modified
        } else {
            EventKind::Added
        };
        let mut value = Some(value);
        let event = self.change(id, &mut |version| {
            let object = Object::new(value.take().unwrap_or_default(), version);
            Arc::new(Event::new(
                version,
                kind,
                Arc::new(object),
                previous.clone(),
            ))
        });
        let object = Arc::clone(&event.object);
        let floor = self.compacted;
        let collection = self
            .collections
            .entry(id.clone())
            .or_insert_with(|| Collection::new(floor));
        collection.objects.insert(key.clone(), Arc::clone(&object));
        if let Some(previous) = &previous {
            unlink(&mut self.dependents, previous, id, &key);
        }
        for owner in &object.head.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert((id.clone(), key.clone()));
        }
        record(collection, self.history_limit, event);
        object
    }

    /// Keeps an object as another server has it, under its version there. There is no event: no reader has seen it as absent.
    pub(crate) fn copy(&mut self, id: &CollectionId, mut value: Value) -> Arc<Object> {
        let version = value["metadata"]["resourceVersion"].as_str();
        // Versions that are no numbers cannot be kept.
        let there = version.and_then(|version| version.parse().ok());
        let version = there.unwrap_or(self.version + 1);
        self.version = self.version.max(version);
        let object = Arc::new(Object::new(value.take(), version));
        let key = key(&object.head.namespace, &object.head.name);
        for owner in &object.head.owners {
            let dependents = self.dependents.entry(owner.uid.clone()).or_default();
            dependents.insert((id.clone(), key.clone()));
        }
        let floor = self.compacted;
        let collection = self.collections.entry(id.clone());
        let collection = collection.or_insert_with(|| Collection::new(floor));
        collection.objects.insert(key, Arc::clone(&object));
        object
    }

    /// Removes an object and returns its last state, under the version of its removal.
    pub(crate) fn remove(&mut self, id: &CollectionId, key: &str) -> Option<Arc<Object>> {
        let previous = self.collections.get_mut(id)?.objects.remove(key)?;
        unlink(&mut self.dependents, &previous, id, key);
        let event = self.change(id, &mut |version| {
            let last = Arc::new(Object::new(previous.value(), version));
            let previous = Some(Arc::clone(&previous));
            Arc::new(Event::new(version, EventKind::Deleted, last, previous))
        });
        let last = Arc::clone(&event.object);
        record(self.collections.get_mut(id)?, self.history_limit, event);
        Some(last)
    }

    /// One page of the objects below `prefix`, starting at `from`, as of version `at` (default: now), of those that `keep` accepts.
    ///
    /// # Errors
    /// [`Compacted`] where the changes since `at` are no longer known.
    pub(crate) fn page(
        &self,
        id: &CollectionId,
        prefix: &str,
        from: Option<&str>,
        at: Option<u64>,
        limit: usize,
        keep: impl Fn(&str, &Object) -> bool,
    ) -> Result<Page, Compacted> {
        let newest = self.version();
        let version = at.unwrap_or(newest);
        let Some(collection) = self.collections.get(id) else {
            return if version < self.compacted {
                Err(Compacted {
                    oldest: self.compacted,
                })
            } else {
                Ok(Page::empty(version))
            };
        };
        let past = (version < newest)
            .then(|| undo(collection, version))
            .transpose()?;
        let start = from.unwrap_or(prefix);
        let mut page = Page::empty(version);
        let mut left_out = 0;
        let mut take = |key: &str, object: &Arc<Object>| {
            if !keep(key, object) {
                return;
            }
            if page.objects.len() < limit {
                page.objects.push(Arc::clone(object));
                return;
            }
            left_out += 1;
            page.rest = Some((
                page.rest
                    .take()
                    .map_or_else(|| key.into(), |(first, _)| first),
                left_out,
            ));
        };
        match past.filter(|past| !past.is_empty()) {
            None => {
                let live = collection
                    .objects
                    .range::<str, _>(starting(start))
                    .take_while(|(key, _)| key.starts_with(prefix));
                live.for_each(|(key, object)| take(key, object));
            }
            Some(past) => {
                let live = collection
                    .objects
                    .iter()
                    .filter(|(key, _)| !past.contains_key(&***key))
                    .map(|(key, object)| (&**key, object));
                let before = past
                    .iter()
                    .filter_map(|(key, object)| object.map(|object| (*key, object)));
                let merged: BTreeMap<&str, &Arc<Object>> = live.chain(before).collect();
                let below = merged
                    .range::<str, _>(starting(start))
                    .take_while(|(key, _)| key.starts_with(prefix));
                below.for_each(|(key, object)| take(key, object));
            }
        }
        Ok(page)
    }

    /// At most `limit` changes after version `after`, oldest first.
    ///
    /// # Errors
    /// [`Compacted`] where some of them are no longer known.
    pub(crate) fn changes(
        &self,
        id: &CollectionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Compacted> {
        let Some(collection) = self.collections.get(id) else {
            return if after < self.compacted {
                Err(Compacted {
                    oldest: self.compacted,
                })
            } else {
                Ok(Vec::new())
            };
        };
        if after < collection.floor {
            return Err(Compacted {
                oldest: collection.floor,
            });
        }
        let first = collection
            .history
            .partition_point(|event| event.version <= after);
        Ok(collection
            .history
            .range(first..)
            .take(limit)
            .cloned()
            .collect())
    }

    /// A receiver of each change of the collection.
    pub(crate) fn bell(&mut self, id: &CollectionId) -> watch::Receiver<u64> {
        let floor = self.compacted;
        self.collections
            .entry(id.clone())
            .or_insert_with(|| Collection::new(floor))
            .bell
            .subscribe()
    }

    /// The same objects without a past, as a server has them that was restored from a backup; changes go on from `version`.
    pub(crate) fn backup(&self, version: u64) -> Self {
        let bare = |collection: &Collection| Collection {
            objects: collection.objects.clone(),
            ..Collection::new(version)
        };
        Self {
            version,
            upper: self.upper.clone(),
            compacted: version,
            history_limit: self.history_limit,
            collections: self
                .collections
                .iter()
                .map(|(id, collection)| (id.clone(), bare(collection)))
                .collect(),
            dependents: self.dependents.clone(),
        }
    }

    /// Ends the watches of a collection, once they have told what has happened until now.
    pub(crate) fn end_watches(&mut self, id: &CollectionId) {
        if let Some(collection) = self.collections.get_mut(id) {
            let version = *collection.bell.borrow();
            collection.bell = watch::Sender::new(version);
        }
    }

    /// Forgets the past: only the present can be listed and watched from.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version();
        for collection in self.collections.values_mut() {
            collection.history.clear();
            collection.floor = self.compacted;
        }
    }
}

impl Page {
    fn empty(version: u64) -> Self {
        Self {
            version,
            objects: Vec::new(),
            rest: None,
        }
    }
}

/// The objects that differed at `version`: key → what it was then, `None` for absent.
fn undo(
    collection: &Collection,
    version: u64,
) -> Result<BTreeMap<&str, Option<&Arc<Object>>>, Compacted> {
    if version < collection.floor {
        return Err(Compacted {
            oldest: collection.floor,
        });
    }
    let newer = collection
        .history
        .iter()
        .rev()
        .take_while(|event| event.version > version);
    Ok(newer
        .map(|event| (&*event.key, event.previous.as_ref()))
        .collect())
}

fn record(collection: &mut Collection, limit: usize, event: Arc<Event>) {
    let version = event.version;
    collection.history.push_back(event);
    while collection.history.len() > limit {
        if let Some(dropped) = collection.history.pop_front() {
            collection.floor = dropped.version;
        }
    }
    collection.bell.send_replace(version);
}

fn unlink(
    dependents: &mut HashMap<Box<str>, BTreeSet<Place>>,
    object: &Object,
    id: &CollectionId,
    key: &str,
) {
    for owner in &object.head.owners {
        let Some(places) = dependents.get_mut(&owner.uid) else {
            continue;
        };
        places.remove(&(id.clone(), key.into()));
        if places.is_empty() {
            dependents.remove(&owner.uid);
        }
    }
}

#[cfg(test)]
mod tests;
