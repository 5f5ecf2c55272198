//! Makes a guest's text safe for logs, status pages and terminals. Entry points: [`clean`] and [`clean_lines`].
//!
//! Every text that a guest or its component chooses is cleaned where it enters the host: log lines, failures, names of functions, and
//! quotes of the compiler. So no such text forges a log line, drives a terminal, or hides the text beside it.

use std::fmt::Write as _;

/// A text in one line of at most `limit` bytes, plus an ellipsis if it was cut. Line ends and tabs become blanks. Other control characters,
/// separators of lines and paragraphs, and characters that change the direction of writing are escaped.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    clean_lines(text, limit, 1)
}

/// The same in at most so many lines: line ends after them become blanks. Who shows the text has to set lines after the first apart.
pub(crate) fn clean_lines(text: &str, limit: usize, lines: usize) -> String {
    let mut cleaned = String::with_capacity(text.len().min(limit));
    let mut more_lines = lines.saturating_sub(1);
    for character in text.chars() {
        let before = cleaned.len();
        match character {
            '\n' if more_lines > 0 => {
                more_lines -= 1;
                cleaned.push('\n');
            }
            '\n' | '\t' => cleaned.push(' '),
            character if is_harmful(character) => {
                let written = write!(cleaned, "{}", character.escape_unicode());
                debug_assert!(written.is_ok(), "writing to a string does not fail");
            }
            character => cleaned.push(character),
        }
        if cleaned.len() > limit {
            cleaned.truncate(before);
            cleaned.push('…');
            break;
        }
    }
    cleaned
}

fn is_harmful(character: char) -> bool {
    let separates = matches!(character, '\u{2028}' | '\u{2029}');
    let turns = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || separates || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_can_neither_forge_a_line_nor_drive_a_terminal() {
        assert_eq!(clean("a\nERROR b\u{1b}[2J", 100), "a ERROR b\\u{1b}[2J");
        assert_eq!(
            clean("a\u{2028}b\u{202e}c\u{9b}", 100),
            "a\\u{2028}b\\u{202e}c\\u{9b}"
        );
        assert_eq!(clean("\r\u{2066}\u{200f}", 100), "\\u{d}\\u{2066}\\u{200f}");
    }

    #[test]
    fn lines_are_kept_up_to_a_number() {
        assert_eq!(
            clean_lines("a\n\tb\u{1b}\r\nc\nd", 100, 3),
            "a\n b\\u{1b}\\u{d}\nc d"
        );
        assert_eq!(clean_lines("a\nb", 100, 1), "a b");
    }

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        assert_eq!(clean(&"é".repeat(10), 5), "éé…");
        assert_eq!(clean("ab\u{1b}", 4), "ab…");
        assert_eq!(clean("abcd", 4), "abcd");
    }
}
