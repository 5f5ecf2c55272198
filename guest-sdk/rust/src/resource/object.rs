//! Objects of a kind that has no type. Entry point: [`Object`].

use super::metadata::{already_owned, in_reach};
use super::{Identity, OwnerReference, Resource, decode, encode};
use crate::error::ApiError;
use crate::types::{ApiCode, GroupVersionKind, ObjectKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::str::FromStr;

/// An object as JSON. All fields are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Object(pub Value);

impl Object {
    /// An object with only its kind and key.
    #[must_use]
    pub fn new(kind: &GroupVersionKind, key: &ObjectKey) -> Self {
        let mut metadata = json!({"name": key.name});
        if let Some(namespace) = &key.namespace {
            metadata["namespace"] = json!(namespace);
        }
        Self(json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata}))
    }

    /// Any object without its type.
    ///
    /// # Errors
    /// [`ApiError`] when it cannot be written as JSON.
    pub fn of<T: Resource>(object: &T) -> Result<Self, ApiError> {
        decode(&object.kind(), &encode(object)?)
    }

    /// Kind, namespace and name, for people.
    pub(crate) fn named(&self) -> String {
        format!("{} {}", self.kind().kind, self.key())
    }

    /// The value at a JSON pointer: `/spec/replicas`.
    #[must_use]
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer)
    }

    /// The text at a JSON pointer.
    #[must_use]
    pub fn text_at(&self, pointer: &str) -> Option<&str> {
        self.at(pointer)?.as_str()
    }

    /// Value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.0["metadata"]["labels"][key].as_str()
    }

    /// Value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.0["metadata"]["annotations"][key].as_str()
    }

    /// Adds `owner`, which was read from a cluster, to the owners of the object, unless it is one. The object is deleted after its last owner.
    ///
    /// # Errors
    /// [`ApiError`] `invalid` when it has no metadata, and for an owner in another namespace.
    pub fn set_owner(&mut self, owner: &impl Resource) -> Result<(), ApiError> {
        in_reach(&self.kind().kind, &self.key(), owner)?;
        let owner = owner.owner_reference();
        if self.is_owned_by(&json!(owner.uid)) {
            return Ok(());
        }
        let metadata = self.0["metadata"]
            .as_object_mut()
            .ok_or_else(|| ApiError::new(ApiCode::Invalid, "the object has no metadata"))?;
        let references = metadata.entry("ownerReferences").or_insert(Value::Null);
        match references {
            Value::Array(references) => references.push(json!(owner)),
            _ => *references = json!([owner]),
        }
        Ok(())
    }

    /// The owner that manages the object.
    #[must_use]
    pub fn controller(&self) -> Option<OwnerReference> {
        let mut references = self.0["metadata"]["ownerReferences"].as_array()?.iter();
        let found = references.find(|reference| reference["controller"] == true)?;
        OwnerReference::deserialize(found).ok()
    }

    pub(crate) fn is_owned_by(&self, uid: &Value) -> bool {
        let references = self.0["metadata"]["ownerReferences"].as_array();
        references
            .into_iter()
            .flatten()
            .any(|reference| &reference["uid"] == uid)
    }

    /// The finalizers that must be removed before the object is deleted.
    #[must_use]
    pub fn finalizers(&self) -> Vec<&str> {
        let finalizers = self.0["metadata"]["finalizers"].as_array();
        finalizers
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Whether the object has this finalizer.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().contains(&finalizer)
    }

    /// Makes `owner` the controller of the object, as [`super::Metadata::set_controller`].
    ///
    /// # Errors
    /// [`ApiError`] `conflict` when another object is its controller, `invalid` when it has no metadata, and for an owner in another
    /// namespace.
    pub fn set_controller(&mut self, owner: &impl Resource) -> Result<(), ApiError> {
        let (kind, key) = (self.kind().kind, self.key());
        in_reach(&kind, &key, owner)?;
        let owner = owner.owner_reference();
        let metadata = self.0["metadata"]
            .as_object_mut()
            .ok_or_else(|| ApiError::new(ApiCode::Invalid, "the object has no metadata"))?;
        let references = metadata.entry("ownerReferences").or_insert(Value::Null);
        let before = references.as_array().map_or(&[][..], Vec::as_slice);
        let is_owner = |reference: &Value| reference["uid"] == owner.uid;
        let other = before
            .iter()
            .find(|reference| reference["controller"] == true && !is_owner(reference));
        if let Some(other) = other {
            let text = |name: &str| other[name].as_str().unwrap_or_default();
            return Err(already_owned(&kind, &key, text("kind"), text("name")));
        }
        let controller = json!(OwnerReference {
            controller: Some(true),
            block_owner_deletion: Some(true),
            ..owner.clone()
        });
        let mut all = before.to_vec();
        match all.iter_mut().find(|reference| is_owner(reference)) {
            Some(there) => *there = controller,
            None => all.push(controller),
        }
        *references = Value::Array(all);
        Ok(())
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.text_at("/metadata/deletionTimestamp").is_some()
    }
}

/// Reads an object that the raw client returned.
impl FromStr for Object {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        decode(&"an object", text)
    }
}

impl Resource for Object {
    fn kind(&self) -> GroupVersionKind {
        let field = |name: &str| self.0[name].as_str().unwrap_or_default();
        GroupVersionKind::new(field("apiVersion"), field("kind"))
    }

    fn identity(&self) -> Identity<'_> {
        let metadata = &self.0["metadata"];
        Identity {
            name: metadata["name"].as_str().unwrap_or_default(),
            namespace: metadata["namespace"].as_str(),
            uid: metadata["uid"].as_str(),
            resource_version: metadata["resourceVersion"].as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;
    use crate::{GroupVersionKind, Reply, kind};
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Serialize, Deserialize)]
    struct Website {
        metadata: Metadata,
        spec: Spec,
    }
    kind!(Website, "example.com/v1", "Website");

    #[derive(Debug, Serialize, Deserialize)]
    struct Spec {
        ports: Vec<u16>,
    }

    #[test]
    fn an_object_that_does_not_fit_is_named_with_the_field() {
        let text = |name: &str, port: &str| {
            let metadata = format!(r#"{{"namespace":"default","name":"{name}"}}"#);
            format!(r#"{{"kind":"Website","metadata":{metadata},"spec":{{"ports":[80,{port}]}}}}"#)
        };
        let page = crate::ListPage {
            items: vec![text("good", "81"), text("bad", r#""http""#)],
            continue_token: None,
            resource_version: "1".into(),
        };
        let error = Reply::Page(page).objects::<Website>().unwrap_err();
        let kind: GroupVersionKind = <Website as crate::Typed>::KIND.into();
        assert_eq!(
            error.message,
            format!("cannot decode {kind} default/bad: spec.ports[1]: expected a value")
        );
    }
}
