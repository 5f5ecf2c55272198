//! Objects as Rust types. Entry point: [`Typed`].

#[cfg(feature = "kube")]
mod kube;

use crate::api::{ApiCode, ApiError, Json};
use crate::kind::GroupVersionKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// A type of objects of one kind. Every type of [`k8s_openapi`] is one, and every type that `#[derive(kube::CustomResource)]` makes: all that
/// implement kube's `Resource`. Five lines make one of another type:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass_fleet::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
/// use windlass_fleet::{GroupVersionKind, Typed};
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
///     fn gvk() -> GroupVersionKind {
///         GroupVersionKind::new("example.com", "v1", "Widget")
///     }
/// }
/// ```
///
/// A type may leave out `apiVersion` and `kind`: writes add them. An update sends only the fields that the type has, so
/// apply or patch an object if its type lacks some of its fields.
pub trait Typed: Serialize + DeserializeOwned {
    /// Group, version and kind.
    fn gvk() -> GroupVersionKind;
}

/// The object as the API wants it: with `apiVersion` and `kind`.
pub(crate) fn encode<T: Typed>(object: &T) -> Result<Json, ApiError> {
    let Value::Object(mut fields) = value(object)? else {
        let message = format!("{} must serialize as a JSON object", type_name::<T>());
        return Err(ApiError::host(ApiCode::Invalid, message));
    };
    let kind = T::gvk();
    let mut add = |field: &str, text: &str| {
        fields.entry(field).or_insert_with(|| text.into());
    };
    add("apiVersion", &kind.api_version());
    add("kind", &kind.kind);
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
            T::gvk().kind,
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
#[cfg(feature = "kube")]
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
        fn gvk() -> GroupVersionKind {
            GroupVersionKind::new("example.com", "v1", "Widget")
        }
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
        assert_eq!(Deployment::gvk().to_string(), "apps/v1/Deployment");
    }

    #[test]
    fn an_object_that_does_not_fit_is_invalid_and_not_quoted() {
        let text = br#"{"metadata": {"name": "a"}, "size": "hunter2"}"#;
        let error = decode::<Widget>(&"default/a", text).unwrap_err();
        assert_eq!(error.code, ApiCode::Invalid);
        assert!(error.message.starts_with("Widget default/a does not fit"));
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}
