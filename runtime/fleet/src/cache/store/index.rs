//! A field index of a store: which objects hold a value at a path. Entry points: [`Index::fill_one`] and [`Index::insert`].

use super::rules::Entry;
use super::sorted::{Cursor, Sorted};
use crate::json::Object;
use crate::path::FieldPath;
use crate::request::ObjectKey;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// Most values that one object contributes to one index.
const MAX_VALUES: usize = 1000;

/// Where the values of an index stand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexPath {
    pub(crate) path: FieldPath,
    /// Where the namespace of the referred object stands; values are then `namespace/name`.
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

pub(crate) struct Index {
    pub(crate) path: IndexPath,
    /// Holds no empty set.
    keys: HashMap<Box<str>, Sorted<()>>,
    filled: Filled,
}

/// Which of the objects that were there before it an index has taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Filled {
    /// Those up to a key. `None`: not even the first.
    UpTo(Option<ObjectKey>),
    All,
}

impl Index {
    /// One that is still to be [filled](Self::fill_one).
    pub(crate) fn new(path: IndexPath) -> Self {
        Self {
            path,
            keys: HashMap::new(),
            filled: Filled::UpTo(None),
        }
    }

    /// Takes in one of the objects that were there before it, and no more at once, as one may be large. Returns whether there may be more.
    pub(super) fn fill_one(&mut self, objects: &Sorted<Entry>) -> bool {
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

    /// Whether it knows of all objects.
    pub(super) fn is_whole(&self) -> bool {
        self.filled == Filled::All
    }

    /// Takes in an object that has come, whether [`Self::fill_one`] is to come to it or not.
    pub(crate) fn insert(&mut self, key: &ObjectKey, object: &Object) {
        for value in self.path.values(object) {
            self.keys
                .entry(value.into())
                .or_default()
                .insert(key.clone(), ());
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey, object: &Object) {
        for value in self.path.values(object) {
            if let Some(keys) = self.keys.get_mut(&*value) {
                keys.remove(key);
                if keys.len() == 0 {
                    self.keys.remove(&*value);
                }
            }
        }
    }

    /// The keys of the objects that have a value, as they are now.
    pub(super) fn keys(&self, value: &str) -> Sorted<()> {
        self.keys.get(value).cloned().unwrap_or_default()
    }
}

impl IndexPath {
    /// Whether an object has a value.
    pub(super) fn holds(&self, object: &Object, value: &str) -> bool {
        self.values(object).contains(value)
    }

    /// The values of an object, each once.
    fn values(&self, object: &Object) -> BTreeSet<String> {
        let mut leaves = BTreeSet::new();
        self.path.values(object, |leaf| {
            if leaves.len() < MAX_VALUES {
                leaves.insert(leaf.into_owned());
            }
        });
        let Some(namespace_path) = &self.namespace_path else {
            return leaves;
        };
        let mut namespace = None;
        namespace_path.values(object, |leaf| {
            namespace.get_or_insert_with(|| leaf.into_owned());
        });
        let namespace = namespace
            .or_else(|| object.namespace().map(|n| n.into_owned()))
            .unwrap_or_default();
        leaves
            .into_iter()
            .map(|leaf| format!("{namespace}/{leaf}"))
            .collect()
    }
}
