//! Objects between the version they are kept in and the version they are asked in.
//!
//! Versions of a custom kind differ in `apiVersion` alone; an Event of `events.k8s.io` is a core Event with other field names.

use serde_json::Value;

use crate::resource::{Resource, api_version};
use crate::store::Object;

/// Core name → name in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// A stored object as `resource` shows it.
pub(crate) fn from_storage(object: &Object, resource: &Resource) -> Value {
    value_from_storage(object.value(), resource)
}

pub(crate) fn value_from_storage(mut value: Value, resource: &Resource) -> Value {
    if value["apiVersion"] != resource.api_version() {
        if resource.plural == "events" {
            rename(&mut value, |(core, new)| (core, new));
        }
        value["apiVersion"] = resource.api_version().into();
    }
    value
}

/// An object of `resource` as it is kept.
pub(crate) fn to_storage(mut value: Value, resource: &Resource) -> Value {
    if !resource.stored() {
        if resource.plural == "events" {
            rename(&mut value, |(core, new)| (new, core));
        }
        value["apiVersion"] =
            api_version(&resource.storage_group, &resource.storage_version).into();
    }
    value
}

fn rename(
    value: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(object) = value.as_object_mut() else {
        return;
    };
    for pair in EVENT_FIELDS {
        let (from, to) = direction(pair);
        if let Some(field) = object.remove(from) {
            object.insert(to.to_owned(), field);
        }
    }
    // An empty reporter is written in the core version only.
    if object.contains_key("regarding") {
        object.retain(|name, value| !(name.starts_with("reporting") && value == ""));
    }
}
