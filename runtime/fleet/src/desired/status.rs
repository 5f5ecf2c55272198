//! The status of an object, and its conditions. Entry points: [`TypedClient::set_status`] and [`TypedClient::set_condition`].

use super::calls::{Calls, read, written};
use super::{Effect, Written};
use crate::api::{
    ApiCode, ApiError, GetOptions, Operation, PatchType, ReadMode, Reply, WriteOptions,
};
use crate::cluster::TypedClient;
use crate::kind::GroupVersionKind;
use crate::object::{Condition, Object};
use crate::request::ObjectKey;
use crate::typed::{Typed, value};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

impl TypedClient {
    /// Gives the status these fields; null removes one, and lists are replaced whole. Reads the object and patches only what differs, at the
    /// version that was read.
    ///
    /// # Errors
    /// See [`TypedClient`]; `conflict` when another wrote it meanwhile, `not-found` when there is none.
    pub async fn set_status<T: Typed>(
        &self,
        key: &ObjectKey,
        status: &impl Serialize,
    ) -> Result<Written<T>, ApiError> {
        let status = value(status)?;
        set_status(self.raw(), &T::gvk(), key, &status)
            .await?
            .typed()
    }

    /// Sets a condition in `status.conditions`, if it differs. Its transition time changes only if its status does; the other conditions
    /// and their order are kept.
    ///
    /// # Errors
    /// As [`TypedClient::set_status`].
    pub async fn set_condition<T: Typed>(
        &self,
        key: &ObjectKey,
        condition: Condition,
    ) -> Result<Written<T>, ApiError> {
        let (kind, client) = (T::gvk(), self.raw());
        let present = read(client, &kind, key).await?;
        let mut next = present.clone().unwrap_or_else(|| Object::new(&kind, key));
        next.set_condition(condition, Timestamp::now());
        let status = json!({"conditions": next.0["status"]["conditions"]});
        write_status(client, &kind, key, present, &status)
            .await?
            .typed()
    }
}

pub(super) async fn set_status(
    calls: &impl Calls,
    kind: &GroupVersionKind,
    key: &ObjectKey,
    status: &Value,
) -> Result<Written<Object>, ApiError> {
    let present = read(calls, kind, key).await?;
    write_status(calls, kind, key, present, status).await
}

/// Patches what differs from an object that was read.
pub(super) async fn write_status(
    calls: &impl Calls,
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
    let options = WriteOptions {
        subresource: Some("status".to_owned()),
        ..WriteOptions::default()
    };
    let (merge, patch) = (PatchType::Merge, patch.to_string().into());
    let patch = Operation::Patch(kind.clone(), key.clone(), merge, patch, options);
    match written(calls, patch).await {
        Ok(stored) => Ok(Written::new(Effect::Updated, stored)),
        Err(error) => Err(no_status(calls, kind, key, present.as_ref(), error).await?),
    }
}

/// The error of a status that cannot be written. A server answers the same for an object that is gone and for a kind without the
/// subresource.
async fn no_status(
    calls: &impl Calls,
    kind: &GroupVersionKind,
    key: &ObjectKey,
    present: Option<&Object>,
    error: ApiError,
) -> Result<ApiError, ApiError> {
    let Some(present) = present.filter(|_| error.code == ApiCode::NotFound) else {
        return Ok(error);
    };
    let live = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let there = calls.run(Operation::Get(kind.clone(), key.clone(), live));
    if let Reply::Nothing = there.await? {
        return Ok(error);
    }
    let why = "its kind has no subresource status, which its definition has to name";
    let message = format!("{}: {why}", present.named());
    Ok(ApiError::host(ApiCode::Invalid, message))
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
