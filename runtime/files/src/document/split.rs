//! Splits a file into its documents. Entry point: [`split`].

use crate::document::Problem;
use crate::document::tree::{self, Node};
use std::sync::Arc;

/// One document of a file. Documents are parsed one by one, so a broken one does not affect the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// The document's text, its `---` line included.
    pub text: &'a str,
    /// Lines of the file before `text`.
    pub lines_before: u32,
}

/// Splits a file at its document markers. Documents with comments only are left out.
///
/// Every line of `---`, alone or before white space, is a marker: YAML allows no such line inside a value.
pub fn split(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    let (mut offset, mut line_number) = (0, 0);
    for line in text.split_inclusive('\n') {
        if is_marker(line) && offset > start {
            push(&mut parts, &text[start..offset], start_line);
            (start, start_line) = (offset, line_number);
        }
        offset += line.len();
        line_number += 1;
    }
    push(&mut parts, &text[start..], start_line);
    parts
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn push<'a>(parts: &mut Vec<Part<'a>>, text: &'a str, lines_before: u32) {
    let holds_something = text.lines().any(|line| {
        let line = line
            .strip_prefix("---")
            .filter(|_| is_marker(line))
            .unwrap_or(line)
            .trim();
        !line.is_empty() && !line.starts_with('#') && line != "..."
    });
    if holds_something {
        parts.push(Part { text, lines_before });
    }
}

impl Part<'_> {
    /// Parses the document into values with their positions in the file.
    ///
    /// # Errors
    /// A [`Problem`] of `file`, if the text is not YAML.
    pub fn parse(&self, file: &Arc<str>) -> Result<Node, Problem> {
        tree::parse(self.text, self.lines_before).map_err(|(position, message)| match position {
            Some(position) => Problem::at(file, position, message),
            None => Problem::of_file(file, message),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_cut_at_markers_and_keep_their_lines() {
        let text =
            "# head\na: 1\n---\n# only a comment\n---\nb: |\n  --- not a marker\n--- # c\nc: 3\n";
        let parts: Vec<_> = split(text)
            .iter()
            .map(|p| (p.lines_before, p.text.lines().last().unwrap_or("")))
            .collect();
        assert_eq!(parts, [(0, "a: 1"), (4, "  --- not a marker"), (7, "c: 3")]);
    }

    #[test]
    fn an_empty_text_has_no_documents() {
        assert!(split("").is_empty() && split("# nothing\n---\n...\n").is_empty());
    }
}
