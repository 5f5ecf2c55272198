//! What a decoder does to a request's object: [`builtin`] as Go structs do, [`custom`] by a structural schema.
//!
//! Unknown fields are taken away and reported; the caller decides whether they are errors, warnings or nothing.

use serde_json::{Map, Value};

use super::{Kind, Schema, leaf};

/// Decodes an object of a built-in kind: unknown fields go, nulls and empty maps and lists become absent, structs held by value appear.
/// Returns the unknown fields.
///
/// # Errors
/// The JSON decoder's words about the first value of a wrong type.
pub(crate) fn builtin(value: &mut Value, schema: Schema<'_>) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    let place = Place {
        owner: schema.type_name().unwrap_or("Object"),
        path: "",
    };
    go(value, schema, place, "", &mut unknown)?;
    Ok(unknown)
}

/// Prunes an object of a custom kind below its top level; `apiVersion`, `kind` and `metadata` are left alone. Returns the unknown fields.
pub(crate) fn custom(value: &mut Value, schema: Schema<'_>) -> Vec<String> {
    let mut unknown = Vec::new();
    prune(value, schema, "", true, &mut unknown);
    unknown
}

/// The empty object of a built-in kind as the server's code makes it: what a create is compared with.
pub(crate) fn zero(schema: Schema<'_>) -> Value {
    let mut object = Map::new();
    fill(&mut object, schema);
    Value::Object(object)
}

/// Fields that Go writes whether or not they were given: structs held by value, and what is required.
fn fill(object: &mut Map<String, Value>, schema: Schema<'_>) {
    for (name, child) in schema.properties() {
        if object.contains_key(name) {
            continue;
        }
        let value = match (child.zero(), schema.requires(name)) {
            (true, _) => zero(child),
            (false, true) => empty(child),
            (false, false) => continue,
        };
        object.insert(name.to_owned(), value);
    }
}

fn empty(schema: Schema<'_>) -> Value {
    match (schema.type_name(), schema.kind()) {
        (Some("Quantity"), _) => "0".into(),
        (None, Kind::String) => "".into(),
        (_, Kind::Integer) => 0.into(),
        (_, Kind::Boolean) => false.into(),
        _ => Value::Null,
    }
}

/// Storing turns required lists that are empty into null.
pub(crate) fn settle(value: &mut Value, schema: Schema<'_>) {
    match value {
        Value::Object(object) => {
            for (name, child) in object.iter_mut() {
                let Some(inner) = schema.field(name) else {
                    continue;
                };
                if child.as_array().is_some_and(Vec::is_empty) && schema.requires(name) {
                    *child = Value::Null;
                } else {
                    settle(child, inner);
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| settle(item, schema.items())),
        _ => {}
    }
}

/// Where a value stands, in the words of Go's decoder.
#[derive(Clone, Copy)]
struct Place<'a> {
    owner: &'a str,
    path: &'a str,
}

fn go(
    value: &mut Value,
    schema: Schema<'_>,
    place: Place<'_>,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let mismatch = |wanted: &str| {
        // A number that does not fit is shown.
        let shown = match &*value {
            Value::Number(number) if schema.kind() == Kind::Integer => format!("number {number}"),
            other => found(other).to_owned(),
        };
        Err(format!(
            "json: cannot unmarshal {shown} into Go struct field {}.{} of type {wanted}",
            place.owner, place.path
        ))
    };
    match schema.kind() {
        Kind::Any => return leaf::settle(value, schema),
        Kind::String if !value.is_string() && schema.format() == Some("byte") => {
            return mismatch("[]uint8");
        }
        Kind::String if !value.is_string() => return mismatch("string"),
        Kind::String => return leaf::settle(value, schema),
        Kind::Boolean if !value.is_boolean() => return mismatch("bool"),
        Kind::Integer if !fits(value, schema.format()) => {
            return mismatch(schema.format().unwrap_or("int"));
        }
        Kind::Number if !value.is_number() => return mismatch("float64"),
        Kind::Object if !value.is_object() => return mismatch(&go_type(schema)),
        Kind::Array if !value.is_array() => return mismatch(&go_type(schema)),
        _ => {}
    }
    match value {
        Value::Object(object) if !schema.open() => go_object(object, schema, place, path, unknown),
        Value::Array(items) => {
            let schema = schema.items();
            items.iter_mut().enumerate().try_for_each(|(at, item)| {
                go(item, schema, place, &format!("{path}[{at}]"), unknown)
            })
        }
        _ => Ok(()),
    }
}

