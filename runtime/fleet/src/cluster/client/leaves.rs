//! What a write leaves in the caches, before its caller sees the answer. Entry point: [`Leaves::tell`].

use crate::cache::store::Store;
use crate::json::{List, Object};
use crate::kind::Resource;
use crate::request::ObjectKey;
use crate::selector::LabelSelector;
use bytes::Bytes;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Instant;

/// What a write leaves in the caches.
pub(super) enum Leaves {
    /// The object that the server answers with.
    Object,
    /// Nothing: a dry run, or a subresource that is no object of the kind.
    Nothing,
    /// The absence of an object.
    Absence(ObjectKey),
    /// The absence of the objects that the server lists in its answer.
    AbsenceOfAll,
}

impl Leaves {
    /// Takes what the server answered into the stores of the kind.
    pub(super) fn tell(self, stores: &[Arc<Store>], resource: &Resource, answer: &Bytes) {
        match self {
            Self::Object => remember(stores, resource, answer),
            Self::Absence(key) => forget(stores, resource, &key, answer),
            Self::AbsenceOfAll => forget_all(stores, resource, answer),
            Self::Nothing => {}
        }
    }
}

/// What a write of an object, or of a subresource of it, leaves.
pub(super) fn leaves(subresource: Option<&str>, dry_run: bool) -> Leaves {
    match subresource {
        _ if dry_run => Leaves::Nothing,
        None | Some("status") => Leaves::Object,
        Some(_) => Leaves::Nothing,
    }
}

/// Puts an object that the server answered with into the stores that hold such objects.
fn remember(stores: &[Arc<Store>], resource: &Resource, body: &[u8]) {
    for store in stores {
        let Ok(object) = store.ingest(body) else {
            continue;
        };
        if object.kind() != *resource.kind.kind || !in_namespace(store, &object) {
            continue;
        }
        // Only the server can tell fields: what is held stays until the watch says otherwise, and must not be older than the write.
        if !store.key.field_selector.is_empty() && store.get(&object.key()).is_none() {
            continue;
        }
        let selector = LabelSelector::parse(&store.key.label_selector).unwrap_or_default();
        if selector.matches(&object.labels()) {
            store.remember(object);
        } else {
            store.dismiss(&object, Instant::now());
        }
    }
}

/// Takes an object that was deleted out of the stores; one that lives on under finalizers or for its grace period is put in instead.
fn forget(stores: &[Arc<Store>], resource: &Resource, key: &ObjectKey, body: &[u8]) {
    let answer: Deleted = serde_json::from_slice(body).unwrap_or_default();
    if answer.kind == *resource.kind.kind && answer.metadata.lives_on() {
        return remember(stores, resource, body);
    }
    let uid = answer.details.uid.or(answer.metadata.uid);
    for store in stores {
        store.bury(key, uid.as_deref(), Instant::now());
    }
}

/// Takes every object of a deleted collection out of the stores, as far as the server tells which they were.
fn forget_all(stores: &[Arc<Store>], resource: &Resource, body: &Bytes) {
    let Ok(list) = List::split(body.clone()) else {
        return;
    };
    for item in list.items() {
        // Items of a list lack their kind.
        if let Ok(object) = Object::ingest(item, &resource.kind) {
            forget(stores, resource, &object.key(), object.json());
        }
    }
}

/// What a server answers to a delete: a `Status` that tells the uid, or the object in its last state.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Deleted {
    kind: String,
    details: Details,
    metadata: DeletedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    uid: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeletedMetadata {
    uid: Option<String>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

impl DeletedMetadata {
    /// Whether the object is still there. One that nothing holds and that has no time left is gone, though it may still carry the
    /// marks of its deletion.
    fn lives_on(&self) -> bool {
        let held = self.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        self.deletion_timestamp.is_some() && (held || self.deletion_grace_period_seconds != Some(0))
    }
}

fn in_namespace(store: &Store, object: &Object) -> bool {
    store.key.namespace.is_none() || store.key.namespace.as_deref() == object.namespace().as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lives_on(metadata: &str) -> bool {
        let metadata: DeletedMetadata = serde_json::from_str(metadata).unwrap();
        metadata.lives_on()
    }

    #[test]
    fn what_finalizers_or_a_grace_period_hold_lives_on_and_nothing_else() {
        let deleting = r#""deletionTimestamp":"2026-01-01T00:00:00Z""#;
        assert!(!lives_on("{}"));
        assert!(lives_on(&format!(
            r#"{{{deleting},"deletionGracePeriodSeconds":0,"finalizers":["a"]}}"#
        )));
        assert!(lives_on(&format!(
            r#"{{{deleting},"deletionGracePeriodSeconds":30}}"#
        )));
        // A namespace, which keeps its finalizers elsewhere.
        assert!(lives_on(&format!("{{{deleting}}}")));
        // A pod deleted by force comes back in its last state.
        assert!(!lives_on(&format!(
            r#"{{{deleting},"deletionGracePeriodSeconds":0}}"#
        )));
    }
}
