//! Request bodies: [`parse`] reads JSON, YAML or protocol buffers and reports fields that were given twice.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::builtin;
use crate::protobuf;
use crate::resource::group_version;
use crate::status::ApiError;

/// Media types of JSON and YAML bodies; an absent one is JSON.
const KNOWN: [&str; 4] = ["", "application/json", "application/yaml", "*/*"];
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Reads a body. YAML is understood where the media type says so; JSON always.
///
/// # Errors
/// 400 with the parser's words, 415 for a media type that is not JSON or YAML.
pub(crate) fn parse(bytes: &[u8], media_type: &str) -> Result<(Value, Vec<String>), ApiError> {
    let yaml = media_type.ends_with("yaml");
    if media_type == PROTOBUF {
        let schema = |api_version: &str, kind: &str| {
            let (group, version) = group_version(api_version);
            builtin::schema_of_kind(group, version, kind)
        };
        return protobuf::decode(bytes, schema).map(|value| (value, Vec::new()));
    }
    if !KNOWN.contains(&media_type) && !media_type.contains("-patch+") {
        let text = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        return Err(ApiError::unsupported_media(text));
    }
    let mut twice = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = Seed {
        path: String::new(),
        twice: &mut twice,
    }
    .deserialize(&mut deserializer)
    .and_then(|value| deserializer.end().map(|()| value));
    match read {
        Ok(value) => Ok((value, twice)),
        Err(_) if yaml => {
            let text = std::str::from_utf8(bytes)
                .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
            let value = serde_saphyr::from_str(text)
                .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
            Ok((value, Vec::new()))
        }
        Err(error) => Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))),
    }
}

/// Builds a value and notes the path of every repeated field.
struct Seed<'a> {
    path: String,
    twice: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed {
            path: format!("{}[{}]", self.path, list.len()),
            twice: self.twice,
        })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let mut seen = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = if self.path.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", self.path)
            };
            if !seen.insert(name.clone()) {
                self.twice.push(path.clone());
            }
            let value = fields.next_value_seed(Seed {
                path,
                twice: self.twice,
            })?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_are_named_and_the_last_one_counts() {
        let (value, twice) = parse(
            br#"{"data": {"a": "1", "a": "2"}, "list": [{"b": 1, "b": 1}]}"#,
            "application/json",
        )
        .unwrap();
        assert_eq!(value["data"]["a"], "2");
        assert_eq!(twice, ["data.a", "list[0].b"]);
    }

    #[test]
    fn yaml_is_read_where_it_is_announced() {
        let (value, _) = parse(b"data:\n  a: b\n", "application/apply-patch+yaml").unwrap();
        assert_eq!(value["data"]["a"], "b");
        assert!(parse(b"data:\n  a: b\n", "application/json").is_err());
    }
}
