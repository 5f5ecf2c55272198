//! The merge patch that makes one value of another (RFC 7386). Entry point: [`difference`].

use serde_json::{Map, Value};

/// What vanished is null in the patch.
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
