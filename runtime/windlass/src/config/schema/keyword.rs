//! The keywords of JSON Schema that are understood. Entry point: [`check`].

use super::{MOST_PATTERNS, SchemaError, compile, resolve};
use regex::Regex;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use windlass_files::nearest;

/// What the value of a keyword is.
#[derive(Clone, Copy)]
enum Form {
    /// Anything: it is for people, or compared with the config.
    Any,
    /// A type's name, or a list of such.
    Type,
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// Schemas by name.
    Named,
    /// Schemas by pattern.
    ByPattern,
    /// A list of texts.
    Texts,
    /// A list of values.
    List,
    /// A whole number, 0 or more.
    Count,
    /// A number.
    Number,
    /// true or false.
    Bool,
    /// A pattern.
    Pattern,
    /// `#` or `#/$defs/…`, in the same text.
    Reference,
}

const KEYWORDS: [(&str, Form); 42] = [
    ("$schema", Form::Any),
    ("$id", Form::Any),
    ("$comment", Form::Any),
    ("title", Form::Any),
    ("description", Form::Any),
    ("default", Form::Any),
    ("examples", Form::Any),
    ("deprecated", Form::Any),
    ("readOnly", Form::Any),
    ("writeOnly", Form::Any),
    ("format", Form::Any),
    ("const", Form::Any),
    ("enum", Form::List),
    ("type", Form::Type),
    ("$ref", Form::Reference),
    ("$defs", Form::Named),
    ("definitions", Form::Named),
    ("allOf", Form::Schemas),
    ("anyOf", Form::Schemas),
    ("oneOf", Form::Schemas),
    ("not", Form::Schema),
    ("if", Form::Schema),
    ("then", Form::Schema),
    ("else", Form::Schema),
    ("properties", Form::Named),
    ("patternProperties", Form::ByPattern),
    ("additionalProperties", Form::Schema),
    ("propertyNames", Form::Schema),
    ("required", Form::Texts),
    ("minProperties", Form::Count),
    ("maxProperties", Form::Count),
    ("items", Form::Schema),
    ("minItems", Form::Count),
    ("maxItems", Form::Count),
    ("uniqueItems", Form::Bool),
    ("minLength", Form::Count),
    ("maxLength", Form::Count),
    ("pattern", Form::Pattern),
    ("minimum", Form::Number),
    ("maximum", Form::Number),
    ("exclusiveMinimum", Form::Number),
    ("exclusiveMaximum", Form::Number),
];

/// The names of types.
const TYPES: [&str; 7] = [
    "null", "boolean", "object", "array", "number", "string", "integer",
];

/// Checks a schema and all schemas in it, and compiles their patterns. `at` is its JSON pointer after `#`.
pub(super) fn check(
    root: &Json,
    schema: &Json,
    at: &str,
    patterns: &mut BTreeMap<String, Regex>,
    depth: usize,
) -> Result<(), SchemaError> {
    let refuse = |problem: String| SchemaError::Part {
        at: at.to_owned(),
        problem,
    };
    let fields = match schema {
        Json::Bool(_) => return Ok(()),
        Json::Object(fields) => fields,
        _ => return Err(refuse("a schema is a mapping, or true or false".to_owned())),
    };
    let Some(depth) = depth.checked_sub(1) else {
        return Err(refuse("it is nested too deeply: use $defs".to_owned()));
    };
    for (name, value) in fields {
        let known = KEYWORDS.iter().find(|(known, _)| known == name);
        let Some((_, form)) = known else {
            let names = KEYWORDS.iter().map(|(known, _)| *known);
            let remedy = match nearest(name, names) {
                Some(known) => format!("did you mean {known:?}?"),
                None => "leave it out".to_owned(),
            };
            return Err(refuse(format!(
                "the keyword {name:?} is not supported: {remedy}"
            )));
        };
        let at = format!("{at}/{name}");
        let refuse = |problem: String| SchemaError::Part {
            at: at.clone(),
            problem,
        };
        let expected = |what: &str| refuse(format!("expected {what}"));
        match form {
            Form::Any => {}
            Form::Type => {
                let one = std::slice::from_ref(value);
                let types = value.as_array().map_or(one, Vec::as_slice);
                let is_known = |it: &Json| it.as_str().is_some_and(|it| TYPES.contains(&it));
                if !types.iter().all(is_known) || types.is_empty() {
                    return Err(expected(&format!("one or more of {}", TYPES.join(", "))));
                }
            }
            Form::Schema => check(root, value, &at, patterns, depth)?,
            Form::Schemas => {
                let list = value.as_array().filter(|list| !list.is_empty());
                for (index, inner) in list
                    .ok_or_else(|| expected("a list of schemas"))?
                    .iter()
                    .enumerate()
                {
                    check(root, inner, &format!("{at}/{index}"), patterns, depth)?;
                }
            }
            Form::Named | Form::ByPattern => {
                let named = value.as_object();
                for (key, inner) in named.ok_or_else(|| expected("schemas by name"))? {
                    check(root, inner, &format!("{at}/{key}"), patterns, depth)?;
                    if matches!(form, Form::ByPattern) {
                        keep(key, patterns).map_err(refuse)?;
                    }
                }
            }
            Form::Texts => {
                let list = value.as_array();
                if !list.is_some_and(|list| list.iter().all(Json::is_string)) {
                    return Err(expected("a list of texts"));
                }
            }
            Form::List => {
                if value.as_array().is_none_or(Vec::is_empty) {
                    return Err(expected("a list of values"));
                }
            }
            Form::Count if value.is_u64() => {}
            Form::Count => return Err(expected("a whole number, 0 or more")),
            Form::Number if value.is_number() => {}
            Form::Number => return Err(expected("a number")),
            Form::Bool if value.is_boolean() => {}
            Form::Bool => return Err(expected("true or false")),
            Form::Pattern => {
                let pattern = value.as_str().ok_or_else(|| expected("a pattern"))?;
                keep(pattern, patterns).map_err(refuse)?;
            }
            Form::Reference => {
                let reference = value.as_str().unwrap_or_default();
                let is_schema = ["#/$defs/", "#/definitions/"]
                    .iter()
                    .any(|start| reference.starts_with(start));
                if reference != "#" && (!is_schema || resolve(root, reference).is_none()) {
                    return Err(expected("#, or a schema of this file: #/$defs/name"));
                }
            }
        }
    }
    Ok(())
}

fn keep(pattern: &str, patterns: &mut BTreeMap<String, Regex>) -> Result<(), String> {
    if patterns.contains_key(pattern) {
        return Ok(());
    }
    if patterns.len() >= MOST_PATTERNS {
        return Err(format!("there are more than {MOST_PATTERNS} patterns"));
    }
    let compiled = compile(pattern).map_err(|why| format!("the pattern {pattern:?} {why}"))?;
    patterns.insert(pattern.to_owned(), compiled);
    Ok(())
}
