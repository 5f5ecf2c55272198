//! Objects with and without a type. Entry points: [`Typed`], the macro [`crate::kind`], [`Object`].

mod conditions;
mod metadata;
mod object;
#[cfg(any(feature = "k8s-openapi", test))]
mod openapi;

pub use conditions::{Condition, ConditionStatus};
pub use metadata::{Metadata, OwnerReference};
pub use object::Object;

use crate::error::ApiError;
use crate::json;
use crate::types::{ApiCode, GroupVersionKind, ObjectKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// A kind known when the guest is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// `v1`, `apps/v1`.
    pub api_version: &'static str,
    /// `ConfigMap`.
    pub kind: &'static str,
}

impl From<Kind> for GroupVersionKind {
    fn from(kind: Kind) -> Self {
        Self::new(kind.api_version, kind.kind)
    }
}

/// The metadata that the SDK itself needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.namespace`.
    pub namespace: Option<&'a str>,
    /// `metadata.uid`; absent from objects that were never stored.
    pub uid: Option<&'a str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<&'a str>,
}

/// An object that can be read and written: a struct with [`crate::kind`], a type of k8s-openapi (with the feature of that
/// name), or an [`Object`].
pub trait Resource: Serialize + DeserializeOwned {
    /// Whether serde writes `apiVersion` and `kind`. If not, the SDK adds them.
    const SERIALIZES_KIND: bool = true;

    /// Its kind.
    fn kind(&self) -> GroupVersionKind;

    /// The metadata that identifies the object.
    fn identity(&self) -> Identity<'_>;

    /// The object as the API expects it.
    #[doc(hidden)]
    fn encode(&self) -> Result<String, ApiError> {
        encode(self)
    }

    /// An object of the API. `what` names the expected kind in an error.
    #[doc(hidden)]
    fn decode(what: &dyn fmt::Display, text: &str) -> Result<Self, ApiError> {
        decode(what, text)
    }

    /// Namespace and name.
    fn key(&self) -> ObjectKey {
        let identity = self.identity();
        ObjectKey {
            namespace: identity.namespace.map(str::to_owned),
            name: identity.name.to_owned(),
        }
    }

    /// The condition of this type in `status.conditions`.
    ///
    /// # Errors
    /// [`ApiError`] when the object cannot be written as JSON.
    fn condition(&self, kind: &str) -> Result<Option<Condition>, ApiError> {
        Ok(Object::of(self)?.condition(kind))
    }

    /// As [`Object::set_condition`], for an object whose type has `status.conditions`. Only the type's own fields of them are kept.
    ///
    /// # Errors
    /// [`ApiError`] `invalid` when the type has no such field.
    fn set_condition(&mut self, condition: Condition) -> Result<bool, ApiError> {
        let kind = condition.kind.clone();
        let mut object = Object::of(self)?;
        if !object.set_condition(condition) {
            return Ok(false);
        }
        let next: Self = decode(&object.kind(), &encode(&object)?)?;
        if next.condition(&kind)?.is_none() {
            let why = format!("{}: its type has no status.conditions", object.named());
            return Err(ApiError::new(ApiCode::Invalid, why));
        }
        *self = next;
        Ok(true)
    }

    /// The owner reference that makes this object the controller of another one. The other object is deleted after this one,
    /// and its events enqueue this one.
    fn controller_reference(&self) -> OwnerReference {
        OwnerReference {
            controller: Some(true),
            block_owner_deletion: Some(true),
            ..self.owner_reference()
        }
    }

    /// The owner reference that makes this object an owner of another one.
    fn owner_reference(&self) -> OwnerReference {
        let (kind, identity) = (self.kind(), self.identity());
        OwnerReference {
            api_version: kind.api_version(),
            kind: kind.kind,
            name: identity.name.to_owned(),
            uid: identity.uid.unwrap_or_default().to_owned(),
            controller: None,
            block_owner_deletion: None,
        }
    }
}

