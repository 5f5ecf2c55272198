//! What a fork holds of the cluster that it stands for: [`Copied`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::{State, Work, namespaces};
use crate::convert;
use crate::crd;
use crate::resource::{CollectionId, Resource};
use crate::store::{Object, key};

/// Everything that was read of the other cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Copied {
    /// Whether the kinds are known.
    pub(crate) kinds: bool,
    /// The versions in which the other cluster serves a kind, by group and plural. What only the fork serves is not there.
    pub(crate) versions: HashMap<(String, String), Vec<String>>,
    collections: HashMap<CollectionId, Collection>,
}

#[derive(Debug, Clone, Default)]
struct Collection {
    /// The objects as they were there; `None`: such an object was absent. What is here is not read again.
    objects: BTreeMap<Box<str>, Option<Arc<Object>>>,
    /// What was read whole.
    selections: HashSet<Selection>,
    /// Where to go on with what was read in part.
    begun: HashMap<Selection, String>,
    /// The kind, for when it is served no more.
    resource: Option<Arc<Resource>>,
}

/// A part of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Selection {
    /// Empty: every namespace.
    pub(crate) namespace: String,
    pub(crate) labels: String,
    pub(crate) fields: String,
}

/// What a request needs of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// An object by its namespace and name.
    One(String, String),
    /// All objects of a selection.
    Many(Selection),
}

impl Collection {
    fn has(&self, wanted: &Wanted) -> bool {
        let whole = |namespace: &str| {
            let selection = Selection {
                namespace: namespace.to_owned(),
                ..Selection::default()
            };
            self.selections.contains(&selection)
        };
        match wanted {
            Wanted::One(namespace, name) => {
                self.objects.contains_key(&*key(namespace, name)) || whole("") || whole(namespace)
            }
            Wanted::Many(selection) => {
                whole("") || whole(&selection.namespace) || self.selections.contains(selection)
            }
        }
    }
}

impl Copied {
    /// Whether all that is wanted was read.
    pub(crate) fn has(&self, id: &CollectionId, wanted: &Wanted) -> bool {
        let collection = self.collections.get(id);
        collection.is_some_and(|collection| collection.has(wanted))
    }

    /// Whether it is known what the other cluster had at this place.
    pub(crate) fn knows(&self, id: &CollectionId, at: &str) -> bool {
        let (namespace, name) = at.split_once('/').unwrap_or(("", at));
        self.has(id, &Wanted::One(namespace.to_owned(), name.to_owned()))
    }

    /// Notes that a part was read to its end. An object that was asked for by name and not found is absent.
    pub(crate) fn complete(&mut self, id: &CollectionId, wanted: Wanted) {
        let collection = self.collections.entry(id.clone()).or_default();
        match wanted {
            Wanted::One(namespace, name) => {
                let place = collection.objects.entry(key(&namespace, &name));
                place.or_default();
            }
            Wanted::Many(selection) => {
                collection.begun.remove(&selection);
                collection.selections.insert(selection);
            }
        }
    }

    /// The version in which objects of a kind are read; `None`: the other cluster does not serve it.
    pub(crate) fn version(&self, resource: &Resource) -> Option<String> {
        let kind = (resource.group.clone(), resource.plural.clone());
        let versions = self.versions.get(&kind)?;
        let own = versions.iter().find(|one| **one == resource.version);
        own.or_else(|| versions.first()).cloned()
    }

    /// Where to go on with a selection; `None`: at its beginning.
    pub(crate) fn begun(&self, id: &CollectionId, selection: &Selection) -> Option<String> {
        self.collections.get(id)?.begun.get(selection).cloned()
    }

    /// Notes where to go on with a selection.
    pub(crate) fn begin(&mut self, id: &CollectionId, selection: &Selection, next: &str) {
        let collection = self.collections.entry(id.clone()).or_default();
        collection.begun.insert(selection.clone(), next.to_owned());
    }

    /// The kind of a collection of which something was read.
    pub(crate) fn resource(&self, id: &CollectionId) -> Option<&Arc<Resource>> {
        self.collections.get(id)?.resource.as_ref()
    }

    /// The objects of a collection as they were there.
    pub(crate) fn objects(
        &self,
        id: &CollectionId,
    ) -> impl Iterator<Item = (&str, Option<&Arc<Object>>)> {
        let objects = self.collections.get(id).map(|copied| &copied.objects);
        let objects = objects.into_iter().flatten();
        objects.map(|(key, object)| (&**key, object.as_ref()))
    }

    /// The collections of which something was read.
    pub(crate) fn collections(&self) -> impl Iterator<Item = &CollectionId> {
        self.collections.keys()
    }
}

impl State {
    /// Keeps an object of the other cluster, unless it is known what was at its place. Returns its size in bytes.
    pub(crate) fn copy(&mut self, resource: &Arc<Resource>, value: Value) -> usize {
        let id = resource.collection();
        let text = |name: &str| value["metadata"][name].as_str().unwrap_or_default();
        let at = key(text("namespace"), text("name"));
        let is_known = |copied: &Copied| {
            let collection = copied.collections.get(&id);
            collection.is_some_and(|collection| collection.objects.contains_key(&at))
        };
        if self.copied.as_ref().is_none_or(is_known) || self.store.get(&id, &at).is_some() {
            return 0;
        }
        let object = self.store.copy(&id, convert::to_storage(value, resource));
        if id == crd::collection() {
            crd::set_served(&mut self.registry, &object.value());
        }
        let size = object.bytes().len();
        if let Some(copied) = &mut self.copied {
            let collection = copied.collections.entry(id.clone()).or_default();
            collection.objects.insert(at.clone(), Some(object.clone()));
            collection.resource.get_or_insert_with(|| resource.clone());
        }
        self.follow_up(&id, &at, &object);
        size
    }

    /// What would have happened to an object that is read late: it goes with its namespace, and with its owners.
    fn follow_up(&mut self, id: &CollectionId, at: &str, object: &Object) {
        let namespace = &object.head.namespace;
        if !namespace.is_empty() && self.is_gone(&namespaces(), namespace) {
            self.discard(id, at);
            return;
        }
        let places = object.head.owners.iter();
        let mut places = places.filter_map(|owner| self.place_of(owner, namespace));
        if places.any(|(id, key)| self.is_gone(&id, &key)) {
            self.work.push(Work::Dependent(id.clone(), at.into()));
        }
    }

    /// Whether the other cluster has an object that was deleted here.
    fn is_gone(&self, id: &CollectionId, key: &str) -> bool {
        let copied = self.copied.as_ref();
        let collection = copied.and_then(|copied| copied.collections.get(id));
        let was_there = collection.and_then(|of| of.objects.get(key)?.as_ref());
        was_there.is_some() && self.store.get(id, key).is_none()
    }

    /// From now on what it holds is what it is compared with.
    pub(crate) fn settle_copies(&mut self) {
        let Some(copied) = &mut self.copied else {
            return;
        };
        for id in self.store.collections() {
            copied.collections.entry(id.clone()).or_default();
        }
        for (id, collection) in &mut copied.collections {
            for (key, object) in &mut collection.objects {
                *object = self.store.get(id, key).cloned();
            }
            for object in self.store.range(id, "") {
                let key = key(&object.head.namespace, &object.head.name);
                collection.objects.insert(key, Some(object.clone()));
            }
        }
    }

    /// Whether the owner that a reference means may live where it was not read: the other cluster alone knows.
    pub(crate) fn may_live_elsewhere(&self, id: &CollectionId, key: &str) -> bool {
        let copied = self.copied.as_ref();
        copied.is_some_and(|copied| !copied.knows(id, key))
    }
}
