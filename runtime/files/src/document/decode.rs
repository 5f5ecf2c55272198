//! Decodes a tree into a typed value. Errors have the path and the position. Entry point: [`Node::decode`].

use crate::document::problem::nearest;
use crate::document::tree::{Key, Node, Position, Value};
use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Expected, IntoDeserializer, Unexpected, Visitor,
};
use std::fmt;

/// Why a tree does not fit the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The position; `None` until the nearest value around the error is known.
    pub at: Option<Position>,
    /// The path of the value, outermost last while the error travels up.
    segments: Vec<Segment>,
    /// What is wrong and the remedy.
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Field(String),
    Item(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    UnknownField { field: String, remedy: String },
    MissingField(&'static str),
    Other(String),
}

impl DecodeError {
    fn other(message: impl fmt::Display) -> Self {
        Self {
            at: None,
            segments: Vec::new(),
            what: What::Other(message.to_string()),
        }
    }

    /// Sets the position, unless an inner value has set it.
    fn or_at(mut self, at: Position) -> Self {
        self.at.get_or_insert(at);
        self
    }

    fn inside(mut self, segment: Segment) -> Self {
        self.segments.push(segment);
        self
    }

    /// The path of the value, for example `spec.rules[0].verbs`; empty for the document itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.segments.iter().rev() {
            match segment {
                Segment::Field(name) if path.is_empty() => path.push_str(name),
                Segment::Field(name) => path.extend([".", name]),
                Segment::Item(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// What is wrong, in one clause that names the path and `whose` document it is (`Reconciler hello`).
    pub fn message(&self, whose: &str) -> String {
        let path = self.path();
        let of = if path.is_empty() {
            whose.to_owned()
        } else {
            format!("{path} of {whose}")
        };
        match &self.what {
            What::UnknownField { field, remedy } => {
                format!("unknown field {field:?} in {of}: {remedy}")
            }
            What::MissingField(field) => format!("field {field:?} is missing in {of}: add it"),
            What::Other(message) => format!("{of}: {message}"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message("the document"))
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::other(message)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::other(format!(
            "expected {}, found {}",
            plain_expected(expected),
            plain_found(found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::other(format!(
            "expected {}, found {}",
            plain_expected(expected),
            plain_found(found)
        ))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::other(format!(
            "{variant:?} is not known: {}",
            remedy(variant, expected)
        ))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let what = What::UnknownField {
            field: field.to_owned(),
            remedy: remedy(field, expected),
        };
        Self {
            at: None,
            segments: Vec::new(),
            what,
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            at: None,
            segments: Vec::new(),
            what: What::MissingField(field),
        }
    }
}

/// `did you mean "tenant"?`, or the list of choices.
fn remedy(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(candidate) => format!("did you mean {candidate:?}?"),
        None if known.is_empty() => "nothing is allowed here".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    }
}

fn plain_expected(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "a sequence" => "a list".to_owned(),
        "a string" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        other if other.starts_with("struct ") || other == "a map" => "a mapping".to_owned(),
        _ => text,
    }
}

fn plain_found(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Str(text) => format!("the text {text:?}"),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a mapping".to_owned(),
        other => other.to_string(),
    }
}

impl Node {
    /// Decodes this tree.
    ///
    /// # Errors
    /// [`DecodeError`], for the first value that does not fit.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        T::deserialize(self).map_err(|error| error.or_at(self.at))
    }
}

impl<'de> de::Deserializer<'de> for &'de Node {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let value = match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) if *value >= 0 => visitor.visit_u64(value.unsigned_abs()),
            Value::Integer(value) => visitor.visit_i64(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(Items { items, next: 0 }),
            Value::Map(entries) => visitor.visit_map(Entries { entries, next: 0 }),
        };
        value.map_err(|error: DecodeError| error.or_at(self.at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor
            .visit_newtype_struct(self)
            .map_err(|error: DecodeError| error.or_at(self.at))
    }

    /// `spec:` without a value is a mapping without fields. A list is none: serde would take its items for fields, in their order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::Null => visitor
                .visit_map(Entries {
                    entries: &[],
                    next: 0,
                })
                .map_err(|error| error.or_at(self.at)),
            Value::List(_) => {
                let error: DecodeError = de::Error::invalid_type(Unexpected::Seq, &visitor);
                Err(error.or_at(self.at))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    /// Enums of configuration are words, without a payload.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let result = match &self.value {
            Value::Text(text) => visitor
                .visit_enum::<StrDeserializer<'_, DecodeError>>(text.as_str().into_deserializer()),
            _ => self.deserialize_any(visitor),
        };
        result.map_err(|error| error.or_at(self.at))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'de> {
    items: &'de [Node],
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(item) = self.items.get(self.next) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(item)
            .map(Some)
            .map_err(|error| error.or_at(item.at).inside(Segment::Item(index)))
    }
}

struct Entries<'de> {
    entries: &'de [(Key, Node)],
    /// The next entry. serde asks for its key, then for its value.
    next: usize,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        let Some((key, _)) = self.entries.get(self.next) else {
            return Ok(None);
        };
        let deserializer: StrDeserializer<'_, DecodeError> = key.text.as_str().into_deserializer();
        seed.deserialize(deserializer)
            .map(Some)
            .map_err(|error| error.or_at(key.at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, DecodeError> {
        let Some((key, node)) = self.entries.get(self.next) else {
            return Err(DecodeError::other("a value was asked for twice"));
        };
        self.next += 1;
        seed.deserialize(node).map_err(|error| {
            error
                .or_at(node.at)
                .inside(Segment::Field(key.text.clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::document::tree::parse;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Outer {
        count: u32,
        #[serde(default)]
        items: Vec<Inner>,
        flag: Option<bool>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Inner {
        mode: Mode,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    enum Mode {
        Fresh,
        Reuse,
    }

    fn decode(text: &str) -> Result<Outer, String> {
        parse(text, 0).unwrap().decode::<Outer>().map_err(|error| {
            let at = error.at.unwrap();
            format!("{}:{}: {}", at.line, at.column, error.message("Thing x"))
        })
    }

    #[test]
    fn what_fits_is_decoded() {
        let outer =
            decode("count: 3\nitems: [{mode: fresh}, {mode: reuse}]\nflag:\nlabels: {a: b}\n")
                .unwrap();
        assert_eq!(
            outer.items,
            [Inner { mode: Mode::Fresh }, Inner { mode: Mode::Reuse }]
        );
        assert_eq!((outer.count, outer.flag, outer.labels.len()), (3, None, 1));
    }

    #[test]
    fn what_does_not_fit_is_told_with_path_place_and_remedy() {
        for (text, expected) in [
            (
                "count: 1\ncuont: 2\n",
                "2:1: unknown field \"cuont\" in Thing x: did you mean \"count\"?",
            ),
            (
                "count: 1\nzzz: 2\n",
                "2:1: unknown field \"zzz\" in Thing x: use one of count, items, flag, labels",
            ),
            (
                "count: 1\nitems:\n- mdoe: fresh\n",
                "3:3: unknown field \"mdoe\" in items[0] of Thing x: did you mean \"mode\"?",
            ),
            (
                "count: 1\nitems:\n- mode: frsh\n",
                "3:9: items[0].mode of Thing x: \"frsh\" is not known: did you mean \"fresh\"?",
            ),
            (
                "count: 1\nitems: [{}]\n",
                "2:9: field \"mode\" is missing in items[0] of Thing x: add it",
            ),
            (
                "items: []\n",
                "1:1: field \"count\" is missing in Thing x: add it",
            ),
            (
                "count: many\n",
                "1:8: count of Thing x: expected a whole number, 0 or more, found the text \"many\"",
            ),
            (
                "count: -1\n",
                "1:8: count of Thing x: expected a whole number, 0 or more, found -1",
            ),
            (
                "count: 1\nitems: x\n",
                "2:8: items of Thing x: expected a list, found the text \"x\"",
            ),
            (
                "count: 1\nitems: [x]\n",
                "2:9: items[0] of Thing x: expected a mapping, found the text \"x\"",
            ),
            (
                "count: 1\nflag: 1\n",
                "2:7: flag of Thing x: expected true or false, found 1",
            ),
            (
                "count: 1\nlabels: {a: 1}\n",
                "2:13: labels.a of Thing x: expected a text, found 1",
            ),
        ] {
            assert_eq!(decode(text).unwrap_err(), expected, "{text}");
        }
    }
}
