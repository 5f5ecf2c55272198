//! What a manifest calls its object. Entry point: [`Identity::of`].

use serde_json::Value as Json;
use std::fmt;

/// The fields by which an object is found; a missing one is empty.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Identity {
    pub(super) fn of(object: &Json) -> Self {
        let text = |field: &Json| field.as_str().unwrap_or_default().to_owned();
        Self {
            version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        }
    }
}

/// `v1/ConfigMap default/a`, or `v1/Namespace a`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version,
            kind,
            namespace,
            name,
        } = self;
        if namespace.is_empty() {
            write!(f, "{version}/{kind} {name}")
        } else {
            write!(f, "{version}/{kind} {namespace}/{name}")
        }
    }
}
