//! Lengths of time in words: [`parse`] as Go reads them, [`parse_format`] as a schema's `format: duration` allows them too.

use jiff::SignedDuration;

/// Suffixes and how many nanoseconds they stand for.
const UNITS: [(&[&str], f64); 8] = [
    (&["ns", "nano", "nanosecond"], 1.0),
    (&["us", "\u{b5}s", "\u{3bc}s", "micro", "microsecond"], 1e3),
    (&["ms", "milli", "millisecond"], 1e6),
    (&["s", "sec", "second"], 1e9),
    (&["m", "min", "minute"], 6e10),
    (&["h", "hr", "hour"], 3.6e12),
    (&["d", "day"], 8.64e13),
    (&["w", "wk", "week"], 6.048e14),
];
/// Go knows the first name of the first six.
const GO_UNITS: usize = 6;

/// A sign, then numbers with units and nothing between them: `-1h30m`, `1.5s`, `0`.
pub(crate) fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let (number, after) = split(rest, |letter| letter.is_ascii_digit() || letter == '.');
        let (unit, after) = split(after, |letter| !letter.is_ascii_digit() && letter != '.');
        let known = UNITS[..GO_UNITS].iter();
        let (_, factor) = known.clone().find(|(names, _)| {
            names[0] == unit
                || unit.ends_with('s') && names[1..].contains(&unit) && unit.chars().count() == 2
        })?;
        total = total.checked_add(nanos(number, *factor)?)?;
        rest = after;
    }
    signed(if negative { -total } else { total })
}

/// What Go reads, and amounts of units in words: `2w`, `10 days`, `1 hour`.
pub(crate) fn parse_format(text: &str) -> Option<SignedDuration> {
    if let Some(duration) = parse(text) {
        return Some(duration);
    }
    let mut rest = text.trim();
    let mut total = 0_i128;
    let mut found = false;
    while !rest.is_empty() {
        let (number, after) = split(rest, |letter| letter.is_ascii_digit() || letter == '.');
        let (unit, after) = split(after.trim_start(), char::is_alphabetic);
        let singular = unit.strip_suffix('s').filter(|unit| unit.len() > 1);
        let (_, factor) = UNITS.iter().find(|(names, _)| {
            names.contains(&unit) || singular.is_some_and(|unit| names.contains(&unit))
        })?;
        total = total.checked_add(nanos(number, *factor)?)?;
        found = true;
        rest = after.trim_start();
    }
    if found { signed(total) } else { None }
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|letter| !belongs(letter)).unwrap_or(text.len()))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction of a nanosecond is dropped, and the size is checked by the caller"
)]
fn nanos(number: &str, factor: f64) -> Option<i128> {
    let number: f64 = number.parse().ok()?;
    Some((number * factor).round() as i128)
}

fn signed(nanos: i128) -> Option<SignedDuration> {
    i64::try_from(nanos).ok().map(SignedDuration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_both_forms() {
        assert_eq!(parse("1h30m"), Some(SignedDuration::from_mins(90)));
        assert_eq!(parse("-1.5s"), Some(SignedDuration::from_millis(-1500)));
        assert_eq!(parse("100ms"), Some(SignedDuration::from_millis(100)));
        assert_eq!(parse("0"), Some(SignedDuration::ZERO));
        for wrong in ["", "5", "1d", "1 hour", "h", "1hour", "-"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        for (text, hours) in [
            ("1d", 24),
            ("2w", 336),
            ("10 days", 240),
            ("1 hour", 1),
            ("1h 60m", 2),
        ] {
            assert_eq!(
                parse_format(text),
                Some(SignedDuration::from_hours(hours)),
                "{text}"
            );
        }
        for wrong in ["", "5", "no such duration!", "1 moon"] {
            assert_eq!(parse_format(wrong), None, "{wrong}");
        }
    }
}
