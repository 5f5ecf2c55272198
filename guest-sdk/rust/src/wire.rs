//! The contract's types as the program's lines have them: cases by their names in Rust, records as objects. Entry points: [`function`],
//! and [`result`] for what it answers.

mod lines;

pub(crate) use lines::Lines;

use crate::error::ApiError;
use crate::http;
use crate::types::{
    ApiCode, ApplyOptions, ClusterInfo, DeleteOptions, Event, GetOptions, GroupVersionKind,
    ListOptions, ListPage, ObjectKey, Operation, Reply, Selection, WriteOptions,
};
use serde_json::{Value, json};
use std::fmt::Debug;
use std::time::Duration;

/// Every code of an error.
const CODES: [ApiCode; 16] = [
    ApiCode::NotFound,
    ApiCode::AlreadyExists,
    ApiCode::Conflict,
    ApiCode::Invalid,
    ApiCode::Unauthorized,
    ApiCode::Forbidden,
    ApiCode::Denied,
    ApiCode::UnknownKind,
    ApiCode::Throttled,
    ApiCode::Expired,
    ApiCode::Timeout,
    ApiCode::Unavailable,
    ApiCode::LimitExceeded,
    ApiCode::ClusterGone,
    ApiCode::Cancelled,
    ApiCode::Other,
];

/// The answer of a server that is no API server.
pub(crate) fn response(value: &Value) -> http::Response {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let headers = value["headers"].as_array().into_iter().flatten();
    let body = value["body"].as_array().into_iter().flatten();
    let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
    http::Response {
        status: value["status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok())
            .unwrap_or_default(),
        headers: headers
            .map(|pair| (text(&pair[0]), text(&pair[1])))
            .collect(),
        body: body.filter_map(byte).collect(),
    }
}

/// The call of an operation on a handle.
pub(crate) fn function(cluster: u32, operation: &Operation) -> Value {
    match operation {
        Operation::Get((of, at, options)) => json!({"Get": {
            "cluster": cluster, "kind": kind(of), "key": key(at), "options": get_options(options),
        }}),
        Operation::List((of, options)) => json!({"List": {
            "cluster": cluster, "kind": kind(of), "options": list_options(options),
        }}),
        Operation::Create((of, object, options)) => json!({"Create": {
            "cluster": cluster, "kind": kind(of), "object": object, "options": write_options(options),
        }}),
        Operation::Update((of, object, options)) => json!({"Update": {
            "cluster": cluster, "kind": kind(of), "object": object, "options": write_options(options),
        }}),
        Operation::Patch((of, at, patch_type, patch, options)) => json!({"Patch": {
            "cluster": cluster, "kind": kind(of), "key": key(at), "patch_type": case(patch_type),
            "patch": patch, "options": write_options(options),
        }}),
        Operation::Apply((of, object, options)) => json!({"Apply": {
            "cluster": cluster, "kind": kind(of), "object": object, "options": apply_options(options),
        }}),
        Operation::Delete((of, at, options)) => json!({"Delete": {
            "cluster": cluster, "kind": kind(of), "key": key(at), "options": delete_options(options),
        }}),
    }
}

/// The call `delete-collection`.
pub(crate) fn delete_collection(
    cluster: u32,
    of: &GroupVersionKind,
    selection: &Selection,
    options: &DeleteOptions,
) -> Value {
    let selection = json!({
        "namespace": selection.namespace, "label_selector": selection.label_selector,
        "field_selector": selection.field_selector,
    });
    json!({"DeleteCollection": {
        "cluster": cluster, "kind": kind(of), "selection": selection, "options": delete_options(options),
    }})
}

/// The value of a result, or its error.
pub(crate) fn result(mut answer: Value) -> Result<Value, ApiError> {
    match answer.get_mut("Err") {
        Some(error) => Err(api_error(error)),
        None => Ok(answer["Ok"].take()),
    }
}

/// What an operation answers.
pub(crate) fn reply(mut value: Value) -> Reply {
    match value {
        Value::Null => Reply::Nothing,
        Value::String(object) => Reply::Object(object),
        _ => Reply::Page(ListPage {
            items: texts(value["items"].take()),
            continue_token: text(&value["continue_token"]),
            resource_version: text(&value["resource_version"]).unwrap_or_default(),
        }),
    }
}

pub(crate) fn kind(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// The call `record-event`.
pub(crate) fn record_event(cluster: u32, event: &Event) -> Value {
    let event = json!({
        "kind": kind(&event.kind), "key": key(&event.key), "event_type": case(&event.event_type),
        "reason": event.reason, "action": event.action, "note": event.note,
    });
    json!({"RecordEvent": {"cluster": cluster, "event": event}})
}

pub(crate) fn key(key: &ObjectKey) -> Value {
    json!({"namespace": key.namespace, "name": key.name})
}

/// A case of an enum. `Debug` prints it as `Enum::Case`.
pub(crate) fn case(case: &impl Debug) -> Value {
    let name = format!("{case:?}");
    name.rsplit("::").next().unwrap_or_default().into()
}

fn get_options(options: &GetOptions) -> Value {
    json!({
        "mode": case(&options.mode), "projection": case(&options.projection),
        "subresource": options.subresource,
    })
}

fn list_options(options: &ListOptions) -> Value {
    json!({
        "namespace": options.namespace, "label_selector": options.label_selector,
        "field_selector": options.field_selector, "index": options.index, "limit": options.limit,
        "continue_token": options.continue_token, "mode": case(&options.mode),
        "projection": case(&options.projection),
    })
}

fn write_options(options: &WriteOptions) -> Value {
    json!({"subresource": options.subresource, "dry_run": options.dry_run})
}

fn apply_options(options: &ApplyOptions) -> Value {
    json!({"subresource": options.subresource, "force": options.force, "dry_run": options.dry_run})
}

fn delete_options(options: &DeleteOptions) -> Value {
    json!({
        "uid": options.uid, "resource_version": options.resource_version,
        "propagation": options.propagation.as_ref().map(case),
        "grace_period_seconds": options.grace_period_seconds, "dry_run": options.dry_run,
    })
}

fn api_error(error: &Value) -> ApiError {
    let code = error["code"].as_str().unwrap_or_default();
    let code = CODES.iter().find(|known| case(known) == code);
    let status = error["http_status"].as_u64();
    ApiError {
        code: code.copied().unwrap_or(ApiCode::Other),
        http_status: status
            .and_then(|status| status.try_into().ok())
            .unwrap_or(0),
        reason: text(&error["reason"]).unwrap_or_default(),
        message: text(&error["message"]).unwrap_or_default(),
        details: text(&error["details"]),
        retry_after: error["retry_after_ms"].as_u64().map(Duration::from_millis),
    }
}

/// What `fleet.clusters` answers.
pub(crate) fn infos(value: &Value) -> Vec<ClusterInfo> {
    let infos = value.as_array().map_or(&[][..], Vec::as_slice);
    infos
        .iter()
        .map(|info| ClusterInfo {
            name: text(&info["name"]).unwrap_or_default(),
            labels: pairs(&info["labels"]),
            properties: pairs(&info["properties"]),
            ready: info["ready"] == true,
        })
        .collect()
}

fn pairs(value: &Value) -> Vec<(String, String)> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: Value) -> Vec<String> {
    let Value::Array(texts) = value else {
        return Vec::new();
    };
    texts.iter().filter_map(text).collect()
}