/// Whether a number is whole and within the Go type of its format.
fn fits(value: &Value, format: Option<&str>) -> bool {
    value
        .as_i64()
        .is_some_and(|number| format != Some("int32") || i32::try_from(number).is_ok())
}

fn go_object(
    object: &mut Map<String, Value>,
    schema: Schema<'_>,
    place: Place<'_>,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let map = schema.is_map();
    let owner = if map {
        place.owner
    } else {
        schema.type_name().unwrap_or(place.owner)
    };
    let mut gone = Vec::new();
    for (name, child) in object.iter_mut() {
        let Some(inner) = schema.field(name) else {
            unknown.push(join(path, name));
            gone.push(name.clone());
            continue;
        };
        // Go names the field of the struct, not the key of a map inside it.
        let field = if map {
            place.path.to_owned()
        } else {
            join(place.path, name)
        };
        go(
            child,
            inner,
            Place {
                owner,
                path: &field,
            },
            &join(path, name),
            unknown,
        )?;
        if !map && vanishes(child, inner) && !(schema.requires(name) && child.is_array()) {
            gone.push(name.clone());
        }
    }
    for name in gone {
        object.remove(&name);
    }
    if !map {
        fill(object, schema);
    }
    Ok(())
}

/// Whether Go's encoder would leave the field out: null, an empty list, an empty map that is not a struct.
fn vanishes(value: &Value, schema: Schema<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty() && schema.is_map(),
        _ => false,
    }
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(schema: Schema<'_>) -> String {
    match schema.kind() {
        Kind::Array => format!("[]{}", go_type(schema.items())),
        Kind::Object if schema.is_map() => "map[string]string".to_owned(),
        Kind::Object => format!("v1.{}", schema.type_name().unwrap_or("Object")),
        Kind::Integer => schema.format().unwrap_or("int").to_owned(),
        Kind::Boolean => "bool".to_owned(),
        _ => "string".to_owned(),
    }
}

fn prune(
    value: &mut Value,
    schema: Schema<'_>,
    path: &str,
    resource: bool,
    unknown: &mut Vec<String>,
) {
    match value {
        Value::Object(object) => {
            let mut gone = Vec::new();
            for (name, child) in object.iter_mut() {
                if resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                match schema.field(name) {
                    Some(inner) => {
                        prune(child, inner, &join(path, name), inner.embedded(), unknown)
                    }
                    None => {
                        unknown.push(join(path, name));
                        gone.push(name.clone());
                    }
                }
            }
            for name in gone {
                object.remove(&name);
            }
        }
        Value::Array(items) if schema.kind() == Kind::Array => {
            let inner = schema.items();
            for (at, item) in items.iter_mut().enumerate() {
                prune(
                    item,
                    inner,
                    &format!("{path}[{at}]"),
                    inner.embedded(),
                    unknown,
                );
            }
        }
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin as facts;
    use serde_json::json;

    fn schema(kind: &str) -> Schema<'static> {
        facts()
            .resources
            .iter()
            .find(|resource| resource.kind == kind)
            .unwrap()
            .schema()
    }

    #[test]
    fn unknown_fields_of_a_builtin_kind_are_named_by_path() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "imagee": "x"}]}, "foo": 1});
        let mut unknown = builtin(&mut pod, schema("Pod")).unwrap();
        unknown.sort();
        assert_eq!(unknown, ["foo", "spec.containers[0].imagee"]);
        assert!(pod.get("foo").is_none());
    }

    #[test]
    fn a_wrong_type_is_reported_as_the_decoder_does() {
        let mut deployment = json!({"spec": {"replicas": "two"}});
        let error = builtin(&mut deployment, schema("Deployment")).unwrap_err();
        assert_eq!(
            error,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
    }

    #[test]
    fn empty_maps_vanish_and_structs_held_by_value_appear() {
        let mut deployment = json!({"metadata": {"labels": {}, "finalizers": []}, "spec": {}});
        builtin(&mut deployment, schema("Deployment")).unwrap();
        assert_eq!(deployment["metadata"], json!({}));
        assert!(deployment["spec"]["strategy"].is_object());
        assert_eq!(deployment["status"], json!({}));
    }
}
