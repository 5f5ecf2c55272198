//! The schemas of a type. Entry points: [`structural`], which is what an API server takes of JSON Schema, and [`closed`], which is what Helm
//! takes.

use super::rules;
use crate::config::kinds::bounded::{RANGE, VALIDATIONS};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

/// Most items of a list, and most bytes of a text, where no rule says less: a server estimates the cost of rules by them.
const MOST_ITEMS: u64 = 256;
const MOST_BYTES: u64 = 1024;

/// Why a type has no structural schema.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SchemaError {
    /// A rule is about a type or a field that is not there.
    #[error("a rule is about {0}, which no kind has: correct config/crd/rules.rs")]
    NoSuchField(String),
    /// A form that no structural schema has.
    #[error("a type has a form that no structural schema has: {0}")]
    Form(String),
}

/// Who reads a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// An API server: it prunes unknown fields, evaluates rules in CEL, and wants bounds everywhere.
    Server,
    /// Helm: plain JSON Schema, where unknown fields are refused only if the schema says so.
    Helm,
}

/// The schema of a type as an API server takes it, with the rules that are about it and the types in it.
pub(super) fn structural<T: JsonSchema>() -> Result<Json, SchemaError> {
    read_by::<T>(Reader::Server)
}

/// The schema of a type as plain JSON Schema of draft 7, with the bounds that are about it and the types in it. It refuses unknown fields.
/// Rules in CEL are left out.
pub(super) fn closed<T: JsonSchema>() -> Result<Json, SchemaError> {
    read_by::<T>(Reader::Helm)
}

fn read_by<T: JsonSchema>(reader: Reader) -> Result<Json, SchemaError> {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut root = generator.into_root_schema_for::<T>().to_value();
    let mut types = match root["$defs"].take() {
        Json::Object(types) => types,
        _ => Map::new(),
    };
    types.insert(T::schema_name().into_owned(), root.clone());
    for (name, schema) in &mut types {
        rules::add(name, schema)?;
    }
    let own = types.get(&*T::schema_name()).cloned().unwrap_or_default();
    inline(own, &types, reader)
}

/// A schema without references and without what its reader does not take.
fn inline(schema: Json, types: &Map<String, Json>, reader: Reader) -> Result<Json, SchemaError> {
    let mut schema = match schema {
        Json::Object(schema) => schema,
        // No other fields.
        Json::Bool(false) if reader == Reader::Helm => return Ok(false.into()),
        // Any value: a guest's config, which is a mapping.
        Json::Bool(true) => {
            return Ok(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
        }
        other => return Err(SchemaError::Form(other.to_string())),
    };
    if let Some(Json::String(reference)) = schema.remove("$ref") {
        let name = reference.trim_start_matches("#/$defs/");
        let target = types.get(name).cloned();
        let target = target.ok_or_else(|| SchemaError::Form(reference.clone()))?;
        return inline(merged(target, schema), types, reader);
    }
    if let Some(Json::Array(forms)) = schema.remove("anyOf") {
        // `Option`: a form, or null.
        let mut forms = forms.into_iter().filter(|form| form["type"] != "null");
        return match (forms.next(), forms.next()) {
            (Some(form), None) => inline(merged(form, schema), types, reader),
            _ => Err(SchemaError::Form("anyOf".to_owned())),
        };
    }
    if let Some(Json::Array(words)) = schema.remove("oneOf") {
        let words = words.iter().flat_map(|form| match &form["enum"] {
            Json::Array(words) => words.clone(),
            _ => vec![form["const"].clone()],
        });
        let words: Vec<Json> = words.collect();
        schema.insert("enum".to_owned(), words.into());
        schema.insert("type".to_owned(), "string".into());
    }
    if let Some(Json::Array(types)) = schema.get("type") {
        let named = types.iter().find(|of| *of != "null").cloned();
        schema.insert("type".to_owned(), named.unwrap_or_default());
    }
    if let Some(Json::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    add_range(&mut schema);
    clean(&mut schema, reader);
    if reader == Reader::Server && schema.keys().all(|key| key == "description") {
        schema.insert("type".to_owned(), "object".into());
        schema.insert(
            "x-kubernetes-preserve-unknown-fields".to_owned(),
            true.into(),
        );
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.remove(key) {
            schema.insert(key.to_owned(), inline(inner, types, reader)?);
        }
    }
    if let Some(Json::Object(fields)) = schema.remove("properties") {
        let fields = fields.into_iter();
        let fields = fields.map(|(name, field)| Ok((name, inline(field, types, reader)?)));
        let fields: Map<String, Json> = fields.collect::<Result<_, SchemaError>>()?;
        schema.insert("properties".to_owned(), fields.into());
    }
    Ok(schema.into())
}

/// A schema with the fields of another one, which win. The rules of both hold.
fn merged(schema: Json, own: Map<String, Json>) -> Json {
    let Json::Object(mut schema) = schema else {
        return schema;
    };
    for (key, value) in own {
        match (schema.get_mut(&key), value) {
            (Some(Json::Array(all)), Json::Array(more)) if key == VALIDATIONS => {
                all.extend(more);
            }
            (_, value) => drop(schema.insert(key, value)),
        }
    }
    schema.into()
}

/// Has the description say which values are taken.
fn add_range(schema: &mut Map<String, Json>) {
    let range = schema.remove(RANGE);
    if let (Some(Json::String(range)), Some(Json::String(text))) =
        (range, schema.get_mut("description"))
    {
        *text = format!("{text} Range: {range}.");
    }
}

/// Drops what the reader does not take, and for a server adds the bounds that every value has.
fn clean(schema: &mut Map<String, Json>, reader: Reader) {
    for key in ["$schema", "$defs", "title"] {
        schema.remove(key);
    }
    match reader {
        Reader::Server if schema.get("additionalProperties") == Some(&Json::Bool(false)) => {
            schema.remove("additionalProperties");
        }
        Reader::Server => {}
        Reader::Helm => {
            if schema.remove("x-kubernetes-int-or-string").is_some() {
                schema.insert("type".to_owned(), json!(["integer", "string"]));
            }
            schema.remove(VALIDATIONS);
            // Those of numbers say how many bits Rust has for them.
            schema.remove("format");
        }
    }
    // The values of optional fields, and of mappings, are not there by default.
    let default = schema.get("default");
    if default.is_some_and(|value| value.is_null() || value.is_object() || value.is_array()) {
        schema.remove("default");
    }
    if let Some(Json::String(text)) = schema.get_mut("description") {
        *text = plain(text);
    }
    if reader == Reader::Helm {
        return;
    }
    match schema.get("type").and_then(Json::as_str) {
        Some("integer") => drop(schema.insert("format".to_owned(), "int64".into())),
        Some("array") => drop(schema.entry("maxItems").or_insert(MOST_ITEMS.into())),
        Some("string") if !schema.contains_key("enum") => {
            schema.entry("maxLength").or_insert(MOST_BYTES.into());
        }
        _ => {}
    }
}

/// A comment as one line, without links.
fn plain(comment: &str) -> String {
    let words: Vec<&str> = comment.split_whitespace().collect();
    words.join(" ").replace("[`", "`").replace("`]", "`")
}
