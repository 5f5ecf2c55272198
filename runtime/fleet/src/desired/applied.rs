//! What an object should be, and whether it is so already. Entry point: [`Desired`].
//!
//! A server may keep what is applied in another form: without an empty value, `1000m` as `1`, with a default for null. To compare with what it
//! keeps would be to apply at every reconcile. So an annotation of the object has two fingerprints: of what was applied, and, where the server keeps
//! it in another form, of what the object then had at those fields. The object is as desired while neither has changed.

use super::fingerprint::fingerprint;
use crate::object::Object;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The annotation with the fingerprints.
const APPLIED: &str = "windlass.dev/applied";

/// An object as it should be.
#[derive(Debug)]
pub(super) struct Desired {
    /// Without the fingerprints.
    pub(super) object: Object,
    print: String,
}

impl Desired {
    pub(super) fn new(mut object: Object) -> Self {
        strip(&mut object.0);
        let print = fingerprint(&object.0);
        Self { object, print }
    }

    /// Whether this was applied, and no field of it has changed since.
    pub(super) fn held_by(&self, present: &Object) -> bool {
        let Some((print, kept)) = note(present) else {
            return false;
        };
        print == self.print
            && match kept {
                None => covers(&present.0, &self.object.0),
                // Only the form that was noted: else a change to one that the server kept before would not be seen.
                Some(kept) => kept == fingerprint(&kept_of(&present.0, &self.object.0)),
            }
    }

    /// Whether this was applied to an object, whatever the object is now.
    pub(super) fn was_applied_to(&self, present: &Object) -> bool {
        note(present).is_some_and(|(print, _)| print == self.print)
    }

    /// As it is applied to an object. What the server made of the same fields before, it will make again.
    pub(super) fn next(&self, present: Option<&Object>) -> Object {
        let before = present
            .and_then(note)
            .filter(|(print, _)| *print == self.print);
        self.stamped(before.and_then(|(_, kept)| kept))
    }

    /// As it is applied once more, with a note of what the server has made of it, if that is another form.
    pub(super) fn noted(&self, stored: &Object) -> Object {
        if covers(&stored.0, &self.object.0) {
            return self.stamped(None);
        }
        self.stamped(Some(&fingerprint(&kept_of(&stored.0, &self.object.0))))
    }

    fn stamped(&self, kept: Option<&str>) -> Object {
        let mut object = self.object.clone();
        let annotations = &mut object.0["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[APPLIED] = match kept {
            Some(kept) => format!("{}-{kept}", self.print).into(),
            None => self.print.clone().into(),
        };
        object
    }
}

/// The fingerprints that an object has.
fn note(object: &Object) -> Option<(&str, Option<&str>)> {
    let text = object.0["metadata"]["annotations"][APPLIED].as_str()?;
    Some(match text.split_once('-') {
        Some((print, kept)) => (print, Some(kept)),
        None => (text, None),
    })
}

/// Removes what is the server's to set, and gives the data of a Secret the one form in which it is kept.
fn strip(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("creationTimestamp");
        match metadata.get_mut("annotations") {
            Some(Value::Object(annotations)) => drop(annotations.remove(APPLIED)),
            // The note is among them, so that null would not be what the object has.
            _ => drop(metadata.remove("annotations")),
        }
    }
    let is_secret = object["apiVersion"] == "v1" && object["kind"] == "Secret";
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let is_empty = |status: &Value| status.is_null() || *status == json!({});
    if fields.get("status").is_some_and(is_empty) {
        fields.remove("status");
    }
    let texts = fields.get("stringData").and_then(encoded);
    if let Some(texts) = texts.filter(|_| is_secret) {
        fields.remove("stringData");
        match fields.get_mut("data") {
            Some(Value::Object(data)) => data.extend(texts),
            _ => drop(fields.insert("data".to_owned(), texts.into())),
        }
    }
}

/// The texts of a Secret as its data; `None` if they are not texts.
fn encoded(texts: &Value) -> Option<Map<String, Value>> {
    let texts = texts.as_object()?.iter();
    texts
        .map(|(name, text)| Some((name.clone(), STANDARD.encode(text.as_str()?).into())))
        .collect()
}

/// Whether an object has everything that is desired.
fn covers(present: &Value, desired: &Value) -> bool {
    match (present, desired) {
        (Value::Object(present), Value::Object(desired)) => desired
            .iter()
            .all(|(name, each)| covers(present.get(name).unwrap_or(&Value::Null), each)),
        (Value::Array(present), Value::Array(desired)) => {
            let mut both = present.iter().zip(desired);
            present.len() == desired.len() && both.all(|(one, other)| covers(one, other))
        }
        _ => present == desired,
    }
}

/// What an object has at the fields that are desired.
fn kept_of(present: &Value, desired: &Value) -> Value {
    match (present, desired) {
        (Value::Object(present), Value::Object(desired)) => {
            let each = |(name, each): (&String, &Value)| {
                let there = present.get(name).unwrap_or(&Value::Null);
                (name.clone(), kept_of(there, each))
            };
            Value::Object(desired.iter().map(each).collect())
        }
        (Value::Array(present), Value::Array(desired)) if present.len() == desired.len() => {
            let both = present.iter().zip(desired);
            both.map(|(one, other)| kept_of(one, other)).collect()
        }
        _ => present.clone(),
    }
}
