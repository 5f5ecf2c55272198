//! Amounts of memory as people write them. Entry point: [`Bytes`].

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
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
    /// So many mebibytes.
    pub(crate) const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
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

#[cfg(test)]
mod tests {
    use super::*;

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
