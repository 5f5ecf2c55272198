//! Validation by schema: [`custom`] for objects of CRDs, [`required`] for built-in kinds without rules of their own.

use regex::Regex;
use serde_json::Value;

use super::{Kind, ListType, Schema, formats};
use crate::status::FieldError;

/// Fields that a built-in kind requires and the object lacks.
pub(crate) fn required(object: &Value, schema: Schema<'_>, errors: &mut Vec<FieldError>) {
    walk_required(object, schema, "", errors);
}

fn walk_required(value: &Value, schema: Schema<'_>, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(object) => {
            for name in schema.required() {
                let inner = schema.property(name);
                let text = inner.is_some_and(|inner| inner.kind() == Kind::String);
                let absent = object
                    .get(name)
                    .is_none_or(|value| value.is_null() || (text && value == ""));
                // As in Go, where an absent list or number equals an empty one.
                if absent && text {
                    errors.push(FieldError::required(join(path, name), ""));
                }
            }
            for (name, child) in object.iter().filter(|(name, _)| {
                !path.is_empty() || !matches!(name.as_str(), "metadata" | "status")
            }) {
                if let Some(inner) = schema.field(name) {
                    walk_required(child, inner, &join(path, name), errors);
                }
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| {
                walk_required(item, schema.items(), &format!("{path}[{at}]"), errors)
            });
        }
        _ => {}
    }
}

/// Everything that the schema of a CRD has against an object.
pub(crate) fn custom(object: &Value, schema: Schema<'_>, errors: &mut Vec<FieldError>) {
    let Some(fields) = object.as_object() else {
        return;
    };
    for name in schema.required() {
        if !fields.contains_key(name) {
            errors.push(FieldError::required(name, ""));
        }
    }
    for (name, value) in fields
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
    {
        if let Some(inner) = schema.field(name) {
            check(value, inner, name, errors);
        }
    }
    if let Some(rules) = schema.rules() {
        check_rules(object, rules, "<nil>", errors);
    }
}

fn check(value: &Value, schema: Schema<'_>, path: &str, errors: &mut Vec<FieldError>) {
    if value.is_null() && schema.nullable() {
        return;
    }
    if !has_type(value, schema.kind()) {
        let wanted = type_text(schema.kind());
        let detail = format!(
            "{path} in body must be of type {wanted}: {:?}",
            type_of(value)
        );
        errors.push(FieldError::wrong_type(path, type_of(value), &detail));
        if schema.kind() == Kind::Integer && value.is_number() {
            errors.push(unwhole(schema, path));
        }
        return;
    }
    let small = value
        .as_i64()
        .is_none_or(|number| i32::try_from(number).is_ok());
    if schema.kind() == Kind::Integer && schema.format() == Some("int32") && !small {
        errors.push(unwhole(schema, path));
    }
    check_format(value, schema, path, errors);
    match value {
        Value::Object(object) => {
            for name in schema.required() {
                if !object.contains_key(name) {
                    errors.push(FieldError::required(join(path, name), ""));
                }
            }
            for (name, child) in object {
                if let Some(inner) = schema.field(name) {
                    check(child, inner, &join(path, name), errors);
                }
            }
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, item)| check(item, schema.items(), &format!("{path}[{at}]"), errors)),
        _ => {}
    }
    check_list(value, schema, path, errors);
    if let Some(rules) = schema.rules() {
        check_rules(value, rules, path, errors);
    }
}

/// A second check of numbers reports without a field.
fn unwhole(schema: Schema<'_>, path: &str) -> FieldError {
    let form = match schema.format() {
        Some(format @ ("int32" | "int64")) => format!("with format {format}"),
        _ => "(default format)".to_owned(),
    };
    let detail = format!("Checked value must be of type integer {form} in {path}");
    FieldError::invalid("<nil>", &Value::from(""), &detail)
}

