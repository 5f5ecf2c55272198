//! Formats of texts in the schemas of CRDs: [`fits`]. A format that a server does not know is none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::base64;
use crate::duration;

/// Formats that are a pattern.
const PATTERNS: [(&str, &str); 15] = [
    (
        "uuid",
        r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$",
    ),
    (
        "uuid3",
        r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$",
    ),
    (
        "uuid4",
        r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$",
    ),
    (
        "uuid5",
        r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$",
    ),
    ("email", r"^[^@\s]+@[^@\s]+$"),
    (
        "hostname",
        r"^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.?$",
    ),
    ("uri", r"^([a-zA-Z][a-zA-Z0-9+.-]*:|/)\S*$"),
    (
        "mac",
        r"(?i)^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}(([:-][0-9a-f]{2}){2})?$|^([0-9a-f]{4}\.){2,3}[0-9a-f]{4}$",
    ),
    ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    (
        "rgbcolor",
        r"^rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)$",
    ),
    ("bsonobjectid", "^[0-9a-fA-F]{24}$"),
    ("creditcard", r"^[\d -]{13,23}$"),
    ("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
    ("k8s-short-name", "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
    (
        "k8s-long-name",
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    ),
];

pub(super) fn fits(format: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
        let compiled = PATTERNS
            .iter()
            .filter_map(|(name, pattern)| Some((*name, Regex::new(pattern).ok()?)));
        compiled.collect()
    });
    if let Some((_, pattern)) = COMPILED.iter().find(|(name, _)| *name == format) {
        return pattern.is_match(text);
    }
    match format {
        // With a `T` and a zone.
        "date-time" | "datetime" => {
            text.get(10..11).is_some_and(|letter| "Tt".contains(letter))
                && text.parse::<jiff::Timestamp>().is_ok()
        }
        "duration" => duration::parse_format(text).is_some(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "byte" => base64::check(text).is_ok(),
        "isbn" => isbn(text, 10) || isbn(text, 13),
        "isbn10" => isbn(text, 10),
        "isbn13" => isbn(text, 13),
        _ => true,
    }
}

fn cidr(text: &str) -> bool {
    let parts = text.split_once('/');
    parts.is_some_and(|(address, bits)| {
        let most = match address.parse() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    })
}

/// Digits with a check digit; dashes and blanks do not count.
fn isbn(text: &str, length: usize) -> bool {
    let digits: Vec<u32> = text
        .chars()
        .filter(|letter| !matches!(letter, '-' | ' '))
        .map(|letter| {
            if letter == 'X' {
                10
            } else {
                letter.to_digit(10).unwrap_or(100)
            }
        })
        .collect();
    if digits.len() != length || digits.iter().any(|digit| *digit > 10) {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .enumerate()
        .map(|(at, digit)| match length {
            10 => digit * (10 - u32::try_from(at).unwrap_or_default()),
            _ => digit * if at % 2 == 0 { 1 } else { 3 },
        })
        .sum();
    sum.is_multiple_of(if length == 10 { 11 } else { 10 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        for (name, pattern) in PATTERNS {
            assert!(Regex::new(pattern).is_ok(), "{name}");
        }
        assert!(
            fits("isbn", "0321751043")
                && fits("isbn13", "978-0321751041")
                && !fits("isbn10", "0321751044")
        );
        assert!(
            fits("cidr", "10.0.0.0/8") && !fits("cidr", "10.0.0.0/33") && !fits("cidr", "10.0.0.0")
        );
        assert!(
            fits("date-time", "2026-01-01T00:00:00+01:00")
                && !fits("datetime", "2026-13-01T00:00:00Z")
        );
        assert!(
            !fits("date-time", "2026-01-01T00:00:00") && !fits("date-time", "2026-01-01 00:00:00Z")
        );
        assert!(fits("k8s-short-name", "a-b") && !fits("hostname", "a b") && fits("nothing", "x"));
    }
}
