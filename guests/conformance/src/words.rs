//! Code that cases share: a type, and how values and errors are logged. Entry points: [`ConfigMap`] and [`refused`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;
use windlass_sdk::{GroupVersionKind, kind};

/// The text of a log line for an absent value.
pub(crate) const NONE: &str = "none";

/// The parts of a ConfigMap that matter here.
#[derive(Serialize, Deserialize)]
pub(crate) struct ConfigMap {
    pub(crate) metadata: Metadata,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) data: BTreeMap<String, String>,
}
kind!(ConfigMap, "v1", "ConfigMap");

impl ConfigMap {
    /// One with this data.
    pub(crate) fn with<const N: usize>(key: &ObjectKey, data: [(&str, &str); N]) -> Self {
        let data = data.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            metadata: Metadata::of(key),
            data: BTreeMap::from(data),
        }
    }

    /// A value of its data.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.data.get(name).map_or(NONE, String::as_str)
    }
}

pub(crate) fn deployments() -> GroupVersionKind {
    GroupVersionKind::new("apps/v1", "Deployment")
}

/// The `color` of a ConfigMap.
pub(crate) fn color(map: Option<&ConfigMap>) -> &str {
    map.map_or(NONE, |map| map.value("color"))
}

/// A value of an object as it is logged: text as it is, numbers as digits.
pub(crate) fn at(object: &Object, pointer: &str) -> String {
    match object.at(pointer) {
        None => NONE.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Names, separated by commas.
pub(crate) fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    names.join(",")
}

/// The names of objects, separated by commas.
pub(crate) fn named<T: Resource>(objects: &[T]) -> String {
    names(objects.iter().map(|object| object.identity().name))
}

/// Logs a call that failed, with all fields of its error.
pub(crate) fn refused(call: &str, error: &ApiError) {
    let details = error.details.as_deref().map(str::parse::<Object>);
    let details = details.and_then(Result::ok).unwrap_or(Object(Value::Null));
    info!(
        call,
        code = error.code.as_str(),
        status = error.http_status,
        reason = error.reason,
        message = error.message,
        about = at(&details, "/name"),
        field = at(&details, "/causes/0/field"),
        wait = error
            .retry_after
            .map_or(NONE.to_owned(), |after| after.as_millis().to_string()),
    );
}