fn check_list(value: &Value, schema: Schema<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(items) = value
        .as_array()
        .filter(|_| schema.list_type() != ListType::Atomic)
    else {
        return;
    };
    let mut seen = std::collections::BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        if !seen.insert(schema.item_key(at, item)) {
            let keys: serde_json::Map<String, Value> = schema
                .keys()
                .iter()
                .filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())))
                .collect();
            let shown = if keys.is_empty() {
                item.clone()
            } else {
                Value::Object(keys)
            };
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), &shown));
        }
    }
}

/// Value validations, also those inside allOf, anyOf, oneOf and not.
fn check_rules(value: &Value, rules: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(allowed) = rules["enum"]
        .as_array()
        .filter(|allowed| !allowed.contains(value))
    {
        let allowed: Vec<String> = allowed
            .iter()
            .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
            .collect();
        errors.push(FieldError::not_supported(path, value, &allowed));
    }
    check_text(value, rules, path, errors);
    check_number(value, rules, path, errors);
    check_size(value, rules, path, errors);
    let fails = |rule: &Value| {
        let mut found = Vec::new();
        check_branch(value, rule, path, &mut found);
        found
    };
    let branches = |name: &str| {
        rules[name]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    branches("allOf")
        .iter()
        .for_each(|rule| errors.extend(fails(rule)));
    let must = |what: &str| {
        FieldError::invalid(
            path,
            &Value::from(""),
            &format!("{path:?} must validate {what}"),
        )
    };
    if !branches("anyOf").is_empty() && branches("anyOf").iter().all(|rule| !fails(rule).is_empty())
    {
        errors.push(must("at least one schema (anyOf)"));
    }
    let passing = branches("oneOf")
        .iter()
        .filter(|rule| fails(rule).is_empty())
        .count();
    if !branches("oneOf").is_empty() && passing != 1 {
        let found = if passing == 0 {
            "Found none valid"
        } else {
            "Found more than one valid"
        };
        errors.push(must(&format!("one and only one schema (oneOf). {found}")));
    }
    if rules.get("not").is_some_and(|rule| fails(rule).is_empty()) {
        errors.push(must("must not validate the schema (not)"));
    }
}

/// A branch of a junctor: rules, and which fields must be there.
fn check_branch(value: &Value, rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check_rules(value, rule, path, errors);
    let fits = |wanted: &str| wanted == type_of(value) || (wanted == "number" && value.is_number());
    if let Some(wanted) = rule["type"].as_str().filter(|wanted| !fits(wanted)) {
        errors.push(FieldError::wrong_type(path, type_of(value), wanted));
    }
    for name in rule["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value.get(name).is_none() {
            errors.push(FieldError::required(join(path, name), ""));
        }
    }
    for (name, inner) in rule["properties"].as_object().into_iter().flatten() {
        if let Some(child) = value.get(name) {
            check_branch(child, inner, &join(path, name), errors);
        }
    }
}

fn check_text(value: &Value, rules: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(text) = value.as_str() else { return };
    let length = text.chars().count() as u64;
    if let Some(limit) = rules["maxLength"].as_u64().filter(|limit| length > *limit) {
        errors.push(FieldError::too_long(path, limit));
    }
    if let Some(limit) = rules["minLength"].as_u64().filter(|limit| length < *limit) {
        errors.push(FieldError::invalid(
            path,
            value,
            &format!("{path} in body should be at least {limit} chars long"),
        ));
    }
    if let Some(pattern) = rules["pattern"].as_str() {
        let fits = Regex::new(pattern).map_or(true, |pattern| pattern.is_match(text));
        if !fits {
            errors.push(FieldError::invalid(
                path,
                value,
                &format!("{path} in body should match '{pattern}'"),
            ));
        }
    }
}

