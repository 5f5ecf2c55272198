//! Values of built-in kinds that Go reads into a type of its own, quantities, times and bytes: [`settle`] checks one and writes it
//! as the server stores it.

use jiff::Timestamp;
use serde_json::Value;

use super::Schema;
use crate::base64;
use crate::quantity::{FORM, Quantity};

/// # Errors
/// The decoder's words about a value that is not of its type.
pub(crate) fn settle(value: &mut Value, schema: Schema<'_>) -> Result<(), String> {
    match schema.type_name() {
        Some("Quantity") => return quantity(value),
        Some("Time") => return time(value, "2006-01-02T15:04:05Z07:00"),
        Some("MicroTime") => return time(value, "2006-01-02T15:04:05.000000Z07:00"),
        _ => {}
    }
    let text = value.as_str().filter(|_| schema.format() == Some("byte"));
    text.map_or(Ok(()), |text| {
        base64::check(text).map_err(|at| format!("illegal base64 data at input byte {at}"))
    })
}

fn quantity(value: &mut Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(FORM.to_owned()),
    };
    let quantity = Quantity::parse(text.trim()).ok_or_else(|| FORM.to_owned())?;
    *value = quantity.canonical().into();
    Ok(())
}

fn time(value: &mut Value, layout: &str) -> Result<(), String> {
    let Some(text) = value.as_str() else {
        return Ok(());
    };
    if let Some((rest, element)) = mismatch(text, layout) {
        return Err(format!(
            "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"
        ));
    }
    let time: Timestamp = text
        .parse()
        .map_err(|_| format!("parsing time {text:?}: day out of range"))?;
    let micro = layout.contains(".000000");
    let form = if micro {
        "%Y-%m-%dT%H:%M:%S.%6fZ"
    } else {
        "%Y-%m-%dT%H:%M:%SZ"
    };
    *value = time.strftime(form).to_string().into();
    Ok(())
}

/// What is left of a text at the first element of Go's layout that it does not have, and that element.
fn mismatch<'a>(text: &'a str, layout: &str) -> Option<(&'a str, &'static str)> {
    let mut rest = text;
    for element in [
        "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05",
    ] {
        let digits = element.bytes().all(|byte| byte.is_ascii_digit());
        let length = if digits {
            let head = rest.as_bytes().get(..element.len());
            head.is_some_and(|head| head.iter().all(u8::is_ascii_digit))
                .then_some(element.len())
        } else {
            rest.starts_with(element).then_some(element.len())
        };
        let Some(length) = length else {
            return Some((rest, element));
        };
        rest = &rest[length..];
    }
    let fraction = rest
        .strip_prefix('.')
        .map(|digits| digits.bytes().take_while(u8::is_ascii_digit).count());
    if layout.contains(".000000") && fraction != Some(6) {
        return Some((rest, ".000000"));
    }
    if let Some(digits) = fraction {
        rest = &rest[digits + 1..];
    }
    let zone =
        rest == "Z" || (rest.len() == 6 && rest.starts_with(['+', '-']) && &rest[3..4] == ":");
    (!zone).then_some((rest, "Z07:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_does_and_kept_in_utc() {
        let mut value = Value::from("2026-01-01T02:00:00.5+02:00");
        time(&mut value, "2006-01-02T15:04:05Z07:00").unwrap();
        assert_eq!(value, "2026-01-01T00:00:00Z");
        let micro = "2006-01-02T15:04:05.000000Z07:00";
        let mut value = Value::from("2026-01-01T00:00:00.000001Z");
        time(&mut value, micro).unwrap();
        assert_eq!(value, "2026-01-01T00:00:00.000001Z");
        for (text, rest, element) in [
            ("noon", "noon", "2006"),
            ("2026-01-01 00:00:00Z", " 00:00:00Z", "T"),
            ("2026-01-01T00:00:00Z", "Z", ".000000"),
        ] {
            assert_eq!(mismatch(text, micro), Some((rest, element)));
        }
    }
}
