//! What the calls of a reconciler share. Entry point: [`IsolationSpec`].

use crate::config::kinds::{Bytes, Interval, Refusal, within};
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
    /// Calls, 1 to 1000000. Default: 100.
    pub(crate) calls: Option<u32>,
    /// Time since its creation, 1s to 24h. Default: 1m.
    pub(crate) age: Option<Interval>,
    /// Its memory after a call, 1Mi to 256Mi. Default: 32Mi.
    pub(crate) memory: Option<Bytes>,
    /// Instances that wait for a call at once, 1 to 64; their memory is charged to the tenant. Default: 4.
    pub(crate) idle: Option<u32>,
}

impl IsolationSpec {
    /// The same for guests, the defaults filled in.
    pub(crate) fn guests(&self) -> Isolation {
        let Some(reuse) = &self.reuse else {
            return Isolation::Fresh;
        };
        let default = Reuse::default();
        Isolation::Reuse(Reuse {
            calls: reuse.calls.unwrap_or(default.calls),
            age: reuse.age.map_or(default.age, |age| age.0),
            memory: reuse.memory.map_or(default.memory, Bytes::count),
            idle: reuse.idle.unwrap_or(default.idle),
        })
    }

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let Some(reuse) = &self.reuse else {
            return Ok(());
        };
        if let Some(calls) = reuse.calls {
            within("spec.isolation.reuse.calls", calls, &(1..=1_000_000))?;
        }
        if let Some(age) = reuse.age {
            let range = Interval::seconds(1)..=Interval::seconds(24 * 3600);
            within("spec.isolation.reuse.age", age, &range)?;
        }
        if let Some(memory) = reuse.memory {
            let range = Bytes::mebibytes(1)..=Bytes::mebibytes(256);
            within("spec.isolation.reuse.memory", memory, &range)?;
        }
        if let Some(idle) = reuse.idle {
            within("spec.isolation.reuse.idle", idle, &(1..=64))?;
        }
        Ok(())
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
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_with_its_path() {
        let spec: IsolationSpec = serde_json::from_str(r#"{"reuse": {"age": "1ms"}}"#).unwrap();
        assert_eq!(spec.check().unwrap_err().path, "spec.isolation.reuse.age");
    }
}
