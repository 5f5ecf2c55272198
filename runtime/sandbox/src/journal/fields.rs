//! The fields of a guest's log line, within bounds. Entry point: [`LogFields`].

use crate::clean::clean;
use std::error::Error;
use std::fmt;

/// Most fields of a line.
const FIELDS: usize = 32;
/// Longest name of a field, in bytes.
const FIELD_NAME: usize = 64;
/// Longest value of a field, in bytes.
const FIELD_VALUE: usize = 1024;

/// The fields of a guest's log line. Events carry them in their field `fields`.
///
/// An event can carry a value of a type of ours only as an [`Error`]. A layer that writes JSON finds the fields with `downcast_ref`.
/// Every other layer writes them as `name=value name="two words"`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFields(Vec<(String, String)>);

impl LogFields {
    /// As many as are allowed, each cut to its bound.
    pub(super) fn of(fields: &[(String, String)]) -> Self {
        let kept = fields.iter().take(FIELDS);
        let kept = kept.map(|(name, value)| (clean(name, FIELD_NAME), clean(value, FIELD_VALUE)));
        Self(kept.collect())
    }

    /// Names and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the line that they take.
    pub(super) fn cost(&self) -> usize {
        self.pairs()
            .map(|(name, value)| name.len() + value.len() + 2)
            .sum()
    }
}

impl fmt::Display for LogFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.pairs().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(f, "{space}{}={}", Word(name), Word(value))?;
        }
        Ok(())
    }
}

impl Error for LogFields {}

/// A word, in quotation marks where it would look like more than one.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separates =
            |character: char| character.is_whitespace() || matches!(character, '"' | '=');
        if self.0.is_empty() || self.0.contains(separates) {
            write!(f, "{:?}", self.0)
        } else {
            f.write_str(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &[(&str, &str)]) -> String {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        LogFields::of(&fields.collect::<Vec<_>>()).to_string()
    }

    #[test]
    fn fields_are_bounded_and_quoted_where_needed() {
        assert_eq!(
            shown(&[("who", "world"), ("text", "two words")]),
            "who=world text=\"two words\""
        );
        assert_eq!(shown(&[("x tenant=good y", "z")]), "\"x tenant=good y\"=z");
        let many: Vec<_> = (0..100).map(|n| (format!("f{n}"), String::new())).collect();
        assert_eq!(LogFields::of(&many).pairs().count(), FIELDS);
    }
}
