//! The indexes of a backend's stores, shared by all users of the same path. Entry point: [`Stores::declare_index`].

use super::Stores;
use crate::breaks::Breaks;
use crate::cache::store::{IndexPath, Store};
use crate::kind::GroupVersionKind;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The indexes of each kind's stores, and the number of their users. They also apply to stores that start later.
#[derive(Default)]
pub(super) struct Indexes {
    by_kind: HashMap<GroupVersionKind, Vec<Declared>>,
}

struct Declared {
    name: Arc<str>,
    path: IndexPath,
    /// Users; never 0.
    uses: usize,
}

impl Indexes {
    /// Adds its kind's indexes to a store that starts.
    pub(super) fn add_to(&self, store: &Store) {
        for index in self.by_kind.get(&store.key.kind).into_iter().flatten() {
            store.begin_index(&index.name, &index.path);
            while store.fill_index(&index.name) {} // the store is empty, so this ends at once
        }
    }

    fn add(&mut self, kind: &GroupVersionKind, name: &Arc<str>, path: &IndexPath) {
        let declared = self.by_kind.entry(kind.clone()).or_default();
        match declared.iter_mut().find(|index| index.name == *name) {
            Some(index) => index.uses += 1,
            None => declared.push(Declared {
                name: name.clone(),
                path: path.clone(),
                uses: 1,
            }),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// Removes a user. Returns whether it was the last one.
    fn remove(&mut self, kind: &GroupVersionKind, name: &Arc<str>) -> bool {
        let Some(declared) = self.by_kind.get_mut(kind) else {
            return false;
        };
        let Some(at) = declared.iter().position(|index| index.name == *name) else {
            return false;
        };
        declared[at].uses -= 1;
        if declared[at].uses > 0 {
            return false;
        }
        declared.swap_remove(at);
        if declared.is_empty() {
            self.by_kind.remove(kind);
        }
        true
    }
}

/// One use of an index, which is removed with the last one.
pub(crate) struct IndexUse {
    stores: Weak<Stores>,
    kind: GroupVersionKind,
    name: Arc<str>,
}

impl Drop for IndexUse {
    fn drop(&mut self) {
        if let Some(stores) = self.stores.upgrade() {
            stores.release_index(&self.kind, &self.name);
        }
    }
}

impl Stores {
    /// Adds an index to every store of a kind, now and later, until its last user drops it. Equal paths must have equal names. Returns
    /// once the index is filled. The stores change and answer meanwhile.
    #[must_use]
    pub(crate) async fn declare_index(
        self: &Arc<Self>,
        kind: &GroupVersionKind,
        name: &Arc<str>,
        path: &IndexPath,
    ) -> IndexUse {
        let stores = self.begin_index(kind, name, path);
        let used = IndexUse {
            stores: Arc::downgrade(self),
            kind: kind.clone(),
            name: name.clone(),
        };
        let mut breaks = Breaks::begin();
        for store in stores {
            while store.fill_index(name) {
                breaks.check().await;
            }
        }
        used
    }

    /// Adds an index without filling it. Returns the stores that have it.
    fn begin_index(
        &self,
        kind: &GroupVersionKind,
        name: &Arc<str>,
        path: &IndexPath,
    ) -> Vec<Arc<Store>> {
        // A store that starts reads the indexes and is published under this lock, so it has the index before or after.
        let _running = self.running.lock();
        self.indexes.lock().add(kind, name, path);
        self.with_kind(kind, |stores| {
            for store in stores {
                store.begin_index(name, path);
            }
            stores.to_vec()
        })
    }

    fn release_index(&self, kind: &GroupVersionKind, name: &Arc<str>) {
        let _running = self.running.lock();
        if self.indexes.lock().remove(kind, name) {
            self.with_kind(kind, |stores| {
                for store in stores {
                    store.remove_index(name);
                }
            });
        }
    }
}
