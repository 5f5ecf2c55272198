//! Field indexes of a store: the keys of the objects that have a value at a path. Entry point: [`Store::begin_index`].
//!
//! A new index of a filled store is filled object by object, so that changes and readers come in between. Meanwhile it follows changes,
//! and lists do not use it.

use super::Store;
use super::rules::{Entry, State};
use super::sorted::{Cursor, Sorted};
use crate::json::Object;
use crate::path::FieldPath;
use crate::request::ObjectKey;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// Most values that one object contributes to one index.
const MAX_VALUES: usize = 1000;

/// The path of an index's values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexPath {
    pub(crate) path: FieldPath,
    /// The path of the referred object's namespace; values are then `namespace/name`.
    pub(crate) namespace_path: Option<FieldPath>,
}

impl fmt::Display for IndexPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        match &self.namespace_path {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

pub(super) struct Index {
    pub(super) path: IndexPath,
    /// Keys by value; no empty sets.
    keys: HashMap<Box<str>, Sorted<()>>,
    filled: Filled,
}

/// How many of the objects that are older than the index are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Filled {
    /// Those up to this key; `None`: not even the first.
    UpTo(Option<ObjectKey>),
    All,
}

impl Index {
    /// An index without objects, to be [filled](Self::fill_one).
    fn new(path: IndexPath) -> Self {
        Self {
            path,
            keys: HashMap::new(),
            filled: Filled::UpTo(None),
        }
    }

    /// Adds one of the objects that are older than the index; only one, because an object may be large. Returns whether there may be more.
    fn fill_one(&mut self, objects: &Sorted<Entry>) -> bool {
        let Filled::UpTo(last) = &self.filled else {
            return false;
        };
        let mut cursor = match last {
            Some(last) => objects.seek(last, true),
            None => Cursor::default(),
        };
        let Some((key, entry)) = objects.read(&mut cursor) else {
            self.filled = Filled::All;
            return false;
        };
        self.insert(key, &entry.object);
        self.filled = Filled::UpTo(Some(key.clone()));
        true
    }

    pub(super) fn is_filled(&self) -> bool {
        self.filled == Filled::All
    }

    /// Adds an object. [`Self::fill_one`] may add the same object later, which changes nothing.
    pub(super) fn insert(&mut self, key: &ObjectKey, object: &Object) {
        for value in self.path.values(object) {
            self.keys
                .entry(value.into())
                .or_default()
                .insert(key.clone(), ());
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, object: &Object) {
        for value in self.path.values(object) {
            if let Some(keys) = self.keys.get_mut(&*value) {
                keys.remove(key);
                if keys.len() == 0 {
                    self.keys.remove(&*value);
                }
            }
        }
    }

    /// The keys of the objects that have a value: a copy, made in constant time.
    pub(super) fn keys(&self, value: &str) -> Sorted<()> {
        self.keys.get(value).cloned().unwrap_or_default()
    }
}

impl IndexPath {
    pub(super) fn holds(&self, object: &Object, value: &str) -> bool {
        self.values(object).contains(value)
    }

    /// The values of an object, each once.
    fn values(&self, object: &Object) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.path.values(object, |leaf| {
            if found.len() < MAX_VALUES {
                found.insert(leaf.into_owned());
            }
        });
        let Some(namespace_path) = &self.namespace_path else {
            return found;
        };
        let mut namespace = None;
        namespace_path.values(object, |leaf| {
            namespace.get_or_insert_with(|| leaf.into_owned());
        });
        let namespace = namespace
            .or_else(|| object.namespace().map(|n| n.into_owned()))
            .unwrap_or_default();
        found
            .into_iter()
            .map(|leaf| format!("{namespace}/{leaf}"))
            .collect()
    }
}

impl Store {
    /// Adds an index, to be filled by [`Self::fill_index`]. An index of the same name and path stays as it is.
    pub(crate) fn begin_index(&self, name: &str, path: &IndexPath) {
        let mut state = self.state.write();
        let existing = state.indexes.get(name);
        if existing.is_some_and(|index| index.path == *path) {
            return;
        }
        let replaced = state.indexes.insert(name.into(), Index::new(path.clone()));
        // An index may be large: it is freed without the lock.
        drop(state);
        drop(replaced);
    }

    /// Adds one object to an index that is not filled yet. Returns whether there may be more.
    pub(crate) fn fill_index(&self, name: &str) -> bool {
        let mut state = self.state.write();
        let State {
            indexes, objects, ..
        } = &mut *state;
        let index = indexes.get_mut(name);
        index.is_some_and(|index| index.fill_one(objects))
    }

    /// The paths of the indexes, for people.
    pub(crate) fn indexes(&self) -> Vec<String> {
        let state = self.state.read();
        let indexes = state.indexes.values();
        indexes.map(|index| index.path.to_string()).collect()
    }

    pub(crate) fn remove_index(&self, name: &str) {
        let removed = self.state.write().indexes.remove(name);
        drop(removed); // without the lock
    }
}
