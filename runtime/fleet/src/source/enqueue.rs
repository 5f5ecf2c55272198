//! From a changed object to requests. Entry point: [`requests`].

use super::Enqueue;
use crate::cluster::{Backend, Scope};
use crate::grant::{ClusterFacts, Grant, Namespaces, Verb};
use crate::json::Object;
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A rule with everything that it needs besides the object.
pub(super) struct Rule<'a> {
    pub(super) enqueue: &'a Enqueue,
    pub(super) primary: Option<&'a GroupVersionKind>,
    /// The stores' name of the index of a `by-index` rule.
    pub(super) index: Option<&'a Arc<str>>,
    pub(super) backend: &'a Backend,
    pub(super) grant: &'a Grant,
    pub(super) cluster: ClusterFacts<'a>,
    pub(super) scope: &'a Scope,
}

impl Rule<'_> {
    /// The namespaces in which the controller may read objects of the primary kind. Shared stores hold more.
    fn readable_namespaces(&self, primary: &GroupVersionKind) -> Namespaces {
        let resource = self.backend.resource(primary);
        let Some(resource) = resource else {
            return Namespaces::None; // not known, and so not cached
        };
        let granted = |verb| {
            let (group, plural) = (&primary.group, &resource.plural);
            self.grant
                .namespaces(&self.cluster, group, plural, verb, None)
        };
        granted(Verb::List).and(granted(Verb::Watch))
    }
}

/// The primary objects that an object is about. Of an update both states count: an object that is no longer referred to must be reconciled too.
pub(super) fn requests(
    rule: &Rule<'_>,
    old: Option<&Object>,
    new: Option<&Object>,
) -> BTreeSet<ObjectKey> {
    let mut keys = BTreeSet::new();
    for object in [new, old].into_iter().flatten() {
        match rule.enqueue {
            Enqueue::Primary => {
                keys.insert(object.key());
                // Both states have the same key.
                break;
            }
            Enqueue::SameName => {
                keys.insert(same_name(rule, object));
                break;
            }
            Enqueue::ControllerOwner => owners(rule, object, true, &mut keys),
            Enqueue::AnyOwner => owners(rule, object, false, &mut keys),
            Enqueue::ByIndex(_) => referring(rule, object, &mut keys),
            Enqueue::Mapped(_) => {}
        }
    }
    keys
}

fn is_namespaced(rule: &Rule<'_>) -> bool {
    let resource = rule.primary.and_then(|primary| {
        rule.backend
            .discovery
            .get_any_version(&primary.group_kind())
    });
    resource.is_none_or(|resource| resource.namespaced)
}

fn same_name(rule: &Rule<'_>, object: &Object) -> ObjectKey {
    let key = object.key();
    if is_namespaced(rule) {
        key
    } else {
        ObjectKey {
            namespace: None,
            ..key
        }
    }
}

/// Owners are in the object's namespace, or cluster-scoped.
fn owners(rule: &Rule<'_>, object: &Object, controller_only: bool, keys: &mut BTreeSet<ObjectKey>) {
    let Some(primary) = rule.primary else { return };
    for owner in object.owners() {
        let group = owner
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        if group != &*primary.group
            || owner.kind != *primary.kind
            || (controller_only && !owner.controller)
        {
            continue;
        }
        let namespace = if is_namespaced(rule) {
            object.namespace().map(|n| n.as_ref().into())
        } else {
            None
        };
        keys.insert(ObjectKey {
            namespace,
            name: owner.name.as_ref().into(),
        });
    }
}

fn referring(rule: &Rule<'_>, object: &Object, keys: &mut BTreeSet<ObjectKey>) {
    let (Some(primary), Some(index)) = (rule.primary, rule.index) else {
        return;
    };
    let key = object.key();
    let readable = rule.readable_namespaces(primary);
    let part = rule.scope.part();
    for store in rule.backend.stores.of_kind(primary) {
        let by_value = |value: &str| {
            let stored = store.by_index(index, value, part.as_ref()).into_iter();
            stored.filter_map(|key| rule.scope.shown_key(key))
        };
        let same_namespace = by_value(&key.name);
        keys.extend(
            same_namespace
                // A name alone is of the same namespace, unless the object it is of has none.
                .filter(|found| {
                    key.namespace.is_none()
                        || found.namespace.is_none()
                        || found.namespace == key.namespace
                }),
        );
        // An index of a field that the server writes has the stored name of the namespace.
        let namespaces = [key.namespace.as_ref(), rule.scope.namespace()];
        for namespace in namespaces.into_iter().flatten() {
            keys.extend(by_value(&format!("{namespace}/{}", key.name)));
        }
    }
    keys.retain(|key| readable.contains(key.namespace.as_deref()));
}
