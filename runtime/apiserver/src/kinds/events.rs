//! Events: fields that Go writes even where they are empty.

use serde_json::{Value, json};

/// Times and texts that a core Event always shows; `true` for a time.
pub(super) const CORE: [(&str, bool); 5] = [
    ("eventTime", true),
    ("firstTimestamp", true),
    ("lastTimestamp", true),
    ("reportingComponent", false),
    ("reportingInstance", false),
];
/// The same for an Event of `events.k8s.io`.
pub(super) const NEW: [(&str, bool); 3] = [
    ("eventTime", true),
    ("deprecatedFirstTimestamp", true),
    ("deprecatedLastTimestamp", true),
];

pub(super) fn fill(body: &mut Value, fields: &[(&str, bool)]) {
    for (field, time) in fields {
        if body.get(*field).is_none() {
            body[*field] = if *time { Value::Null } else { json!("") };
        }
    }
}
