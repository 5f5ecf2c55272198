//! Object metadata, as far as controllers use it. Entry point: [`Metadata`].

mod decode;

use super::Identity;
use serde::Serialize;
use std::collections::BTreeMap;

/// `metadata` of an object. Empty parts are left out when it is written; absent and null ones are empty when it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Unique in the namespace.
    pub name: String,
    /// Absent from cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Unique in time and space; set by the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Changes with every write; set by the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Changes with the wanted state; set by the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// RFC 3339; set by the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// RFC 3339; set when the object is being deleted and finalizers hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// For selection.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// For notes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What must be removed before the object goes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// What this object goes with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

/// Names an object that another object goes with. Made by [`super::Resource::controller_reference`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// Of the owner.
    pub api_version: String,
    /// Of the owner.
    pub kind: String,
    /// Of the owner.
    pub name: String,
    /// Of the owner.
    pub uid: String,
    /// Whether the owner is the one that manages the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl Metadata {
    /// Of a namespaced object.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: Some(namespace.into()),
            ..Self::default()
        }
    }

    /// Of the object that a key names.
    #[must_use]
    pub fn of(key: &crate::ObjectKey) -> Self {
        Self {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            ..Self::default()
        }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Adds an owner.
    #[must_use]
    pub fn owner(mut self, owner: OwnerReference) -> Self {
        self.owner_references.push(owner);
        self
    }

    /// The owner that manages the object.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Which object it is.
    #[must_use]
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            name: &self.name,
            namespace: self.namespace.as_deref(),
            uid: self.uid.as_deref(),
            resource_version: self.resource_version.as_deref(),
        }
    }
}
