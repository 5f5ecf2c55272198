//! Rust source without its comments and literals. Entry point: [`blank`].

use std::ops::Range;

/// The text with every comment and the inside of every string and character literal replaced by spaces.
///
/// Offsets and lines stay the same: `f("x")` becomes `f(" ")`.
pub(crate) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        if let Some(opaque) = opaque(bytes, at) {
            for byte in &mut out[opaque.inside] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = opaque.end;
        } else if is_word(bytes[at]) {
            at = word_end(bytes, at);
        } else {
            at += 1;
        }
    }
    // Whole characters were replaced, each byte by one space, so the text is still UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}

/// The offsets at which `word` stands alone, not as a part of a longer name.
pub(crate) fn find_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = at.checked_sub(1).map(|i| bytes[i]);
            let after = bytes.get(at + word.len()).copied();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
}

/// True for the bytes of names.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The end of the name that begins at `at`.
pub(crate) fn word_end(bytes: &[u8], at: usize) -> usize {
    let length = bytes[at..]
        .iter()
        .take_while(|byte| is_word(**byte))
        .count();
    at + length
}

/// A comment or literal.
struct Opaque {
    inside: Range<usize>,
    end: usize,
}

/// The comment or literal that begins at `at`, if one does.
fn opaque(bytes: &[u8], at: usize) -> Option<Opaque> {
    match &bytes[at..] {
        [b'/', b'/', ..] => Some(comment(at, line_end(bytes, at))),
        [b'/', b'*', ..] => Some(comment(at, block_comment_end(bytes, at))),
        [b'"', ..] => Some(string(bytes, at)),
        [b'b' | b'c', b'"', ..] => Some(string(bytes, at + 1)),
        [b'b', b'\'', ..] => character(bytes, at + 1),
        [b'\'', ..] => character(bytes, at),
        [b'r', b'"' | b'#', ..] => raw_string(bytes, at + 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] => raw_string(bytes, at + 2),
        _ => None,
    }
}

fn comment(start: usize, end: usize) -> Opaque {
    Opaque {
        inside: start..end,
        end,
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |length| at + length)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// A string whose opening quote is at `quote`.
fn string(bytes: &[u8], quote: usize) -> Opaque {
    let mut at = quote + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => {
                return Opaque {
                    inside: quote + 1..at,
                    end: at + 1,
                };
            }
            _ => at += 1,
        }
    }
    Opaque {
        inside: quote + 1..bytes.len(),
        end: bytes.len(),
    }
}

/// A raw string whose first `#` or quote is at `start`; `None` for a raw identifier.
fn raw_string(bytes: &[u8], start: usize) -> Option<Opaque> {
    let hashes = bytes[start..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let quote = start + hashes;
    if bytes.get(quote) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let length = bytes[quote + 1..]
        .windows(close.len())
        .position(|window| window == close)
        .unwrap_or(bytes.len() - quote - 1);
    let last = quote + 1 + length;
    Some(Opaque {
        inside: quote + 1..last,
        end: (last + close.len()).min(bytes.len()),
    })
}

/// A character literal whose opening quote is at `quote`; `None` for a lifetime.
fn character(bytes: &[u8], quote: usize) -> Option<Opaque> {
    let first = *bytes.get(quote + 1)?;
    let after = match first {
        b'\\' => {
            let rest = bytes.get(quote + 3..)?;
            quote + 3 + rest.iter().position(|byte| *byte == b'\'')?
        }
        _ => quote + 1 + utf8_length(first),
    };
    (bytes.get(after) == Some(&b'\'')).then_some(Opaque {
        inside: quote + 1..after,
        end: after + 1,
    })
}

fn utf8_length(first: u8) -> usize {
    match first {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_literals_and_nothing_else() {
        for (text, blanked) in [
            ("a // b", "a     "),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("b\"c") g"#, r#"f("    ") g"#),
            (r###"r#"a"b"# c"###, r###"r#"   "# c"###),
            (r##"r#type x"##, r##"r#type x"##),
            (r"b'\'' b'x' 'ü' '\u{1}'", r"b'  ' b' ' '  ' '     '"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("\"a\nb\"", "\" \n \""),
            ("bar\"x\"", "bar\" \""),
        ] {
            assert_eq!(blank(text), blanked, "{text}");
        }
    }

    #[test]
    fn finds_whole_words() {
        let found: Vec<_> = find_word("env my_env env::x", "env").collect();
        assert_eq!(found, [0, 11]);
    }
}
