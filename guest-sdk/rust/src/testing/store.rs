//! Objects of a test cluster and how writes change them. Entry point: [`Store`].

use super::apply;
use crate::error::ApiError;
use crate::types::{ApiCode, GroupVersionKind, ObjectKey};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Group, kind, namespace and name, without the version: an object can be read in several versions.
type Identity = (String, String, Option<String>, String);

#[derive(Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<Identity, Value>,
    /// The fields that the guest applied last, by object; fields that it no longer applies are removed.
    applied: BTreeMap<Identity, Value>,
    /// Grows with every change of any object.
    version: u64,
}

/// Whether a write is to the object or to its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    pub(super) fn create(
        &mut self,
        kind: &GroupVersionKind,
        mut object: Value,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let key = key_of(&object).ok_or_else(|| invalid("metadata.name is required"))?;
        let identity = identity(kind, &key);
        if self.objects.contains_key(&identity) {
            let message = format!("{kind} {key} already exists");
            return Err(ApiError::new(ApiCode::AlreadyExists, message).with_status(409));
        }
        if version_of(&object).is_some() {
            return Err(invalid(
                "metadata.resourceVersion must not be set on objects to be created",
            ));
        }
        object["metadata"]["uid"] = Value::Null;
        Ok(self.save_unless(dry, identity, object))
    }

    /// Replaces the main part or the status; the other keeps what is stored.
    pub(super) fn update(
        &mut self,
        kind: &GroupVersionKind,
        object: Value,
        part: Part,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let key = key_of(&object).ok_or_else(|| invalid("metadata.name is required"))?;
        let identity = identity(kind, &key);
        let stored = self.stored(kind, &key)?.clone();
        let current = &stored["metadata"]["resourceVersion"];
        if version_of(&object).is_some_and(|given| given != current) {
            return Err(conflict(format!("{kind} {key} has changed: read it again")));
        }
        let has_status = !object["status"].is_null();
        let mut next = combine(&stored, object, part);
        if let (Part::Status, false, Some(fields)) = (part, has_status, next.as_object_mut()) {
            // The status is replaced whole.
            fields.remove("status");
        }
        Ok(self.save_unless(dry, identity, next))
    }

    pub(super) fn merge_patch(
        &mut self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch: &Value,
        part: Part,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let mut next = self.stored(kind, key)?.clone();
        merge(&mut next, patch);
        self.update(kind, next, part, dry)
    }

    pub(super) fn apply(
        &mut self,
        kind: &GroupVersionKind,
        object: &Value,
        part: Part,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let key = key_of(object).ok_or_else(|| invalid("metadata.name is required"))?;
        let identity = identity(kind, &key);
        let before = self.applied.get(&identity).cloned().unwrap_or(Value::Null);
        let stored = self.objects.get(&identity).cloned();
        if stored.is_none() && part == Part::Status {
            return Err(not_found(kind, &key));
        }
        let applied = apply::apply(stored.as_ref(), &before, object);
        let next = match &stored {
            Some(stored) => combine(stored, applied, part),
            None => applied,
        };
        if !dry {
            self.applied.insert(identity.clone(), object.clone());
        }
        Ok(self.save_unless(dry, identity, next))
    }

    pub(super) fn delete(
        &mut self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        uid: Option<&str>,
        version: Option<&str>,
        dry: bool,
    ) -> Result<(), ApiError> {
        let metadata = &self.stored(kind, key)?["metadata"];
        let differs = |wanted: Option<&str>, field: &str| {
            wanted.is_some_and(|wanted| metadata[field] != wanted)
        };
        if differs(uid, "uid") || differs(version, "resourceVersion") {
            return Err(conflict(format!(
                "{kind} {key} is not the object that the precondition names"
            )));
        }
        if !dry {
            self.remove(kind, key);
        }
        Ok(())
    }

    /// Deletes an object, or marks it for deletion if finalizers hold it. Then deletes its dependents.
    pub(super) fn remove(&mut self, kind: &GroupVersionKind, key: &ObjectKey) {
        self.remove_identity(&identity(kind, key));
    }

    fn remove_identity(&mut self, identity: &Identity) {
        let Some(object) = self.objects.get(identity).cloned() else {
            return;
        };
        if has_finalizers(&object) {
            let mut object = object;
            if object["metadata"]["deletionTimestamp"].is_null() {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                self.save(identity.clone(), object);
            }
            return;
        }
        self.objects.remove(identity);
        self.applied.remove(identity);
        self.version += 1;
        self.collect(&object["metadata"]["uid"]);
    }

    /// Deletes the objects whose last owner had this uid.
    fn collect(&mut self, uid: &Value) {
        let owned_alone = |object: &Value| match object["metadata"]["ownerReferences"].as_array() {
            Some(owners) => !owners.is_empty() && owners.iter().all(|owner| &owner["uid"] == uid),
            None => false,
        };
        let orphans: Vec<Identity> = self
            .objects
            .iter()
            .filter(|(_, o)| owned_alone(o))
            .map(|(i, _)| i.clone())
            .collect();
        for orphan in orphans {
            self.remove_identity(&orphan);
        }
    }

    fn stored(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Result<&Value, ApiError> {
        self.get(kind, key).ok_or_else(|| not_found(kind, key))
    }

    /// The end of a guest's write.
    fn save_unless(&mut self, dry: bool, identity: Identity, mut object: Value) -> Value {
        keep_deletion(self.objects.get(&identity), &mut object);
        if dry {
            object
        } else {
            self.save(identity, object)
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
                let bump = i64::from(wanted(stored) != wanted(&object));
                stored["metadata"]["generation"].as_i64().unwrap_or(1) + bump
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
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        self.objects.insert(identity.clone(), object.clone());
        if deleting && !has_finalizers(&object) {
            self.remove_identity(&identity);
        }
        object
    }
}

/// Gives an object the time of deletion of the stored one: only a server sets it.
fn keep_deletion(stored: Option<&Value>, object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    metadata.remove("deletionTimestamp");
    let at = stored.map(|stored| &stored["metadata"]["deletionTimestamp"]);
    if let Some(at) = at.filter(|at| !at.is_null()) {
        metadata.insert("deletionTimestamp".to_owned(), at.clone());
    }
}

/// The version that a write names; an empty one is none.
fn version_of(object: &Value) -> Option<&Value> {
    Some(&object["metadata"]["resourceVersion"]).filter(|given| !given.is_null() && *given != "")
}

/// The stored object with one part replaced.
fn combine(stored: &Value, given: Value, part: Part) -> Value {
    let (mut next, status) = match part {
        Part::Main => (given, stored.get("status").cloned()),
        Part::Status => (stored.clone(), given.get("status").cloned()),
    };
    if let (Value::Object(fields), Some(status)) = (&mut next, status) {
        // An object stored without a status has none to protect. The test cluster does not know which kinds have a status subresource.
        fields.insert("status".to_owned(), status);
    }
    next
}

/// The part whose changes `metadata.generation` counts.
fn wanted(object: &Value) -> Map<String, Value> {
    let fields = object.as_object().cloned().unwrap_or_default();
    fields
        .into_iter()
        .filter(|(field, _)| field != "metadata" && field != "status")
        .collect()
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
}

/// RFC 7386.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (field, change) in changes {
        if change.is_null() {
            if let Value::Object(fields) = target {
                fields.remove(field);
            }
        } else {
            merge(&mut target[field], change);
        }
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

fn conflict(message: String) -> ApiError {
    ApiError::new(ApiCode::Conflict, message).with_status(409)
}

fn not_found(kind: &GroupVersionKind, key: &ObjectKey) -> ApiError {
    ApiError::new(ApiCode::NotFound, format!("{kind} {key} not found")).with_status(404)
}
