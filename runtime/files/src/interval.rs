//! Lengths of time as people write them. Entry point: [`Interval`].

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time: `500ms`, `10s`, `1m30s`, `2h`. At most a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval(pub Duration);

const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("ms", 1), ("m", 60_000), ("s", 1000)];
const YEAR_MS: u64 = 365 * 24 * 3_600_000;

impl Interval {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || {
            format!(
                "{text:?} is not a duration: write numbers with units, for example 10s, 1m30s or 500ms"
            )
        };
        let mut rest = text;
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number: u64 = rest[..digits].parse().map_err(|_| error())?;
            rest = &rest[digits..];
            let (unit, factor) = UNITS
                .into_iter()
                .find(|(unit, _)| rest.starts_with(unit))
                .ok_or_else(error)?;
            rest = &rest[unit.len()..];
            total = number
                .checked_mul(factor)
                .and_then(|ms| total.checked_add(ms))
                .ok_or_else(error)?;
        }
        match total {
            _ if text.is_empty() => Err(error()),
            0..=YEAR_MS => Ok(Self(Duration::from_millis(total))),
            _ => Err(format!("{text:?} is longer than a year")),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.as_millis();
        let (hours, minutes) = (total / 3_600_000, total / 60_000 % 60);
        let (seconds, millis) = (total / 1000 % 60, total % 1000);
        for (value, unit) in [(hours, "h"), (minutes, "m"), (seconds, "s"), (millis, "ms")] {
            if value > 0 {
                write!(f, "{value}{unit}")?;
            }
        }
        if total == 0 {
            f.write_str("0s")
        } else {
            Ok(())
        }
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntervalVisitor)
    }
}

impl JsonSchema for Interval {
    fn schema_name() -> Cow<'static, str> {
        "Interval".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([0-9]+(h|m|s|ms))+$", "maxLength": 32})
    }
}

struct IntervalVisitor;

impl de::Visitor<'_> for IntervalVisitor {
    type Value = Interval;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 10s or 1m30s")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Interval, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Interval, E> {
        Err(E::custom(format!(
            "{number} has no unit: write for example {number}s"
        )))
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed() {
        for (text, ms, printed) in [
            ("10s", 10_000, "10s"),
            ("1m30s", 90_000, "1m30s"),
            ("90s", 90_000, "1m30s"),
            ("2h", 7_200_000, "2h"),
            ("500ms", 500, "500ms"),
            ("0s", 0, "0s"),
        ] {
            let interval: Interval = text.parse().unwrap();
            assert_eq!(
                (interval.0.as_millis(), interval.to_string().as_str()),
                (ms, printed)
            );
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "1.5s",
            "10 s",
            "1d",
            "99999999999999999999s",
            "9000h",
            "1m30",
        ] {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
    }
}
