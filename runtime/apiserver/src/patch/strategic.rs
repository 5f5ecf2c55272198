//! Strategic merge patch: [`patch`] merges lists by their merge key and obeys `$patch`, `$retainKeys`, `$setElementOrder` and
//! `$deleteFromPrimitiveList`.

use serde_json::{Map, Value};

use crate::schema::Schema;

const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// `live` with `patch` put over it.
///
/// # Errors
/// Says which directive or list cannot be understood.
pub(crate) fn patch(live: &Value, patch: &Value, schema: Schema<'_>) -> Result<Value, String> {
    let (Value::Object(live), Value::Object(patch)) = (live, patch) else {
        return Ok(patch.clone());
    };
    merge_map(live, patch, schema).map(Value::Object)
}

fn merge_map(
    live: &Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Schema<'_>,
) -> Result<Map<String, Value>, String> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => return Ok(without_directives(patch)),
        Some("delete") => return Ok(Map::new()),
        Some("merge") | None => {}
        Some(other) => return Err(format!("unknown patch type: {other}")),
    }
    let mut merged = live.clone();
    if let Some(keep) = patch.get("$retainKeys").and_then(Value::as_array) {
        merged.retain(|name, _| keep.iter().any(|kept| kept == name.as_str()));
    }
    for (name, value) in patch {
        if name.starts_with('$') {
            delete_from_primitives(&mut merged, name, value);
            continue;
        }
        if value.is_null() {
            merged.remove(name);
            continue;
        }
        let inner = schema.field(name).unwrap_or_else(Schema::any);
        let order = patch
            .get(&format!("{ORDER}{name}"))
            .and_then(Value::as_array);
        let value = match (merged.get(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                Value::Object(merge_map(old, new, inner)?)
            }
            (None, Value::Object(new)) => Value::Object(merge_map(&Map::new(), new, inner)?),
            (Some(Value::Array(old)), Value::Array(new)) if inner.patch_strategy("merge") => {
                Value::Array(merge_list(old, new, order, inner)?)
            }
            (None, Value::Array(new)) if inner.patch_strategy("merge") => {
                Value::Array(merge_list(&[], new, order, inner)?)
            }
            _ => value.clone(),
        };
        merged.insert(name.clone(), value);
    }
    reorder_untouched(&mut merged, patch, schema);
    Ok(merged)
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(name, _)| !name.starts_with('$'))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn delete_from_primitives(merged: &mut Map<String, Value>, directive: &str, gone: &Value) {
    let Some(name) = directive.strip_prefix(DELETE) else {
        return;
    };
    let gone = gone.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(Value::Array(items)) = merged.get_mut(name) {
        items.retain(|item| !gone.contains(item));
    }
}

/// A list that the patch only orders, without changing an item.
fn reorder_untouched(
    merged: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Schema<'_>,
) {
    for (directive, order) in patch {
        let Some(name) = directive
            .strip_prefix(ORDER)
            .filter(|name| !patch.contains_key(*name))
        else {
            continue;
        };
        let inner = schema.field(name).unwrap_or_else(Schema::any);
        if let (Some(Value::Array(items)), Some(order)) = (merged.get_mut(name), order.as_array()) {
            let live = items.clone();
            arrange(items, &live, &[], Some(order), inner.merge_key());
        }
    }
}

fn merge_list(
    live: &[Value],
    patch: &[Value],
    order: Option<&Vec<Value>>,
    schema: Schema<'_>,
) -> Result<Vec<Value>, String> {
    if patch
        .iter()
        .any(|item| item.get("$patch").and_then(Value::as_str) == Some("replace"))
    {
        return Ok(patch
            .iter()
            .filter(|item| item.get("$patch").is_none())
            .cloned()
            .collect());
    }
    let mut merged = match schema.merge_key() {
        Some(key) if patch.iter().all(Value::is_object) => merge_by_key(live, patch, key, schema)?,
        _ => {
            let mut all = live.to_vec();
            for item in patch.iter().filter(|item| !live.contains(item)) {
                all.push(item.clone());
            }
            all
        }
    };
    arrange(&mut merged, live, patch, order, schema.merge_key());
    Ok(merged)
}

