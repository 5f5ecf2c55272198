//! Tables, as `kubectl get` prints them: a name, and the columns of a CRD or the age. Entry point: [`of_objects`].

use jiff::Timestamp;
use serde_json::{Value, json};

use super::read::metadata_only;
use crate::call::Call;
use crate::resource::Resource;
use crate::status::ApiError;

/// How much of its object a row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

/// # Errors
/// 400 for a policy that does not exist.
pub(crate) fn include(call: &Call) -> Result<Include, ApiError> {
    match call.parameter("includeObject").as_deref() {
        None | Some("" | "Metadata") => Ok(Include::Metadata),
        Some("None") => Ok(Include::None),
        Some("Object") => Ok(Include::Object),
        Some(other) => Err(ApiError::bad_request(format!(
            "unrecognized includeObject value: {other:?}"
        ))),
    }
}

/// One column; a priority above zero shows with `-o wide` only.
struct Column {
    name: String,
    kind: String,
    format: String,
    priority: i64,
    /// See [`json_path`].
    path: String,
}

/// A table of objects under the metadata of their list.
pub(crate) fn of_objects(
    resource: &Resource,
    objects: &[Value],
    metadata: &Value,
    include: Include,
) -> Value {
    let columns = columns(resource);
    let now = Timestamp::now();
    let rows: Vec<Value> = objects
        .iter()
        .filter(|object| object["metadata"].get("name").is_some())
        .map(|object| row(&columns, object, include, now))
        .collect();
    let definitions: Vec<Value> = columns
        .iter()
        .map(|column| json!({"name": column.name, "type": column.kind, "format": column.format, "description": "", "priority": column.priority}))
        .collect();
    let mut list = json!({ "resourceVersion": metadata["resourceVersion"] });
    for field in ["continue", "remainingItemCount", "annotations"] {
        if let Some(value) = metadata
            .get(field)
            .filter(|_| objects.len() != 1 || field != "annotations")
        {
            list[field] = value.clone();
        }
    }
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list, "columnDefinitions": definitions, "rows": rows})
}

fn row(columns: &[Column], object: &Value, include: Include, now: Timestamp) -> Value {
    let cells = columns.iter().map(|column| cell(column, object, now));
    let cells: Vec<Value> = cells.collect();
    let mut row = json!({ "cells": cells });
    match include {
        Include::None => {}
        Include::Metadata => row["object"] = metadata_only(object),
        Include::Object => row["object"] = object.clone(),
    }
    row
}

fn columns(resource: &Resource) -> Vec<Column> {
    let column = |name: &str, kind: &str, format: &str, path: &str| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        priority: 0,
        path: path.to_owned(),
    };
    let mut columns = vec![column("Name", "string", "name", ".metadata.name")];
    if resource.printer_columns.is_empty() {
        columns.push(column("Age", "date", "", ".metadata.creationTimestamp"));
    }
    columns.extend(resource.printer_columns.iter().map(|written| {
        let text = |key: &str| written[key].as_str().unwrap_or_default();
        Column {
            priority: written["priority"].as_i64().unwrap_or_default(),
            ..column(text("name"), text("type"), text("format"), text("jsonPath"))
        }
    }));
    columns
}

fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let found = json_path(object, &column.path);
    match (column.kind.as_str(), found) {
        ("date", Some(value)) => value
            .as_str()
            .map_or(Value::Null, |time| age(time, now).into()),
        ("string", Some(Value::String(text))) => text.clone().into(),
        ("string", Some(Value::Null)) | (_, None) => Value::Null,
        ("string", Some(other)) => other.to_string().into(),
        (_, Some(value)) => value.clone(),
    }
}

/// A JSON path of names, quoted names, indexes, and one filter `[?(@.a=="b")]` per step.
fn json_path<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let mut value = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (step, after) = inner.split_once(']')?;
            rest = after;
            value = bracket(value, step)?;
        } else {
            let inner = rest.strip_prefix('.').unwrap_or(rest);
            let end = inner.find(['.', '[']).unwrap_or(inner.len());
            let (name, after) = inner.split_at(end);
            rest = after;
            value = value.get(name)?;
        }
    }
    Some(value)
}

fn bracket<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    if let Some(filter) = step
        .strip_prefix("?(@.")
        .and_then(|filter| filter.strip_suffix(')'))
    {
        let (field, wanted) = filter.split_once("==")?;
        let wanted = wanted.trim().trim_matches(['"', '\'']);
        return value
            .as_array()?
            .iter()
            .find(|item| item[field.trim()].as_str() == Some(wanted));
    }
    match step.parse::<usize>() {
        Ok(index) => value.get(index),
        Err(_) => value.get(step.trim_matches(['"', '\''])),
    }
}

/// How long ago a time was, in kubectl's short form.
fn age(time: &str, now: Timestamp) -> String {
    let Ok(then) = time.parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    human(now.as_second() - then.as_second())
}

fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let pair = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{small_unit}")
        }
    };
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let shown: Vec<String> = [5, 119, 125, 660, 11_000, 40_000, 200_000, 900_000]
            .into_iter()
            .map(human)
            .collect();
        assert_eq!(
            shown,
            ["5s", "119s", "2m5s", "11m", "3h3m", "11h", "2d7h", "10d"]
        );
    }

    #[test]
    fn json_paths_reach_into_lists() {
        let object = json!({"status": {"conditions": [{"type": "A", "status": "no"}, {"type": "B", "status": "yes"}]}, "a.b": 1});
        let at = |path: &str| json_path(&object, path).cloned();
        assert_eq!(
            at(".status.conditions[?(@.type==\"B\")].status"),
            Some("yes".into())
        );
        assert_eq!(at(".status.conditions[0].type"), Some("A".into()));
        assert_eq!(at(".status.absent"), None);
    }
}
