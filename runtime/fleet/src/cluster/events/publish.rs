//! The parts of an Event object. Entry point: [`body`].

use crate::api::{ApiError, Event, GetOptions, ReadMode};
use crate::cluster::call_scope::Caller;
use crate::cluster::client::Client;
use crate::json::Object;
use serde_json::json;
use sha2::{Digest, Sha256};

/// Bytes of an object's name in the names of its events, which may have 253 bytes in all.
const MAX_NAME: usize = 200;

/// The uid of the object that an event is about; empty when it is absent. Starts no cache.
pub(super) async fn uid(client: &Client, event: &Event) -> Result<String, ApiError> {
    if let Some(object) = client.held(&event.kind, &event.key) {
        return Ok(object.uid().into_owned());
    }
    let live = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let about = client.get(&event.kind, &event.key, &live).await?;
    Ok(about
        .and_then(|json| Object::parse(json).ok())
        .map(|object| object.uid().into_owned())
        .unwrap_or_default())
}

/// The Event object.
pub(super) fn body(
    event: &Event,
    name: &str,
    namespace: &str,
    uid: &str,
    time: &str,
    caller: &Caller,
) -> serde_json::Value {
    let component = caller
        .controller
        .as_ref()
        .map_or("windlass", |c| c.as_str());
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": event.kind.api_version(), "kind": &*event.kind.kind, "name": &*event.key.name,
            "namespace": event.key.namespace.as_deref().unwrap_or(""), "uid": uid,
        },
        "type": event.event_type.as_str(),
        "reason": event.reason,
        "action": event.action,
        "message": event.note,
        "count": 1, "firstTimestamp": time, "lastTimestamp": time,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": &*caller.field_manager,
    })
}

/// A valid name for an Event. The object's own name may have other characters: those of RBAC contain colons and capitals.
pub(super) fn name_of(object: &str, salt: u64) -> String {
    let lower = object.to_lowercase();
    let labels = cut(&lower, MAX_NAME).split('.').map(|label| {
        let plain = label.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        plain.trim_matches('-').to_owned()
    });
    let labels: Vec<String> = labels.filter(|label| !label.is_empty()).collect();
    let labels = if labels.is_empty() {
        "object".to_owned()
    } else {
        labels.join(".")
    };
    format!("{labels}.{salt:016x}")
}

/// The same for the same texts about an object, in every process.
pub(super) fn salt_of(uid: &str, event: &Event) -> u64 {
    let texts = json!([uid, event.reason, event.action, event.note]);
    let digest = Sha256::digest(texts.to_string());
    digest[..8]
        .iter()
        .fold(0, |salt, byte| salt << 8 | u64::from(*byte))
}

pub(super) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

pub(super) fn now_rfc3339() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_are_valid_whatever_the_object_is_called() {
        let named = |object: &str| name_of(object, 1).replace(".0000000000000001", "");
        assert_eq!(named("web-1.prod"), "web-1.prod");
        assert_eq!(named("system:Node-Proxier"), "system-node-proxier");
        assert_eq!(named("a:.-b-..C:"), "a.b.c");
        assert_eq!(named(":é:"), "object");
        let long = name_of(&"ü".repeat(300), 1);
        assert!(long.len() <= 253 && long.starts_with("object."), "{long}");
        assert!(name_of(&"x".repeat(253), 1).len() <= 253);
    }
}