fn merge_by_key(
    live: &[Value],
    patch: &[Value],
    key: &str,
    schema: Schema<'_>,
) -> Result<Vec<Value>, String> {
    let mut merged = live.to_vec();
    for item in patch {
        let Some(id) = item.get(key) else {
            return Err(format!(
                "map: {item} does not contain declared merge key: {key}"
            ));
        };
        let at = merged.iter().position(|own| own.get(key) == Some(id));
        let delete = item.get("$patch").and_then(Value::as_str) == Some("delete");
        match (at, delete, item) {
            (Some(at), true, _) => drop(merged.remove(at)),
            (None, true, _) => {}
            (Some(at), false, Value::Object(new)) => {
                let nothing = Map::new();
                let old = merged[at].as_object().unwrap_or(&nothing);
                merged[at] = Value::Object(merge_map(old, new, schema.items())?);
            }
            (_, false, Value::Object(new)) => {
                merged.push(Value::Object(merge_map(&Map::new(), new, schema.items())?))
            }
            _ => merged.push(item.clone()),
        }
    }
    Ok(merged)
}

/// Puts merged items in order: those of the patch as `order` (or the patch itself) has them, those only in `live` where they stood
/// before items that both have. A new item comes before what only `live` has.
fn arrange(
    merged: &mut Vec<Value>,
    live: &[Value],
    patch: &[Value],
    order: Option<&Vec<Value>>,
    key: Option<&str>,
) {
    let same = |one: &Value, other: &Value| match key {
        Some(key) if one.is_object() => one.get(key) == other.get(key),
        _ => one == other,
    };
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item));
    let wanted: &[Value] = order.map_or(patch, Vec::as_slice);
    let (mut named, kept): (Vec<Value>, Vec<Value>) = merged
        .drain(..)
        .partition(|item| place(wanted, item).is_some());
    named.sort_by_key(|item| place(wanted, item));
    let mut kept = kept.into_iter().peekable();
    for item in named {
        let before = place(live, &item);
        while let Some(other) =
            kept.next_if(|other| before.is_some_and(|before| place(live, other) < Some(before)))
        {
            merged.push(other);
        }
        merged.push(item);
    }
    merged.extend(kept);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;
    use serde_json::json;

    fn patched(live: Value, change: Value) -> Value {
        let pod = builtin()
            .resources
            .iter()
            .find(|resource| resource.kind == "Pod")
            .unwrap();
        patch(&live, &change, pod.schema()).unwrap()
    }

    #[test]
    fn containers_merge_by_name() {
        let live = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        let change = json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}], "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}});
        let names: Vec<Value> = patched(live, change)["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].clone())
            .collect();
        assert_eq!(names, ["c", "a", "b"]);
    }

    #[test]
    fn directives_delete_replace_and_retain() {
        let live = json!({"metadata": {"finalizers": ["x", "y"], "labels": {"a": "1"}}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let change = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"], "labels": {"$patch": "replace", "b": "2"}},
            "spec": {"containers": [{"name": "a", "$patch": "delete"}]}});
        let after = patched(live, change);
        assert_eq!(
            after["metadata"],
            json!({"finalizers": ["y"], "labels": {"b": "2"}})
        );
        assert_eq!(after["spec"]["containers"], json!([{"name": "b"}]));
    }

    #[test]
    fn atomic_lists_are_replaced() {
        let live = json!({"spec": {"containers": [{"name": "a", "args": ["1", "2"]}]}});
        let after = patched(
            live,
            json!({"spec": {"containers": [{"name": "a", "args": ["3"]}]}}),
        );
        assert_eq!(after["spec"]["containers"][0]["args"], json!(["3"]));
    }
}
