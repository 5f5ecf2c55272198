//! An object of a hub. Entry point: [`HubObject`].

use crate::json::Object;
use crate::request::ObjectKey;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object of a hub, as its server sent it. Cheap to clone: the text is shared with the cache.
#[derive(Debug, Clone)]
pub struct HubObject(Object);

/// The fields of an object's type cannot be read. Never quotes the object, which may be a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not of the expected shape (byte {at} of its text)")]
pub struct ShapeError {
    at: usize,
}

#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    metadata: Annotations,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

impl HubObject {
    pub(crate) fn new(object: Object) -> Self {
        Self(object)
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.0.key()
    }

    /// Its logical cluster, where the hub has many.
    pub(crate) fn workspace(&self) -> Option<&Arc<str>> {
        self.0.workspace()
    }

    /// The whole text, without managedFields. May be a Secret: never log it.
    #[must_use]
    pub fn json(&self) -> &Bytes {
        self.0.json()
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> String {
        self.0.uid().into_owned()
    }

    /// `metadata.labels`.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.0.labels().to_map()
    }

    /// The value of a label, without a map of all.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<String> {
        self.0.labels().get(key).map(std::borrow::Cow::into_owned)
    }

    /// `metadata.annotations`.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let annotated: Result<Annotated, _> = self.parse();
        annotated
            .ok()
            .and_then(|object| object.metadata.annotations)
            .unwrap_or_default()
    }

    /// Whether `metadata.deletionTimestamp` is set.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.0.is_deleting()
    }

    /// Reads the fields that a type names.
    ///
    /// # Errors
    /// [`ShapeError`] when a field has another type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ShapeError> {
        serde_json::from_slice(self.json()).map_err(|error| ShapeError { at: error.column() })
    }

    /// Whether both are the same object in the same state, without a comparison of texts. `false` also for equal states that were read
    /// twice.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        // Both texts are alive, so one address is one text.
        std::ptr::eq(self.json().as_ref(), other.json().as_ref())
    }

    /// An object for a test.
    #[cfg(test)]
    pub(crate) fn of(value: &serde_json::Value) -> Self {
        Self(Object::parse(Bytes::from(value.to_string())).unwrap())
    }
}
