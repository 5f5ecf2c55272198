//! Paths to fields of objects, as indexes declare them. Entry point: [`FieldPath`].

mod mask;

pub use mask::FieldMask;

use crate::json::{JsonError, Object, Scanner};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A path to the values that an index holds: names separated by dots, `['quoted']` names, and `[*]` for every element of an
/// array, for example `spec.template.spec.volumes[*].configMap.name`. A leading dot is allowed. Cheap to clone.
///
/// In quoted names `\'` is a quote and `\\` a backslash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    /// Never empty.
    segments: Arc<[Segment]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Segment {
    Name(Box<str>),
    Every,
}

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field path {path:?} is wrong at byte {at}: {problem}")]
pub struct PathError {
    /// The path, cut to 200 characters.
    pub path: String,
    /// Where, in bytes.
    pub at: usize,
    /// What is wrong, and what is expected.
    pub problem: &'static str,
}

impl FieldPath {
    /// Longest path, in bytes.
    pub const MAX: usize = 1024;

    /// Most segments.
    pub(crate) const MAX_SEGMENTS: usize = 64;

    /// Reads a path.
    ///
    /// # Errors
    /// [`PathError`] with the position and what is expected there.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let mut parser = Parser { path, at: 0 };
        parser.parse().map_err(|problem| PathError {
            path: path.chars().take(200).collect(),
            at: parser.at,
            problem,
        })
    }

    /// Reads paths with commas between them, and perhaps spaces. In a quoted name a comma is a part of it.
    ///
    /// # Errors
    /// [`PathError`] of the first path that is wrong.
    pub fn list(paths: &str) -> Result<Vec<Self>, PathError> {
        let (mut quoted, mut escaped) = (false, false);
        let paths = paths.split(|c: char| {
            let ends = c == ',' && !quoted;
            quoted ^= c == '\'' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        paths.map(|path| Self::parse(path.trim())).collect()
    }

    /// The path to the value of a label.
    pub(crate) fn of_label(label: &str) -> Self {
        let names = ["metadata", "labels", label];
        Self {
            segments: names.map(|name| Segment::Name(name.into())).into(),
        }
    }

    /// Calls `leaf` with each string, number (as it is spelled) and boolean at the path, in the object's order. Objects, arrays, null and
    /// absent fields are skipped, and values of another type than the path expects.
    pub(crate) fn values<'a>(&self, object: &'a Object, mut leaf: impl FnMut(Cow<'a, str>)) {
        // The scan that made the object has validated the text.
        let text = std::str::from_utf8(object.json()).unwrap_or_default();
        let mut scanner = Scanner::of(text);
        scanner.space();
        let _ = walk(&mut scanner, &self.segments, &mut leaf);
    }
}

/// Consumes the value under the cursor and calls `leaf` with the leaves at the path.
fn walk<'a>(
    scanner: &mut Scanner<'a>,
    path: &[Segment],
    leaf: &mut dyn FnMut(Cow<'a, str>),
) -> Result<(), JsonError> {
    let first = scanner.peek()?;
    let Some((segment, rest)) = path.split_first() else {
        return emit(scanner, first, leaf);
    };
    match (segment, first) {
        (Segment::Every, b'[') => scanner.array(|scanner| walk(scanner, rest, leaf)),
        (Segment::Name(name), b'{') => {
            // Of equal keys the last one counts: its place is kept until the object ends.
            let mut found = None;
            scanner.object(|scanner, key| {
                let value = scanner.value()?;
                if key.is(name) {
                    found = Some(value);
                }
                Ok(())
            })?;
            let Some(value) = found else {
                return Ok(());
            };
            walk(&mut Scanner::of(&scanner.text()[value.range()]), rest, leaf)
        }
        _ => scanner.skip(),
    }
}

fn emit<'a>(
    scanner: &mut Scanner<'a>,
    first: u8,
    leaf: &mut dyn FnMut(Cow<'a, str>),
) -> Result<(), JsonError> {
    match first {
        b'"' => leaf(scanner.string()?.value()),
        b'{' | b'[' | b'n' => scanner.skip()?,
        _ => {
            let value = scanner.value()?;
            leaf(Cow::Borrowed(&scanner.text()[value.range()]));
        }
    }
    Ok(())
}

struct Parser<'a> {
    path: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn parse(&mut self) -> Result<FieldPath, &'static str> {
        if self.path.len() > FieldPath::MAX {
            return Err("use at most 1024 bytes");
        }
        let mut segments = Vec::new();
        self.eat('.');
        while self.at < self.path.len() || segments.is_empty() {
            if segments.len() == FieldPath::MAX_SEGMENTS {
                return Err("use at most 64 names and [*]");
            }
            segments.push(self.segment()?);
            if !self.eat('.') {
                match self.peek() {
                    None | Some('[') => continue,
                    Some(_) => return Err("expected '.', '[' or the end"),
                }
            }
            if self.at == self.path.len() {
                return Err("expected a name after '.'");
            }
        }
        Ok(FieldPath {
            segments: segments.into(),
        })
    }

    fn peek(&self) -> Option<char> {
        self.path[self.at..].chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let eaten = self.peek() == Some(c);
        if eaten {
            self.at += c.len_utf8();
        }
        eaten
    }

    fn segment(&mut self) -> Result<Segment, &'static str> {
        if self.eat('[') {
            return self.bracket();
        }
        let rest = &self.path[self.at..];
        let name = &rest[..rest.find(['.', '[']).unwrap_or(rest.len())];
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
        if let Some(at) = name.find(|c| !plain(c)) {
            self.at += at;
            return Err(
                "write names with other characters than letters, digits, '_', '-' and '$' as ['name']",
            );
        }
        if name.is_empty() {
            return Err("expected a name, ['name'] or [*]");
        }
        self.at += name.len();
        Ok(Segment::Name(name.into()))
    }

    fn bracket(&mut self) -> Result<Segment, &'static str> {
        if self.eat('*') {
            return if self.eat(']') {
                Ok(Segment::Every)
            } else {
                Err("expected ']'")
            };
        }
        if !self.eat('\'') {
            return Err("expected '*' or a name in single quotes");
        }
        let mut name = String::new();
        loop {
            let Some(c) = self.peek() else {
                return Err("expected the closing quote");
            };
            self.at += c.len_utf8();
            match c {
                '\'' => break,
                '\\' => match self.peek() {
                    Some(escaped @ ('\'' | '\\')) => {
                        self.at += 1;
                        name.push(escaped);
                    }
                    _ => return Err("expected ' or \\ after a backslash"),
                },
                c => name.push(c),
            }
        }
        if self.eat(']') {
            Ok(Segment::Name(name.into()))
        } else {
            Err("expected ']'")
        }
    }
}

