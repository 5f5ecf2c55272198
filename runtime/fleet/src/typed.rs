//! Objects as Rust types. Entry point: [`Typed`].

#[cfg(feature = "kube")]
mod kube;

use crate::api::{ApiCode, ApiError, Json};
use crate::kind::GroupVersionKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

pub(crate) fn decode<T: Typed>(json: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(json).map_err(|error| unfit::<T>(json, &error))
}

/// An object that does not fit its type, with its name and the field.
#[cold]
fn unfit<T: Typed>(json: &[u8], error: &serde_json::Error) -> ApiError {
    // Read once more, because following the path costs time that is not spent where all is well.
    let mut reader = serde_json::Deserializer::from_slice(json);
    let field = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) if error.path().iter().next().is_some() => format!(" at {}", error.path()),
        _ => String::new(),
    };
    // serde's own message is left out: it quotes values, which may be those of a Secret.
    let message = format!(
        "{} {} does not fit {}{field}: compare its types with the JSON up to line {}, column {}",
        T::gvk().kind,
        shown_key(json),
        type_name::<T>(),
        error.line(),
        error.column()
    );
    ApiError::host(ApiCode::Invalid, message)
}

fn shown_key(json: &[u8]) -> String {
    let object: Value = serde_json::from_slice(json).unwrap_or_default();
    let text = |field: &str| object["metadata"][field].as_str();
    match (text("namespace"), text("name")) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        (None, Some(name)) => name.to_owned(),
        (_, None) => "without a name".to_owned(),
    }
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
        let error = decode::<Widget>(text).unwrap_err();
        assert_eq!(error.code, ApiCode::Invalid);
        let expected = format!(
            "Widget a does not fit {} at size: compare",
            type_name::<Widget>()
        );
        assert!(error.message.starts_with(&expected), "{error}");
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}
