//! YAML values with their positions. Entry point: [`parse`].

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_saphyr::Spanned;
use std::fmt;

/// Line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The position of the value.
    pub at: Position,
    /// The value.
    pub value: Value,
}

/// The value of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, `null` or `~`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A whole number beyond `i64`.
    Unsigned(u64),
    /// Any other number.
    Float(f64),
    /// Everything else that is not a collection.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the text. Keys are unique.
    Map(Vec<(Key, Node)>),
}

/// A step of a path from a value to a value in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the value of this key.
    Field(String),
    /// To the item of this index.
    Item(usize),
}

/// A key of a mapping and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The position of the key.
    pub at: Position,
    /// The key.
    pub text: String,
}

impl Node {
    /// A value that stands nowhere: all of it is at the first position.
    pub fn of(value: &Json) -> Self {
        let at = Position { line: 1, column: 1 };
        let value = match value {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Value::Integer(number),
                (None, Some(number)) => Value::Unsigned(number),
                (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(Self::of).collect()),
            Json::Object(fields) => {
                let entry = |(text, value): (&String, &Json)| {
                    let text = text.clone();
                    (Key { at, text }, Self::of(value))
                };
                Value::Map(fields.iter().map(entry).collect())
            }
        };
        Self { at, value }
    }

    /// The value of a key, if this is a mapping that has the key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries
                .iter()
                .find(|(k, _)| k.text == key)
                .map(|(_, node)| node),
            _ => None,
        }
    }

    /// The text, if this is a text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The position of the value at a path (`spec.rules[0].verbs`), or of the nearest value around it.
    pub fn position_of(&self, path: &str) -> Position {
        let mut node = self;
        for segment in path.split(['.', '[']).filter(|s| !s.is_empty()) {
            let next = match (&node.value, segment.strip_suffix(']')) {
                (Value::List(items), Some(index)) => {
                    index.parse().ok().and_then(|i: usize| items.get(i))
                }
                _ => node.get(segment),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node.at
    }
}

impl Node {
    /// The position of the value at the end of a path, or of a key in it, or of the nearest value around it.
    pub fn position_at(&self, path: &[Step], key: Option<&str>) -> Position {
        let mut node = self;
        for step in path {
            let next = match (step, &node.value) {
                (Step::Item(index), Value::List(items)) => items.get(*index),
                (Step::Field(name), _) => node.get(name),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => return node.at,
            }
        }
        let found = match &node.value {
            Value::Map(entries) => entries.iter().find(|(k, _)| Some(k.text.as_str()) == key),
            _ => None,
        };
        found.map_or(node.at, |(key, _)| key.at)
    }
}

/// Reads one document. `lines_before` is added to every line.
///
/// # Errors
/// The first error of the YAML, and its position.
pub(super) fn parse(text: &str, lines_before: u32) -> Result<Node, (Option<Position>, String)> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let mut node: Node = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let position = error
            .location()
            .map(|at| position(&at))
            .map(|at| at.moved(lines_before));
        (position, syntax_message(&error))
    })?;
    node.shift(lines_before);
    Ok(node)
}

/// The parser's message, without its own position.
fn syntax_message(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    let message = message.split(" at line ").next().unwrap_or(message);
    let message = message
        .split(", set DuplicateKeyPolicy")
        .next()
        .unwrap_or(message);
    format!("this is not valid YAML: {message}")
}

fn position(at: &serde_saphyr::Location) -> Position {
    Position {
        line: u32::try_from(at.line()).unwrap_or(u32::MAX),
        column: u32::try_from(at.column()).unwrap_or(u32::MAX),
    }
}

impl Position {
    fn moved(self, lines: u32) -> Self {
        Self {
            line: self.line.saturating_add(lines),
            ..self
        }
    }
}

impl Node {
    fn shift(&mut self, lines: u32) {
        self.at = self.at.moved(lines);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.shift(lines)),
            Value::Map(entries) => entries.iter_mut().for_each(|(key, node)| {
                key.at = key.at.moved(lines);
                node.shift(lines);
            }),
            _ => {}
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self {
            at: position(&spanned.referenced),
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Unsigned(value), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let key = Key {
                at: position(&key.referenced),
                text: key.value,
            };
            entries.push((key, map.next_value()?));
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, path: &str) -> (u32, u32) {
        let position = parse(text, 0).unwrap().position_of(path);
        (position.line, position.column)
    }

    #[test]
    fn every_value_knows_its_place() {
        let text = "a: 1\nb:\n  c: [x, {d: yes}]\n  e: |\n    text\n";
        assert_eq!(at(text, "a"), (1, 4));
        assert_eq!(at(text, "b.c[0]"), (3, 7));
        assert_eq!(at(text, "b.c[1].d"), (3, 14));
        assert_eq!(
            at(text, "b.c[7]"),
            (3, 6),
            "an absent item has the position of its list"
        );
    }

    #[test]
    fn keys_know_their_place_and_lines_are_shifted() {
        let node = parse("---\na:\n  bb: 1\n", 10).unwrap();
        let Value::Map(entries) = &node.get("a").unwrap().value else {
            panic!("not a mapping")
        };
        assert_eq!(
            entries[0].0,
            Key {
                at: Position {
                    line: 13,
                    column: 3
                },
                text: "bb".into()
            }
        );
    }

    #[test]
    fn plain_words_that_only_old_yaml_took_for_booleans_stay_text() {
        assert_eq!(
            parse("a: no\n", 0).unwrap().get("a").unwrap().value,
            Value::Text("no".into())
        );
        assert_eq!(
            parse("a: \"1\"\n", 0).unwrap().get("a").unwrap().value,
            Value::Text("1".into())
        );
        assert_eq!(
            parse("a:\n", 0).unwrap().get("a").unwrap().value,
            Value::Null
        );
    }

    #[test]
    fn broken_text_is_told_with_its_place() {
        for (text, line) in [
            ("a: [1, 2\nb: 3\n", 2),
            ("a: 1\n b: 2\n", 2),
            ("a: 1\na: 2\n", 2),
            ("a: *nope\n", 1),
            ("a: \"x\n", 1),
        ] {
            let (position, message) = parse(text, 100).unwrap_err();
            let found = position.unwrap().line;
            assert!(
                (100 + line..=102 + line).contains(&found),
                "{text:?}: line {found}: {message}"
            );
            assert!(
                message.starts_with("this is not valid YAML: ") && !message.contains(" line "),
                "{message}"
            );
        }
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let refs = vec![format!("*a{}", level - 1); 9].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
        }
        assert!(parse(&text, 0).is_err());
    }
}
