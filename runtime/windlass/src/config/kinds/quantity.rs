//! Amounts of memory and of processors as people write them. Entry points: [`Bytes`] and [`Processors`].

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A number of bytes, written as Kubernetes quantities are: `512Mi`, `1Gi`, `64M`, `65536`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) u64);

const UNITS: [(&str, u64); 8] = [
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1000),
];

impl Bytes {
    /// As many, or as many as there can be.
    pub(crate) fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error =
            || format!("{text:?} is not an amount of memory: write for example 512Mi or 1Gi");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = text[..digits].parse().map_err(|_| error())?;
        let factor = match &text[digits..] {
            "" => 1,
            unit => UNITS
                .into_iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, factor)| factor)
                .ok_or_else(error)?,
        };
        number.checked_mul(factor).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = UNITS[..4]
            .iter()
            .find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor));
        match binary {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true, "pattern": "^[0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?$", "maxLength": 24,
        })
    }
}

struct BytesVisitor;

impl de::Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount of memory such as 512Mi")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Bytes, E> {
        Ok(Bytes(number))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Processors, in thousandths, written as Kubernetes quantities are: `500m`, `2`, `1.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Processors(pub(crate) u32);

impl FromStr for Processors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error =
            || format!("{text:?} is not a number of processors: write for example 500m or 2");
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if let Some(millis) = text.strip_suffix('m').filter(|millis| digits(millis)) {
            return millis.parse().map(Self).map_err(|_| error());
        }
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        if !digits(whole) || !digits(part) || part.len() > 3 {
            return Err(error());
        }
        let whole: u32 = whole.parse().map_err(|_| error())?;
        let part: u32 = format!("{part:0<3}").parse().map_err(|_| error())?;
        let millis = whole.checked_mul(1000).and_then(|m| m.checked_add(part));
        millis.map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) {
            write!(f, "{}", self.0 / 1000)
        } else {
            write!(f, "{}m", self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Processors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ProcessorsVisitor)
    }
}

impl JsonSchema for Processors {
    fn schema_name() -> Cow<'static, str> {
        "Processors".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true, "pattern": "^[0-9]+(m|[.][0-9]{1,3})?$", "maxLength": 24,
        })
    }
}

struct ProcessorsVisitor;

impl de::Visitor<'_> for ProcessorsVisitor {
    type Value = Processors;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of processors such as 500m or 2")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Processors, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Processors, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Processors, E> {
        number.to_string().parse().map_err(E::custom)
    }
}

impl Serialize for Processors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_and_printed() {
        for (text, millis, printed) in [
            ("500m", 500, "500m"),
            ("2", 2000, "2"),
            ("1.5", 1500, "1500m"),
            ("0.25", 250, "250m"),
            ("2000m", 2000, "2"),
        ] {
            let read: Processors = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (millis, printed));
        }
        assert_eq!(serde_json::from_str::<Processors>("1.5").unwrap().0, 1500);
        for text in [
            "", "m", "-1", "1.", ".5", "1.0001", "2 m", "two", "99999999",
        ] {
            assert!(text.parse::<Processors>().is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_are_read_and_printed() {
        for (text, bytes, printed) in [
            ("512Mi", 512 << 20, "512Mi"),
            ("1024Mi", 1 << 30, "1Gi"),
            ("64M", 64_000_000, "62500Ki"),
            ("7", 7, "7"),
            ("0", 0, "0"),
        ] {
            let amount: Bytes = text.parse().unwrap();
            assert_eq!((amount.0, amount.to_string().as_str()), (bytes, printed));
        }
    }

    #[test]
    fn what_is_not_an_amount_is_refused() {
        for text in [
            "",
            "Mi",
            "-1Mi",
            "1.5Gi",
            "512 Mi",
            "512mi",
            "512MB",
            "99999999999Ti",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
