//! What differs in the meaning of two definitions. Entry point: [`differences`].
//!
//! Only `spec` is compared. What API servers and generators fill in counts as absent, and orders without a meaning do not count.

use serde::Serialize;
use serde_json::{Map, Number, Value as Json};
use std::collections::BTreeSet;
use std::fmt;
use windlass_files::below;

/// The longest value that is shown, in characters.
const LONGEST: usize = 200;

/// The path at which names are of versions.
const VERSIONS: &str = "spec.versions";

/// Fields of schemas whose values are schemas, or lists of schemas.
const SCHEMAS: [&str; 6] = [
    "items",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

/// A field whose values differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// `spec.versions[v1].served`.
    pub(super) path: String,
    /// The value that the types describe, if any.
    pub(super) types: Option<Json>,
    /// The value in the manifest, if any.
    pub(super) manifest: Option<Json>,
}

/// The fields of `spec` with another meaning in the definition of types than in that of a file, sorted by path.
pub fn differences(types: &Json, file: &Json) -> Vec<Difference> {
    let mut found = Vec::new();
    let (types, file) = (plain(&types["spec"]), plain(&file["spec"]));
    differ("spec", Some(&types), Some(&file), &mut found);
    found
}

fn differ(path: &str, types: Option<&Json>, file: Option<&Json>, found: &mut Vec<Difference>) {
    match (types, file) {
        (types, file) if types == file => {}
        (Some(Json::Object(types)), Some(Json::Object(file))) => {
            let names: BTreeSet<&String> = types.keys().chain(file.keys()).collect();
            for name in names {
                let path = if path == VERSIONS {
                    format!("{path}[{name}]")
                } else {
                    below(path, name)
                };
                differ(&path, types.get(name), file.get(name), found);
            }
        }
        (Some(Json::Array(types)), Some(Json::Array(file))) if types.len() == file.len() => {
            for (index, (types, file)) in types.iter().zip(file).enumerate() {
                differ(&format!("{path}[{index}]"), Some(types), Some(file), found);
            }
        }
        (types, file) => found.push(Difference {
            path: path.to_owned(),
            types: types.cloned(),
            manifest: file.cloned(),
        }),
    }
}

/// The spec in the one form that all of the same meaning have; its versions are an object by name.
fn plain(spec: &Json) -> Json {
    let mut spec = spec.clone();
    let Some(fields) = spec.as_object_mut() else {
        return spec;
    };
    drop_if(fields, "preserveUnknownFields", |value| *value == false);
    drop_if(fields, "conversion", |value| value["strategy"] == "None");
    if let Some(names) = fields.get_mut("names").and_then(Json::as_object_mut) {
        let kind = names.get("kind").and_then(Json::as_str).unwrap_or_default();
        let (list, singular) = (format!("{kind}List"), kind.to_lowercase());
        drop_if(names, "listKind", |value| *value == list);
        drop_if(names, "singular", |value| *value == singular);
        drop_if(names, "shortNames", is_empty);
        drop_if(names, "categories", is_empty);
    }
    if let Some(Json::Array(versions)) = fields.get_mut("versions").map(Json::take) {
        let named = versions.into_iter().map(|mut version| {
            plain_version(&mut version);
            let name = version["name"].as_str().unwrap_or_default().to_owned();
            (name, version)
        });
        fields.insert("versions".to_owned(), Json::Object(named.collect()));
    }
    spec
}

fn plain_version(version: &mut Json) {
    let Some(fields) = version.as_object_mut() else {
        return;
    };
    drop_if(fields, "deprecated", |value| *value == false);
    drop_if(fields, "selectableFields", is_empty);
    drop_if(fields, "subresources", is_empty);
    drop_if(fields, "additionalPrinterColumns", is_empty);
    let columns = fields.get_mut("additionalPrinterColumns");
    for column in columns.and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(column) = column.as_object_mut() {
            drop_if(column, "priority", |value| *value == 0);
        }
    }
    if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
        plain_schema(schema);
        plain_root(schema);
    }
}

/// Fields that every object has may be named in a schema, or not.
fn plain_root(schema: &mut Json) {
    let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) else {
        return;
    };
    for (name, of) in [
        ("apiVersion", "string"),
        ("kind", "string"),
        ("metadata", "object"),
    ] {
        drop_if(properties, name, |value| {
            let fields = value.as_object().into_iter().flatten();
            value["type"] == of
                && fields
                    .clone()
                    .all(|(name, _)| name == "type" || name == "description")
        });
    }
}

