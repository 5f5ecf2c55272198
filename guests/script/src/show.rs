//! What came of a call, as JSON. Entry points: [`Shown`], [`error`] and [`reply`].

use serde_json::{Value, json};
use windlass_sdk::raw::Answer;
use windlass_sdk::{ApiError, ListPage, Reply};

/// Longest error message that is answered, in characters.
const MESSAGE: usize = 300;

/// Which parts of objects are answered.
pub(crate) struct Shown(Vec<String>);

impl Shown {
    pub(crate) fn of(step: &Value) -> Self {
        let pointers = step["show"].as_array().into_iter().flatten();
        Self(
            pointers
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        )
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
            Ok(()) => json!("done"),
            Err(failed) => error(&failed),
        }
    }

    pub(crate) fn items(&self, page: &ListPage) -> Value {
        page.items.iter().map(|text| self.parts(text)).collect()
    }

    pub(crate) fn reply(&self, answer: Answer<Reply>) -> Value {
        match answer {
            Ok(Reply::Nothing) => Value::Null,
            Ok(Reply::Object(text)) => self.parts(&text),
            Ok(Reply::Page(page)) => self.items(&page),
            Err(failed) => error(&failed),
        }
    }

    /// The name alone, or the parts that were asked for.
    fn parts(&self, text: &str) -> Value {
        let object: Value = serde_json::from_str(text).unwrap_or_default();
        match &self.0[..] {
            [] => object["metadata"]["name"].clone(),
            pointers => pointers
                .iter()
                .map(|pointer| object.pointer(pointer).cloned().unwrap_or_default())
                .collect(),
        }
    }
}

/// A call that failed.
pub fn error(error: &ApiError) -> Value {
    let message: String = error.message.chars().take(MESSAGE).collect();
    json!({"code": error.code.as_str(), "status": error.http_status, "message": message})
}

/// One answer of a batch, objects by name.
pub fn reply(answer: Answer<Reply>) -> Value {
    Shown(Vec::new()).reply(answer)
}
