//! The kind of a CustomResourceDefinition. Entry point: [`Kind::read`].

use super::pascal;
use super::schema::{Reader, Struct};
use serde_json::{Value as Json, json};
use windlass_fleet::GroupVersionKind;

/// Why there are no types.
#[derive(Debug, thiserror::Error)]
pub enum TypesError {
    /// It is another document.
    #[error("this is no CustomResourceDefinition of apiextensions.k8s.io/v1")]
    OtherDocument,
    /// The version is not there.
    #[error("{name} has no version {version:?}: it has {}", versions.join(", "))]
    UnknownVersion {
        /// The definition.
        name: String,
        /// The one that was asked for.
        version: String,
        /// The ones that are there.
        versions: Vec<String>,
    },
    /// There is no schema.
    #[error("{name} has no schema for {version}")]
    SchemaMissing {
        /// The definition.
        name: String,
        /// Its version.
        version: String,
    },
    /// The server publishes no schema of the kind.
    #[error("the server publishes no schema of {0}: kubectl api-resources lists its kinds")]
    Unpublished(GroupVersionKind),
}

/// A kind with the structs of its objects.
#[derive(Debug)]
pub(super) struct Kind {
    /// As a name of code: `Website`.
    pub(super) name: String,
    /// As objects have it.
    pub(super) kind: String,
    pub(super) api_version: String,
    /// The first one is the object.
    pub(super) structs: Vec<Struct>,
}

impl Kind {
    pub(super) fn read(definition: &Json, version: Option<&str>) -> Result<Self, TypesError> {
        let is_one = definition["kind"] == "CustomResourceDefinition"
            && definition["apiVersion"] == "apiextensions.k8s.io/v1";
        let spec = &definition["spec"];
        let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str())
        else {
            return Err(TypesError::OtherDocument);
        };
        if !is_one {
            return Err(TypesError::OtherDocument);
        }
        let crd = definition["metadata"]["name"].as_str().unwrap_or(kind);
        let versions = spec["versions"].as_array().into_iter().flatten();
        let found = versions.clone().find(|one| match version {
            Some(version) => one["name"] == version,
            None => one["storage"] == true,
        });
        let names = versions.filter_map(|one| one["name"].as_str());
        let Some(found) = found else {
            return Err(TypesError::UnknownVersion {
                name: crd.to_owned(),
                version: version.unwrap_or("that is stored").to_owned(),
                versions: names.map(str::to_owned).collect(),
            });
        };
        let version = found["name"].as_str().unwrap_or_default();
        let schema = &found["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            return Err(TypesError::SchemaMissing {
                name: crd.to_owned(),
                version: version.to_owned(),
            });
        }
        let name = pascal(kind);
        let mut reader = Reader::new(&name);
        reader.root(schema);
        Ok(Self {
            name,
            kind: kind.to_owned(),
            api_version: format!("{group}/{version}"),
            structs: reader.structs,
        })
    }

    /// Of the schemas that an API server publishes for a version of a group.
    pub(super) fn published(document: &Json, kind: &GroupVersionKind) -> Result<Self, TypesError> {
        let named = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let schemas = document["components"]["schemas"].as_object();
        let is_it = |schema: &&Json| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            // A kind that belongs to every group, such as DeleteOptions, has many.
            kinds.is_some_and(|kinds| kinds[..] == [named.clone()])
        };
        let found = schemas.and_then(|schemas| Some((schemas, schemas.values().find(is_it)?)));
        let Some((schemas, schema)) = found else {
            return Err(TypesError::Unpublished(kind.clone()));
        };
        let name = pascal(&kind.kind);
        let mut reader = Reader::of_published(&name, schemas);
        reader.root(schema);
        Ok(Self {
            name,
            kind: kind.kind.to_string(),
            api_version: kind.api_version(),
            structs: reader.structs,
        })
    }
}
