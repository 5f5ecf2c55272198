//! The work that clean-up has still to do: [`Work`] in a [`WorkQueue`]. Writes and deletes add it.
//!
//! Nothing is done about it here; that comes after the write, one piece at a time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{State, namespaces};
use crate::crd;
use crate::resource::{CollectionId, group_version};
use crate::store::object::Owner;
use crate::store::{Object, Place, key};

/// One item of work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// An object with owner references: do its owners live?
    Dependent(CollectionId, Box<str>),
    /// An object that waits for its dependents, or to be parted from them.
    Owner(CollectionId, Box<str>),
    /// A namespace that is being deleted.
    Namespace(Box<str>),
    /// A CRD that is being deleted.
    Crd(Box<str>),
}

/// Work in the order in which it was queued, no piece of it twice.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkQueue {
    order: VecDeque<Work>,
    /// Exactly the entries of `order`.
    queued: BTreeSet<Work>,
}

impl WorkQueue {
    pub(crate) fn push(&mut self, work: Work) {
        if self.queued.insert(work.clone()) {
            self.order.push_back(work);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Work> {
        let work = self.order.pop_front()?;
        self.queued.remove(&work);
        Some(work)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl State {
    /// What follows from an object that was written.
    pub(super) fn after_put(&mut self, id: &CollectionId, object: &Arc<Object>) {
        let key = key(&object.head.namespace, &object.head.name);
        if !object.head.owners.is_empty() {
            self.work.push(Work::Dependent(id.clone(), key.clone()));
        }
        if object.head.deleting {
            self.work.push(Work::Owner(id.clone(), key));
            if *id == namespaces() {
                self.work.push(Work::Namespace(object.head.name.clone()));
            }
        }
        self.wake_owners(object);
    }

    /// What follows from an object that is gone.
    pub(super) fn after_remove(&mut self, id: &CollectionId, last: &Arc<Object>) {
        for (id, key) in self.store.dependents(&last.head.uid) {
            self.work.push(Work::Dependent(id, key));
        }
        self.wake_owners(last);
        let dying = |name: &str| {
            self.namespace(name)
                .is_some_and(|namespace| namespace.head.deleting)
        };
        if !last.head.namespace.is_empty() && dying(&last.head.namespace) {
            self.work.push(Work::Namespace(last.head.namespace.clone()));
        }
        let definition = format!("{}.{}", id.plural, id.group);
        if self
            .store
            .get(&crd::collection(), &definition)
            .is_some_and(|crd| crd.head.deleting)
        {
            self.work.push(Work::Crd(definition.into()));
        }
    }

    /// Adds owners in foreground deletion, whose dependent has changed.
    fn wake_owners(&mut self, dependent: &Object) {
        for owner in &dependent.head.owners {
            let Some((id, key)) = self.place_of(owner, &dependent.head.namespace) else {
                continue;
            };
            let waits = self
                .store
                .get(&id, &key)
                .is_some_and(|owner| owner.head.deleting);
            if waits {
                self.work.push(Work::Owner(id, key));
            }
        }
    }

    /// Where the owner that a reference means is kept, if its kind is served.
    pub(crate) fn place_of(&self, owner: &Owner, namespace: &str) -> Option<Place> {
        let (group, version) = group_version(&owner.api_version);
        let resource = self.registry.find_kind(group, version, &owner.kind)?;
        let namespace = if resource.namespaced { namespace } else { "" };
        Some((resource.collection(), key(namespace, &owner.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_work_is_there_once_and_may_come_again() {
        let mut queue = WorkQueue::default();
        for name in ["a", "b", "a"] {
            queue.push(Work::Namespace(name.into()));
        }
        assert_eq!(queue.pop(), Some(Work::Namespace("a".into())));
        queue.push(Work::Namespace("a".into()));
        assert_eq!(queue.pop(), Some(Work::Namespace("b".into())));
        assert_eq!(queue.pop(), Some(Work::Namespace("a".into())));
        assert!(queue.pop().is_none() && queue.is_empty());
    }
}
