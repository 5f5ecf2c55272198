//! Values walked by their schema: the fields of a value ([`fields_of`]), what two differ in ([`compare`]), a configuration put
//! over an object ([`merge`]) and fields taken away ([`remove`]).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::{Element, FieldSet};
use crate::schema::{ListType, Schema};

/// What `compare` found.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
}

/// How a value is taken apart.
enum Shape {
    Map,
    List,
    Leaf,
}

fn shape(schema: Schema<'_>, value: &Value) -> Shape {
    match value {
        Value::Object(_) if !schema.atomic() => Shape::Map,
        Value::Array(_) if schema.list_type() != ListType::Atomic => Shape::List,
        _ => Shape::Leaf,
    }
}

fn inner<'a>(schema: Schema<'a>, field: &str) -> Schema<'a> {
    schema.field(field).unwrap_or_else(Schema::any)
}

fn element(schema: Schema<'_>, index: usize, item: &Value) -> Element {
    Element::Item(schema.item_key(index, item))
}

/// Two items of a set or keyed list under one element: the list cannot be merged.
///
/// # Errors
/// Names the first list that has such items, as the server words it.
pub(crate) fn check_duplicates(
    value: &Value,
    schema: Schema<'_>,
    path: &str,
) -> Result<(), String> {
    match (shape(schema, value), value) {
        (Shape::Map, Value::Object(object)) => object.iter().try_for_each(|(name, child)| {
            check_duplicates(child, inner(schema, name), &format!("{path}.{name}"))
        }),
        (Shape::List, Value::Array(items)) => {
            let mut seen = std::collections::BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let element = element(schema, index, item);
                let mut one = FieldSet::default();
                one.insert(std::slice::from_ref(&element));
                let shown = one.paths().concat();
                if !seen.insert(element) {
                    return Err(format!("{path}: duplicate entries for key {shown}"));
                }
                check_duplicates(item, schema.items(), &format!("{path}{shown}"))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The paths that a configuration names.
pub(crate) fn fields_of(value: &Value, schema: Schema<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, schema, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, schema: Schema<'_>, path: &mut Vec<Element>, set: &mut FieldSet) {
    match (shape(schema, value), value) {
        (Shape::Map, Value::Object(object)) => {
            for (name, child) in object {
                path.push(Element::field(name));
                collect(child, inner(schema, name), path, set);
                let empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                if empty || schema.property(name).is_none() {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Shape::List, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                path.push(element(schema, index, item));
                collect(item, schema.items(), path, set);
                set.insert(path);
                path.pop();
            }
        }
        _ => set.insert(path),
    }
}

/// What changed between two states of an object.
pub(crate) fn compare(old: &Value, new: &Value, schema: Schema<'_>) -> Comparison {
    let mut found = Comparison::default();
    differ(Some(old), Some(new), schema, &mut Vec::new(), &mut found);
    found
}

fn differ(
    old: Option<&Value>,
    new: Option<&Value>,
    schema: Schema<'_>,
    path: &mut Vec<Element>,
    found: &mut Comparison,
) {
    let maps =
        |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value.is_object());
    let lists =
        |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value.is_array());
    let empty = |value: Option<&Value>| match value {
        Some(Value::Object(object)) => object.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Null) | None => true,
        _ => false,
    };
    let both_empty = empty(old) && empty(new);
    let as_map = maps(old) && maps(new) && !both_empty && !schema.atomic();
    let as_list = lists(old) && lists(new) && !both_empty && schema.list_type() != ListType::Atomic;
    if as_map && (old.is_some_and(Value::is_object) || new.is_some_and(Value::is_object)) {
        let nothing = Map::new();
        let before = old.and_then(Value::as_object).unwrap_or(&nothing);
        let after = new.and_then(Value::as_object).unwrap_or(&nothing);
        for name in before
            .keys()
            .chain(after.keys().filter(|name| !before.contains_key(*name)))
        {
            path.push(Element::field(name));
            differ(
                before.get(name),
                after.get(name),
                inner(schema, name),
                path,
                found,
            );
            path.pop();
        }
    } else if as_list && (old.is_some_and(Value::is_array) || new.is_some_and(Value::is_array)) {
        let before = by_element(old, schema);
        let after = by_element(new, schema);
        for element in before.keys().chain(
            after
                .keys()
                .filter(|element| !before.contains_key(*element)),
        ) {
            path.push(element.clone());
            differ(
                before.get(element).copied(),
                after.get(element).copied(),
                schema.items(),
                path,
                found,
            );
            path.pop();
        }
    } else if let (Some(old), Some(new)) = (old, new) {
        if old != new {
            found.modified.insert(path);
        }
        return;
    }
    match (old, new) {
        (None, Some(_)) => found.added.insert(path),
        (Some(_), None) => found.removed.insert(path),
        _ => {}
    }
}

fn by_element<'v>(list: Option<&'v Value>, schema: Schema<'_>) -> BTreeMap<Element, &'v Value> {
    let items = list
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate();
    items
        .map(|(index, item)| (element(schema, index, item), item))
        .collect()
}

/// `config` put over `live`: what it names wins, the rest stays.
pub(crate) fn merge(live: &Value, config: &Value, schema: Schema<'_>) -> Value {
    match (shape(schema, config), live, config) {
        (Shape::Map, Value::Object(before), Value::Object(named)) => {
            let mut merged = before.clone();
            for (name, child) in named {
                let value = before.get(name).map_or_else(
                    || child.clone(),
                    |old| merge(old, child, inner(schema, name)),
                );
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Shape::List, Value::Array(before), Value::Array(named)) => {
            Value::Array(merge_lists(before, named, schema))
        }
        _ => config.clone(),
    }
}

/// Items of both lists. Those of `named` keep their order; those only in `before` stay where they stood among the shared ones.
fn merge_lists(before: &[Value], named: &[Value], schema: Schema<'_>) -> Vec<Value> {
    let elements = |items: &[Value]| -> Vec<Element> {
        items
            .iter()
            .enumerate()
            .map(|(at, item)| element(schema, at, item))
            .collect()
    };
    let (left, right) = (elements(before), elements(named));
    let mut shared = right
        .iter()
        .filter(|element| left.contains(element))
        .peekable();
    let mut merged = Vec::with_capacity(before.len() + named.len());
    let mut done: Vec<&Element> = Vec::new();
    let (mut l, mut r) = (0, 0);
    let both = |element: &Element, right_at: usize| match left.iter().position(|own| own == element)
    {
        Some(at) => merge(&before[at], &named[right_at], schema.items()),
        None => named[right_at].clone(),
    };
    while l < left.len() || r < right.len() {
        if let (Some(own), true) = (left.get(l), r < right.len()) {
            // An item that both have waits for its turn in the order of `named`.
            let foreign_turn = shared.peek().is_some_and(|next| *next != own);
            if *own != right[r] && right.contains(own) && foreign_turn {
                l += 1;
                continue;
            }
        }
        if let Some(own) = left.get(l) {
            if !right.contains(own) {
                merged.push(before[l].clone());
                l += 1;
                continue;
            }
            if done.contains(&own) || right.get(r) == Some(own) {
                l += 1;
            }
        }
        if let Some(next) = right.get(r) {
            merged.push(both(next, r));
            done.push(next);
            if shared.peek() == Some(&next) {
                shared.next();
            }
            r += 1;
        }
    }
    merged
}

/// `value` without the fields of `gone`. A map or list that loses its last entry is dropped with it.
pub(crate) fn remove(value: &Value, gone: &FieldSet, schema: Schema<'_>) -> Value {
    match (shape(schema, value), value) {
        (Shape::Map, Value::Object(object)) => {
            let mut kept = Map::new();
            for (name, child) in object {
                let element = Element::field(name);
                if gone.has(&element) {
                    continue;
                }
                match gone.below(&element) {
                    None => drop(kept.insert(name.clone(), child.clone())),
                    Some(below) => {
                        let left = remove(child, below, inner(schema, name));
                        if !emptied(child, &left) {
                            kept.insert(name.clone(), left);
                        }
                    }
                }
            }
            Value::Object(kept)
        }
        (Shape::List, Value::Array(items)) => {
            let keep = |(index, item): (usize, &Value)| {
                let element = element(schema, index, item);
                if gone.has(&element) {
                    return None;
                }
                Some(
                    gone.below(&element)
                        .map_or_else(|| item.clone(), |below| remove(item, below, schema.items())),
                )
            };
            Value::Array(items.iter().enumerate().filter_map(keep).collect())
        }
        _ => value.clone(),
    }
}

fn emptied(before: &Value, after: &Value) -> bool {
    let empty = |value: &Value| {
        value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
    };
    empty(after) && !empty(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schemas;
    use serde_json::json;

    fn schemas() -> (Schemas, crate::schema::NodeId) {
        let mut all = Schemas::default();
        let id = all.add(&json!({"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                "items": {"type": "object", "properties": {"port": {"type": "integer"}, "name": {"type": "string"}}}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}));
        (all, id)
    }

    #[test]
    fn lists_with_keys_merge_item_by_item_and_keep_the_configured_order() {
        let (all, id) = schemas();
        let live = json!({"ports": [{"port": 1}, {"port": 2, "name": "b"}, {"port": 3}]});
        let config = json!({"ports": [{"port": 3, "name": "c"}, {"port": 2}]});
        let merged = merge(&live, &config, all.at(id));
        assert_eq!(
            merged,
            json!({"ports": [{"port": 1}, {"port": 3, "name": "c"}, {"port": 2, "name": "b"}]})
        );
    }

    #[test]
    fn a_comparison_tells_added_removed_and_modified_paths() {
        let (all, id) = schemas();
        let found = compare(
            &json!({"labels": {"a": "1", "b": "1"}}),
            &json!({"labels": {"a": "2"}, "tags": ["x"]}),
            all.at(id),
        );
        assert_eq!(
            found.added.to_json(),
            json!({"f:tags": {".": {}, "v:\"x\"": {}}})
        );
        assert_eq!(found.removed.to_json(), json!({"f:labels": {"f:b": {}}}));
        assert_eq!(found.modified.to_json(), json!({"f:labels": {"f:a": {}}}));
    }

    #[test]
    fn removing_the_last_entry_of_a_map_removes_the_map() {
        let (all, id) = schemas();
        let gone =
            FieldSet::from_json(&json!({"f:labels": {"f:a": {}}, "f:tags": {"v:\"x\"": {}}}));
        let left = remove(
            &json!({"labels": {"a": "1"}, "tags": ["x", "y"]}),
            &gone,
            all.at(id),
        );
        assert_eq!(left, json!({"tags": ["y"]}));
    }
}
