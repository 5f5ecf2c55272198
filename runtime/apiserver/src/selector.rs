//! Label and field selectors: [`Labels`] and [`Fields`], parsed from a query.

use serde_json::Value;

/// A parsed label selector; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Labels(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl Labels {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    ///
    /// # Errors
    /// Names what cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        split_outside_parentheses(text)
            .into_iter()
            .map(requirement)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Reads a selector that is an object, with `matchLabels` and `matchExpressions`. One that cannot be read matches nothing.
    pub(crate) fn of_object(written: &Value) -> Self {
        let nothing = || Self::parse("a,!a").unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let mut parts: Vec<String> = written["matchLabels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", text(value)))
            .collect();
        for expression in items(&written["matchExpressions"]) {
            let key = text(&expression["key"]);
            let values: Vec<String> = items(&expression["values"]).iter().map(text).collect();
            let values = values.join(",");
            parts.push(match expression["operator"].as_str() {
                Some("In") => format!("{key} in ({values})"),
                Some("NotIn") => format!("{key} notin ({values})"),
                Some("Exists") => key,
                Some("DoesNotExist") => format!("!{key}"),
                _ => return nothing(),
            });
        }
        Self::parse(&parts.join(",")).unwrap_or_else(|_| nothing())
    }

    /// Asks for one more label.
    pub(crate) fn also(&mut self, key: &str, value: &str) {
        self.0.push(Requirement {
            key: key.to_owned(),
            test: Test::In(vec![value.to_owned()]),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `get` looks a label up.
    pub(crate) fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = get(&requirement.key);
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(set) => value.is_some_and(|value| set.iter().any(|one| one == value)),
                Test::NotIn(set) => value.is_none_or(|value| set.iter().all(|one| one != value)),
                Test::Above(bound) => value
                    .and_then(|value| value.parse::<i64>().ok())
                    .is_some_and(|value| value > *bound),
                Test::Below(bound) => value
                    .and_then(|value| value.parse::<i64>().ok())
                    .is_some_and(|value| value < *bound),
            }
        })
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let make = |key: &str, test: Test| {
        let key = key.trim();
        if label_key(key) {
            Ok(Requirement {
                key: key.to_owned(),
                test,
            })
        } else {
            Err(format!(
                "unable to parse requirement: <nil>: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ))
        }
    };
    if let Some((key, set)) = text
        .split_once(" notin ")
        .or_else(|| text.split_once(" notin("))
    {
        return make(key, Test::NotIn(values(set)));
    }
    if let Some((key, set)) = text.split_once(" in ").or_else(|| text.split_once(" in(")) {
        return make(key, Test::In(values(set)));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return make(key, Test::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return make(key, Test::In(vec![value.trim().to_owned()]));
    }
    let number = |value: &str| {
        value
            .trim()
            .parse::<i64>()
            .map_err(|_| format!("unable to parse requirement: {value:?} is not an integer"))
    };
    if let Some((key, value)) = text.split_once('>') {
        return make(key, Test::Above(number(value)?));
    }
    if let Some((key, value)) = text.split_once('<') {
        return make(key, Test::Below(number(value)?));
    }
    match text.strip_prefix('!') {
        Some(key) => make(key, Test::Absent),
        None => make(text, Test::Exists),
    }
}

fn values(set: &str) -> Vec<String> {
    set.trim()
        .trim_start_matches('(')
        .trim_end_matches(')')
        .split(',')
        .map(|value| value.trim().to_owned())
        .collect()
}

/// Whether `key` is a label key: an optional DNS prefix, then a name of at most 63 characters.
pub(crate) fn label_key(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    let prefix_fine = key.matches('/').count() <= 1 && !key.starts_with('/');
    prefix_fine && !name.is_empty() && name_part(name)
}

/// Whether `value` may stand as a label's value.
pub(crate) fn label_value(value: &str) -> bool {
    value.is_empty() || name_part(value)
}

fn name_part(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// A parsed field selector: fields that must, or must not, have a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fields(Vec<(String, bool, String)>);

impl Fields {
    /// Parses `metadata.name=a,status.phase!=b`.
    ///
    /// # Errors
    /// Names the term that has no operator.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let terms = text.split(',').filter(|term| !term.is_empty());
        let term = |term: &str| {
            let (field, equal, value) = match (term.split_once("!="), term.split_once("==")) {
                (Some((field, value)), _) => (field, false, value),
                (None, Some((field, value))) => (field, true, value),
                (None, None) => {
                    let (field, value) = term.split_once('=').ok_or_else(|| {
                        format!("invalid selector: '{term}'; can't understand '{term}'")
                    })?;
                    (field, true, value)
                }
            };
            Ok((field.to_owned(), equal, value.to_owned()))
        };
        terms.map(term).collect::<Result<_, String>>().map(Self)
    }

    /// The first field that `known` does not accept.
    pub(crate) fn unknown(&self, known: impl Fn(&str) -> bool) -> Option<&str> {
        self.0
            .iter()
            .map(|(field, ..)| field.as_str())
            .find(|field| !known(field))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether only name and namespace are asked, so that no object need be parsed.
    pub(crate) fn only_identity(&self) -> bool {
        self.0
            .iter()
            .all(|(field, ..)| matches!(field.as_str(), "metadata.name" | "metadata.namespace"))
    }

    pub(crate) fn matches_identity(&self, namespace: &str, name: &str) -> bool {
        self.0
            .iter()
            .all(|(field, equal, value)| match field.as_str() {
                "metadata.name" => (value == name) == *equal,
                "metadata.namespace" => (value == namespace) == *equal,
                _ => true,
            })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0
            .iter()
            .all(|(field, equal, value)| (text_at(object, field) == *value) == *equal)
    }
}

/// The value at a dotted path, as a field selector compares it; absent is empty.
fn text_at(object: &Value, path: &str) -> String {
    let path = if path == "source" {
        "source.component"
    } else {
        path
    };
    let found = path
        .split('.')
        .try_fold(object, |value, key| value.get(key));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None if matches!(path, "status.replicas" | "status.successful") => {
            "0".to_owned()
        }
        Some(Value::Null) | None if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => {
            "false".to_owned()
        }
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &'static str)]) -> bool {
        let parsed = Labels::parse(selector).unwrap();
        parsed.matches(|key| {
            labels
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        })
    }

    #[test]
    fn label_selectors_understand_every_operator() {
        let labels = [("a", "1"), ("b", "x")];
        for yes in [
            "",
            "a",
            "a=1",
            "a==1,b=x",
            "a in (1,2),b notin (y)",
            "c!=z",
            "!c",
            "a>0",
            "a<2",
        ] {
            assert!(matches(yes, &labels), "{yes}");
        }
        for no in [
            "c",
            "a=2",
            "a!=1",
            "a in (2, 3)",
            "b notin (x,y)",
            "!a",
            "a>1",
        ] {
            assert!(!matches(no, &labels), "{no}");
        }
    }

    #[test]
    fn a_malformed_selector_is_refused() {
        assert!(Labels::parse("a b=c").is_err());
        assert!(Fields::parse("nonsense").is_err());
    }

    #[test]
    fn field_selectors_compare_text_and_absent_is_empty() {
        let object = serde_json::json!({"metadata": {"name": "n"}, "spec": {"count": 3}});
        assert!(
            Fields::parse("metadata.name=n,spec.count=3,spec.nodeName=")
                .unwrap()
                .matches(&object)
        );
        assert!(!Fields::parse("metadata.name!=n").unwrap().matches(&object));
    }
}
