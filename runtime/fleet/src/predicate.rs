//! Which changes of an object count. Entry point: [`Predicate`].

use crate::json::Object;
use crate::selector::LabelSelector;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which changes of an object count.
///
/// The predicates on changed fields ([`Predicate::Generation`] to [`Predicate::ResourceVersion`]) also admit every creation, every
/// deletion, the change that sets a `deletionTimestamp`, and an update to an object of another uid: no creation or deletion is missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// `metadata.generation` changed: the spec, as a rule. Of objects without one: anything outside `metadata` and `status` changed.
    Generation,
    /// `metadata.labels` changed.
    Labels,
    /// `metadata.annotations` changed.
    Annotations,
    /// `status` changed.
    Status,
    /// `metadata.resourceVersion` changed: admits all but a resync without a change.
    ResourceVersion,
    /// The object is in one of these namespaces.
    Namespaces(BTreeSet<Arc<str>>),
    /// The object matches, or matched before the change: a reconciler must learn that an object does not match any more.
    Selector(LabelSelector),
    /// All of these admit it. An empty list admits everything.
    All(Vec<Self>),
    /// One of these admits it. An empty list admits nothing.
    Any(Vec<Self>),
    /// This does not admit it. Beware: the opposite of a predicate on a changed field admits neither creation nor deletion.
    Not(Box<Self>),
}

impl Default for Predicate {
    fn default() -> Self {
        Self::always()
    }
}

impl Predicate {
    /// Admits everything.
    #[must_use]
    pub const fn always() -> Self {
        Self::All(Vec::new())
    }

