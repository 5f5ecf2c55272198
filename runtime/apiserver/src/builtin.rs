//! The built-in kinds: [`builtin`], their resources and schemas, read once from the data file that `schema/generate.py` made.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::resource::{Columns, Resource, Scale};
use crate::rules::Rules;
use crate::schema::{NodeId, Schemas};

static FILE: &str = include_str!("../schema/builtin.json");

/// Everything that the data file says.
pub(crate) struct Builtin {
    pub(crate) resources: Vec<Arc<Resource>>,
    pub(crate) schemas: Arc<Schemas>,
    /// The definitions as OpenAPI wants them, with short references.
    pub(crate) definitions: Map<String, Value>,
}

pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(crate) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The built-in kinds; immutable, shared by every cluster.
pub(crate) fn builtin() -> &'static Builtin {
    static BUILTIN: LazyLock<Builtin> = LazyLock::new(load);
    &BUILTIN
}

/// A schema node in the built-in arena.
pub(crate) fn definition(name: &str) -> Option<NodeId> {
    builtin().schemas.named(name)
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

fn resource(entry: Entry, schemas: &Arc<Schemas>) -> Resource {
    let events = entry.plural == "events";
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
        columns: Columns::BuiltIn,
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
        namespaced: entry.namespaced,
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
        for resource in &builtin().resources {
            assert!(resource.root.is_some(), "{} has no schema", resource.kind);
        }
        assert!(definition(OBJECT_META).is_some());
    }
}
