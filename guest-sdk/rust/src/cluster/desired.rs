//! Writes that happen only if something differs. Entry points: [`Cluster::ensure`], [`OfKind::create_or_update`] and
//! [`Cluster::set_status`].

use super::{Cluster, Effect, OfKind, Written};
use crate::error::ApiError;
use crate::resource::{Object, Resource, Typed};
use crate::types::{
    ApplyOptions, GetOptions, GroupVersionKind, ObjectKey, PatchType, WriteOptions,
};
use serde_json::{Map, Value, json};

/// The annotation with the fingerprint of what was applied: by it a field is found that is no longer desired.
const APPLIED: &str = "windlass.dev/applied";

impl Cluster {
    /// As [`Self::force_apply`], only if something differs: a field that is not as desired, or one that was applied by `ensure`
    /// before and is no longer desired. The annotation `windlass.dev/applied` has a fingerprint of what was applied.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn ensure<T: Resource>(&self, object: &T) -> Result<Written<T>, ApiError> {
        let desired = stamped(Object::of(object)?);
        let (kind, key) = (desired.kind(), desired.key());
        let present: Option<Object> = self.get_with(&kind, &key, &GetOptions::default())?;
        if let Some(present) = &present
            && covers(&present.0, &desired.0)
        {
            return Written::new(Effect::Unchanged, present.clone()).typed(&kind);
        }
        let stored = self.apply_with(&desired, &ApplyOptions::forced())?;
        let version = |object: &Object| object.0["metadata"]["resourceVersion"].clone();
        let effect = match &present {
            None => Effect::Created,
            Some(present) if version(present) == version(&stored) => Effect::Unchanged,
            Some(_) => Effect::Updated,
        };
        Written::new(effect, stored).typed(&kind)
    }

    /// Gives the status these fields; null removes one. Reads the object and patches only what differs, at the version that was
    /// read.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when another wrote it meanwhile, `not-found` when there is none.
    pub fn set_status<T: Typed>(
        &self,
        key: &ObjectKey,
        status: &Value,
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
        if let Some(present) = present
            && changed.is_empty()
        {
            return Ok(Written::new(Effect::Unchanged, present));
        }
        patch["status"] = changed.into();
        let options = WriteOptions::status();
        let stored = self.patch_with(kind, key, PatchType::Merge, &patch, &options)?;
        Ok(Written::new(Effect::Updated, stored))
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
    pub fn set_status(&self, key: &ObjectKey, status: &Value) -> Result<Written<Object>, ApiError> {
        let present = self.get(key)?;
        self.cluster.write_status(&self.kind, key, present, status)
    }
}

/// An object with the fingerprint of its fields.
pub(crate) fn stamped(mut object: Object) -> Object {
    let print = fingerprint(&object.0);
    let annotations = &mut object.0["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[APPLIED] = print.into();
    object
}

/// Whether an object has everything that is desired. The fingerprint is a field like another, so it was applied with the same
/// fields.
pub(crate) fn covers(present: &Value, desired: &Value) -> bool {
    match (present, desired) {
        (Value::Object(present), Value::Object(desired)) => desired
            .iter()
            .all(|(name, each)| covers(present.get(name).unwrap_or(&Value::Null), each)),
        (Value::Array(present), Value::Array(desired)) => {
            present.len() == desired.len()
                && present
                    .iter()
                    .zip(desired)
                    .all(|(one, other)| covers(one, other))
        }
        _ => present == desired,
    }
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

/// FNV-1a over a value, with sorted names: the same for equal values, in every language's SDK.
pub(crate) fn fingerprint(value: &Value) -> String {
    let mut hash = 0x811c_9dc5;
    walk(&mut hash, value);
    format!("{hash:08x}")
}

fn walk(hash: &mut u32, value: &Value) {
    match value {
        Value::Null => feed(hash, "n"),
        Value::Bool(true) => feed(hash, "t"),
        Value::Bool(false) => feed(hash, "f"),
        Value::Number(number) => feed(hash, &format!("#{number};")),
        Value::String(text) => feed_text(hash, text),
        Value::Array(items) => {
            feed(hash, "[");
            items.iter().for_each(|item| walk(hash, item));
            feed(hash, "]");
        }
        Value::Object(fields) => {
            // Sorted even if a crate of the guest makes maps keep their order.
            let mut names: Vec<_> = fields.iter().collect();
            names.sort_by_key(|(name, _)| *name);
            feed(hash, "{");
            for (name, each) in names {
                feed_text(hash, name);
                walk(hash, each);
            }
            feed(hash, "}");
        }
    }
}

fn feed_text(hash: &mut u32, text: &str) {
    feed(hash, "\"");
    feed(hash, text);
    feed(hash, "\0");
}

fn feed(hash: &mut u32, text: &str) {
    for byte in text.bytes() {
        *hash = (*hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
}