fn plain_schema(schema: &mut Json) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.remove("title");
    for flag in [
        "nullable",
        "uniqueItems",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        drop_if(fields, flag, |value| *value == false);
    }
    drop_if(fields, "x-kubernetes-list-type", |value| value == "atomic");
    drop_if(fields, "x-kubernetes-map-type", |value| value == "granular");
    for set in ["required", "enum", "x-kubernetes-list-map-keys"] {
        drop_if(fields, set, is_empty);
        if let Some(set) = fields.get_mut(set).and_then(Json::as_array_mut) {
            set.sort_by_cached_key(Json::to_string);
        }
    }
    for (name, value) in fields {
        match value {
            Json::Object(schemas) if name == "properties" => {
                schemas.values_mut().for_each(plain_schema);
            }
            Json::Array(schemas) if SCHEMAS.contains(&&**name) => {
                schemas.iter_mut().for_each(plain_schema);
            }
            schema if SCHEMAS.contains(&&**name) => plain_schema(schema),
            Json::Number(number) => *number = plain_number(number),
            _ => {}
        }
    }
}

/// Generators write the bound 0 as 0.0.
fn plain_number(number: &Number) -> Number {
    /// Beyond this a floating-point number may stand for several integers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(value) if number.is_f64() && value.fract() == 0.0 && value.abs() < EXACT => {
            Number::from(value as i64)
        }
        _ => number.clone(),
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn drop_if(fields: &mut Map<String, Json>, name: &str, is_default: impl Fn(&Json) -> bool) {
    if fields.get(name).is_some_and(is_default) {
        fields.remove(name);
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (types, file) = (shown(self.types.as_ref()), shown(self.manifest.as_ref()));
        write!(
            f,
            "{}: the types say {types}, the file says {file}",
            self.path
        )
    }
}

fn shown(value: Option<&Json>) -> String {
    let text = match value {
        None => return "nothing".to_owned(),
        Some(Json::String(text)) if !text.is_empty() => text.clone(),
        Some(value) => value.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(names: Json, version: Json) -> Json {
        json!({"metadata": {"name": "as.x.dev"}, "spec": {
            "group": "x.dev", "scope": "Namespaced", "names": names, "versions": [version]}})
    }

    fn version(schema: Json) -> Json {
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}})
    }

    fn of_schema(schema: Json) -> Json {
        definition(json!({"kind": "A", "plural": "as"}), version(schema))
    }

    fn said(types: &Json, file: &Json) -> Vec<String> {
        differences(types, file)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn an_equal_meaning_is_no_difference() {
        let text = json!({"type": "string", "description": "Of objects."});
        let spec = json!({"type": "object", "required": ["b", "a"], "properties": {
            "a": {"type": "integer", "minimum": 0.0, "nullable": false, "title": "Replicas"},
            "b": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string", "enum": ["y", "x"]}},
            "title": {"type": "string"}}});
        let schema = json!({"type": "object", "title": "A", "properties": {
            "apiVersion": text, "kind": text, "metadata": {"type": "object"}, "spec": spec}});
        let names = json!({"kind": "A", "plural": "as", "listKind": "AList", "singular": "a", "shortNames": []});
        let mut full = version(schema);
        full["subresources"] = json!({});
        full["additionalPrinterColumns"] =
            json!([{"name": "x", "type": "string", "jsonPath": ".x", "priority": 0}]);
        let mut types = definition(names, full);
        types["spec"]["conversion"] = json!({"strategy": "None"});
        types["metadata"]["annotations"] = json!({"by": "a generator"});
        let spec = json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "integer", "minimum": 0},
            "b": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
            "title": {"type": "string"}}});
        let mut file = of_schema(json!({"type": "object", "properties": {"spec": spec}}));
        file["spec"]["versions"][0]["additionalPrinterColumns"] =
            json!([{"name": "x", "type": "string", "jsonPath": ".x"}]);
        assert_eq!(said(&types, &file), [""; 0]);
    }

    #[test]
    fn a_difference_has_its_path_and_both_values() {
        let schema = |of: &str| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x/y": {"type": of}}}}});
        let (types, mut file) = (of_schema(schema("integer")), of_schema(schema("string")));
        file["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        file["spec"]["scope"] = json!("Cluster");
        assert_eq!(
            said(&types, &file),
            [
                "spec.scope: the types say Namespaced, the file says Cluster",
                "spec.versions[v1].schema.openAPIV3Schema.properties.spec.properties[\"x/y\"].type: the types say integer, the file says string",
                "spec.versions[v1].subresources: the types say nothing, the file says {\"status\":{}}",
            ]
        );
    }

    #[test]
    fn a_field_named_as_a_keyword_is_a_field() {
        let schema = |names: &[&str]| {
            let fields: Map<String, Json> = names
                .iter()
                .map(|name| ((*name).to_owned(), json!({"type": "string"})))
                .collect();
            of_schema(
                json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}),
            )
        };
        let said = said(&schema(&["title", "kind"]), &schema(&[]));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with(
            "spec.versions[v1].schema.openAPIV3Schema.properties.spec.properties.kind: "
        ));
    }

    #[test]
    fn a_version_that_is_only_here_is_one_difference() {
        let (one, mut two) = (of_schema(json!({})), of_schema(json!({})));
        two["spec"]["versions"][0]["name"] = json!("v2");
        let paths: Vec<String> = differences(&one, &two)
            .into_iter()
            .map(|one| one.path)
            .collect();
        assert_eq!(paths, ["spec.versions[v1]", "spec.versions[v2]"]);
    }
}
