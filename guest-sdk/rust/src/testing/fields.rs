//! How writes change the fields of an object in memory. Entry points: [`combine`], [`merge`] and [`difference`].

use super::store::Part;
use serde_json::{Map, Value, json};

/// Gives an object the time of deletion of the stored one: only a server sets it.
pub(super) fn keep_deletion(stored: Option<&Value>, object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    metadata.remove("deletionTimestamp");
    let at = stored.map(|stored| &stored["metadata"]["deletionTimestamp"]);
    if let Some(at) = at.filter(|at| !at.is_null()) {
        metadata.insert("deletionTimestamp".to_owned(), at.clone());
    }
}

pub(super) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// A field of the metadata that a write names; an empty one is none.
pub(super) fn named<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    Some(&object["metadata"][field]).filter(|given| !given.is_null() && **given != "")
}

/// The stored object, if there is one, with one part replaced: its status, or the rest.
pub(super) fn combine(stored: Option<&Value>, given: Value, part: Part) -> Value {
    let there = stored.cloned().unwrap_or_default();
    let (mut next, mut source) = match part {
        Part::Main => (given, there),
        Part::Status => (there, given),
    };
    if let Value::Object(fields) = &mut next {
        fields.remove("status");
        let status = source.get_mut("status").map(Value::take);
        if let Some(status) = status.filter(|status| !status.is_null()) {
            fields.insert("status".to_owned(), status);
        }
    }
    next
}

/// The part whose changes `metadata.generation` counts.
pub(super) fn wanted(object: &Value) -> Map<String, Value> {
    let fields = object.as_object().cloned().unwrap_or_default();
    fields
        .into_iter()
        .filter(|(field, _)| field != "metadata" && field != "status")
        .collect()
}

fn finalizers(object: &Value) -> &[Value] {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.map_or(&[], Vec::as_slice)
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    !finalizers(object).is_empty()
}

/// Whether an object has a finalizer that the stored one does not have.
pub(super) fn adds_finalizer(stored: &Value, object: &Value) -> bool {
    let there = finalizers(stored);
    finalizers(object).iter().any(|name| !there.contains(name))
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

/// The merge patch that makes one value of another: what vanished is null there.
pub(super) fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return after.clone();
    };
    let mut patch = Map::new();
    for field in before.keys().filter(|field| !after.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    for (field, value) in after {
        let old = before.get(field).unwrap_or(&Value::Null);
        if old != value {
            patch.insert(field.clone(), difference(old, value));
        }
    }
    Value::Object(patch)
}
