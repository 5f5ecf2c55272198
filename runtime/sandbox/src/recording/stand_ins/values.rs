//! Values of Secrets, and their stand-ins. Entry point: [`Values`].

use super::places::Place;
use super::{Hide, SHORTEST, Text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::SystemRandom;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Of this process. Without it a short value could be found by trying.
static KEY: LazyLock<Option<hmac::Key>> =
    LazyLock::new(|| hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok());

/// The values that a recording has hidden.
#[derive(Debug, Default)]
pub(super) struct Values {
    hidden: BTreeSet<Vec<u8>>,
    /// Each form in which a value may stand elsewhere, and what stands for it there. The longest come first once they are sorted.
    forms: Vec<(String, String)>,
}

impl Values {
    pub(super) fn len(&self) -> usize {
        self.hidden.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hidden.is_empty()
    }

    /// Hides the values at the places of a text. What is no JSON has no places: nobody can say what of it is secret, so all of it is hidden.
    pub(super) fn hide(&mut self, text: &mut Text, places: impl FnOnce(&str) -> Vec<Place>) {
        if serde_json::from_str::<serde::de::IgnoredAny>(text.as_str()).is_err() {
            text.0 = self.stand_in(&text.0);
            return;
        }
        let mut places = places(text.as_str());
        places.sort_by_key(|place| place.range.start);
        // From the end, so that the places before stay right.
        for place in places.into_iter().rev() {
            let Some(written) = text.0.get(place.range.clone()) else {
                continue;
            };
            let Ok(value) = serde_json::from_str::<String>(written) else {
                continue;
            };
            let stand_in = match place.is_base64 {
                true => self.stand_in_of_base64(&value),
                false => self.stand_in(&value),
            };
            let stand_in = serde_json::Value::String(stand_in).to_string();
            text.0.replace_range(place.range, &stand_in);
        }
    }

    /// Names that everybody sees anyway are no secrets, even where a Secret holds them too.
    pub(super) fn spare<'a>(&mut self, names: impl IntoIterator<Item = Option<&'a str>>) {
        let names: BTreeSet<&str> = names.into_iter().flatten().collect();
        self.forms
            .retain(|(value, _)| !names.contains(value.as_str()));
    }

    /// Hides the values in all other places.
    pub(super) fn everywhere(&mut self) -> Hide<'_> {
        self.forms.sort_by(|(one, _), (other, _)| {
            let longest_first = other.len().cmp(&one.len());
            longest_first.then_with(|| one.cmp(other))
        });
        self.forms.dedup();
        Hide(&self.forms)
    }

    /// The stand-in of a value that is text.
    fn stand_in(&mut self, value: &str) -> String {
        let stand_in = text(value);
        if self.hidden.insert(value.as_bytes().to_vec()) {
            self.add(value, &stand_in);
            self.add(&STANDARD.encode(value), &STANDARD.encode(&stand_in));
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
                let stand_in = STANDARD.encode(binary(&value));
                if self.hidden.insert(value) {
                    self.add(written, &stand_in);
                }
                stand_in
            }
        }
    }

    /// Adds the forms of a value: as it is, and as it stands in JSON, as Rust and as Go writes it.
    fn add(&mut self, value: &str, stand_in: &str) {
        if value.len() < SHORTEST {
            return;
        }
        let forms = [
            (value.to_owned(), stand_in.to_owned()),
            (in_json(value), in_json(stand_in)),
            (in_json_of_go(value), in_json_of_go(stand_in)),
        ];
        let forms: BTreeMap<_, _> = forms.into();
        self.forms.extend(forms);
    }
}

/// A text as it stands in JSON, without quotation marks.
fn in_json(text: &str) -> String {
    let written = serde_json::Value::from(text).to_string();
    written[1..written.len() - 1].to_owned()
}

/// The same as Go writes it, whose encoder escapes what HTML gives a meaning.
fn in_json_of_go(text: &str) -> String {
    in_json(text)
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// Characters that are replaced by others of their kind.
const ALPHABETS: [(char, char); 6] = [
    ('a', 'z'),
    ('A', 'Z'),
    ('0', '9'),
    // Any character of two, three and four bytes, by letters of as many.
    ('\u{e0}', '\u{f6}'),
    ('\u{4e00}', '\u{4fff}'),
    ('\u{20000}', '\u{20fff}'),
];

/// A text of the same length with other letters and digits.
fn text(value: &str) -> String {
    let mut noise = Noise::of(value.as_bytes());
    value
        .chars()
        .map(|from| other(from, noise.next()))
        .collect()
}

/// Another character of the same kind. Each is another one, so that no value is its own stand-in.
fn other(from: char, noise: u32) -> char {
    let ascii = ALPHABETS[..3].iter();
    let own = ascii
        .copied()
        .find(|(first, last)| (*first..=*last).contains(&from));
    let (first, last) = match own {
        Some(alphabet) => alphabet,
        None if from.is_ascii() => return from,
        None => ALPHABETS[1 + from.len_utf8()],
    };
    let (first, count) = (u32::from(first), u32::from(last) - u32::from(first) + 1);
    let at = u32::from(from).wrapping_sub(first) % count;
    let moved = (at + 1 + noise % (count - 1)) % count;
    char::from_u32(first + moved).unwrap_or(from)
}

/// Other bytes of the same number.
fn binary(value: &[u8]) -> Vec<u8> {
    let mut noise = Noise::of(value);
    let other = |byte: &u8| byte.wrapping_add(1 + (noise.next() % 255) as u8);
    value.iter().map(other).collect()
}

/// Numbers that follow from a value, for those who have the key.
struct Noise<'a> {
    value: &'a [u8],
    block: u64,
    left: Vec<u8>,
}

impl<'a> Noise<'a> {
    fn of(value: &'a [u8]) -> Self {
        Self {
            value,
            block: 0,
            left: Vec::new(),
        }
    }

    fn next(&mut self) -> u32 {
        let mut number = [0; 4];
        for byte in &mut number {
            if self.left.is_empty() {
                self.left = self.more();
            }
            *byte = self.left.pop().unwrap_or_default();
        }
        u32::from_le_bytes(number)
    }

    fn more(&mut self) -> Vec<u8> {
        let block = self.block.to_le_bytes();
        self.block += 1;
        match &*KEY {
            Some(key) => {
                let mut tag = hmac::Context::with_key(key);
                tag.update(&block);
                tag.update(self.value);
                tag.sign().as_ref().to_vec()
            }
            // A machine without random numbers: the stand-ins say nothing of the value at all.
            None => block.to_vec(),
        }
    }
}
