//! Objects as Rust types. Entry point: [`Typed`].

#[cfg(feature = "k8s-openapi")]
mod k8s;

use crate::api::{ApiCode, ApiError, Json};
use crate::kind::GroupVersionKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// A kind that is known when the program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// `v1`, `apps/v1`.
    pub api_version: &'static str,
    /// `ConfigMap`.
    pub kind: &'static str,
}

impl Kind {
    /// Makes one from an `apiVersion` and a `kind`.
    #[must_use]
    pub const fn new(api_version: &'static str, kind: &'static str) -> Self {
        Self { api_version, kind }
    }
}

impl From<Kind> for GroupVersionKind {
    fn from(kind: Kind) -> Self {
        Self::from_api_version(kind.api_version, kind.kind)
    }
}

/// A type of objects of one kind. The types of [`k8s_openapi`] are such types; three lines make one of your own:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass_fleet::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
/// use windlass_fleet::{Kind, Typed};
///
/// #[derive(Serialize, Deserialize)]
/// struct Widget {
///     metadata: ObjectMeta,
///     spec: WidgetSpec,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct WidgetSpec {
///     size: u32,
/// }
///
/// impl Typed for Widget {
///     const KIND: Kind = Kind::new("example.com/v1", "Widget");
/// }
/// ```
///
/// A type may leave out `apiVersion` and `kind`: writes add them. An update sends only the fields that the type has, so
/// apply or patch an object if its type lacks some of its fields.
pub trait Typed: Serialize + DeserializeOwned {
    /// The kind.
    const KIND: Kind;
}

/// The object as the API wants it: with `apiVersion` and `kind`.
pub(crate) fn encode<T: Typed>(object: &T) -> Result<Json, ApiError> {
    let Value::Object(mut fields) = value(object)? else {
        let message = format!("{} must serialize as a JSON object", type_name::<T>());
        return Err(ApiError::host(ApiCode::Invalid, message));
    };
    let mut add = |field: &str, text: &str| {
        fields.entry(field).or_insert_with(|| text.into());
    };
    add("apiVersion", T::KIND.api_version);
    add("kind", T::KIND.kind);
    Ok(Value::Object(fields).to_string().into())
}

/// Anything that serde can write, such as a patch.
pub(crate) fn value<T: Serialize>(content: &T) -> Result<Value, ApiError> {
    serde_json::to_value(content).map_err(|error| {
        let message = format!("cannot serialize {}: {error}", type_name::<T>());
        ApiError::host(ApiCode::Invalid, message)
    })
}

/// `what` names the object, for the error.
pub(crate) fn decode<T: Typed>(what: &dyn fmt::Display, json: &[u8]) -> Result<T, ApiError> {
    // serde's own message is left out: it quotes values, which may be those of a Secret.
    serde_json::from_slice(json).map_err(|error| {
        let message = format!(
            "{} {what} does not fit {}: compare its types with the JSON up to line {}, column {}",
            T::KIND.kind,
            type_name::<T>(),
            error.line(),
            error.column()
        );
        ApiError::host(ApiCode::Invalid, message)
    })
}

fn type_name<T>() -> &'static str {
    std::any::type_name::<T>()
}

#[cfg(test)]
#[cfg(feature = "k8s-openapi")]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Serialize, Deserialize)]
    struct Widget {
        metadata: ObjectMeta,
        size: u32,
    }

    impl Typed for Widget {
        const KIND: Kind = Kind::new("example.com/v1", "Widget");
    }

    fn written<T: Typed>(object: &T) -> Value {
        serde_json::from_slice(&encode(object).unwrap()).unwrap()
    }

    #[test]
    fn a_kind_is_added_to_types_that_leave_it_out_and_stands_once_in_others() {
        let widget = Widget {
            metadata: ObjectMeta::default(),
            size: 2,
        };
        let expected =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}, "size": 2});
        assert_eq!(written(&widget), expected);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
        assert_eq!(written(&ConfigMap::default()), map);
        assert_eq!(
            GroupVersionKind::from(Deployment::KIND).to_string(),
            "apps/v1/Deployment"
        );
    }

    #[test]
    fn an_object_that_does_not_fit_is_invalid_and_not_quoted() {
        let text = br#"{"metadata": {"name": "a"}, "size": "hunter2"}"#;
        let error = decode::<Widget>(&"default/a", text).unwrap_err();
        assert_eq!(error.code, ApiCode::Invalid);
        assert!(error.message.starts_with("Widget default/a does not fit"));
        assert!(!error.message.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_controller_reference_names_the_owner() {
        let owner = ObjectMeta {
            name: Some("a".into()),
            uid: Some("u1".into()),
            ..ObjectMeta::default()
        };
        let reference = Widget::KIND.controller_reference(&owner);
        assert_eq!(
            (&*reference.kind, &*reference.uid, reference.controller),
            ("Widget", "u1", Some(true))
        );
    }
}
