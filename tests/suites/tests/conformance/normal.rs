//! What differs from run to run, taken out of an answer: [`Normal`].
//!
//! Uids and versions of objects become the order in which they were first seen, so that equal ones stay equal. Times, versions of
//! lists, tokens, ages, cluster addresses, the order of several unknown fields and that of managers, which follows the
//! second of each write, are not compared, nor are objects that an error shows in the form of the server's own code and its diffs of them; neither are, unless a case asks for them, bookmarks that come with time, descriptions of columns and the hash of the storage version, which the in-memory server has not.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// The names given to what was seen so far in one transcript.
pub(crate) struct Normal {
    namespace: String,
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
}

struct Patterns {
    uid: Regex,
    time: Regex,
    age: Regex,
    address: Regex,
    numbered: Regex,
    generated: Regex,
    etcd_key: Regex,
    dumped: Regex,
    patched: Regex,
    diff: Regex,
}

#[expect(clippy::unwrap_used, reason = "constant patterns")]
static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns {
    uid: Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap(),
    time: Regex::new("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$").unwrap(),
    age: Regex::new("^[0-9]+[smh]$").unwrap(),
    address: Regex::new(r"^10\.\d+\.\d+\.\d+$").unwrap(),
    numbered: Regex::new(r"(version|current|record)(:? )\(?\d+\)?( \(\d+\))?").unwrap(),
    generated: Regex::new("pre-[a-z0-9]{5}").unwrap(),
    etcd_key: Regex::new("Key: /[a-z]+/").unwrap(),
    dumped: Regex::new(r"Invalid value: \{.*?\}: (field is immutable|cannot change roleRef)")
        .unwrap(),
    patched: Regex::new(r#"Invalid value: "\{.*\}": "#).unwrap(),
    diff: Regex::new(r"(?s)\n@@.*").unwrap(),
});

/// Times that the cases write themselves.
const WRITTEN: &str = "2026-01-01";

impl Normal {
    pub(crate) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            uids: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// A body as lines of indented JSON, one document per line of a watch, with or without bookmarks that come with time.
    pub(crate) fn lines(&mut self, body: &str, bookmarks: bool) -> Vec<String> {
        let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(body)
            .into_iter()
            .collect();
        let Ok(documents) = documents else {
            return vec![self.text(body)];
        };
        let shown = documents
            .into_iter()
            .filter(|document| bookmarks || !timed_bookmark(document));
        let shown: Vec<Value> = shown.map(|document| self.value("", document)).collect();
        let text: Vec<String> = shown.iter().map(|value| format!("{value:#}")).collect();
        text.iter()
            .flat_map(|document| document.lines())
            .map(str::to_owned)
            .collect()
    }

    /// A text with uids, numbers of versions and generated names made equal.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let patterns = &*PATTERNS;
        let text = text.replace(&self.namespace, "$ns");
        let text = patterns
            .uid
            .replace_all(&text, |found: &regex::Captures<'_>| {
                ordinal(&mut self.uids, &found[0], "uid")
            });
        let text = patterns.numbered.replace_all(&text, "$1 <number>");
        let text = patterns.generated.replace_all(&text, "pre-<five>");
        let text = patterns.etcd_key.replace_all(&text, "Key: /<prefix>/");
        let text = patterns
            .dumped
            .replace_all(&text, "Invalid value: <object>: $1");
        let text = patterns
            .patched
            .replace_all(&text, "Invalid value: <object>: ");
        let text = patterns.diff.replace(&text, "");
        sorted_findings(&text)
    }

    fn value(&mut self, key: &str, value: Value) -> Value {
        match value {
            Value::Object(object) => Value::Object(self.object(object)),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.value(key, item))
                .collect(),
            Value::String(text) => Value::String(self.leaf(key, &text)),
            other => other,
        }
    }

    fn object(&mut self, object: Map<String, Value>) -> Map<String, Value> {
        let one_object = object.contains_key("uid") && object.contains_key("name");
        let mut out = Map::new();
        for (name, value) in object {
            let value = match (name.as_str(), value) {
                ("storageVersionHash", _) => continue,
                ("resourceVersion", Value::String(version)) if one_object => {
                    ordinal(&mut self.versions, &version, "version").into()
                }
                ("resourceVersion", _) => "<version>".into(),
                ("description", Value::String(_)) => "".into(),
                ("managedFields", Value::Array(managers)) => {
                    self.value("managedFields", by_manager(managers))
                }
                (name, value) => self.value(name, value),
            };
            out.insert(self.text(&name), value);
        }
        out
    }

    fn leaf(&mut self, key: &str, text: &str) -> String {
        let patterns = &*PATTERNS;
        match key {
            "continue" | "token" if !text.is_empty() => "<token>".to_owned(),
            _ if patterns.time.is_match(text) && !text.starts_with(WRITTEN) => "<time>".to_owned(),
            _ if patterns.age.is_match(text) => "<age>".to_owned(),
            _ if patterns.address.is_match(text) => "<address>".to_owned(),
            _ => self.text(text),
        }
    }
}

fn ordinal(seen: &mut BTreeMap<String, usize>, text: &str, what: &str) -> String {
    let next = seen.len() + 1;
    format!("<{what} {}>", seen.entry(text.to_owned()).or_insert(next))
}

/// Managers in the order that an API server gives them when all wrote in the same second.
fn by_manager(mut managers: Vec<Value>) -> Value {
    managers.sort_by_key(|manager| {
        ["operation", "manager", "apiVersion", "subresource"]
            .map(|field| manager[field].as_str().unwrap_or_default().to_owned())
    });
    managers.into()
}

/// Whether this is a bookmark that a server sends as time goes by.
fn timed_bookmark(document: &Value) -> bool {
    document["type"] == "BOOKMARK" && document.pointer("/object/metadata/annotations").is_none()
}

fn sorted_findings(text: &str) -> String {
    const MARK: &str = "strict decoding error: ";
    let Some((before, findings)) = text.split_once(MARK) else {
        return text.to_owned();
    };
    let mut findings: Vec<&str> = findings.split(", ").collect();
    findings.sort_unstable();
    format!("{before}{MARK}{}", findings.join(", "))
}
