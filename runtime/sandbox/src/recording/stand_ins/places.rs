//! Where an object or a patch holds secrets. Entry points: [`secrets_of_object`] and [`secrets_of_patch`].
//!
//! The text around them stays byte by byte, so places are ranges of it.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A place, which holds a string of JSON with its quotation marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) range: std::ops::Range<usize>,
    /// Whether the value is encoded as base64.
    pub(super) is_base64: bool,
}

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// In which kubectl keeps what it applied, with the data of a Secret.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The places in a Secret, in a part of one, or in a token of a service account.
pub(super) fn secrets_of_object(text: &str) -> Vec<Place> {
    let Some(object) = fields(text) else {
        return Vec::new();
    };
    let mut places = Vec::new();
    let mut add = |raw: Option<&&RawValue>, is_base64: bool| {
        let values = raw.and_then(|raw| fields(raw.get())).unwrap_or_default();
        places.extend(
            values
                .values()
                .filter_map(|value| place(text, value, is_base64)),
        );
    };
    add(object.get("data"), true);
    add(object.get("stringData"), false);
    let inside = |parent: &str, name: &str| {
        let parent = fields(object.get(parent)?.get())?;
        parent.get(name).copied()
    };
    let tokens = [inside("status", "token"), inside("spec", "token")];
    let applied = inside("metadata", "annotations").and_then(|raw| fields(raw.get()));
    let applied = applied.and_then(|annotations| annotations.get(APPLIED).copied());
    let whole = tokens.into_iter().chain([applied]).flatten();
    places.extend(whole.filter_map(|value| place(text, value, false)));
    places
}

/// The places in a patch of a Secret.
pub(super) fn secrets_of_patch(text: &str) -> Vec<Place> {
    #[derive(Deserialize)]
    struct Step<'a> {
        #[serde(borrow)]
        path: Cow<'a, str>,
        #[serde(borrow)]
        value: Option<&'a RawValue>,
    }
    let Ok(steps) = serde_json::from_str::<Vec<Step<'_>>>(text) else {
        return secrets_of_object(text);
    };
    let mut places = Vec::new();
    for Step { path, value } in steps {
        let Some(value) = value else { continue };
        let mut segments = path.split('/').skip(1);
        let is_base64 = match segments.next() {
            None | Some("") => {
                let inner = secrets_of_object(value.get());
                places.extend(
                    inner
                        .into_iter()
                        .filter_map(|place| shifted(text, value, place)),
                );
                continue;
            }
            Some("data") => true,
            Some("stringData") => false,
            Some(_) => continue,
        };
        match fields(value.get()) {
            Some(values) => places.extend(
                values
                    .values()
                    .filter_map(|value| place(text, value, is_base64)),
            ),
            None => places.extend(place(text, value, is_base64)),
        }
    }
    places
}

/// The places of texts in JSON for which something holds.
pub(super) fn texts(text: &str, holds: impl Fn(&str) -> bool) -> Vec<Place> {
    let mut places = Vec::new();
    let mut left: Vec<&RawValue> = serde_json::from_str(text).into_iter().collect();
    while let Some(value) = left.pop() {
        if let Some(fields) = fields(value.get()) {
            left.extend(fields.values());
        } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(value.get()) {
            left.extend(items);
        } else if serde_json::from_str::<String>(value.get()).is_ok_and(|text| holds(&text)) {
            places.extend(place(text, value, false));
        }
    }
    places
}

fn fields(text: &str) -> Option<Fields<'_>> {
    serde_json::from_str(text).ok()
}

/// The place of a value that is a string.
fn place(text: &str, value: &RawValue, is_base64: bool) -> Option<Place> {
    if !value.get().starts_with('"') {
        return None;
    }
    let start = start(text, value)?;
    Some(Place {
        range: start..start + value.get().len(),
        is_base64,
    })
}

/// The place in a text of a place in a part of it.
fn shifted(text: &str, part: &RawValue, place: Place) -> Option<Place> {
    let start = start(text, part)?;
    let range = place.range.start + start..place.range.end + start;
    Some(Place { range, ..place })
}

/// Where a part of a text begins.
fn start(text: &str, part: &RawValue) -> Option<usize> {
    let start = part
        .get()
        .as_ptr()
        .addr()
        .checked_sub(text.as_ptr().addr())?;
    text.get(start..start + part.get().len())?;
    Some(start)
}
