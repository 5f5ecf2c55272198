//! Finalizers of objects. Entry points: [`TypedClient::ensure_finalizer`] and [`TypedClient::remove_finalizer`].

use super::calls::{Calls, written};
use super::{Effect, Written};
use crate::api::{ApiCode, ApiError, Operation, PatchType, WriteOptions};
use crate::cluster::TypedClient;
use crate::object::Object;
use crate::typed::Typed;
use serde_json::json;

impl TypedClient {
    /// Adds a finalizer to an object that was read. Writes nothing if the object has the finalizer, or is being deleted.
    ///
    /// # Errors
    /// See [`TypedClient`]; `conflict` when the object has changed.
    pub async fn ensure_finalizer<T: Typed>(
        &self,
        object: &T,
        finalizer: &str,
    ) -> Result<Written<T>, ApiError> {
        ensure_finalizer(self.raw(), Object::of(object)?, finalizer)
            .await?
            .typed()
    }

    /// Removes a finalizer from an object that was read, if it has it.
    ///
    /// # Errors
    /// See [`TypedClient`]; `conflict` when the object has changed.
    pub async fn remove_finalizer<T: Typed>(
        &self,
        object: &T,
        finalizer: &str,
    ) -> Result<Written<T>, ApiError> {
        remove_finalizer(self.raw(), Object::of(object)?, finalizer)
            .await?
            .typed()
    }
}

pub(super) async fn ensure_finalizer(
    calls: &impl Calls,
    object: Object,
    finalizer: &str,
) -> Result<Written<Object>, ApiError> {
    if object.is_deleting() || object.has_finalizer(finalizer) {
        return Ok(Written::new(Effect::Unchanged, object));
    }
    let mut finalizers = object.finalizers();
    finalizers.push(finalizer);
    write_finalizers(calls, &object, &finalizers).await
}

pub(super) async fn remove_finalizer(
    calls: &impl Calls,
    object: Object,
    finalizer: &str,
) -> Result<Written<Object>, ApiError> {
    if object.has_finalizer(finalizer) {
        let mut others = object.finalizers();
        others.retain(|each| *each != finalizer);
        match write_finalizers(calls, &object, &others).await {
            Err(error) if error.code == ApiCode::NotFound => {}
            written => return written,
        }
    }
    Ok(Written::new(Effect::Unchanged, object))
}

/// Writes the list to the version that was read, so that no finalizer of another is lost.
async fn write_finalizers(
    calls: &impl Calls,
    object: &Object,
    finalizers: &[&str],
) -> Result<Written<Object>, ApiError> {
    let Some(version) = object.text_at("/metadata/resourceVersion") else {
        let message = format!(
            "{} has no resourceVersion: take an object that was read from a cluster",
            object.named()
        );
        return Err(ApiError::host(ApiCode::Invalid, message));
    };
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    let (merge, patch) = (PatchType::Merge, patch.to_string().into());
    let options = WriteOptions::default();
    let patch = Operation::Patch(object.gvk(), object.key(), merge, patch, options);
    Ok(Written::new(Effect::Updated, written(calls, patch).await?))
}
