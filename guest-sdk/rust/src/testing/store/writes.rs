//! The writes of a guest: what they are refused for, and what they store. Entry points: the methods of [`Store`].

use super::{Identity, Part, Store, identity, invalid, key_of};
use crate::error::ApiError;
use crate::testing::apply;
use crate::testing::fields::{adds_finalizer, combine, is_deleting, keep_deletion, merge, named};
use crate::types::{ApiCode, GroupVersionKind, ObjectKey};
use serde_json::Value;

impl Store {
    pub(in crate::testing) fn create(
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
        if named(&object, "resourceVersion").is_some() {
            return Err(invalid(
                "metadata.resourceVersion must not be set on objects to be created",
            ));
        }
        object["metadata"]["uid"] = Value::Null;
        self.save_unless(dry, identity, combine(None, object, Part::Main))
    }

    /// Replaces the main part or the status; the other keeps what is stored.
    pub(in crate::testing) fn update(
        &mut self,
        kind: &GroupVersionKind,
        object: Value,
        part: Part,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let key = key_of(&object).ok_or_else(|| invalid("metadata.name is required"))?;
        let identity = identity(kind, &key);
        let stored = self.stored(kind, &key)?.clone();
        check_meant(&format!("{kind} {key}"), Some(&stored), &object)?;
        self.save_unless(dry, identity, combine(Some(&stored), object, part))
    }

    pub(in crate::testing) fn merge_patch(
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

    pub(in crate::testing) fn apply(
        &mut self,
        kind: &GroupVersionKind,
        object: &Value,
        part: Part,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let key = key_of(object).ok_or_else(|| invalid("metadata.name is required"))?;
        let identity = identity(kind, &key);
        let stored = self.objects.get(&identity).cloned();
        if stored.is_none() && part == Part::Status {
            return Err(not_found(kind, &key));
        }
        check_meant(&format!("{kind} {key}"), stored.as_ref(), object)?;
        let applied = (identity.clone(), part);
        let before = self.applied.get(&applied).unwrap_or(&Value::Null);
        let next = apply::apply(stored.as_ref(), before, object);
        let next = combine(stored.as_ref(), next, part);
        let saved = self.save_unless(dry, identity, next)?;
        if self.objects.contains_key(&applied.0) && !dry {
            self.applied.insert(applied, object.clone());
        }
        Ok(saved)
    }

    pub(in crate::testing) fn delete(
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

    fn stored(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Result<&Value, ApiError> {
        self.get(kind, key).ok_or_else(|| not_found(kind, key))
    }

    /// The end of a guest's write.
    fn save_unless(
        &mut self,
        dry: bool,
        identity: Identity,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        let stored = self.objects.get(&identity);
        keep_deletion(stored, &mut object);
        if stored.is_some_and(|stored| is_deleting(stored) && adds_finalizer(stored, &object)) {
            return Err(invalid(
                "metadata.finalizers: no new finalizers can be added if the object is being deleted",
            ));
        }
        Ok(if dry {
            object
        } else {
            self.save(identity, object)
        })
    }
}

/// Refuses a write of another object, or of another version, than the stored one, if there is any.
fn check_meant(name: &str, stored: Option<&Value>, object: &Value) -> Result<(), ApiError> {
    let differs = |field: &str, stored: &Value| {
        named(object, field).is_some_and(|given| *given != stored["metadata"][field])
    };
    if differs("uid", stored.unwrap_or(&Value::Null)) {
        return Err(conflict(format!(
            "{name} is not the object with the uid {}",
            object["metadata"]["uid"]
        )));
    }
    if stored.is_some_and(|stored| differs("resourceVersion", stored)) {
        return Err(conflict(format!("{name} has changed: read it again")));
    }
    Ok(())
}

fn conflict(message: String) -> ApiError {
    ApiError::new(ApiCode::Conflict, message).with_status(409)
}

fn not_found(kind: &GroupVersionKind, key: &ObjectKey) -> ApiError {
    ApiError::new(ApiCode::NotFound, format!("{kind} {key} not found")).with_status(404)
}
