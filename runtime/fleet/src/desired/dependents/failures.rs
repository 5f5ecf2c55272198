//! What failed, in few and plain words. Entry point: [`Failures`].

use crate::api::ApiError;
use serde_json::Value;

/// Failures that a message names.
const MOST: usize = 3;
/// Characters of what a message says of one failure.
const LONGEST: usize = 200;

/// What failed in one pass over the dependents.
#[derive(Default)]
pub(super) struct Failures {
    texts: Vec<String>,
    first: Option<ApiError>,
}

impl Failures {
    pub(super) fn add(&mut self, what: &str, error: ApiError) {
        self.texts.push(format!("{what}: {}", plain(&error)));
        self.first.get_or_insert(error);
    }

    /// The first failure, with a message that names several.
    pub(super) fn into_error(self) -> Option<ApiError> {
        let mut message = self.texts[..self.texts.len().min(MOST)].join("; ");
        if self.texts.len() > MOST {
            message += &format!("; and {} more", self.texts.len() - MOST);
        }
        let first = self.first?;
        Some(ApiError { message, ..first })
    }
}

/// A failure's message: the first field that is wrong, without the value that a server prints of it.
pub(super) fn plain(error: &ApiError) -> String {
    let details = error.details.as_deref().unwrap_or_default();
    let details: Value = serde_json::from_str(details).unwrap_or_default();
    let causes = details["causes"].as_array().into_iter().flatten();
    let texts: Vec<String> = causes
        .map(|cause| {
            let text = |field: &str| cause[field].as_str().unwrap_or_default();
            let message = text("message");
            let said = message.rsplit_once("}: ").map_or(message, |(_, said)| said);
            match text("field") {
                "" => bounded(said),
                field => bounded(&format!("{field}: {said}")),
            }
        })
        .collect();
    if texts.is_empty() {
        return bounded(&error.message);
    }
    summary(&texts)
}

fn bounded(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The first text, and how many more there are.
pub(super) fn summary(texts: &[String]) -> String {
    match texts {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first}, and {} more", more.len()),
    }
}
