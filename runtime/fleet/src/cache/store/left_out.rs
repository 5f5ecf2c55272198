//! Namespaces whose objects the stores of a backend do not keep. Entry point: [`LeftOut`].
//!
//! A provider of namespaces leaves out those that are no clusters. A namespace that is not known yet is kept: its first objects may
//! arrive before the namespace itself.

use super::Store;
use crate::json::Object;
use crate::request::ObjectKey;
use arc_swap::ArcSwap;
use std::collections::HashSet;
use std::sync::Arc;

/// The namespaces, shared by all stores of a backend.
#[derive(Clone, Default)]
pub(crate) struct LeftOut(Arc<ArcSwap<HashSet<Arc<str>>>>);

impl LeftOut {
    /// Whether objects of a namespace are left out. Cluster-scoped objects never are.
    pub(crate) fn has(&self, namespace: Option<&str>) -> bool {
        let names = self.0.load();
        !names.is_empty() && namespace.is_some_and(|namespace| names.contains(namespace))
    }

    /// Sets the namespaces. Returns those that were left out before.
    pub(crate) fn set(&self, names: HashSet<Arc<str>>) -> Arc<HashSet<Arc<str>>> {
        self.0.swap(Arc::new(names))
    }
}

impl Store {
    /// Whether the store does not keep an object. Asked under the lock of the writers, so that no object slips in when a namespace is
    /// left out.
    pub(super) fn leaves_out(&self, object: &Object) -> bool {
        self.left_out.has(object.namespace().as_deref())
    }

    /// Whether the store keeps the object of a key.
    pub(crate) fn keeps(&self, key: &ObjectKey) -> bool {
        !self.left_out.has(key.namespace.as_deref())
    }

    /// Removes the objects that are left out by now, as sinks see too.
    pub(crate) fn remove_left_out(&self) {
        let sinks = self.writer.lock();
        let changes = self.state.write().remove_where(|key| !self.keeps(key));
        self.publish(&sinks, changes);
    }

    /// Requests a new list, because namespaces are not left out any more.
    pub(crate) fn list_again(&self) {
        self.relist.notify_one();
    }
}
