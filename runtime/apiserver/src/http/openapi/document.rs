//! OpenAPI v3 documents made of schemas: [`of`].
//!
//! They have what kubectl and clients read: field types, merge keys, kinds, and the patches and parameters of each path.
//! They hold no descriptions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::builtin::{OBJECT_META, builtin};
use crate::registry::Registry;
use crate::resource::Resource;

/// The document of one group and version.
pub(super) fn of(registry: &Registry, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut todo: BTreeSet<String> = BTreeSet::new();
    for resource in registry
        .all()
        .filter(|resource| resource.group == group && resource.version == version)
    {
        describe_paths(resource, &mut paths);
        if resource.custom {
            schemas.insert(resource.definition.clone(), custom(resource));
            todo.insert(OBJECT_META.to_owned());
        } else {
            todo.insert(resource.definition.clone());
        }
    }
    while let Some(name) = todo.pop_first() {
        let Some(definition) = builtin().definitions.get(&name) else {
            continue;
        };
        let expanded = expand(definition, &mut todo, &schemas);
        schemas.insert(name, expanded);
    }
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.1"}, "paths": paths, "components": {"schemas": schemas}})
}

/// A definition with full references; what it refers to and is not there yet goes to `todo`.
fn expand(node: &Value, todo: &mut BTreeSet<String>, have: &Map<String, Value>) -> Value {
    let Value::Object(node) = node else {
        return node.clone();
    };
    let mut out = Map::new();
    for (key, value) in node {
        match (key.as_str(), value) {
            ("$ref", Value::String(name)) => {
                if !have.contains_key(name) {
                    todo.insert(name.clone());
                }
                out.insert(
                    "allOf".into(),
                    json!([{"$ref": format!("#/components/schemas/{name}")}]),
                );
            }
            ("n", Value::Number(_)) => {}
            ("zero", _) => drop(out.entry("default").or_insert_with(|| json!({}))),
            ("properties", Value::Object(fields)) => {
                let fields = fields
                    .iter()
                    .map(|(name, field)| (name.clone(), expand(field, todo, have)))
                    .collect();
                out.insert(key.clone(), Value::Object(fields));
            }
            ("items" | "additionalProperties", _) => {
                drop(out.insert(key.clone(), expand(value, todo, have)))
            }
            _ => drop(out.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(out)
}

/// What the CRD wrote, with the fields that every object has.
fn custom(resource: &Resource) -> Value {
    let mut schema = resource
        .written
        .as_deref()
        .cloned()
        .unwrap_or_else(|| json!({"type": "object"}));
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] =
        json!({"allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}]});
    schema["x-kubernetes-group-version-kind"] = json!([gvk(resource)]);
    schema
}

fn gvk(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn describe_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let base = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let all = format!("{base}/{}", resource.plural);
    let one_of = |path: &str| format!("{path}/{{name}}");
    if resource.namespaced {
        paths.insert(all, json!({"get": operation(resource, "list", &[])}));
        let inside = format!("{base}/namespaces/{{namespace}}/{}", resource.plural);
        paths.insert(one_of(&inside), single(resource));
        paths.insert(inside, collection(resource));
    } else {
        paths.insert(one_of(&all), single(resource));
        paths.insert(all, collection(resource));
    }
}

fn collection(resource: &Resource) -> Value {
    let mut path = json!({"post": operation(resource, "post", &["dryRun", "fieldManager", "fieldValidation"])});
    if resource.allows("list") {
        path["get"] = operation(
            resource,
            "list",
            &[
                "labelSelector",
                "fieldSelector",
                "limit",
                "continue",
                "watch",
            ],
        );
    }
    path
}

fn single(resource: &Resource) -> Value {
    let mut path = json!({});
    if resource.allows("get") {
        path["get"] = operation(resource, "get", &[]);
        path["put"] = operation(
            resource,
            "put",
            &["dryRun", "fieldManager", "fieldValidation"],
        );
        path["delete"] = operation(
            resource,
            "delete",
            &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
        );
        path["patch"] = operation(
            resource,
            "patch",
            &["dryRun", "fieldManager", "fieldValidation", "force"],
        );
        let mut types = vec![
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ];
        if !resource.custom {
            types.push("application/strategic-merge-patch+json");
        }
        let content: Map<String, Value> = types
            .into_iter()
            .map(|name| (name.to_owned(), json!({"schema": {"type": "object"}})))
            .collect();
        path["patch"]["requestBody"] = json!({"content": content, "required": true});
    }
    path
}

fn operation(resource: &Resource, action: &str, parameters: &[&str]) -> Value {
    let parameters: Vec<Value> = parameters.iter().map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}})).collect();
    let schema = json!({"$ref": format!("#/components/schemas/{}", resource.definition)});
    json!({"parameters": parameters, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(resource),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}}})
}
