//! Server-side apply for one applier. Entry point: [`apply`].

use serde_json::{Map, Value};

/// Applies `now` to `stored`, where `before` was applied last. Fields of `now` are set, fields of `before` that `now` lacks
/// are removed, and all others stay. Lists are replaced whole.
pub(super) fn apply(stored: Option<&Value>, before: &Value, now: &Value) -> Value {
    let (Some(Value::Object(stored)), Value::Object(now)) = (stored, now) else {
        return now.clone();
    };
    Value::Object(apply_fields(stored, before.as_object(), now))
}

fn apply_fields(
    stored: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
    now: &Map<String, Value>,
) -> Map<String, Value> {
    let mut next = stored.clone();
    for (field, old) in before.into_iter().flatten() {
        if now.contains_key(field) {
            continue;
        }
        // Only the applied fields of an object are removed; fields that other writers set stay.
        match (next.get(field), old) {
            (Some(Value::Object(present)), Value::Object(old)) => {
                let rest = apply_fields(present, Some(old), &Map::new());
                if rest.is_empty() {
                    next.remove(field)
                } else {
                    next.insert(field.clone(), Value::Object(rest))
                };
            }
            _ => {
                next.remove(field);
            }
        }
    }
    for (field, value) in now {
        let old = before
            .and_then(|before| before.get(field))
            .unwrap_or(&Value::Null);
        let value = apply(next.get(field), old, value);
        next.insert(field.clone(), value);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_no_longer_applied_goes_and_others_stay() {
        let stored =
            json!({"data": {"mine": "1", "theirs": "2"}, "metadata": {"labels": {"a": "b"}}});
        let before = json!({"data": {"mine": "1"}, "metadata": {"labels": {"a": "b"}}});
        let next = apply(Some(&stored), &before, &json!({"data": {"new": "3"}}));
        assert_eq!(next, json!({"data": {"theirs": "2", "new": "3"}}));
    }
}
