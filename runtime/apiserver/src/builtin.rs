//! The built-in kinds: [`builtin`], their resources and schemas, read once from the data file that `schema/generate.py` made.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::resource::{Resource, Scale, Subresource};
use crate::rules::Rules;
use crate::schema::{NodeId, Schema, Schemas};

static FILE: &str = include_str!("../schema/builtin.json");

/// Everything that the data file says.
pub(crate) struct Builtin {
    pub(crate) resources: Arc<[Arc<Resource>]>,
    pub(crate) schemas: Arc<Schemas>,
    /// The definitions as OpenAPI wants them, with short references.
    pub(crate) definitions: Map<String, Value>,
}

pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The built-in kinds; immutable, shared by every cluster.
pub(crate) fn builtin() -> &'static Builtin {
    static BUILTIN: LazyLock<Builtin> = LazyLock::new(load);
    &BUILTIN
}

/// A schema node in the built-in arena.
pub(crate) fn definition(name: &str) -> Option<NodeId> {
    builtin().schemas.named(name)
}

/// The schema of what a request may hold: a kind, whether or not it has objects, or options of a delete.
pub(crate) fn schema_of_kind(group: &str, version: &str, kind: &str) -> Option<Schema<'static>> {
    let builtin = builtin();
    let wanted = json!({"group": group, "version": version, "kind": kind});
    let is_wanted = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.contains(&wanted))
    };
    let name = if kind == "DeleteOptions" {
        DELETE_OPTIONS
    } else {
        let mut definitions = builtin.definitions.iter();
        definitions.find(|(_, schema)| is_wanted(schema))?.0
    };
    definition(name).map(|id| builtin.schemas.at(id))
}

#[derive(Deserialize)]
struct File {
    resources: Vec<Entry>,
    schemas: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    group: String,
    version: String,
    plural: String,
    singular: String,
    kind: String,
    namespaced: bool,
    short_names: Vec<String>,
    categories: Vec<String>,
    verbs: Vec<String>,
    status: bool,
    scale: bool,
    schema: String,
    #[serde(default)]
    subresources: Vec<Sub>,
}

/// A subresource beside status and scale, and the kind that it is written in.
#[derive(Deserialize)]
struct Sub {
    name: String,
    group: String,
    version: String,
    kind: String,
    verbs: Vec<String>,
    schema: String,
}

#[expect(
    clippy::expect_used,
    reason = "the file is compiled in and a unit test reads it"
)]
fn load() -> Builtin {
    let file: File =
        serde_json::from_str(FILE).expect("the built-in schema file is JSON of this form");
    let mut schemas = Schemas::default();
    schemas.define(&file.schemas);
    let schemas = Arc::new(schemas);
    let resources = file
        .resources
        .into_iter()
        .map(|entry| Arc::new(resource(entry, &schemas)))
        .collect();
    Builtin {
        resources,
        schemas,
        definitions: file.schemas,
    }
}

fn subresource(sub: Sub, namespaced: bool, schemas: &Arc<Schemas>) -> Subresource {
    let kind = Entry {
        group: sub.group,
        version: sub.version,
        plural: sub.name.clone(),
        singular: String::new(),
        kind: sub.kind,
        namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: Vec::new(),
        status: false,
        scale: false,
        schema: sub.schema,
        subresources: Vec::new(),
    };
    Subresource {
        name: sub.name,
        verbs: sub.verbs,
        kind: Box::new(resource(kind, schemas)),
    }
}

fn resource(entry: Entry, schemas: &Arc<Schemas>) -> Resource {
    let events = entry.plural == "events";
    let namespaced = entry.namespaced;
    let subresources = entry.subresources.into_iter();
    let subresources = subresources
        .map(|sub| subresource(sub, namespaced, schemas))
        .collect();
    let root = schemas.named(&entry.schema);
    Resource {
        list_kind: format!("{}List", entry.kind),
        storage_group: if events {
            String::new()
        } else {
            entry.group.clone()
        },
        storage_version: if events {
            "v1".to_owned()
        } else {
            entry.version.clone()
        },
        // The zoo of scalable built-in kinds keeps its scale in the same three places.
        scale: entry.scale.then(|| Scale {
            spec_replicas: vec!["spec".into(), "replicas".into()],
            status_replicas: vec!["status".into(), "replicas".into()],
            selector: Some(vec!["spec".into(), "selector".into()]),
        }),
        subresources,
        printer_columns: Vec::new(),
        custom: false,
        written: None,
        rules: Rules::default(),
        schemas: Some(Arc::clone(schemas)),
        root,
        definition: entry.schema,
        group: entry.group,
        version: entry.version,
        identity: String::new(),
        plural: entry.plural,
        singular: entry.singular,
        kind: entry.kind,
        namespaced,
        short_names: entry.short_names,
        categories: entry.categories,
        verbs: entry.verbs,
        status: entry.status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_defines_every_kind_that_it_lists() {
        for resource in builtin().resources.iter() {
            assert!(resource.root.is_some(), "{} has no schema", resource.kind);
            for sub in &resource.subresources {
                assert!(sub.kind.root.is_some(), "{} has no schema", sub.name);
            }
        }
        assert!(definition(OBJECT_META).is_some());
    }
}
