//! Makes an apply behind an export of kcp mean what it means elsewhere. Entry point: [`Client::own_as_applied`].
//!
//! The virtual workspace of an export carries an apply out as an update (kcp 0.31, its package `forwardingregistry`), and the fields that
//! it changed are noted as updated. So the next apply would not take away what it leaves out, and would conflict with the last one.
//!
//! Here an apply has a manager of its own, so that an entry `Update` of it is an apply for certain. Before the next apply that needs it,
//! that entry is made an `Apply`. What the caller writes otherwise keeps the caller's own manager, as everywhere, and no apply takes it
//! away.
//!
//! An apply there costs one more request, which reads, and sometimes two, of which one writes. A dry run only tells what kcp would do.

use super::Client;
use super::cache_effect::CacheEffect;
use super::target::Target;
use crate::api::{ApiCode, ApiError, ApplyOptions, Json, PatchType};
use crate::cluster::call_scope::APPLIES;
use crate::http::transport::{Call, JSON};
use crate::request::ObjectKey;
use http::Method;
use serde_json::{Map, Value, json};

/// How often an entry is rewritten while others write the object.
const ATTEMPTS: usize = 5;

/// An operation in a manager's entry.
const UPDATE: &str = "Update";
const APPLY: &str = "Apply";

impl Client {
    /// The manager of an apply.
    pub(super) fn apply_manager(&self, target: &Target) -> String {
        let manager = &self.scope.caller.field_manager;
        if target.backend.connection.is_of_export() {
            format!("{manager}{APPLIES}")
        } else {
            manager.to_string()
        }
    }

    /// Has the server take the fields that the caller has applied as applied, if the next apply needs that. Elsewhere than behind an export
    /// it does nothing.
    ///
    /// # Errors
    /// As a get and a patch of the object; `conflict` when others write it all the time.
    pub(super) async fn own_as_applied(
        &self,
        target: &Target,
        key: &ObjectKey,
        applied: &Json,
        options: &ApplyOptions,
    ) -> Result<(), ApiError> {
        if !target.backend.connection.is_of_export() || options.dry_run {
            return Ok(());
        }
        let manager = self.apply_manager(target);
        let own = Own {
            manager: &manager,
            subresource: options.subresource.as_deref().unwrap_or_default(),
            applied: &serde_json::from_slice(applied).unwrap_or_default(),
            force: options.force,
        };
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            // Entries of subresources are written with the object too.
            let path = self.object_path(&target.resource, key, None)?;
            let current = match self.read(target, &path, JSON).await {
                Err(error) if error.code == ApiCode::NotFound => return Ok(()),
                current => current?,
            };
            let current = serde_json::from_slice(&current.body).unwrap_or_default();
            let Some(patch) = own.patch(&current) else {
                return Ok(());
            };
            let path = self.with_manager(path, &manager, false);
            let content = PatchType::Merge.content_type();
            let call = Call::write(Method::PATCH, path, content, patch.to_string().into());
            let written = self.write(target, call, CacheEffect::Written).await;
            outcome = written.map(drop);
            match &outcome {
                Err(error) if error.code == ApiCode::Conflict => {}
                _ => break,
            }
        }
        outcome
    }
}

/// The caller's entries in an object.
struct Own<'a> {
    manager: &'a str,
    /// Empty for the object itself.
    subresource: &'a str,
    /// What is going to be applied.
    applied: &'a Value,
    force: bool,
}

impl Own<'_> {
    /// The patch after which the caller's fields are applied ones; `None` if the next apply does as it should without it.
    fn patch(&self, current: &Value) -> Option<Value> {
        let entries = current["metadata"]["managedFields"].as_array()?;
        let updated = entries.iter().find(|entry| self.is(entry, UPDATE))?;
        // Without force it would conflict with itself.
        if self.force && !lacks(self.applied, &updated["fieldsV1"]) {
            return None;
        }
        let mut own = updated.clone();
        own["operation"] = APPLY.into();
        // Of two entries of one manager and operation the server would take one.
        for entry in entries.iter().filter(|entry| self.is(entry, APPLY)) {
            unite(&mut own["fieldsV1"], &entry["fieldsV1"]);
        }
        let others = entries
            .iter()
            .filter(|entry| !self.is(entry, UPDATE) && !self.is(entry, APPLY));
        let all: Vec<Value> = others.cloned().chain([own]).collect();
        let version = &current["metadata"]["resourceVersion"];
        Some(json!({"metadata": {"resourceVersion": version, "managedFields": all}}))
    }

    fn is(&self, entry: &Value, operation: &str) -> bool {
        let subresource = entry["subresource"].as_str().unwrap_or_default();
        entry["manager"] == self.manager
            && entry["operation"] == operation
            && subresource == self.subresource
    }
}

