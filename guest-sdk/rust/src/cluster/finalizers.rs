//! Finalizers of objects. Entry points: [`Cluster::ensure_finalizer`] and [`Cluster::remove_finalizer`].

use super::{Cluster, Effect, Written};
use crate::error::ApiError;
use crate::resource::{Object, Resource};
use crate::types::{ApiCode, PatchType, WriteOptions};
use serde_json::json;

impl Cluster {
    /// Adds a finalizer to an object that was read, unless it has it or is being deleted.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when the object has changed.
    pub fn ensure_finalizer<T: Resource>(
        &self,
        object: &T,
        finalizer: &str,
    ) -> Result<Written<T>, ApiError> {
        let object = Object::of(object)?;
        if object.is_deleting() || object.has_finalizer(finalizer) {
            let kind = object.kind();
            return Written::new(Effect::Unchanged, object).typed(&kind);
        }
        let mut finalizers = object.finalizers();
        finalizers.push(finalizer);
        self.write_finalizers(&object, &finalizers)
    }

    /// Removes a finalizer from an object that was read, if it has it.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when the object has changed.
    pub fn remove_finalizer<T: Resource>(
        &self,
        object: &T,
        finalizer: &str,
    ) -> Result<Written<T>, ApiError> {
        let object = Object::of(object)?;
        if object.has_finalizer(finalizer) {
            let mut others = object.finalizers();
            others.retain(|each| *each != finalizer);
            match self.write_finalizers(&object, &others) {
                Err(error) if error.is_not_found() => {}
                written => return written,
            }
        }
        let kind = object.kind();
        Written::new(Effect::Unchanged, object).typed(&kind)
    }

    /// Writes the list to the version that was read, so that no finalizer of another is lost.
    fn write_finalizers<T: Resource>(
        &self,
        object: &Object,
        finalizers: &[&str],
    ) -> Result<Written<T>, ApiError> {
        let Some(version) = object.text_at("/metadata/resourceVersion") else {
            let why = format!(
                "{} has no resourceVersion: take an object that was read from a cluster",
                object.named()
            );
            return Err(ApiError::new(ApiCode::Invalid, why));
        };
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        let options = WriteOptions::default();
        let (kind, key) = (object.kind(), object.key());
        let stored = self.patch_with(&kind, &key, PatchType::Merge, &patch, &options)?;
        Ok(Written::new(Effect::Updated, stored))
    }
}
