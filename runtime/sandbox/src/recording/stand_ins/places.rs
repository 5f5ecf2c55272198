//! Where an object or a patch holds secrets. Entry points: [`of_object`] and [`of_patch`].
//!
//! The text around them stays byte by byte, so places are ranges of it.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A place, which holds a scalar of JSON: a string with its quotation marks, or a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) range: std::ops::Range<usize>,
    /// Whether the value is encoded as base64.
    pub(super) is_base64: bool,
}

/// In which kubectl keeps what it applied, with the data of a Secret.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of an object, with those that it has twice.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    pairs.push(pair);
                }
                Ok(Fields(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl<'a> Fields<'a> {
    fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The values of a field, of which there is usually one.
    fn all(&self, name: &str) -> impl Iterator<Item = &'a RawValue> {
        let named = self.0.iter().filter(move |(field, _)| field == name);
        named.map(|(_, value)| *value)
    }
}

/// The places in a Secret, in a part of one, or in a token of a service account. `None`: it is no object, so nobody can say.
pub(super) fn of_object(text: &str) -> Option<Vec<Place>> {
    let object = Fields::of(text)?;
    let mut places = Vec::new();
    for (field, is_base64) in [("data", true), ("stringData", false)] {
        for value in object.all(field) {
            scalars(text, value, is_base64, &mut places)?;
        }
    }
    for (parent, child) in [
        ("status", "token"),
        ("spec", "token"),
        ("metadata", "annotations"),
    ] {
        for parent in object.all(parent).filter_map(|raw| Fields::of(raw.get())) {
            for value in parent.all(child) {
                match Fields::of(value.get()).filter(|_| child == "annotations") {
                    Some(annotations) => {
                        for applied in annotations.all(APPLIED) {
                            scalars(text, applied, false, &mut places)?;
                        }
                    }
                    None => scalars(text, value, false, &mut places)?,
                }
            }
        }
    }
    Some(places)
}

/// The places in a patch of a Secret. `None`: it is no patch, so nobody can say.
pub(super) fn of_patch(text: &str) -> Option<Vec<Place>> {
    let Ok(steps) = serde_json::from_str::<Vec<&RawValue>>(text) else {
        return of_object(text);
    };
    let mut places = Vec::new();
    for step in steps {
        let step = Fields::of(step.get())?;
        let mut paths = step.all("path");
        let path: String = serde_json::from_str(paths.next()?.get()).ok()?;
        for value in step.all("value") {
            of_value(text, &path, value, &mut places)?;
        }
    }
    Some(places)
}

/// The places in the value that a step of a patch gives to a path.
fn of_value(text: &str, path: &str, value: &RawValue, places: &mut Vec<Place>) -> Option<()> {
    let mut segments = path.split('/').skip(1);
    match (segments.next(), segments.next()) {
        (None | Some(""), _) => {
            let start = start(text, value)?;
            places.extend(of_object(value.get())?.into_iter().map(|place| Place {
                range: place.range.start + start..place.range.end + start,
                ..place
            }));
        }
        (Some("data"), _) => scalars(text, value, true, places)?,
        (Some("metadata"), Some("annotations")) => scalars(text, value, false, places)?,
        (Some("metadata"), None) => {
            for annotations in Fields::of(value.get())?.all("annotations") {
                scalars(text, annotations, false, places)?;
            }
        }
        (Some("metadata" | "type" | "kind" | "apiVersion" | "immutable"), _) => {}
        (Some(_), _) => scalars(text, value, false, places)?,
    }
    Some(())
}

/// The places of texts in JSON for which something holds.
pub(super) fn texts(text: &str, holds: impl Fn(&str) -> bool) -> Option<Vec<Place>> {
    let whole: &RawValue = serde_json::from_str(text).ok()?;
    let mut places = Vec::new();
    scalars(text, whole, false, &mut places)?;
    places.retain(|place| {
        let value = text.get(place.range.clone()).unwrap_or_default();
        serde_json::from_str::<String>(value).is_ok_and(|value| holds(&value))
    });
    Some(places)
}

/// Deeper than any object of Kubernetes. Each level is read once more.
const DEEP: usize = 64;

/// Adds the strings and numbers in a value. `None`: it is too deep to be looked at.
fn scalars(text: &str, value: &RawValue, is_base64: bool, places: &mut Vec<Place>) -> Option<()> {
    let mut left = vec![(value, 0)];
    while let Some((value, depth)) = left.pop() {
        let raw = value.get();
        if raw.starts_with(['{', '[']) && depth >= DEEP {
            return None;
        }
        if raw.starts_with('{') {
            let fields = Fields::of(raw)?.0.into_iter();
            left.extend(fields.map(|(_, value)| (value, depth + 1)));
        } else if raw.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
            left.extend(items.into_iter().map(|item| (item, depth + 1)));
        } else if !matches!(raw, "null" | "true" | "false") {
            let start = start(text, value)?;
            places.push(Place {
                range: start..start + raw.len(),
                is_base64,
            });
        }
    }
    Some(())
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
