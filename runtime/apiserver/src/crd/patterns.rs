//! Patterns in the schemas of a CRD, which a server compiles as Go does. Entry point: [`validate`].

use regex::Regex;

use crate::rules::walk;
use crate::schema::Schema;
use crate::status::FieldError;

/// Go's regular expressions repeat no more often.
const MOST_REPEATS: u32 = 1000;

/// Errors about patterns that are none, or that Go does not take.
pub(super) fn validate(schema: Schema<'_>, path: &str, errors: &mut Vec<FieldError>) {
    walk(schema, path, &mut |path, schema| {
        let pattern = schema.rules().map(|rules| &rules["pattern"]);
        let Some(text) = pattern.and_then(|pattern| pattern.as_str()) else {
            return;
        };
        let wrong = match Regex::new(text) {
            Ok(_) => large_repeat(text).map(|count| format!("invalid repeat count: `{count}`")),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            let detail = format!(
                "must be a valid regular expression, but isn't: error parsing regexp: {wrong}"
            );
            errors.push(FieldError::invalid(
                format!("{path}.pattern"),
                &text.into(),
                &detail,
            ));
        }
    });
}

/// The first repetition that is too large for Go, such as `{1,1024}`.
fn large_repeat(pattern: &str) -> Option<&str> {
    let starts = pattern.match_indices('{').map(|(at, _)| at);
    let mut repeats = starts.filter_map(|at| {
        let (inner, _) = pattern[at + 1..].split_once('}')?;
        let is_repeat = inner
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b',');
        is_repeat.then(|| &pattern[at..at + inner.len() + 2])
    });
    repeats.find(|repeat| {
        let mut counts = repeat.trim_matches(['{', '}']).split(',');
        counts
            .any(|count| !count.is_empty() && count.parse().is_ok_and(|of: u32| of > MOST_REPEATS))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_repeats_a_thousand_times_at_most() {
        for (pattern, found) in [
            ("^a{1,1024}$", Some("{1,1024}")),
            ("^[a-z]{3}-b{1001}", Some("{1001}")),
            ("^a{1,1000}$", None),
            ("^a{1000,}$", None),
            (r"^\{x}$", None),
        ] {
            assert_eq!(large_repeat(pattern), found, "{pattern}");
        }
    }
}