impl fmt::Display for FieldPath {
    /// The canonical form: equal paths print the same, and it parses to the same path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Every => f.write_str("[*]")?,
                Segment::Name(name)
                    if !name.is_empty()
                        && name
                            .chars()
                            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$')) =>
                {
                    write!(f, "{}{name}", if i == 0 { "" } else { "." })?;
                }
                Segment::Name(name) => {
                    write!(f, "['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))?
                }
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for FieldPath {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self, PathError> {
        Self::parse(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn values(path: &str, json: &'static str) -> Vec<String> {
        let object = Object::parse(Bytes::from(json)).unwrap();
        let mut values = Vec::new();
        FieldPath::parse(path)
            .unwrap()
            .values(&object, |value| values.push(value.into_owned()));
        values
    }

    #[test]
    fn leaves_are_found_in_order() {
        let pod = r#" {"metadata":{"name":"a","labels":{"a.b/c":"x\u0079"}}, "spec":{"volumes":[{"configMap":{"name":"one"}},{"secret":{}},
            {"configMap":{"name":"two"}},7],"n":-1.50,"on":true,"off":null,"nested":[["p"],["q","r"]],"dup":"old","dup":"new"}}"#;
        assert_eq!(
            values("spec.volumes[*].configMap.name", pod),
            ["one", "two"]
        );
        assert_eq!(values(".metadata.labels['a.b/c']", pod), ["xy"]);
        assert_eq!(values("spec.n", pod), ["-1.50"]);
        assert_eq!(values("spec.on", pod), ["true"]);
        assert_eq!(values("spec.nested[*][*]", pod), ["p", "q", "r"]);
        assert_eq!(values("spec.dup", pod), ["new"]);
        for nothing in [
            "spec.off",
            "spec",
            "spec.volumes",
            "spec.none.x",
            "spec.n.x",
            "spec[*]",
            "spec.volumes.configMap",
        ] {
            assert!(values(nothing, pod).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn paths_print_in_a_canonical_form() {
        for (path, printed) in [
            (".spec.a", "spec.a"),
            ("spec['a'].b", "spec.a.b"),
            ("['a.b'][*].c", "['a.b'][*].c"),
            (r"x['it\'s\\']", r"x['it\'s\\']"),
            ("a.[*]", "a[*]"),
            ("['']", "['']"),
        ] {
            let parsed = FieldPath::parse(path).unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(FieldPath::parse(printed).unwrap(), parsed);
        }
    }

    #[test]
    fn errors_tell_the_position() {
        for (path, at) in [
            ("", 0),
            (".", 1),
            ("a.", 2),
            ("a..b", 2),
            ("a[0]", 2),
            ("a['x", 4),
            ("a['x'", 5),
            ("a[*", 3),
            ("a b", 1),
            ("a[*]b", 4),
            ("é", 0),
        ] {
            assert_eq!(FieldPath::parse(path).unwrap_err().at, at, "{path}");
        }
        assert!(FieldPath::parse(&"a.".repeat(600)).is_err());
        assert!(FieldPath::parse(&vec!["a"; 65].join(".")).is_err());
        assert!(FieldPath::parse(&vec!["a"; 64].join(".")).is_ok());
    }
}
