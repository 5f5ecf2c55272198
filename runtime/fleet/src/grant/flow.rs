//! Values as YAML on one line. Entry point: [`flow`].

use serde_json::Value as Json;

/// The fields with a place of their own, after all others.
const ORDER: [&str; 11] = [
    "apiGroup",
    "apiGroups",
    "nonResourceURLs",
    "kind",
    "namespace",
    "name",
    "resources",
    "resourceNames",
    "verbs",
    "namespaces",
    "clusters",
];

/// A value on one line. Fields of rules and of objects of RBAC are in the order in which people read them.
#[must_use]
pub fn flow(value: &Json) -> String {
    match value {
        Json::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| ORDER.iter().position(|field| field == key));
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{key}: {}", flow(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Json::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether YAML reads a text without quotes as the same text.
fn is_plain(text: &str) -> bool {
    let begins = text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'/');
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    begins
        && text.bytes().all(letters)
        && !reserved.iter().any(|word| text.eq_ignore_ascii_case(word))
}
