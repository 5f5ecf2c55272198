//! The fields in which two JSON values differ. Entry point: [`differences`].

use serde_json::Value as Json;
use windlass_files::below;

/// Most fields that are shown.
const SHOWN: usize = 10;

/// Most characters of a value that are shown.
const VALUE: usize = 200;

/// A line for each field that differs: what was recorded, and what came.
pub(super) fn differences(recorded: &Json, called: &Json) -> Vec<String> {
    let mut lines = Vec::new();
    walk("", Some(recorded), Some(called), &mut lines);
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

fn walk(path: &str, recorded: Option<&Json>, called: Option<&Json>, lines: &mut Vec<String>) {
    match (recorded, called) {
        (Some(one), Some(other)) if one == other => {}
        (Some(Json::Object(one)), Some(Json::Object(other))) => {
            for (name, value) in one {
                walk(&below(path, name), Some(value), other.get(name), lines);
            }
            for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                walk(&below(path, name), None, Some(value), lines);
            }
        }
        (Some(Json::Array(one)), Some(Json::Array(other))) if one.len() == other.len() => {
            for (index, pair) in one.iter().zip(other).enumerate() {
                walk(
                    &format!("{path}[{index}]"),
                    Some(pair.0),
                    Some(pair.1),
                    lines,
                );
            }
        }
        (one, other) => lines.push(format!("{path}: {} → {}", shown(one), shown(other))),
    }
}

fn shown(value: Option<&Json>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    if text.chars().count() <= VALUE {
        return text;
    }
    text.chars().take(VALUE).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_shown() {
        let recorded = json!({"a": 1, "b": {"c": [1, {"d": "x"}]}, "gone": true});
        let called = json!({"a": 1, "b": {"c": [1, {"d": "y"}]}, "new": [1]});
        assert_eq!(
            differences(&recorded, &called),
            [
                "b.c[1].d: \"x\" → \"y\"",
                "gone: true → nothing",
                "new: nothing → [1]"
            ]
        );
        let long = "x".repeat(300);
        assert!(differences(&json!(long), &json!(1))[0].chars().count() < 220);
    }
}
