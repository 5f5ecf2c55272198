//! Texts that are not what they should be: [`Damage`].

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::Bytes;
use regex::bytes::Regex;

/// What is wrong with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// It is no JSON.
    Garbage,
    /// It is JSON, and of something else.
    Other,
    /// Its strings are not UTF-8.
    BadUtf8,
    /// Objects and lists have no resource version.
    NoVersion,
    /// All objects have one uid.
    SameUid,
}

#[expect(clippy::unwrap_used, reason = "constant patterns, each used by a test")]
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""resourceVersion":"[^"]*",?"#).unwrap());
#[expect(clippy::unwrap_used, reason = "constant patterns, each used by a test")]
static UID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""uid":"[^"]*""#).unwrap());
#[expect(clippy::unwrap_used, reason = "constant patterns, each used by a test")]
static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""(name|kind)":""#).unwrap());

impl Damage {
    /// A whole answer, damaged.
    pub(super) fn to_answer(self, body: &[u8]) -> Bytes {
        self.to_text(body, b"<html>502 Bad Gateway</html>")
    }

    /// A line of a watch, damaged; it stays one line.
    pub(super) fn to_event(self, line: &[u8]) -> Bytes {
        self.to_text(line, b"{\"type\":\"ADDED\",\"obj\n")
    }

    fn to_text(self, text: &[u8], garbage: &'static [u8]) -> Bytes {
        let text = match self {
            Self::Garbage => Cow::Borrowed(garbage),
            Self::Other => Cow::Borrowed(&b"[\"rubbish\"]\n"[..]),
            Self::BadUtf8 => NAME.replace_all(text, &b"$0\xff\xfe"[..]),
            Self::NoVersion => trailing_commas(&VERSION.replace_all(text, &b""[..])).into(),
            Self::SameUid => UID.replace_all(
                text,
                &br#""uid":"00000000-0000-4000-8000-000000000000""#[..],
            ),
        };
        Bytes::from(text.into_owned())
    }
}

/// Without the commas that nothing follows.
fn trailing_commas(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if *byte == b'}' && out.last() == Some(&b',') {
            out.pop();
        }
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const LINE: &[u8] = br#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","uid":"1-2","resourceVersion":"7"}}}
"#;

    #[test]
    fn damage_leaves_all_else_whole() {
        let read = |damage: Damage| serde_json::from_slice::<Value>(&damage.to_event(LINE));
        let metadata = |damage| read(damage).map(|value| value["object"]["metadata"].clone());
        assert!(read(Damage::Garbage).is_err());
        assert!(read(Damage::Other).is_ok_and(|value| value.is_array()));
        assert!(std::str::from_utf8(&Damage::BadUtf8.to_event(LINE)).is_err());
        let metadata_of = |damage| metadata(damage).unwrap_or_default();
        let bare = metadata_of(Damage::NoVersion);
        assert_eq!(
            (&bare["name"], &bare["resourceVersion"]),
            (&"a".into(), &Value::Null)
        );
        let same = metadata_of(Damage::SameUid);
        assert_eq!(same["uid"].as_str().map(str::len), Some(36));
        for damage in [Damage::Garbage, Damage::Other, Damage::SameUid] {
            assert_eq!(
                damage
                    .to_event(LINE)
                    .iter()
                    .filter(|b| **b == b'\n')
                    .count(),
                1
            );
        }
    }
}
