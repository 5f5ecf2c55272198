//! The annotation of kubectl's client-side apply: a server-side apply by kubectl goes on from it ([`owned`]) and keeps it ([`refresh`]).

use serde_json::Value;

use super::field_set::FieldSet;
use super::typed::{compare, fields_of};
use crate::schema::Schema;

/// Only this manager goes on from the annotation.
pub(crate) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields that the annotation names and that still have the value it gives them.
pub(crate) fn owned(live: &Value, schema: Schema<'_>) -> Option<FieldSet> {
    let text = live["metadata"]["annotations"][ANNOTATION].as_str()?;
    let config: Value = serde_json::from_str(text).ok()?;
    let changes = compare(&config, live, schema);
    Some(fields_of(&config, schema).difference(&changes.modified))
}

/// Writes the applied configuration into the annotation, where there is one.
pub(crate) fn refresh(object: &mut Value, config: &Value) {
    let Some(annotation) = object
        .pointer_mut("/metadata/annotations")
        .and_then(|annotations| annotations.get_mut(ANNOTATION))
    else {
        return;
    };
    let mut config = config.clone();
    if let Some(annotations) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    *annotation = format!("{config}\n").into();
}