    /// Admits what this and another one admit.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::All(vec![self, other])
    }

    /// Admits what this or another one admits.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::Any(vec![self, other])
    }

    /// Whether a change counts.
    #[must_use]
    pub(crate) fn admits(&self, change: &Change<'_>) -> bool {
        match self {
            Self::Generation => change.is(|old, new| match (old.generation(), new.generation()) {
                (None, None) => !old.same_content(new),
                (old, new) => old != new,
            }),
            Self::Labels => change.is(|old, new| !old.same_labels(new)),
            Self::Annotations => change.is(|old, new| !old.same_annotations(new)),
            Self::Status => change.is(|old, new| !old.same_status(new)),
            Self::ResourceVersion => {
                change.is(|old, new| old.resource_version() != new.resource_version())
            }
            Self::Namespaces(namespaces) => {
                let namespace = change.object().namespace();
                namespace.is_some_and(|namespace| namespaces.contains(&*namespace))
            }
            Self::Selector(selector) => change
                .objects()
                .any(|object| selector.matches(&object.labels())),
            Self::All(all) => all.iter().all(|predicate| predicate.admits(change)),
            Self::Any(any) => any.iter().any(|predicate| predicate.admits(change)),
            Self::Not(not) => !not.admits(change),
        }
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    /// It exists now. A cache that has just begun does not know whether it existed before.
    Created(&'a Object),
    /// It has changed, or is offered again.
    Updated {
        /// Its state before.
        old: &'a Object,
        /// Its state now.
        new: &'a Object,
    },
    /// It is gone; this is its last state.
    Deleted(&'a Object),
}

impl<'a> Change<'a> {
    /// The object in its last state.
    fn object(&self) -> &'a Object {
        match self {
            Self::Created(object) | Self::Deleted(object) | Self::Updated { new: object, .. } => {
                object
            }
        }
    }

    /// The object in each state known.
    fn objects(&self) -> impl Iterator<Item = &'a Object> {
        let old = if let Self::Updated { old, .. } = self {
            Some(*old)
        } else {
            None
        };
        old.into_iter().chain([self.object()])
    }

    /// Whether an update counts; creations and deletions do.
    fn is(&self, counts: impl FnOnce(&Object, &Object) -> bool) -> bool {
        match self {
            Self::Updated { old, new } => {
                new.is_deleting() && !old.is_deleting()
                    || old.uid() != new.uid()
                    || counts(old, new)
            }
            Self::Created(_) | Self::Deleted(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    fn object(value: Value) -> Object {
        Object::parse(Bytes::from(value.to_string())).unwrap()
    }

    fn updated<'a>(old: &'a Object, new: &'a Object) -> Change<'a> {
        Change::Updated { old, new }
    }

    fn base() -> Value {
        json!({"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1", "labels": {"app": "x"}}, "spec": {"n": 1}, "status": {"s": 1}})
    }

    /// An object as `base` with one value changed or added.
    fn with(pointer: &str, value: Value) -> Object {
        let mut changed = base();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[field] = value;
        object(changed)
    }

    fn changes() -> [Predicate; 4] {
        [
            Predicate::Generation,
            Predicate::Labels,
            Predicate::Annotations,
            Predicate::Status,
        ]
    }

    #[test]
    fn each_predicate_sees_its_own_change_only() {
        let old = object(base());
        for (pointer, seen) in [
            ("/spec/n", [true, false, false, false]),
            ("/metadata/labels", [false, true, false, false]),
            ("/metadata/annotations", [false, false, true, false]),
            ("/status", [false, false, false, true]),
            ("/metadata/finalizers", [false; 4]),
        ] {
            let value = if pointer.ends_with("finalizers") {
                json!(["f"])
            } else {
                json!({"other": "2"})
            };
            let new = with(pointer, value);
            let update = updated(&old, &new);
            assert_eq!(
                changes().map(|predicate| predicate.admits(&update)),
                seen,
                "{pointer}"
            );
        }
    }

    #[test]
    fn a_generation_counts_where_there_is_one() {
        let generation = |generation: i64, spec: i64| {
            let mut value = base();
            value["metadata"]["generation"] = json!(generation);
            value["spec"]["n"] = json!(spec);
            object(value)
        };
        let admits = |old: &Object, new: &Object| Predicate::Generation.admits(&updated(old, new));
        assert!(
            !admits(&generation(1, 1), &generation(1, 2))
                && admits(&generation(1, 1), &generation(2, 1))
        );
        assert!(admits(&object(base()), &generation(1, 1)));
    }

    #[test]
    fn coming_and_going_always_count() {
        let old = object(base());
        let going = with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        for predicate in changes().into_iter().chain([Predicate::ResourceVersion]) {
            assert!(
                predicate.admits(&Change::Created(&old))
                    && predicate.admits(&Change::Deleted(&old))
            );
            assert!(predicate.admits(&updated(&old, &going)));
            assert!(!predicate.admits(&updated(&going, &going)));
        }
    }

    #[test]
    fn an_object_of_another_uid_is_another_object() {
        let old = object(base());
        let other = with("/metadata/uid", json!("other"));
        for predicate in changes().into_iter().chain([Predicate::ResourceVersion]) {
            assert!(predicate.admits(&updated(&old, &other)));
            assert!(!predicate.admits(&updated(&other, &other)));
        }
    }

    #[test]
    fn namespaces_and_labels_are_those_of_the_object() {
        let old = object(base());
        let namespaces = |name: &str| Predicate::Namespaces([name.into()].into());
        assert!(
            namespaces("ns").admits(&Change::Deleted(&old))
                && !namespaces("other").admits(&Change::Created(&old))
        );
        let cluster_scoped = object(json!({"metadata": {"name": "a"}}));
        assert!(!namespaces("ns").admits(&Change::Created(&cluster_scoped)));
        let selector = Predicate::Selector(LabelSelector::parse("app=x").unwrap());
        let without = with("/metadata/labels", json!({}));
        assert!(
            selector.admits(&updated(&old, &without)),
            "it has left the selection"
        );
        assert!(
            !selector.admits(&updated(&without, &without))
                && !selector.admits(&Change::Deleted(&without))
        );
    }

    #[test]
    fn predicates_combine() {
        let old = object(base());
        let new = with("/status", json!({"s": 2}));
        let update = updated(&old, &new);
        let [generation, .., status] = changes();
        assert!(
            Predicate::always().admits(&update)
                && Predicate::default().admits(&Change::Created(&old))
        );
        assert!(!Predicate::Any(Vec::new()).admits(&update));
        assert!(
            generation.clone().or(status.clone()).admits(&update)
                && !generation.clone().and(status.clone()).admits(&update)
        );
        let not = Predicate::Not(Box::new(generation));
        assert!(not.clone().and(status).admits(&update) && !not.admits(&Change::Created(&old)));
    }
}
