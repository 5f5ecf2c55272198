//! The result of a call, as JSON. Entry points: [`Shown`], [`error`], [`replies`], [`fields`] and [`text`].

use serde_json::Value;
use windlass_sdk::raw::Answer;
use windlass_sdk::{ApiError, ListPage, Object, Reply};

/// Longest error message in an answer, in bytes.
const MESSAGE: usize = 300;

/// The parts of objects in an answer, as JSON pointers without escapes and with no index except 0.
pub(crate) struct Shown(Value);

impl Shown {
    /// Takes the pointers out of a step.
    pub(crate) fn of(step: &mut Value) -> Self {
        Self(crate::take(step, "show"))
    }

    pub(crate) fn object(&self, answer: Answer<Option<String>>) -> Value {
        match answer {
            Ok(Some(text)) => self.parts(&text),
            Ok(None) => Value::Null,
            Err(failed) => error(&failed),
        }
    }

    pub(crate) fn nothing(&self, answer: Answer<()>) -> Value {
        match answer {
            Ok(()) => "done".into(),
            Err(failed) => error(&failed),
        }
    }

    pub(crate) fn items(&self, page: &ListPage) -> Value {
        Value::Array(page.items.iter().map(|text| self.parts(text)).collect())
    }

    pub(crate) fn replies(&self, answers: Vec<Answer<Reply>>) -> Value {
        let reply = |answer| match answer {
            Ok(Reply::Nothing) => Value::Null,
            Ok(Reply::Object(text)) => self.parts(&text),
            Ok(Reply::Page(page)) => self.items(&page),
            Err(failed) => error(&failed),
        };
        Value::Array(answers.into_iter().map(reply).collect())
    }

    /// Only the name, or the parts of `show`.
    fn parts(&self, text: &str) -> Value {
        let mut object = text.parse().map_or(Value::Null, |Object(value)| value);
        if self.0.is_null() {
            return part(&mut object, "/metadata/name");
        }
        let pointers = crate::items(&self.0).iter().filter_map(Value::as_str);
        Value::Array(pointers.map(|pointer| part(&mut object, pointer)).collect())
    }
}

/// Takes a part out.
fn part(mut within: &mut Value, pointer: &str) -> Value {
    for name in pointer.split('/').filter(|name| !name.is_empty()) {
        let inner = match within {
            Value::Array(items) if name == "0" => items.first_mut(),
            Value::Object(fields) => fields.get_mut(name),
            _ => None,
        };
        match inner {
            Some(inner) => within = inner,
            None => return Value::Null,
        }
    }
    within.take()
}

/// A call that failed.
#[must_use]
pub fn error(error: &ApiError) -> Value {
    let message = error.message.get(..MESSAGE).unwrap_or(&error.message);
    fields(&mut [
        ("code", error.code.as_str().into()),
        ("status", error.http_status.into()),
        ("message", message.into()),
    ])
}

/// The answers of a batch, objects by name.
#[must_use]
pub fn replies(answers: Vec<Answer<Reply>>) -> Value {
    Shown(Value::Null).replies(answers)
}

/// An object; takes the values.
#[must_use]
pub fn fields(fields: &mut [(&str, Value)]) -> Value {
    let mut object = serde_json::Map::new();
    for (name, value) in fields {
        object.insert((*name).to_owned(), std::mem::take(value));
    }
    Value::Object(object)
}

/// A value as text. `to_string` returns the same text, but adds code for indentation to the guest.
#[must_use]
pub fn text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