fn check_number(value: &Value, rules: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(number) = value.as_f64() else { return };
    if let Some(bound) = rules["maximum"].as_f64() {
        let strict = rules["exclusiveMaximum"] == true;
        if number > bound || (strict && number == bound) {
            let word = if strict {
                "less than"
            } else {
                "less than or equal to"
            };
            errors.push(FieldError::invalid(
                path,
                value,
                &format!("{path} in body should be {word} {}", rules["maximum"]),
            ));
        }
    }
    if let Some(bound) = rules["minimum"].as_f64() {
        let strict = rules["exclusiveMinimum"] == true;
        if number < bound || (strict && number == bound) {
            let word = if strict {
                "greater than"
            } else {
                "greater than or equal to"
            };
            errors.push(FieldError::invalid(
                path,
                value,
                &format!("{path} in body should be {word} {}", rules["minimum"]),
            ));
        }
    }
    if let Some(step) = rules["multipleOf"]
        .as_f64()
        .filter(|step| *step != 0.0 && (number / step).fract() != 0.0)
    {
        errors.push(FieldError::invalid(
            path,
            value,
            &format!("{path} in body should be a multiple of {step}"),
        ));
    }
}

fn check_size(value: &Value, rules: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (size, most, least, what) = match value {
        Value::Array(items) => (items.len(), "maxItems", "minItems", "items"),
        Value::Object(fields) => (fields.len(), "maxProperties", "minProperties", "properties"),
        _ => return,
    };
    if let Some(limit) = rules[most].as_u64().filter(|limit| size as u64 > *limit) {
        errors.push(FieldError::too_many(path, size, limit));
    }
    if let Some(limit) = rules[least].as_u64().filter(|limit| (size as u64) < *limit) {
        errors.push(FieldError::invalid(
            path,
            &size.into(),
            &format!("{path} in body should have at least {limit} {what}"),
        ));
    }
}

fn check_format(value: &Value, schema: Schema<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let (Some(format), Some(text)) = (schema.format(), value.as_str()) else {
        return;
    };
    let fits = formats::fits(format, text);
    if !fits {
        let detail = format!("{path} in body must be of type {format}: {text:?}");
        errors.push(FieldError::wrong_type(path, text, &detail));
    }
}

fn has_type(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Any => true,
        Kind::Object => value.is_object(),
        Kind::Array => value.is_array(),
        Kind::String => value.is_string(),
        Kind::Integer => {
            value.as_i64().is_some()
                || value.as_u64().is_some()
                || value
                    .as_f64()
                    .is_some_and(|number| number.fract() == 0.0 && number.abs() < 9.2e18)
        }
        Kind::Number => value.is_number(),
        Kind::Boolean => value.is_boolean(),
        Kind::IntOrString => value.is_string() || value.as_i64().is_some(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type as a schema names it.
pub(crate) fn type_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Any => "any",
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::IntOrString => "integer,string",
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
    use crate::schema::Schemas;
    use serde_json::json;

    fn findings(schema: Value, object: Value) -> usize {
        let mut all = Schemas::default();
        let id = all.add(&json!({"type": "object", "properties": {"spec": schema}}));
        let mut errors = Vec::new();
        custom(&json!({ "spec": object }), all.at(id), &mut errors);
        errors.len()
    }

    #[test]
    fn value_validations_are_checked() {
        let schema = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "integer", "minimum": 1, "maximum": 3}, "b": {"type": "string", "pattern": "^x", "maxLength": 3},
            "c": {"type": "string", "enum": ["p", "q"]}, "d": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
            "e": {"x-kubernetes-int-or-string": true}}});
        assert_eq!(
            findings(
                schema.clone(),
                json!({"a": 2, "b": "xy", "c": "p", "d": ["z"], "e": "1"})
            ),
            0
        );
        assert_eq!(findings(schema.clone(), json!({"b": "xy"})), 1);
        assert_eq!(
            findings(
                schema.clone(),
                json!({"a": 0, "b": "y", "c": "r", "d": ["z", "z"], "e": true})
            ),
            5
        );
        assert_eq!(findings(schema, json!("text")), 1);
    }

    #[test]
    fn junctors_are_checked() {
        let schema = json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(findings(schema.clone(), json!({"a": 1})), 0);
        assert_eq!(findings(schema.clone(), json!({})), 1);
        assert_eq!(findings(schema, json!({"a": 1, "b": 1})), 1);
    }
}
