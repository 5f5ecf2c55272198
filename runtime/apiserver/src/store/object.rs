//! A stored object, [`Object`], and a change of one, [`Event`], both serialised once for all readers.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

use super::key;

/// What is read of an object without parsing it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) version: u64,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    pub(crate) owners: Box<[Owner]>,
    /// Has a deletion timestamp.
    pub(crate) deleting: bool,
}

/// An owner reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Owner {
    pub(crate) api_version: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    /// The owner's foreground deletion waits for this dependent.
    pub(crate) blocks: bool,
}

/// A stored object: immutable, shared.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) head: Head,
    /// JSON text: kind, apiVersion, metadata, then the rest.
    bytes: Bytes,
    /// Where `"metadata"` begins: before it stand kind and apiVersion, which items of built-in lists lack.
    body: usize,
}

impl Object {
    pub(crate) fn new(mut value: Value, version: u64) -> Self {
        value["metadata"]["resourceVersion"] = version.to_string().into();
        let (bytes, body) = serialise(&value);
        Self {
            head: head(&value["metadata"], version),
            bytes,
            body,
        }
    }

    /// The whole JSON text.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Appends the object as a list shows it; items of built-in kinds have no kind and apiVersion.
    pub(crate) fn write_item(&self, out: &mut BytesMut, with_kind: bool) {
        if with_kind {
            out.put_slice(&self.bytes);
        } else {
            out.put_u8(b'{');
            out.put_slice(&self.bytes[self.body..]);
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "the bytes were written by serde_json from a Value"
    )]
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("stored bytes are JSON")
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.head
            .labels
            .iter()
            .find(|(name, _)| **name == *key)
            .map(|(_, value)| &**value)
    }
}

/// Serialises an object with kind, apiVersion and metadata first; also returns where metadata begins.
pub(crate) fn serialise(value: &Value) -> (Bytes, usize) {
    let mut out = BytesMut::with_capacity(512).writer();
    let mut body = 0;
    let mut first = true;
    let empty = Map::new();
    let fields = value.as_object().unwrap_or(&empty);
    const FRONT: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let front = FRONT.iter().filter_map(|name| fields.get_key_value(*name));
    let rest = fields
        .iter()
        .filter(|(name, _)| !FRONT.contains(&name.as_str()));
    out.get_mut().put_u8(b'{');
    for (name, field) in front.chain(rest) {
        if !first {
            out.get_mut().put_u8(b',');
        }
        first = false;
        if name == "metadata" {
            body = out.get_ref().len();
        }
        // Writing JSON values into memory cannot fail.
        let _ = serde_json::to_writer(&mut out, name);
        out.get_mut().put_u8(b':');
        let _ = serde_json::to_writer(&mut out, field);
    }
    out.get_mut().put_u8(b'}');
    (out.into_inner().freeze(), body)
}

fn head(metadata: &Value, version: u64) -> Head {
    let text =
        |value: &Value, key: &str| -> Box<str> { value[key].as_str().unwrap_or_default().into() };
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    Head {
        namespace: text(metadata, "namespace"),
        name: text(metadata, "name"),
        uid: text(metadata, "uid"),
        version,
        labels: labels
            .map(|(key, value)| {
                (
                    key.as_str().into(),
                    value.as_str().unwrap_or_default().into(),
                )
            })
            .collect(),
        owners: owners
            .map(|owner| Owner {
                api_version: text(owner, "apiVersion"),
                kind: text(owner, "kind"),
                name: text(owner, "name"),
                uid: text(owner, "uid"),
                blocks: owner["blockOwnerDeletion"].as_bool().unwrap_or_default(),
            })
            .collect(),
        deleting: metadata
            .get("deletionTimestamp")
            .is_some_and(|time| !time.is_null()),
    }
}

/// What happened to an object, as a watcher is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) kind: EventKind,
    pub(crate) key: Box<str>,
    /// The state after the change; for a deletion the last state under the version of the deletion.
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
    /// One frame per kind: a selector turns a change into another kind for its watcher.
    frames: [OnceLock<Bytes>; 3],
}

impl Event {
    pub(crate) fn new(
        version: u64,
        kind: EventKind,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) -> Self {
        let key = key(&object.head.namespace, &object.head.name);
        Self {
            version,
            kind,
            key,
            object,
            previous,
            frames: [OnceLock::new(), OnceLock::new(), OnceLock::new()],
        }
    }

    /// The same change in a store that keeps the objects of several, each below a prefix.
    pub(crate) fn below(&self, prefix: &str) -> Self {
        let (object, previous) = (Arc::clone(&self.object), self.previous.clone());
        Self {
            key: format!("{prefix}/{}", self.key).into(),
            ..Self::new(self.version, self.kind, object, previous)
        }
    }

    /// The line of a watch that reports this change as `kind`; made once, shared by all watchers.
    pub(crate) fn frame(&self, kind: EventKind) -> Bytes {
        let make = || match kind {
            // An object that leaves a selector is shown as it last matched, under the new version.
            EventKind::Deleted if self.kind != EventKind::Deleted => match &self.previous {
                Some(previous) => frame(
                    kind.name(),
                    Object::new(previous.value(), self.version).bytes(),
                ),
                None => frame(kind.name(), self.object.bytes()),
            },
            _ => frame(kind.name(), self.object.bytes()),
        };
        self.frames[kind as usize].get_or_init(make).clone()
    }
}

/// A watch line of type `kind` around the JSON text of an object.
pub(crate) fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(object.len() + 40);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_item_of_a_list_lacks_kind_and_api_version() {
        let object = Object::new(
            json!({"apiVersion": "v1", "data": {"a": "b"}, "kind": "ConfigMap", "metadata": {"name": "n"}}),
            7,
        );
        let mut out = BytesMut::new();
        object.write_item(&mut out, false);
        assert_eq!(
            &out[..],
            br#"{"metadata":{"name":"n","resourceVersion":"7"},"data":{"a":"b"}}"#
        );
        assert!(
            object
                .bytes()
                .starts_with(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":"#)
        );
    }
}
