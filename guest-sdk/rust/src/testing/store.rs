//! Objects of a test cluster. Entry point: [`Store`].

mod writes;

use super::fields::{has_finalizers, is_deleting, keep_deletion, merge, wanted};
use crate::error::ApiError;
use crate::types::{ApiCode, GroupVersionKind, ObjectKey};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Group, kind, namespace and name, without the version: an object can be read in several versions.
type Identity = (String, String, Option<String>, String);

#[derive(Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<Identity, Value>,
    /// The fields that the guest applied last, by object and part; fields that it no longer applies are removed.
    applied: BTreeMap<(Identity, Part), Value>,
    /// Grows with every change of any object.
    version: u64,
}

/// Whether a write is to the object or to its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Main,
    Status,
}

impl Part {
    pub(super) fn of(subresource: Option<&str>) -> Result<Self, ApiError> {
        match subresource {
            None => Ok(Self::Main),
            Some("status") => Ok(Self::Status),
            Some(other) => Err(invalid(format!(
                "a test cluster has no subresource {other:?}"
            ))),
        }
    }
}

impl Store {
    pub(super) fn get(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(&identity(kind, key))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    pub(super) fn of_kind<'a>(
        &'a self,
        kind: &'a GroupVersionKind,
    ) -> impl Iterator<Item = &'a Value> {
        let of = move |identity: &Identity| identity.0 == kind.group && identity.1 == kind.kind;
        self.objects
            .iter()
            .filter(move |(identity, _)| of(identity))
            .map(|(_, object)| object)
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Stores an object of the test, without preconditions.
    pub(super) fn put(&mut self, mut object: Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (Some(api_version), Some(kind)) = (api_version, kind) else {
            panic!("an object to put has apiVersion and kind: {object}");
        };
        let kind = GroupVersionKind::new(&api_version, &kind);
        let Some(key) = key_of(&object) else {
            panic!("an object to put has metadata.name: {object}");
        };
        let identity = identity(&kind, &key);
        if let Some(stored) = self.objects.get(&identity) {
            let mut merged = stored.clone();
            for (field, value) in object.as_object_mut().into_iter().flatten() {
                if field == "metadata" {
                    merge(&mut merged["metadata"], value);
                } else {
                    merged[field] = value.take();
                }
            }
            keep_deletion(Some(stored), &mut merged);
            object = merged;
        }
        self.save(identity, object);
    }

    /// Changes an object of the test by a merge patch, without preconditions.
    pub(super) fn edit(&mut self, kind: &GroupVersionKind, key: &ObjectKey, patch: &Value) {
        let identity = identity(kind, key);
        let stored = self.objects.get(&identity);
        let Some(mut next) = stored.cloned() else {
            panic!("there is no {kind} {key} to edit");
        };
        merge(&mut next, patch);
        keep_deletion(stored, &mut next);
        self.save(identity, next);
    }

    /// Deletes an object, or marks it for deletion if finalizers hold it. Then deletes what has no other owner.
    pub(super) fn remove(&mut self, kind: &GroupVersionKind, key: &ObjectKey) {
        self.remove_identity(&identity(kind, key));
    }

    fn remove_identity(&mut self, identity: &Identity) {
        let Some(object) = self.objects.get(identity).cloned() else {
            return;
        };
        if has_finalizers(&object) {
            let mut object = object;
            if !is_deleting(&object) {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                self.save(identity.clone(), object);
            }
            return;
        }
        self.objects.remove(identity);
        for part in [Part::Main, Part::Status] {
            self.applied.remove(&(identity.clone(), part));
        }
        self.version += 1;
        self.collect(&object["metadata"]["uid"]);
    }

    /// Takes an owner that is gone out of all objects, and deletes those that it was the last one of.
    fn collect(&mut self, uid: &Value) {
        let identities: Vec<Identity> = self.objects.keys().cloned().collect();
        for identity in identities {
            // As it is now: a removal before may have changed it, or taken it away.
            let Some(mut object) = self.objects.get(&identity).cloned() else {
                continue;
            };
            let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() else {
                continue;
            };
            let count = owners.len();
            owners.retain(|owner| &owner["uid"] != uid);
            let left = owners.len();
            if left == count {
                continue;
            }
            if let (0, Some(metadata)) = (left, object["metadata"].as_object_mut()) {
                metadata.remove("ownerReferences");
            }
            self.save(identity.clone(), object);
            if left == 0 {
                self.remove_identity(&identity);
            }
        }
    }

    /// Stores an object with the metadata that a server sets. An unchanged object keeps its version.
    fn save(&mut self, identity: Identity, mut object: Value) -> Value {
        let stored = self.objects.get(&identity);
        let server_set =
            |object: &mut Value, field: &str, value: Value| object["metadata"][field] = value;
        let generation = match stored {
            Some(stored) => {
                for field in ["uid", "creationTimestamp", "resourceVersion"] {
                    server_set(&mut object, field, stored["metadata"][field].clone());
                }
                let counts = wanted(stored) != wanted(&object)
                    || is_deleting(stored) != is_deleting(&object);
                stored["metadata"]["generation"].as_i64().unwrap_or(1) + i64::from(counts)
            }
            None => {
                let named = object["metadata"]["uid"].as_str().map(str::to_owned);
                let uid = named
                    .unwrap_or_else(|| format!("00000000-0000-4000-8000-{:012}", self.version + 1));
                server_set(&mut object, "uid", json!(uid));
                server_set(
                    &mut object,
                    "creationTimestamp",
                    json!("2026-01-01T00:00:00Z"),
                );
                1
            }
        };
        server_set(&mut object, "generation", json!(generation));
        if stored == Some(&object) {
            return object;
        }
        self.version += 1;
        server_set(
            &mut object,
            "resourceVersion",
            json!(self.version.to_string()),
        );
        self.objects.insert(identity.clone(), object.clone());
        if is_deleting(&object) && !has_finalizers(&object) {
            self.remove_identity(&identity);
        }
        object
    }
}

fn identity(kind: &GroupVersionKind, key: &ObjectKey) -> Identity {
    (
        kind.group.clone(),
        kind.kind.clone(),
        key.namespace.clone(),
        key.name.clone(),
    )
}

pub(super) fn key_of(object: &Value) -> Option<ObjectKey> {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().filter(|name| !name.is_empty())?;
    Some(ObjectKey {
        namespace: metadata["namespace"].as_str().map(str::to_owned),
        name: name.to_owned(),
    })
}

pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ApiCode::Invalid, message).with_status(422)
}