/// A [`Resource`] whose type names its kind.
pub trait Typed: Resource {
    /// The kind.
    const KIND: Kind;
}

/// Objects of any types as those that [`crate::Dependents::reconcile`] takes: `objects![page, servers]`. It ends the function with an
/// error, as `?` does, if one cannot be written as JSON.
#[macro_export]
macro_rules! objects {
    ($($object:expr),* $(,)?) => {
        [$($crate::Object::of(&$object)?),*]
    };
}

/// The object as the API expects it: with `apiVersion` and `kind`.
pub fn encode<T: Resource>(object: &T) -> Result<String, ApiError> {
    let text =
        serde_json::to_string(object).map_err(|error| unfit("encode", &object.kind(), &error))?;
    let Some(fields) = text.strip_prefix('{').filter(|_| !T::SERIALIZES_KIND) else {
        return Ok(text);
    };
    let kind = object.kind();
    let comma = if fields == "}" { "" } else { "," };
    Ok(format!(
        r#"{{"apiVersion":"{}","kind":"{}"{comma}{fields}"#,
        kind.api_version(),
        kind.kind
    ))
}

/// `what` names the expected text in the error message.
pub fn decode<T: DeserializeOwned>(what: &dyn fmt::Display, text: &str) -> Result<T, ApiError> {
    json::from_str(text).map_err(|error| unfit("decode", &named(what, text), &error))
}

/// An expected kind, with the name of the object that does not fit.
#[cold]
#[inline(never)]
fn named(what: &dyn fmt::Display, text: &str) -> String {
    let read: Result<Object, _> = json::from_str(text);
    match read.map(|object| object.key()) {
        Ok(key) if !key.name.is_empty() => format!("{what} {key}"),
        _ => what.to_string(),
    }
}

#[cold]
#[inline(never)]
fn unfit(how: &str, what: &dyn fmt::Display, error: &dyn fmt::Display) -> ApiError {
    ApiError::new(ApiCode::Invalid, format!("cannot {how} {what}: {error}"))
}

/// Makes a struct with a field `metadata: Metadata` and serde's derives a [`Typed`] resource.
///
/// Name only the fields that you need. The macro adds `apiVersion` and `kind`. [`crate::Cluster::update`] sends only these fields
/// and so removes all others: write such a type by server-side apply or by a patch, or let `windlass types` write one that keeps the others.
///
/// ```
/// # use std::collections::BTreeMap;
/// use serde::{Deserialize, Serialize};
/// use windlass_sdk::{Metadata, Resource, kind};
///
/// #[derive(Serialize, Deserialize)]
/// struct ConfigMap {
///     metadata: Metadata,
///     #[serde(default)]
///     data: BTreeMap<String, String>,
/// }
/// kind!(ConfigMap, "v1", "ConfigMap");
///
/// let map = ConfigMap { metadata: Metadata::new("default", "a"), data: BTreeMap::new() };
/// assert_eq!(map.key().to_string(), "default/a");
/// ```
#[macro_export]
macro_rules! kind {
    ($type:ty, $api_version:literal, $kind:literal) => {
        impl $crate::Typed for $type {
            const KIND: $crate::Kind = $crate::Kind {
                api_version: $api_version,
                kind: $kind,
            };
        }

        impl $crate::Resource for $type {
            const SERIALIZES_KIND: bool = false;

            fn kind(&self) -> $crate::GroupVersionKind {
                <Self as $crate::Typed>::KIND.into()
            }

            fn identity(&self) -> $crate::Identity<'_> {
                self.metadata.identity()
            }

            // Not generic, so that they are compiled beside the type, and not in each crate that uses it.
            fn encode(&self) -> ::std::result::Result<::std::string::String, $crate::ApiError> {
                $crate::export::encode(self)
            }

            fn decode(
                what: &dyn ::std::fmt::Display,
                text: &str,
            ) -> ::std::result::Result<Self, $crate::ApiError> {
                $crate::export::decode(what, text)
            }
        }
    };
}
