//! The JSON that a guest and its host exchange, verbatim. Entry point: [`Text`].

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An object, a patch or a configuration. In a file it stands as JSON, byte by byte. What is no object and no list, or would not fit in a line,
/// stands as a string: a guest may hand over any text.
#[derive(Debug, Clone, Default)]
pub struct Text(pub(crate) String);

impl Text {
    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as JSON that can stand in a line of a file.
    fn as_line(&self) -> Option<&RawValue> {
        if !self.0.starts_with(['{', '[']) || self.0.contains(['\n', '\r']) {
            return None;
        }
        let raw: &RawValue = serde_json::from_str(&self.0).ok()?;
        // Without blanks after it.
        (raw.get().len() == self.0.len()).then_some(raw)
    }
}

/// Texts are equal if they are the same JSON, whatever the order of fields.
impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        if self.0 == other.0 {
            return true;
        }
        let parsed = |text: &Self| serde_json::from_str::<Value>(&text.0).ok();
        let (Some(this), Some(that)) = (parsed(self), parsed(other)) else {
            return false;
        };
        this == that
    }
}

impl Eq for Text {}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_line() {
            Some(raw) => raw.serialize(serializer),
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('"') {
            let text = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
            return Ok(Self(text));
        }
        Ok(Self(String::from(Box::<str>::from(raw))))
    }
}

impl JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "JSON, verbatim. What is no object and no list, or has line ends, stands as a string.",
            "type": ["object", "array", "string"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_byte_by_byte() {
        for (text, file) in [
            ("{\"b\":1,\"a\":[1.0]}", "{\"b\":1,\"a\":[1.0]}"),
            ("[ {} ]", "[ {} ]"),
            ("", "\"\""),
            ("{}\n", "\"{}\\n\""),
            ("{\n}", "\"{\\n}\""),
            ("null", "\"null\""),
            ("\"a\"", "\"\\\"a\\\"\""),
            ("{\"a\":", "\"{\\\"a\\\":\""),
        ] {
            let written = serde_json::to_string(&Text(text.to_owned())).unwrap();
            assert_eq!(written, file);
            let read: Text = serde_json::from_str(&written).unwrap();
            assert_eq!(read.as_str(), text);
        }
    }

    #[test]
    fn the_order_of_fields_does_not_matter() {
        let text = |text: &str| Text(text.to_owned());
        assert_eq!(text("{\"a\":1,\"b\":2}"), text("{\"b\":2, \"a\":1}"));
        assert_ne!(text("[1,2]"), text("[2,1]"));
        assert_ne!(text("a"), text("b"));
    }
}
