//! What differs in a fork from what was copied: [`Change`].

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::convert;
use crate::resource::{CollectionId, Resource};
use crate::state::State;
use crate::store::Object;

/// An object that differs in a fork.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// API group; empty for core.
    pub group: String,
    /// Version in which both states are shown.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural of the kind.
    pub plural: String,
    /// Empty for an object without a namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Whether the fork knows the kind's schema: it is built-in, or its definition was read.
    pub has_schema: bool,
    /// As it was copied; `None`: it was absent.
    pub before: Option<Value>,
    /// As it is now; `None`: it is absent.
    pub after: Option<Value>,
}

impl Cluster {
    /// The objects of a fork that differ from what was copied, by kind, namespace and name. Those that were written and are as before
    /// but for their version are among them. Empty for a cluster that is no fork.
    pub fn fork_changes(&self) -> Vec<Change> {
        self.with(|state| {
            let Some(copied) = &state.copied else {
                return Vec::new();
            };
            let stored = state.store.collections();
            let all: BTreeSet<CollectionId> = stored.chain(copied.collections()).cloned().collect();
            let changes = all.iter().flat_map(|id| changes(state, id));
            changes.collect()
        })
    }

    /// From now on [`Cluster::fork_changes`] compares with what the fork holds now.
    pub fn settle_fork(&self) {
        self.with(State::settle_copies);
    }
}

fn changes(state: &State, id: &CollectionId) -> Vec<Change> {
    let Some(copied) = &state.copied else {
        return Vec::new();
    };
    // The kind of a definition that was deleted is served no more.
    let served = state.registry.of_collection(id);
    let Some(resource) = served.or_else(|| copied.resource(id)) else {
        return Vec::new();
    };
    let mut changes = Vec::new();
    let mut known = BTreeSet::new();
    for (key, before) in copied.objects(id) {
        known.insert(key);
        let after = state.store.get(id, key);
        let same = match (before, after) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if !same {
            changes.extend(change(resource, before, after));
        }
    }
    let made = state.store.range(id, "");
    let made = made.filter(|object| {
        let key = crate::store::key(&object.head.namespace, &object.head.name);
        !known.contains(&*key)
    });
    changes.extend(made.filter_map(|object| change(resource, None, Some(object))));
    changes
}

fn change(
    resource: &Resource,
    before: Option<&Arc<Object>>,
    after: Option<&Arc<Object>>,
) -> Option<Change> {
    let shown = |object: &Arc<Object>| convert::from_storage(object, resource);
    let head = &before.or(after)?.head;
    Some(Change {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        namespace: head.namespace.to_string(),
        name: head.name.to_string(),
        has_schema: resource.schemas.is_some(),
        before: before.map(shown),
        after: after.map(shown),
    })
}
