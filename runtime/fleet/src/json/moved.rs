//! Moves an object's text to another namespace. Entry point: [`moved`].

use super::{JsonError, Scanner, Span};
use bytes::Bytes;

/// The text with `to` in place of the namespace `from` in the members `parents`, such as `metadata`. Everything else is verbatim.
///
/// # Errors
/// [`JsonError`] when the text is not one JSON object.
pub(crate) fn moved(
    text: &[u8],
    parents: &[&str],
    from: &str,
    to: &str,
) -> Result<Bytes, JsonError> {
    let spans = namespaces(text, parents, from)?;
    let to = serde_json::Value::from(to).to_string();
    let mut json = Vec::with_capacity(text.len() + spans.len() * to.len());
    let mut at = 0;
    for span in spans {
        let range = span.range();
        json.extend_from_slice(&text[at..range.start]);
        json.extend_from_slice(to.as_bytes());
        at = range.end;
    }
    json.extend_from_slice(&text[at..]);
    Ok(Bytes::from(json))
}

/// The positions of the members `namespace` with one value, in order.
fn namespaces(text: &[u8], parents: &[&str], value: &str) -> Result<Vec<Span>, JsonError> {
    let mut spans = Vec::new();
    let mut scanner = Scanner::new(text)?;
    scanner.space();
    scanner.object(|scanner, key| {
        if !parents.iter().any(|parent| key.is(parent)) || scanner.peek()? != b'{' {
            return scanner.skip();
        }
        scanner.object(|scanner, key| {
            if !key.is("namespace") || scanner.peek()? != b'"' {
                return scanner.skip();
            }
            let span = scanner.value()?;
            let found = Scanner::of(&scanner.text()[span.range()]).string()?;
            if found.is(value) {
                spans.push(span);
            }
            Ok(())
        })
    })?;
    scanner.end()?;
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str, parents: &[&str]) -> String {
        let moved = moved(json.as_bytes(), parents, "team-a", "default").unwrap();
        String::from_utf8(moved.to_vec()).unwrap()
    }

    #[test]
    fn only_the_namespace_of_the_named_members_is_replaced() {
        let object = r#"{"kind":"Event","metadata":{"name":"namespace","namespace":"team-a","labels":{"namespace":"team-a"}}, "regarding":{"namespace":"team-a"},"spec":{"namespace":"team-a"},"namespace":"team-a"}"#;
        assert_eq!(
            text(object, &["metadata", "regarding"]),
            r#"{"kind":"Event","metadata":{"name":"namespace","namespace":"default","labels":{"namespace":"team-a"}}, "regarding":{"namespace":"default"},"spec":{"namespace":"team-a"},"namespace":"team-a"}"#
        );
    }

    #[test]
    fn other_namespaces_and_other_types_stay() {
        for same in [
            r#"{"metadata":{"namespace":"team-b"}}"#,
            r#"{"metadata":{"namespace":null}}"#,
            r#"{"metadata":"team-a"}"#,
            "{}",
        ] {
            assert_eq!(text(same, &["metadata"]), same);
        }
        assert!(moved(b"[]", &["metadata"], "a", "b").is_err());
    }

    #[test]
    fn escapes_in_names_are_resolved() {
        let object = r#"{"metad\u0061ta":{"n\u0061mespace":"te\u0061m-a"}}"#;
        assert_eq!(
            text(object, &["metadata"]),
            r#"{"metad\u0061ta":{"n\u0061mespace":"default"}}"#
        );
    }
}
