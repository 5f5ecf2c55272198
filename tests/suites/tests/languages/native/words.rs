//! What the native cases share: what they work with, and how they write lines. Entry points: [`Scene`] and [`Sheet`].

use crate::book::Book;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use windlass_fleet::api::{ApiError, GetOptions, Json, ReadMode};
use windlass_fleet::{Client, GroupVersionKind, ObjectKey};

pub(super) fn maps() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

pub(super) fn deployments() -> GroupVersionKind {
    GroupVersionKind::new("apps", "v1", "Deployment")
}

pub(super) fn live() -> GetOptions {
    GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    }
}

/// What a case works with.
pub(super) struct Scene {
    pub(super) client: Client,
    pub(super) sheet: Sheet,
    pub(super) key: ObjectKey,
    pub(super) primary: Value,
}

impl Scene {
    pub(super) fn namespace(&self) -> &str {
        self.key.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn at(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace(), name)
    }

    /// A ConfigMap with data, as it is sent.
    pub(super) fn map(&self, name: &str, data: Value) -> Value {
        let mut map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": self.namespace(), "name": name},
        });
        if data.as_object().is_some_and(|data| !data.is_empty()) {
            map["data"] = data;
        }
        map
    }

    pub(super) async fn cached(&self, name: &str) -> Result<Option<Json>, ApiError> {
        self.get(name, &GetOptions::default()).await
    }

    pub(super) async fn live(&self, name: &str) -> Result<Option<Json>, ApiError> {
        self.get(name, &live()).await
    }

    pub(super) async fn get(
        &self,
        name: &str,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        self.client.get(&maps(), &self.at(name), options).await
    }

    pub(super) async fn web(&self) -> Result<Value, ApiError> {
        let (kind, key, options) = (deployments(), self.at("web"), live());
        let web = self.client.get(&kind, &key, &options).await?;
        Ok(web.as_ref().map_or(Value::Null, parsed))
    }

    pub(super) fn info(&self, message: &str, fields: &[(&str, String)]) {
        self.sheet.info(message, fields);
    }

    /// Writes down a call that failed; one that did not says nothing.
    pub(super) fn refuse<T>(&self, call: &str, answer: &Result<T, ApiError>) {
        if let Err(error) = answer {
            self.sheet.refuse(call, error);
        }
    }
}

/// Where lines go.
pub(super) struct Sheet {
    book: Arc<Book>,
    namespace: String,
}

impl Sheet {
    pub(super) fn new(book: &Arc<Book>, namespace: &str) -> Self {
        Self {
            book: book.clone(),
            namespace: namespace.to_owned(),
        }
    }

    pub(super) fn info(&self, message: &str, fields: &[(&str, String)]) {
        self.line("INFO", message, fields);
    }

    /// As the host writes what a guest logs.
    pub(super) fn line(&self, level: &str, message: &str, fields: &[(&str, String)]) {
        let mut joined = String::new();
        for (name, value) in fields {
            let value = visible(value);
            let space = if joined.is_empty() { "" } else { " " };
            let plain = !value.is_empty() && !value.contains([' ', '"', '=']);
            let written = if plain {
                write!(joined, "{space}{name}={value}")
            } else {
                write!(joined, "{space}{name}={value:?}")
            };
            written.expect("writing to a string does not fail");
        }
        self.book.line(&self.namespace, level, message, &joined);
    }

    pub(super) fn refuse(&self, call: &str, error: &ApiError) {
        let details: Value = error.details.as_deref().map_or(Value::Null, |text| {
            serde_json::from_str(text).expect("details")
        });
        self.info(
            call,
            &[
                ("code", error.code.as_str().to_owned()),
                ("status", error.http_status.to_string()),
                ("reason", error.reason.clone()),
                ("message", error.message.clone()),
                ("about", text(&details, "/name")),
                ("field", text(&details, "/causes/0/field")),
                (
                    "wait",
                    error
                        .retry_after
                        .map_or("none".to_owned(), |after| after.as_millis().to_string()),
                ),
            ],
        );
    }
}

/// What the host makes of line ends, tabs and other control characters.
fn visible(text: &str) -> String {
    let mut visible = String::new();
    for character in text.chars() {
        match character {
            '\n' | '\t' => visible.push(' '),
            control if control.is_control() => visible.extend(control.escape_unicode()),
            other => visible.push(other),
        }
    }
    visible
}

pub(super) fn parsed(json: &Json) -> Value {
    serde_json::from_slice(json).expect("servers send JSON")
}

/// A value of an object as it is written: text as it is, anything else as JSON, `none` for what is not there.
pub(super) fn text(object: &Value, pointer: &str) -> String {
    match object.pointer(pointer) {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The `color` of a ConfigMap.
pub(super) fn color(map: Option<&Json>) -> String {
    map.map_or("none".to_owned(), |map| text(&parsed(map), "/data/color"))
}

/// The names of objects.
pub(super) fn named(items: &[Json]) -> String {
    let names: Vec<_> = items
        .iter()
        .map(|item| text(&parsed(item), "/metadata/name"))
        .collect();
    names.join(",")
}

pub(super) fn bytes(value: &Value) -> Json {
    value.to_string().into()
}