/// Whether an object lacks one of these fields, which are FieldsV1.
fn lacks(object: &Value, fields: &Value) -> bool {
    let none = Map::new();
    let mut fields = fields.as_object().unwrap_or(&none).iter();
    fields.any(|(step, below)| {
        step != "." && field(object, step).is_none_or(|found| lacks(found, below))
    })
}

/// What a step of FieldsV1 leads to: a field, or an item of a list by its keys, its value or its place.
fn field<'v>(object: &'v Value, step: &str) -> Option<&'v Value> {
    let (kind, name) = step.split_once(':')?;
    let items = || object.as_array().into_iter().flatten();
    let found = match kind {
        "f" => object.get(name),
        "i" => object.get(name.parse::<usize>().ok()?),
        "v" => {
            let value: Value = serde_json::from_str(name).ok()?;
            items().find(|item| **item == value)
        }
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(name).ok()?;
            let has = |item: &&Value| keys.iter().all(|(key, value)| item[key] == *value);
            items().find(has)
        }
        _ => None,
    };
    found.filter(|found| !found.is_null())
}

/// Adds fields to fields.
fn unite(fields: &mut Value, more: &Value) {
    let (Some(fields), Some(more)) = (fields.as_object_mut(), more.as_object()) else {
        return;
    };
    for (step, below) in more {
        unite(fields.entry(step).or_insert_with(|| json!({})), below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": fields})
    }

    fn patch(entries: Value, applied: &Value, force: bool) -> Option<Value> {
        let own = Own {
            manager: "me",
            subresource: "",
            applied,
            force,
        };
        let object = json!({"metadata": {"resourceVersion": "7", "managedFields": entries}});
        own.patch(&object)
    }

    #[test]
    fn own_updates_become_applies_where_the_next_one_leaves_a_field_out() {
        let mine = json!({"f:spec": {".": {}, "f:a": {}, "f:b": {}}});
        let others = [
            entry("me", UPDATE, "status", json!({"f:status": {"f:c": {}}})),
            entry("you", UPDATE, "", json!({"f:spec": {"f:d": {}}})),
        ];
        let entries = json!([entry("me", UPDATE, "", mine.clone()), others[0], others[1]]);
        let both = json!({"spec": {"a": 1, "b": 2}});
        assert_eq!(patch(entries.clone(), &both, true), None);
        let less = json!({"spec": {"a": 1}});
        let patched = patch(entries.clone(), &less, true).unwrap();
        assert_eq!(patched["metadata"]["resourceVersion"], "7");
        let wanted = json!([others[0], others[1], entry("me", APPLY, "", mine)]);
        assert_eq!(patched["metadata"]["managedFields"], wanted);
        // Without force the server would find a conflict.
        assert!(patch(entries, &both, false).is_some());
        assert_eq!(patch(json!([]), &less, false), None);
    }

    #[test]
    fn what_was_noted_in_two_entries_becomes_one() {
        let entries = json!([
            entry("me", APPLY, "", json!({"f:spec": {"f:a": {}}})),
            entry("me", UPDATE, "", json!({"f:spec": {"f:b": {"f:c": {}}}}))
        ]);
        let patched = patch(entries, &json!({}), true).unwrap();
        let fields = json!({"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}});
        let wanted = json!([entry("me", APPLY, "", fields)]);
        assert_eq!(patched["metadata"]["managedFields"], wanted);
    }

    #[test]
    fn items_of_lists_are_found_by_keys_values_and_places() {
        let object =
            json!({"named": [{"name": "a", "x": 1}], "set": ["p", "q"], "list": [1], "null": null});
        let lacks = |fields: Value| lacks(&object, &fields);
        assert!(!lacks(
            json!({"f:named": {"k:{\"name\":\"a\"}": {".": {}, "f:x": {}}}})
        ));
        assert!(lacks(json!({"f:named": {"k:{\"name\":\"b\"}": {}}})));
        assert!(lacks(
            json!({"f:named": {"k:{\"name\":\"a\"}": {"f:y": {}}}})
        ));
        assert!(!lacks(json!({"f:set": {"v:\"q\"": {}}})));
        assert!(lacks(json!({"f:set": {"v:\"r\"": {}}})));
        assert!(!lacks(json!({"f:list": {"i:0": {}}})) && lacks(json!({"f:list": {"i:1": {}}})));
        assert!(lacks(json!({"f:null": {}})));
    }
}
