//! Whether a configuration fits the schema of its kind: [`misfits`], in the words of kube-apiserver's typed objects.

use serde_json::Value;

use super::field_set::{Element, FieldSet};
use crate::schema::{Kind, Schema};

/// What every object has, whatever the schema of a custom kind declares.
const OF_EVERY_OBJECT: [&str; 2] = ["apiVersion", "kind"];

/// Fields that the schema does not declare, and values of another type, each with its path. The schema of a custom kind need not
/// declare the metadata of its objects: `metadata` does.
pub(crate) fn misfits(
    value: &Value,
    schema: Schema<'_>,
    metadata: Option<Schema<'_>>,
) -> Vec<String> {
    let mut walk = Walk {
        metadata,
        found: Vec::new(),
    };
    walk.go(value, schema, "", metadata.is_some());
    walk.found
}

struct Walk<'a> {
    metadata: Option<Schema<'a>>,
    found: Vec<String>,
}

impl Walk<'_> {
    /// `whole` says that the value is an object of a custom kind.
    fn go(&mut self, value: &Value, schema: Schema<'_>, path: &str, whole: bool) {
        let wrong = match (schema.kind(), value) {
            (_, Value::Null) | (Kind::Any | Kind::IntOrString, _) => return,
            (Kind::Object, Value::Object(fields)) => {
                for (name, child) in fields {
                    let path = format!("{path}.{name}");
                    let inner = match name.as_str() {
                        name if whole && OF_EVERY_OBJECT.contains(&name) => Some(Schema::any()),
                        "metadata" if whole => self.metadata,
                        name => schema.field(name),
                    };
                    match inner {
                        Some(inner) => self.go(child, inner, &path, inner.embedded()),
                        None => self
                            .found
                            .push(format!("{path}: field not declared in schema")),
                    }
                }
                return;
            }
            (Kind::Array, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    let mut one = FieldSet::default();
                    one.insert(&[Element::Item(schema.item_key(index, item))]);
                    let path = format!("{path}{}", one.paths().concat());
                    self.go(item, schema.items(), &path, schema.items().embedded());
                }
                return;
            }
            (Kind::Object, other) => format!("expected map, got &{{{}}}", plain(other)),
            (Kind::Array, other) => format!("expected list, got &{{{}}}", plain(other)),
            (Kind::Boolean, other) if !other.is_boolean() => {
                format!("expected boolean, got &{{{}}}", plain(other))
            }
            (Kind::Integer | Kind::Number, other) if !other.is_number() => {
                format!("expected numeric (int or float), got {}", type_of(other))
            }
            // Times are strings to a reader and of no type to an apply.
            (Kind::String, other)
                if !other.is_string()
                    && !matches!(schema.type_name(), Some("Time" | "MicroTime")) =>
            {
                format!(
                    "expected string, got &value.valueUnstructured{{Value:{}}}",
                    source(other)
                )
            }
            _ => return,
        };
        self.found.push(format!("{path}: {wrong}"));
    }
}

/// A value as Go's `%v` writes it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, child)| format!("{name}:{}", plain(child)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        scalar => scalar.to_string(),
    }
}

/// A value as Go's `%#v` writes it.
fn source(value: &Value) -> String {
    let inner: Vec<String> = match value {
        Value::Array(items) => items.iter().map(source).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, child)| format!("{name:?}:{}", source(child)))
                .collect()
        }
        Value::Null => return "interface {}(nil)".to_owned(),
        scalar => return scalar.to_string(),
    };
    format!("{}{{{}}}", type_of(value), inner.join(", "))
}

/// The Go type that a decoder makes of a value.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
