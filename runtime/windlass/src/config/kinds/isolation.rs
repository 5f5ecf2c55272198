//! What the calls of a reconciler share. Entry point: [`IsolationSpec`].

use crate::config::kinds::bounded::{DAY, MI, SECOND};
use crate::config::kinds::{Bytes, Interval, Within};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::borrow::Cow;
use std::fmt;
use windlass_sandbox::{Isolation, Reuse};

/// What calls share: nothing (`fresh`), or instances (`reuse`, or bounds for it).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IsolationSpec {
    /// An instance serves several calls, one after the other, and the guest's memory is kept between them. Default: not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reuse: Option<ReuseSpec>,
}

/// What one instance may serve; whichever bound is reached first ends it, and so does a call that fails by more than an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ReuseSpec {
    /// Calls. Default: 100.
    pub(crate) calls: Option<Within<u32, 1, 1_000_000>>,
    /// Time since its creation. Default: 1m.
    pub(crate) age: Option<Within<Interval, SECOND, DAY>>,
    /// Its memory after a call. Default: 32Mi.
    pub(crate) memory: Option<Within<Bytes, MI, { 256 * MI }>>,
    /// Instances that wait for a call at once; their memory is charged to the tenant. Default: 4.
    pub(crate) idle: Option<Within<u32, 1, 64>>,
}

impl IsolationSpec {
    /// The same for guests, the defaults filled in.
    pub(crate) fn guests(&self) -> Isolation {
        let Some(reuse) = &self.reuse else {
            return Isolation::Fresh;
        };
        let default = Reuse::default();
        Isolation::Reuse(Reuse {
            calls: reuse.calls.map_or(default.calls, Within::get),
            age: reuse.age.map_or(default.age, |age| age.get().0),
            memory: reuse
                .memory
                .map_or(default.memory, |size| size.get().count()),
            idle: reuse.idle.map_or(default.idle, Within::get),
        })
    }
}

impl JsonSchema for IsolationSpec {
    fn schema_name() -> Cow<'static, str> {
        Bounds::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Bounds::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for IsolationSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
    }
}

/// What stands under `isolation`, if that is no word.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IsolationSpec")]
struct Bounds {
    /// An instance serves several calls, one after the other, and the guest's memory is kept between them. Default: not.
    reuse: Option<ReuseSpec>,
}

struct Words;

impl<'de> de::Visitor<'de> for Words {
    type Value = IsolationSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fresh, reuse, or bounds such as {reuse: {calls: 100}}")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<IsolationSpec, E> {
        match word {
            "fresh" => Ok(IsolationSpec::default()),
            "reuse" => Ok(IsolationSpec {
                reuse: Some(ReuseSpec::default()),
            }),
            _ => Err(E::unknown_variant(word, &["fresh", "reuse"])),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<IsolationSpec, A::Error> {
        let bounds = Bounds::deserialize(MapAccessDeserializer::new(map))?;
        Ok(IsolationSpec {
            reuse: bounds.reuse,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_word_or_bounds() {
        let read =
            |json: &str| serde_json::from_str::<IsolationSpec>(json).map(|spec| spec.guests());
        assert_eq!(read(r#""fresh""#).unwrap(), Isolation::Fresh);
        let reuse = Isolation::Reuse(Reuse::default());
        assert_eq!(read(r#""reuse""#).unwrap(), reuse);
        let bounds = Reuse {
            calls: 3,
            memory: 1 << 20,
            ..Reuse::default()
        };
        let given = r#"{"reuse": {"calls": 3, "memory": "1Mi"}}"#;
        assert_eq!(read(given).unwrap(), Isolation::Reuse(bounds));
        assert!(read(r#"{"reuse": {"call": 3}}"#).is_err());
        assert!(read(r#""often""#).is_err());
        assert!(read(r#"{"reuse": {"age": "1ms"}}"#).is_err());
    }
}
