//! Objects as JSON, for code that handles objects of several kinds in the same way. Entry point: [`Object`].

mod conditions;
mod held;
mod readiness;

pub use conditions::{Condition, ConditionStatus};
pub use held::{Held, OwnFinalizer};
pub use readiness::readiness;

use crate::api::{ApiCode, ApiError, Json};
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;
use crate::typed::{Typed, encode};
use serde_json::{Value, json};

/// An object as JSON. All fields are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(pub Value);

impl Object {
    /// An object without its type.
    ///
    /// # Errors
    /// [`ApiError`] when it cannot be written as JSON.
    pub fn of<T: Typed>(object: &T) -> Result<Self, ApiError> {
        Self::parse(&encode(object)?)
    }

    /// An object with only its kind and key.
    #[must_use]
    pub fn new(kind: &GroupVersionKind, key: &ObjectKey) -> Self {
        let mut metadata = json!({"name": &*key.name});
        if let Some(namespace) = &key.namespace {
            metadata["namespace"] = json!(&**namespace);
        }
        Self(json!({"apiVersion": kind.api_version(), "kind": &*kind.kind, "metadata": metadata}))
    }

    pub(crate) fn parse(json: &Json) -> Result<Self, ApiError> {
        // serde's own message is left out: it quotes values, which may be those of a Secret.
        let value = serde_json::from_slice(json);
        value
            .map(Self)
            .map_err(|_| ApiError::host(ApiCode::Other, "the server's answer is not JSON"))
    }

    pub(crate) fn json(&self) -> Json {
        self.0.to_string().into()
    }

    /// Group, version and kind; empty where the object has none.
    #[must_use]
    pub fn gvk(&self) -> GroupVersionKind {
        let field = |name: &str| self.0[name].as_str().unwrap_or_default();
        GroupVersionKind::from_api_version(field("apiVersion"), field("kind"))
    }

    /// Namespace and name. The name of an object that is not named yet is empty.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.text_at("/metadata/namespace").map(Into::into),
            name: self.text_at("/metadata/name").unwrap_or_default().into(),
        }
    }

    /// Kind, namespace and name, for people.
    pub(crate) fn named(&self) -> String {
        format!("{} {}", self.gvk().kind, self.key())
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

    /// Whether the object is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.text_at("/metadata/deletionTimestamp").is_some()
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

    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        let mut references = self.owners().iter();
        references.any(|reference| reference["uid"] == uid)
    }

    fn owners(&self) -> &[Value] {
        let references = self.0["metadata"]["ownerReferences"].as_array();
        references.map_or(&[], Vec::as_slice)
    }

    /// Makes `owner`, which was read from a server, the controller of the object.
    ///
    /// # Errors
    /// `conflict`, reason `AlreadyOwned`, when another object is its controller.
    pub fn set_controller(&mut self, owner: &Self) -> Result<(), ApiError> {
        let namespace = owner.key().namespace;
        if namespace.is_some() && namespace != self.key().namespace {
            let (name, owner) = (self.named(), owner.named());
            let message = format!(
                "{name} cannot be owned by {owner}: an owner is of the same namespace, or of none"
            );
            return Err(ApiError::host(ApiCode::Invalid, message));
        }
        let uid = owner.text_at("/metadata/uid").unwrap_or_default();
        let is_owner = |reference: &Value| reference["uid"] == uid;
        let mut owners = self.owners().to_vec();
        let other = owners
            .iter()
            .find(|reference| reference["controller"] == true && !is_owner(reference));
        if let Some(other) = other {
            let text = |name: &str| other[name].as_str().unwrap_or_default();
            let message = format!(
                "{} has a controller already: {} {}",
                self.named(),
                text("kind"),
                text("name")
            );
            return Err(ApiError {
                reason: "AlreadyOwned".to_owned(),
                ..ApiError::host(ApiCode::Conflict, message)
            });
        }
        let kind = owner.gvk();
        let reference = json!({
            "apiVersion": kind.api_version(), "kind": &*kind.kind, "name": &*owner.key().name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        });
        match owners.iter_mut().find(|reference| is_owner(reference)) {
            Some(present) => *present = reference,
            None => owners.push(reference),
        }
        self.0["metadata"]["ownerReferences"] = owners.into();
        Ok(())
    }
}
