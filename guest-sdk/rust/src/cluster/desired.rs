//! Writes that happen only if something differs. Entry points: [`Cluster::ensure`], [`OfKind::create_or_update`] and
//! [`Cluster::set_status`].

use super::applied::Desired;
use super::{Cluster, Effect, OfKind, Written};
use crate::error::ApiError;
use crate::resource::{Object, Resource, Typed};
use crate::types::{
    ApiCode, ApplyOptions, GetOptions, GroupVersionKind, ObjectKey, PatchType, WriteOptions,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

impl Cluster {
    /// As [`Self::force_apply`], only if something differs: a field that is not as desired, or one that was applied by `ensure`
    /// before and is no longer desired. The annotation `windlass.dev/applied` has a fingerprint of what was applied.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn ensure<T: Resource>(&self, object: &T) -> Result<Written<T>, ApiError> {
        let kind = object.kind();
        self.ensure_object(Desired::new(Object::of(object)?))?
            .typed(&kind)
    }

    fn ensure_object(&self, desired: Desired) -> Result<Written<Object>, ApiError> {
        let (kind, key) = (desired.object.kind(), desired.object.key());
        let mut present: Option<Object> = self.get_with(&kind, &key, &GetOptions::default())?;
        if let Some(present) = present.take_if(|present| desired.held_by(present)) {
            return Ok(Written::new(Effect::Unchanged, present));
        }
        let apply = |object: Object| self.apply_with(&object, &ApplyOptions::forced());
        let mut stored = apply(desired.next(present.as_ref()))?;
        if !desired.held_by(&stored) {
            stored = apply(desired.noted(&stored))?;
        }
        let effect = match present {
            None => Effect::Created,
            Some(_) => Effect::Updated,
        };
        Ok(Written::new(effect, stored))
    }

    /// Gives the status these fields, of JSON or of a type; null removes one. Reads the object and patches only what differs, at the version that was
    /// read.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when another wrote it meanwhile, `not-found` when there is none.
    pub fn set_status<T: Typed>(
        &self,
        key: &ObjectKey,
        status: &impl Serialize,
    ) -> Result<Written<T>, ApiError> {
        let kind = T::KIND.into();
        self.of(GroupVersionKind::clone(&kind))
            .set_status(key, status)?
            .typed(&kind)
    }

    /// Patches what differs from an object that was read.
    pub(crate) fn write_status(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        present: Option<Object>,
        status: &Value,
    ) -> Result<Written<Object>, ApiError> {
        let (mut patch, mut before) = (json!({}), Value::Null);
        if let Some(present) = &present {
            before = present.0["status"].clone();
            if let Some(version) = present.text_at("/metadata/resourceVersion") {
                patch["metadata"]["resourceVersion"] = version.into();
            }
        }
        let changed = difference(&before, status);
        if let Some(present) = present.clone()
            && changed.is_empty()
        {
            return Ok(Written::new(Effect::Unchanged, present));
        }
        patch["status"] = changed.into();
        let options = WriteOptions::status();
        match self.patch_with(kind, key, PatchType::Merge, &patch, &options) {
            Ok(stored) => Ok(Written::new(Effect::Updated, stored)),
            Err(error) => Err(self.no_status(kind, key, present.as_ref(), error)?),
        }
    }

    /// The error of a status that cannot be written. A server answers the same for an object that is gone and for a kind without the
    /// subresource.
    fn no_status(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        present: Option<&Object>,
        error: ApiError,
    ) -> Result<ApiError, ApiError> {
        let Some(present) = present.filter(|_| error.is_not_found()) else {
            return Ok(error);
        };
        let live = GetOptions::live();
        let there: Option<Object> = self.get_with(kind, key, &live)?;
        let why = "its kind has no subresource status, which its definition has to name";
        let message = format!("{}: {why}", present.named());
        let refused = there.map(|_| ApiError::new(ApiCode::Invalid, message));
        Ok(refused.unwrap_or(error))
    }
}

impl OfKind<'_> {
    /// Reads an object, or begins one with only its kind and key, and lets `change` change it in place. Writes it only if that changed
    /// it.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when another wrote it meanwhile.
    pub fn create_or_update(
        &self,
        key: &ObjectKey,
        change: impl FnOnce(&mut Object),
    ) -> Result<Written<Object>, ApiError> {
        let Some(present) = self.get(key)? else {
            let mut object = Object::new(&self.kind, key);
            change(&mut object);
            let stored = self.cluster.create(&object)?;
            return Ok(Written::new(Effect::Created, stored));
        };
        let mut object = present.clone();
        change(&mut object);
        if object == present {
            return Ok(Written::new(Effect::Unchanged, present));
        }
        let stored = self.cluster.update(&object)?;
        Ok(Written::new(Effect::Updated, stored))
    }

    /// As [`Cluster::set_status`].
    ///
    /// # Errors
    /// As there.
    pub fn set_status(
        &self,
        key: &ObjectKey,
        status: &impl Serialize,
    ) -> Result<Written<Object>, ApiError> {
        let status = status_fields(status)?;
        let present = self.get(key)?;
        self.cluster.write_status(&self.kind, key, present, &status)
    }
}

/// The fields of a status.
pub(crate) fn status_fields(status: &impl Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(status).map_err(|error| {
        let why = format!("cannot encode a status: {error}");
        ApiError::new(ApiCode::Invalid, why)
    })
}

/// The merge patch that gives `present` the fields of `desired`.
fn difference(present: &Value, desired: &Value) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, value) in desired.as_object().into_iter().flatten() {
        let before = &present[name.as_str()];
        if before.is_object() && value.is_object() {
            let inner = difference(before, value);
            if !inner.is_empty() {
                patch.insert(name.clone(), inner.into());
            }
        } else if before != value {
            patch.insert(name.clone(), value.clone());
        }
    }
    patch
}
