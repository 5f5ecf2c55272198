//! Values of Secrets, and their stand-ins. Entry point: [`Values`].

use super::places::Place;
use super::{SHORTEST, Text, noise};
use crate::clean::clean;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// Forms of all values of a recording. One with more is not kept: nobody asked for a copy of a store of Secrets.
const FORMS: usize = 20_000;

/// How deep values inside of values are looked for.
const DEEP: usize = 8;

/// The values that a recording has hidden.
#[derive(Debug, Default)]
pub(super) struct Values {
    hidden: BTreeSet<Vec<u8>>,
    /// Each form in which a value may stand elsewhere, and what stands for it there.
    pub(super) forms: BTreeMap<String, String>,
}

impl Values {
    pub(super) fn len(&self) -> usize {
        self.hidden.len()
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.forms.len() > FORMS
    }

    /// Hides the values at the places of a text. Where nobody can say what is secret, all of it is.
    pub(super) fn hide(
        &mut self,
        text: &mut Text,
        places: impl FnOnce(&str) -> Option<Vec<Place>>,
    ) {
        let Some(mut places) = places(text.as_str()) else {
            text.0 = self.stand_in(&text.0);
            return;
        };
        places.sort_by_key(|place| place.range.start);
        let (mut hidden, mut at) = (String::with_capacity(text.0.len()), 0);
        for Place { range, is_base64 } in places {
            let (Some(before), Some(written)) =
                (text.0.get(at..range.start), text.0.get(range.clone()))
            else {
                continue;
            };
            hidden.push_str(before);
            hidden.push_str(&self.scalar(written, is_base64));
            at = range.end;
        }
        hidden.push_str(text.0.get(at..).unwrap_or_default());
        text.0 = hidden;
    }

    /// What stands for a scalar of JSON.
    fn scalar(&mut self, written: &str, is_base64: bool) -> String {
        let Ok(value) = serde_json::from_str::<String>(written) else {
            self.stand_in(written);
            return noise::number(written);
        };
        let stand_in = if is_base64 {
            self.stand_in_of_base64(&value)
        } else {
            self.stand_in(&value)
        };
        Json::String(stand_in).to_string()
    }

    /// The stand-in of a value that is text.
    fn stand_in(&mut self, value: &str) -> String {
        let stand_in = noise::text(value);
        if self.hidden.insert(value.as_bytes().to_vec()) {
            self.add(value, &stand_in);
            for part in parts(value) {
                self.add(&part, &noise::text(&part));
            }
        }
        stand_in
    }

    /// The same of a value that is written as base64. What is no base64 is taken as text.
    fn stand_in_of_base64(&mut self, written: &str) -> String {
        let Ok(bytes) = STANDARD.decode(written) else {
            return self.stand_in(written);
        };
        match String::from_utf8(bytes) {
            Ok(value) => STANDARD.encode(self.stand_in(&value)),
            Err(error) => {
                let value = error.into_bytes();
                let stand_in = noise::binary(&value);
                if self.hidden.insert(value.clone()) {
                    self.add_base64(&value, &stand_in);
                }
                STANDARD.encode(stand_in)
            }
        }
    }

    /// Adds the forms of a value: as it is, as a log line has it, and as base64 of either sort.
    fn add(&mut self, value: &str, stand_in: &str) {
        self.form(value, stand_in);
        self.form(&clean(value, usize::MAX), &clean(stand_in, usize::MAX));
        self.add_base64(value.as_bytes(), stand_in.as_bytes());
    }

    /// Without the padding, so that a text with it holds the form too.
    fn add_base64(&mut self, value: &[u8], stand_in: &[u8]) {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            self.form(&engine.encode(value), &engine.encode(stand_in));
        }
    }

    fn form(&mut self, value: &str, stand_in: &str) {
        if value.len() >= SHORTEST && !self.are_too_many() {
            let form = self.forms.entry(value.to_owned());
            form.or_insert_with(|| stand_in.to_owned());
        }
    }
}

/// Parts of a value that a guest is likely to take out of it: without blanks around it, its lines, what follows a name in a line, and the
/// texts of JSON.
fn parts(value: &str) -> BTreeSet<String> {
    let mut parts = BTreeSet::new();
    let mut add = |part: &str| {
        let part = part.trim();
        if part.len() >= SHORTEST && part != value {
            parts.insert(part.to_owned());
        }
    };
    add(value);
    for line in value.lines() {
        add(line);
        let named = line.split_once(": ").or_else(|| line.split_once('='));
        if let Some((_, text)) = named {
            add(text.trim().trim_matches(['"', '\'']));
        }
    }
    if let Ok(json) = serde_json::from_str::<Json>(value) {
        leaves(&json, DEEP, &mut add);
    }
    parts
}

fn leaves(json: &Json, deep: usize, add: &mut impl FnMut(&str)) {
    if deep == 0 {
        return;
    }
    match json {
        Json::String(text) => {
            add(text);
            // As docker writes logins: `user:password` in base64.
            let decoded = STANDARD.decode(text).ok();
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            if let Some(decoded) = decoded {
                add(&decoded);
                decoded.split(':').for_each(&mut *add);
            }
        }
        Json::Array(items) => items.iter().for_each(|item| leaves(item, deep - 1, add)),
        Json::Object(fields) => fields.values().for_each(|item| leaves(item, deep - 1, add)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}
