//! One Rust file, prepared for the checks. Entry point: [`RustFile::new`].

use std::ops::Range;

use crate::lexer::{blank, find_word, is_word, word_end};

/// A Rust file of the repository.
#[derive(Clone, Debug)]
pub struct RustFile {
    /// Relative to the repository's root, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
    /// `text` with comments and literals blanked: the same offsets and lines.
    pub code: String,
    // Items under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
    /// True if the whole file is test code.
    pub is_test: bool,
}

/// A `mod name;` that links another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The module's name.
    pub name: String,
    /// The file named by a `#[path]` attribute, relative to the linking file's folder.
    pub path: Option<String>,
    /// The declaration's offset.
    pub at: usize,
}

impl RustFile {
    /// Reads the text.
    pub fn new(path: &str, text: &str) -> Self {
        let code = blank(text);
        let tests = test_items(&code);
        let mut folders = path.split('/');
        let is_test = path.starts_with("tests/")
            || path.ends_with("/tests.rs")
            || folders.any(|part| matches!(part, "tests" | "benches" | "examples"));
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            tests,
            is_test,
        }
    }

    /// True if the code there is compiled for tests only.
    pub fn in_test(&self, offset: usize) -> bool {
        self.is_test || self.tests.iter().any(|range| range.contains(&offset))
    }

    /// The line of an offset, counted from 1.
    pub fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    }

    /// The offsets of a word in code that is not for tests.
    pub fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        find_word(&self.code, word).filter(|&at| !self.in_test(at))
    }

    /// The `mod name;` declarations, in order.
    pub fn links(&self) -> Vec<Link> {
        let bytes = self.code.as_bytes();
        let mut links = Vec::new();
        for at in find_word(&self.code, "mod") {
            let start = skip_space(bytes, at + 3);
            let end = word_end(bytes, start);
            if end > start && bytes.get(skip_space(bytes, end)) == Some(&b';') {
                let name = self.code[start..end].to_owned();
                links.push(Link {
                    name,
                    path: self.path_attribute(at),
                    at,
                });
            }
        }
        links
    }

    /// The value of a `#[path = "…"]` before the declaration at `at`.
    fn path_attribute(&self, at: usize) -> Option<String> {
        let before = &self.code[..at];
        let item = before.rfind([';', '}']).map_or(0, |end| end + 1);
        let start = item + before[item..].find("#[path")?;
        let attribute = &self.text[start..at];
        attribute.split('"').nth(1).map(str::to_owned)
    }
}

/// The ranges of the items with an attribute such as `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (start, _) in code.match_indices("#[cfg(") {
        let Some(length) = code[start..].find(']') else {
            continue;
        };
        let condition = &code[start..start + length];
        let for_tests =
            find_word(condition, "test").next().is_some() && !condition.contains("not(");
        if for_tests && !ranges.iter().any(|range| range.contains(&start)) {
            ranges.push(start..item_end(code.as_bytes(), start + length + 1));
        }
    }
    ranges
}

/// The end of the item that follows: its block, or its semicolon.
fn item_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            b';' | b',' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}

/// The offset of the first byte from `at` on that is not white space.
pub(crate) fn skip_space(bytes: &[u8], at: usize) -> usize {
    let length = bytes
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count();
    at + length
}

/// The path that begins at `at`, such as `a::b::c`, in segments; it ends before a `{` or `*`.
pub(crate) fn path_segments(code: &str, at: usize) -> (Vec<&str>, usize) {
    let bytes = code.as_bytes();
    let mut segments = Vec::new();
    let mut at = at;
    while bytes.get(at).copied().is_some_and(is_word) {
        let end = word_end(bytes, at);
        segments.push(&code[at..end]);
        at = end;
        if !code[at..].starts_with("::") {
            break;
        }
        at += 2;
    }
    (segments, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_is_compiled_for_tests_only() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n#[cfg(not(test))]\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}";
        let file = RustFile::new("runtime/fleet/src/lib.rs", text);
        let test = |name: &str| file.in_test(text.find(name).unwrap());
        assert_eq!(
            ["fn a", "fn b", "fn c", "use x", "fn d"].map(test),
            [false, true, false, true, false]
        );
    }

    #[test]
    fn takes_whole_folders_for_tests() {
        for (path, test) in [
            ("tests/suites/src/lib.rs", true),
            ("runtime/fleet/benches/queue.rs", true),
            ("runtime/fleet/src/queue/tests.rs", true),
            ("runtime/fleet/src/queue.rs", false),
        ] {
            assert_eq!(RustFile::new(path, "").is_test, test, "{path}");
        }
    }

    #[test]
    fn lists_linked_modules_and_their_paths() {
        let file = RustFile::new(
            "a.rs",
            "mod one;\nmod inline { }\n#[path = \"x/y.rs\"]\npub mod two;",
        );
        let links: Vec<_> = file
            .links()
            .into_iter()
            .map(|link| (link.name, link.path))
            .collect();
        assert_eq!(
            links,
            [
                ("one".to_owned(), None),
                ("two".to_owned(), Some("x/y.rs".to_owned()))
            ]
        );
    }
}
