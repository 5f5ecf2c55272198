//! Object metadata: the fields that controllers use. Entry point: [`Metadata`].

mod decode;

use super::{Identity, Resource};
use crate::error::ApiError;
use crate::types::{ApiCode, ObjectKey};
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
    /// Changes with the desired state; set by the API server.
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
    /// The finalizers that must be removed before the object is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The owners of this object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

/// Refers to the owner of an object. Made by [`super::Resource::controller_reference`].
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
    /// Whether the owner manages the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// The error if the object has another controller.
pub(super) fn already_owned(kind: &str, key: &ObjectKey, by: &str, name: &str) -> ApiError {
    let message = format!("{kind} {key} has a controller already: {by} {name}");
    ApiError {
        reason: "AlreadyOwned".to_owned(),
        ..ApiError::new(ApiCode::Conflict, message)
    }
}

/// The error for an owner in another namespace: the garbage collector looks for an owner in the namespace of what it owns.
pub(super) fn in_reach(kind: &str, key: &ObjectKey, owner: &impl Resource) -> Result<(), ApiError> {
    let by = owner.key();
    if by.namespace.is_none() || by.namespace == key.namespace {
        return Ok(());
    }
    let of = owner.kind().kind;
    let message = format!(
        "{kind} {key} cannot be owned by {of} {by}: an owner is of the same namespace, or of none"
    );
    Err(ApiError::new(ApiCode::Invalid, message))
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

    /// Adds `owner`, which was read from a cluster, to the owners of the object, unless it is one. The object is deleted after its last owner.
    ///
    /// # Errors
    /// [`ApiError`] `invalid` for an owner in another namespace.
    pub fn set_owner(&mut self, owner: &impl Resource) -> Result<(), ApiError> {
        in_reach("object", &self.key(), owner)?;
        let owner = owner.owner_reference();
        if self
            .owner_references
            .iter()
            .all(|there| there.uid != owner.uid)
        {
            self.owner_references.push(owner);
        }
        Ok(())
    }

    /// Makes `owner` the controller of the object and keeps its other owners. The object is deleted after `owner`, and an event on
    /// the object enqueues `owner`.
    ///
    /// # Errors
    /// [`ApiError`] `conflict` when another object is its controller, `invalid` for an owner in another namespace.
    pub fn set_controller(&mut self, owner: &impl Resource) -> Result<(), ApiError> {
        let key = self.key();
        in_reach("object", &key, owner)?;
        let owner = owner.owner_reference();
        if let Some(other) = self.controller().filter(|other| other.uid != owner.uid) {
            return Err(already_owned("object", &key, &other.kind, &other.name));
        }
        let owner = OwnerReference {
            controller: Some(true),
            block_owner_deletion: Some(true),
            ..owner
        };
        let mut references = self.owner_references.iter_mut();
        match references.find(|there| there.uid == owner.uid) {
            Some(there) => *there = owner,
            None => self.owner_references.push(owner),
        }
        Ok(())
    }

    fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The owner that manages the object.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }

    /// Whether the object has this finalizer.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|each| each == finalizer)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupVersionKind;
    use crate::prelude::{Object, ObjectKey, Resource};
    use serde_json::json;

    #[test]
    fn a_controller_is_set_beside_other_owners_replaces_itself_and_refuses_another() {
        let owner = |name: &str, uid: &str| OwnerReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: name.into(),
            uid: uid.into(),
            ..OwnerReference::default()
        };
        let read = |name: &str, uid: &str| {
            let metadata = json!({"namespace": "default", "name": name, "uid": uid});
            Object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        };
        let mut typed = Metadata::new("default", "b").owner(owner("x", "3"));
        let key = ObjectKey::namespaced("default", "b");
        let mut untyped = Object::new(&GroupVersionKind::new("v1", "ConfigMap"), &key);
        untyped.0["metadata"]["ownerReferences"] = json!([owner("x", "3")]);
        for _ in 0..2 {
            typed.set_controller(&read("a", "1")).unwrap();
            untyped.set_controller(&read("a", "1")).unwrap();
        }
        let controller = OwnerReference {
            controller: Some(true),
            block_owner_deletion: Some(true),
            ..owner("a", "1")
        };
        assert_eq!(typed.owner_references, [owner("x", "3"), controller]);
        assert_eq!(
            untyped.0["metadata"]["ownerReferences"],
            json!(typed.owner_references)
        );
        let refused = untyped.set_controller(&read("c", "2")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "conflict: ConfigMap default/b has a controller already: ConfigMap a"
        );
        assert!(
            typed
                .set_controller(&read("c", "2"))
                .unwrap_err()
                .is_conflict()
        );
        assert_eq!(untyped.identity().name, "b");
    }
}
