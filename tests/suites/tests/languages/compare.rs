//! Traces made comparable, and where they differ. Entry points: [`normal`] and [`differences`].

use crate::stage::Traces;
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Characters of a line that are shown around a difference.
const AROUND: usize = 240;

/// What differs from run to run although the same is done, and what stands for it. Numbers are given in the order in which
/// values are met.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let pairs = [
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
        (r"http://127\.0\.0\.1:\d+", "SERVER"),
        (r"\bports: \[\d+\]", "ports: [PORT]"),
        (r#"\bcannot reach [^"]*"#, "cannot reach"),
        (r"\bcontinue=[^& ]+", "continue=TOKEN"),
        (r#""resourceVersion":"\d+""#, "VERSION"),
        (r"\b(?:record|ResourceVersion in record) \(\d+\)", "RECORD"),
    ];
    let compiled = pairs.map(|(pattern, name)| (Regex::new(pattern).expect("a pattern"), name));
    compiled.into()
});

/// The lines of a case with what varies replaced by names.
pub(crate) fn normal(lines: Vec<String>, tenant: &str) -> Vec<String> {
    let mut met: Vec<String> = Vec::new();
    let mut normal = |line: String| {
        let line = line.replace(tenant, "TENANT");
        VARYING.iter().fold(line, |line, (pattern, name)| {
            let named = |found: &Captures<'_>| {
                let value = &found[0];
                let at = met.iter().position(|known| known == value);
                let at = at.unwrap_or_else(|| {
                    met.push(value.to_owned());
                    met.len() - 1
                });
                // Times and addresses are equal by chance or not at all; identities mean something.
                match *name {
                    "UID" | "VERSION" => {
                        let kind = |known: &&String| pattern.is_match(known);
                        let number = met[..at].iter().filter(kind).count();
                        format!("{name}{number}")
                    }
                    _ => (*name).to_owned(),
                }
            };
            pattern.replace_all(&line, named).into_owned()
        })
    };
    lines.into_iter().map(&mut normal).collect()
}

/// A paragraph for each case that is not as the reference has it.
pub(crate) fn differences(reference: &Traces, other: &Traces) -> Vec<String> {
    let cases = reference.iter();
    cases
        .filter_map(|(case, expected)| {
            let empty = Vec::new();
            let found = other.get(case).unwrap_or(&empty);
            difference(expected, found).map(|text| format!("case {case}, {text}"))
        })
        .collect()
}

fn difference(expected: &[String], found: &[String]) -> Option<String> {
    let longest = expected.len().max(found.len());
    let at = (0..longest).find(|at| expected.get(*at) != found.get(*at))?;
    let end = "(nothing more)".to_owned();
    let (native, this) = (
        expected.get(at).unwrap_or(&end),
        found.get(at).unwrap_or(&end),
    );
    let before = at
        .checked_sub(1)
        .map_or("(the beginning)", |at| &expected[at]);
    let same = native
        .char_indices()
        .zip(this.chars())
        .find(|((_, a), b)| a != b)
        .map_or(native.len().min(this.len()), |((at, _), _)| at);
    Some(format!(
        "line {}, after: {}\n   native: {}\n    other: {}",
        at + 1,
        part(before, 0),
        part(native, same),
        part(this, same)
    ))
}

/// What of a line stands around a place.
fn part(line: &str, at: usize) -> String {
    let start = line.floor_char_boundary(at.saturating_sub(AROUND));
    let end = line.floor_char_boundary((at + AROUND).min(line.len()));
    let dots = |cut: bool| if cut { "…" } else { "" };
    format!(
        "{}{}{}",
        dots(start > 0),
        &line[start..end],
        dots(end < line.len())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn identities_are_numbered_and_times_are_not() {
        let (a, b) = (
            "11111111-2222-3333-4444-555555555555",
            "11111111-2222-3333-4444-666666666666",
        );
        let said = normal(
            vec![
                format!("of-go {a} then {b} then {a}"),
                r#""resourceVersion":"7" 2026-01-01T00:00:00Z"#.into(),
            ],
            "of-go",
        );
        assert_eq!(said, ["TENANT UID0 then UID1 then UID0", "VERSION0 TIME"]);
    }

    #[test]
    fn the_first_line_that_differs_is_shown_with_both_sides() {
        let expected = lines(&["a", "b"]);
        assert_eq!(difference(&expected, &expected), None);
        let text = difference(&expected, &lines(&["a", "c"])).expect("they differ");
        assert_eq!(text, "line 2, after: a\n   native: b\n    other: c");
        let text = difference(&expected, &lines(&["a"])).expect("they differ");
        assert!(
            text.ends_with("native: b\n    other: (nothing more)"),
            "{text}"
        );
    }
}
