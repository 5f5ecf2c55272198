//! Values of Secrets, and their stand-ins. Entry point: [`Values`].

use super::noise::Noise;
use super::places::Place;
use super::{SHORTEST, Text};
use crate::clean::clean;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// Forms of all values of a recording. One with more is not kept: nobody asked for a copy of a store of Secrets.
const FORMS: usize = 20_000;

/// Bytes of all forms together: to look for them takes some times as much.
const BYTES: usize = 8 << 20;

/// A longer value is looked for in pieces, as lines of a log and errors are cut to this length too.
const PIECE: usize = 4000;

/// How deep values inside of values are looked for.
const DEEP: usize = 8;

/// The values that a recording has hidden.
#[derive(Debug, Default)]
pub(super) struct Values {
    noise: Noise,
    hidden: BTreeSet<Vec<u8>>,
    /// Bytes of the forms.
    bytes: usize,
    /// Each form in which a value may stand elsewhere, and what stands for it there.
    pub(super) forms: BTreeMap<String, String>,
}

impl Values {
    /// No values yet. `scope`: the tenant of the recording.
    pub(super) fn of(scope: &str) -> Self {
        Self {
            noise: Noise::of(scope),
            ..Self::default()
        }
    }

    /// Other bytes of the same number.
    pub(super) fn other_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.noise.binary(bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.hidden.len()
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.forms.len() > FORMS || self.bytes > BYTES
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
            return self.noise.number(written);
        };
        let stand_in = if is_base64 {
            self.stand_in_of_base64(&value)
        } else {
            self.stand_in(&value)
        };
        Json::String(stand_in).to_string()
    }

    /// The stand-in of a value that is text.
    pub(super) fn stand_in(&mut self, value: &str) -> String {
        let stand_in = self.noise.text(value);
        if self.hidden.insert(value.as_bytes().to_vec()) {
            self.add(value, &stand_in);
            for part in parts(value) {
                // What a replayed guest takes out of the stand-in.
                let at = value.find(&part);
                let inside = at.and_then(|at| stand_in.get(at..at + part.len()));
                let other = inside.map_or_else(|| self.noise.text(&part), str::to_owned);
                self.add(&part, &other);
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
                let stand_in = self.noise.binary(&value);
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
        self.form(&escaped(value), &escaped(stand_in));
        self.form(&escaped_by_go(value), &escaped_by_go(stand_in));
        self.add_base64(value.as_bytes(), stand_in.as_bytes());
    }

    /// Without the padding, so that a text with it holds the form too.
    fn add_base64(&mut self, value: &[u8], stand_in: &[u8]) {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            self.form(&engine.encode(value), &engine.encode(stand_in));
        }
    }

    fn form(&mut self, value: &str, stand_in: &str) {
        let mut at = 0;
        while value.len() - at > 2 * PIECE && value.len() == stand_in.len() {
            let end = value.floor_char_boundary(at + PIECE);
            let (Some(piece), Some(other)) = (value.get(at..end), stand_in.get(at..end)) else {
                break;
            };
            self.insert(piece, other);
            at = end;
        }
        self.insert(&value[at..], stand_in.get(at..).unwrap_or_default());
    }

    fn insert(&mut self, value: &str, stand_in: &str) {
        if value.len() < SHORTEST || self.are_too_many() {
            return;
        }
        if !self.forms.contains_key(value) {
            self.bytes += value.len();
            self.forms.insert(value.to_owned(), stand_in.to_owned());
        }
    }
}

/// A text as it stands in JSON, without quotation marks.
fn escaped(text: &str) -> String {
    let written = Json::from(text).to_string();
    written[1..written.len() - 1].to_owned()
}

/// The same as Go writes it, whose encoder escapes what HTML gives a meaning.
fn escaped_by_go(text: &str) -> String {
    escaped(text)
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
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
        // The user and the password of a URL.
        let authority = line
            .split_once("://")
            .and_then(|(_, rest)| rest.split_once('@'));
        if let Some((user, _)) = authority {
            user.splitn(2, ':').for_each(&mut add);
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
