//! Puts the effect of a write into the caches before the client gets the answer, so that its next read sees the write.
//! Entry point: [`CacheEffect::apply`].

use crate::cache::store::Store;
use crate::json::{List, Object};
use crate::kind::Resource;
use crate::request::ObjectKey;
use crate::selector::LabelSelector;
use bytes::Bytes;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Instant;

/// The effect of a write on the caches.
pub(super) enum CacheEffect {
    /// None: a dry run, or a subresource whose answer is not an object of the kind.
    None,
    /// The object in the answer was written.
    Written,
    /// An object was deleted.
    Deleted(ObjectKey),
    /// The objects in the answer's list were deleted.
    ListDeleted,
}

impl CacheEffect {
    /// The effect of a write of an object, or of a subresource of it.
    pub(super) fn of_write(subresource: Option<&str>, dry_run: bool) -> Self {
        match subresource {
            _ if dry_run => Self::None,
            None | Some("status") => Self::Written,
            Some(_) => Self::None,
        }
    }

    /// Applies the effect to the stores of the kind.
    pub(super) fn apply(self, stores: &[Arc<Store>], resource: &Resource, answer: &Bytes) {
        match self {
            Self::None => {}
            Self::Written => record_write(stores, answer),
            Self::Deleted(key) => record_delete(stores, resource, &key, answer),
            Self::ListDeleted => record_deletes(stores, resource, answer),
        }
    }
}

/// Puts the object that the server answered with into the stores whose selection it fits, and evicts it from the others.
fn record_write(stores: &[Arc<Store>], body: &[u8]) {
    for store in stores {
        let Ok(object) = store.ingest(body) else {
            continue;
        };
        // Only the server can match a field selector. So an object that is not in such a store waits for the watch, and one that is
        // there is updated, as a read must not return a state older than the write.
        if !store.key.field_selector.is_empty() && store.get(&object.key()).is_none() {
            continue;
        }
        let selector = LabelSelector::parse(&store.key.label_selector).unwrap_or_default();
        if selector.matches(&object.labels()) {
            store.record_write(object);
        } else {
            store.evict(&object, Instant::now());
        }
    }
}

/// Removes a deleted object from the stores. An object that still exists, because of finalizers or a grace period, is updated instead.
fn record_delete(stores: &[Arc<Store>], resource: &Resource, key: &ObjectKey, body: &[u8]) {
    let answer: Deleted = serde_json::from_slice(body).unwrap_or_default();
    if answer.kind == *resource.kind.kind && answer.metadata.still_exists() {
        return record_write(stores, body);
    }
    let uid = answer.details.uid.or(answer.metadata.uid);
    for store in stores {
        store.record_delete(key, uid.as_deref(), Instant::now());
    }
}

/// Removes the objects of a deleted collection that the server lists in its answer. An answer without a list leaves it to the watch.
fn record_deletes(stores: &[Arc<Store>], resource: &Resource, body: &Bytes) {
    let Ok(list) = List::split(body.clone()) else {
        return;
    };
    for item in list.items() {
        // Items of a list lack their kind.
        let Ok(object) = Object::ingest(item, &resource.kind) else {
            continue;
        };
        // The stores of a kind all give it the same key.
        let placed = stores.first().map(|store| store.placed(object.clone()));
        if let Some(Ok(placed)) = placed {
            record_delete(stores, resource, &placed.key(), object.json());
        }
    }
}

/// A server's answer to a delete: a `Status` with the uid, or the object in its last state.
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
    /// Whether the object still exists. Without finalizers and grace period it is gone, even if it has a deletion timestamp.
    fn still_exists(&self) -> bool {
        let finalizers = self.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        self.deletion_timestamp.is_some()
            && (finalizers || self.deletion_grace_period_seconds != Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn still_exists(metadata: &str) -> bool {
        let metadata: DeletedMetadata = serde_json::from_str(metadata).unwrap();
        metadata.still_exists()
    }

    #[test]
    fn an_object_with_finalizers_or_a_grace_period_still_exists_and_no_other() {
        let deleting = r#""deletionTimestamp":"2026-01-01T00:00:00Z""#;
        assert!(!still_exists("{}"));
        assert!(still_exists(&format!(
            r#"{{{deleting},"deletionGracePeriodSeconds":0,"finalizers":["a"]}}"#
        )));
        assert!(still_exists(&format!(
            r#"{{{deleting},"deletionGracePeriodSeconds":30}}"#
        )));
        // A namespace, which keeps its finalizers elsewhere.
        assert!(still_exists(&format!("{{{deleting}}}")));
        // The answer to a forced delete of a pod is its last state.
        assert!(!still_exists(&format!(
            r#"{{{deleting},"deletionGracePeriodSeconds":0}}"#
        )));
    }
}
