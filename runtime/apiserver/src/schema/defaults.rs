//! Defaults of a schema put into an object: [`apply`].

use serde_json::{Map, Value};

use super::{Kind, Schema};

/// Fills in what is absent and has a default, from the top down.
pub(crate) fn apply(value: &mut Value, schema: Schema<'_>) {
    match value {
        Value::Object(object) => {
            drop_nulls(object, schema);
            for (name, child) in schema.properties() {
                let unset = object
                    .get(name)
                    .is_none_or(|value| *value == Value::Object(Map::new()) && child.zero());
                if let (true, Some(default)) = (unset, child.default()) {
                    object.insert(name.to_owned(), default.clone());
                }
            }
            for (name, child) in object.iter_mut() {
                if let Some(inner) = schema.field(name) {
                    apply(child, inner);
                }
            }
        }
        Value::Array(items) if schema.kind() == Kind::Array => items
            .iter_mut()
            .for_each(|item| apply(item, schema.items())),
        _ => {}
    }
}

/// A null where none is allowed counts as absent; built-in kinds (whose fields are numbered) show required lists as null.
fn drop_nulls(object: &mut Map<String, Value>, schema: Schema<'_>) {
    object.retain(|name, value| {
        let allowed = || {
            schema.property(name).is_none_or(|child| {
                child.nullable() || (schema.requires(name) && child.number().is_some())
            })
        };
        !value.is_null() || allowed()
    });
}
