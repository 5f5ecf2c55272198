//! The `Retry-After` header (RFC 9110 §10.2.3): seconds or a date. Entry point: [`parse`].

use std::time::{Duration, SystemTime};

/// How long to wait, at most `cap`. `None`: not a valid value.
pub(super) fn parse(value: &str, now: SystemTime, cap: Duration) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // Digits fail to parse only if the number is too large.
        return Some(value.parse().map_or(cap, Duration::from_secs).min(cap));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(value)
        .ok()?;
    let wait = SystemTime::from(date)
        .duration_since(now)
        .unwrap_or_default();
    Some(wait.min(cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: Duration = Duration::from_secs(60);

    fn at(value: &str) -> Option<u64> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 10);
        parse(value, now, CAP).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_are_honoured_up_to_the_cap() {
        assert_eq!(at("7"), Some(7));
        assert_eq!(at(" 0 "), Some(0));
        assert_eq!(at("86400"), Some(60));
        assert_eq!(at("99999999999999999999999999"), Some(60));
    }

    #[test]
    fn a_date_is_honoured_up_to_the_cap() {
        assert_eq!(at("Sun, 06 Nov 1994 08:49:37 GMT"), Some(10));
        assert_eq!(at("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(at("Tue, 06 Nov 2040 08:49:37 GMT"), Some(60));
    }

    #[test]
    fn other_values_are_ignored() {
        for value in ["", "-5", "1.5", "soon", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(at(value), None, "{value:?}");
        }
    }
}
