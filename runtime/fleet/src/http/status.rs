//! Turns an error status of an API server into an [`ApiError`]. Entry point: [`error_for_status`].

use super::transport::{Answer, TransportError};
use crate::api::{ApiCode, ApiError};
use crate::outcome::shortened;
use serde::Deserialize;
use std::time::Duration;

/// A Kubernetes `Status` object.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Status {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) code: u16,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) details: Option<serde_json::Value>,
}

/// Longest message that is kept of a server, in bytes.
const MAX_MESSAGE: usize = 2048;
/// Longest details that are kept of a server, in bytes.
const MAX_DETAILS: usize = 16 << 10;

/// Longest delay that the body of an answer may request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The answer if its status is a success.
///
/// # Errors
/// The error that status and body describe.
pub(crate) fn error_for_status(answer: Answer) -> Result<Answer, ApiError> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    Err(error(answer.status, answer.retry_after, &answer.body))
}

/// The error that a status and a body describe.
pub(crate) fn error(http_status: u16, retry_after: Option<Duration>, body: &[u8]) -> ApiError {
    let status = serde_json::from_slice::<Status>(body)
        .ok()
        .filter(|s| s.kind == "Status")
        .unwrap_or_default();
    let code = code_of(http_status, &status);
    let message = if status.message.is_empty() {
        format!("the server answered {http_status}")
    } else {
        shortened(status.message, MAX_MESSAGE)
    };
    let details = status
        .details
        .as_ref()
        .map(ToString::to_string)
        .filter(|d| d.len() <= MAX_DETAILS);
    let in_body = status
        .details
        .as_ref()
        .and_then(|d| d["retryAfterSeconds"].as_u64())
        .map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    ApiError {
        code,
        http_status,
        reason: shortened(status.reason, MAX_MESSAGE),
        message,
        details,
        retry_after: retry_after.or(in_body),
    }
}

fn code_of(http_status: u16, status: &Status) -> ApiCode {
    match (http_status, status.reason.as_str()) {
        (404, _) if names_no_object(status) => ApiCode::UnknownKind,
        (404, _) => ApiCode::NotFound,
        (409, "AlreadyExists") => ApiCode::AlreadyExists,
        (409, _) => ApiCode::Conflict,
        (400 | 422, _) => ApiCode::Invalid,
        (401, _) => ApiCode::Unauthorized,
        (403, _) => ApiCode::Forbidden,
        (410, _) => ApiCode::Expired,
        (429, _) => ApiCode::Throttled,
        (504, _) | (_, "Timeout") => ApiCode::Timeout,
        (500..=599, _) => ApiCode::Unavailable,
        _ => ApiCode::Other,
    }
}

/// Whether a 404 is about a path that is not served: kube-apiserver names no object in it, or answers with plain text.
fn names_no_object(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .and_then(|d| d["name"].as_str())
        .is_none_or(str::is_empty)
}

impl From<TransportError> for ApiError {
    fn from(error: TransportError) -> Self {
        let code = match error {
            TransportError::Unreachable { .. }
            | TransportError::Proxy { .. }
            | TransportError::NotAllowed { .. }
            | TransportError::Crowded { .. }
            | TransportError::NoDescriptors { .. }
            | TransportError::Credentials { .. }
            | TransportError::Encoded { .. } => ApiCode::Unavailable,
            TransportError::Anonymous { .. } => ApiCode::Unauthorized,
            TransportError::OnlyRead { .. } => ApiCode::Denied,
            TransportError::Timeout { .. } | TransportError::Busy { .. } => ApiCode::Timeout,
            TransportError::RateLimited { .. } => ApiCode::Throttled,
            TransportError::TooLarge { .. }
            | TransportError::NotAdmitted { .. }
            | TransportError::NoRoom { .. } => ApiCode::LimitExceeded,
        };
        Self::host(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(status: u16, body: &str) -> ApiCode {
        error(status, None, body.as_bytes()).code
    }

    #[test]
    fn a_missing_object_and_a_missing_kind_differ() {
        let object =
            r#"{"kind":"Status","reason":"NotFound","details":{"name":"a","kind":"configmaps"}}"#;
        let kind = r#"{"kind":"Status","reason":"NotFound","details":{}}"#;
        assert_eq!(code(404, object), ApiCode::NotFound);
        assert_eq!(code(404, kind), ApiCode::UnknownKind);
        assert_eq!(code(404, "404 page not found"), ApiCode::UnknownKind);
    }

    #[test]
    fn statuses_become_codes() {
        let status = |reason: &str| format!(r#"{{"kind":"Status","reason":"{reason}"}}"#);
        assert_eq!(code(409, &status("AlreadyExists")), ApiCode::AlreadyExists);
        assert_eq!(code(409, &status("Conflict")), ApiCode::Conflict);
        assert_eq!(code(422, &status("Invalid")), ApiCode::Invalid);
        assert_eq!(code(429, ""), ApiCode::Throttled);
        assert_eq!(code(503, "<html>"), ApiCode::Unavailable);
        assert_eq!(code(418, ""), ApiCode::Other);
    }

    #[test]
    fn a_long_message_of_a_server_is_cut() {
        let body = format!(r#"{{"kind":"Status","message":"{}"}}"#, "é".repeat(4000));
        assert!(error(500, None, body.as_bytes()).message.len() <= MAX_MESSAGE);
    }

    #[test]
    fn retry_after_comes_from_the_header_or_the_details() {
        let body = br#"{"kind":"Status","details":{"retryAfterSeconds":7}}"#;
        assert_eq!(
            error(429, None, body).retry_after,
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            error(429, Some(Duration::from_secs(2)), body).retry_after,
            Some(Duration::from_secs(2))
        );
        let for_ever = br#"{"kind":"Status","details":{"retryAfterSeconds":18446744073709551615}}"#;
        assert_eq!(
            error(429, None, for_ever).retry_after,
            Some(MAX_RETRY_AFTER)
        );
    }
}
