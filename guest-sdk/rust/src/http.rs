//! Servers that are no API servers. Entry points: [`get`] and [`Request`].
//!
//! A guest that calls a function of this module imports `windlass:runtime/http`. What it may call stands in `spec.http` of the Reconciler;
//! headers with secrets are added there, so that the guest needs none.
//!
//! ```
//! use windlass_sdk::prelude::*;
//! use windlass_sdk::{http, testing::TestFleet};
//!
//! fn zone_id(name: &str) -> Result<String> {
//!     let answer = http::get(format!("https://dns.example.com/v1/zones/{name}"))?;
//!     if answer.status == 404 {
//!         return Err(Error::terminal(format!("there is no zone {name}")));
//!     }
//!     let zone: serde_json::Value = answer.success()?.json()?;
//!     Ok(zone["id"].as_str().unwrap_or_default().to_owned())
//! }
//!
//! // In the guest's tests:
//! let fleet = TestFleet::new();
//! fleet.serve(|request| match request.url.as_str() {
//!     "https://dns.example.com/v1/zones/a" => http::Response::new(200).body(r#"{"id": "z1"}"#),
//!     _ => http::Response::new(404),
//! });
//! assert_eq!(fleet.enter(|| zone_id("a"))?, "z1");
//! assert!(fleet.enter(|| zone_id("b")).is_err_and(|error| error.is_terminal()));
//! # Ok::<(), windlass_sdk::Error>(())
//! ```

use crate::error::{ApiError, Error, Result};
use crate::raw;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

/// Most bytes of an answer that an error shows.
const SHOWN: usize = 200;

/// A request. Nothing is sent before [`Request::send`].
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Absolute.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Empty: none.
    pub body: Vec<u8>,
    /// Default: 30 s, and 10 s, which is the most, for all but GET and HEAD.
    pub timeout: Option<Duration>,
}

/// An answer of any status.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// For example 200.
    pub status: u16,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer that says that a call has failed.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusError {
    /// Its status.
    pub status: u16,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
    shown: String,
}

/// Asks for a URL.
///
/// # Errors
/// [`ApiError`]: `denied` when no rule allows it, `timeout` and `unavailable` when no answer comes.
pub fn get(url: impl Into<String>) -> Result<Response, ApiError> {
    Request::get(url).send()
}

impl Request {
    /// A request of any method.
    #[must_use]
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: None,
        }
    }

    /// `GET`
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// `POST`
    #[must_use]
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// `PUT`
    #[must_use]
    pub fn put(url: impl Into<String>) -> Self {
        Self::new("PUT", url)
    }

    /// `PATCH`
    #[must_use]
    pub fn patch(url: impl Into<String>) -> Self {
        Self::new("PATCH", url)
    }

    /// `DELETE`
    #[must_use]
    pub fn delete(url: impl Into<String>) -> Self {
        Self::new("DELETE", url)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    /// Sets the body as JSON, and its type.
    ///
    /// # Errors
    /// When the value is not JSON, such as a map whose keys are no texts.
    pub fn json(self, value: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(value)?;
        Ok(self.header("content-type", "application/json").body(body))
    }

    /// Bounds the time for the whole call.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..self
        }
    }

    /// Sends it and waits for the answer.
    ///
    /// # Errors
    /// [`ApiError`], never for a status: see [`Response::success`].
    pub fn send(&self) -> Result<Response, ApiError> {
        raw::http_send(self)
    }
}

impl Response {
    /// An answer for tests.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The same answer with a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// The same answer with a body.
    #[must_use]
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    /// The first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the status is 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The answer, if its status is 2xx.
    ///
    /// # Errors
    /// [`StatusError`].
    pub fn success(self) -> Result<Self, StatusError> {
        if self.is_success() {
            return Ok(self);
        }
        let seconds = self
            .header("retry-after")
            .and_then(|text| text.trim().parse().ok());
        let text = String::from_utf8_lossy(&self.body);
        let end = text.floor_char_boundary(SHOWN);
        Err(StatusError {
            status: self.status,
            retry_after: seconds.map(Duration::from_secs),
            shown: text[..end].trim().to_owned(),
        })
    }

    /// The body as text. Bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body, read as JSON.
    ///
    /// # Errors
    /// When it is not JSON, or not of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let value = serde_json::from_slice(&self.body);
        value.map_err(|error| Error::retry(format!("the answer cannot be read: {error}")))
    }
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answers {}", self.status)?;
        if self.shown.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.shown)
    }
}

impl std::error::Error for StatusError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiCode;
    use crate::testing::TestFleet;

    #[test]
    fn a_test_answers_what_a_guest_asks() -> Result<()> {
        let fleet = TestFleet::new();
        fleet.serve(|request| {
            assert_eq!(
                (request.method.as_str(), request.body.as_slice()),
                ("POST", &b"[1]"[..])
            );
            let given = request.headers.iter().map(|(name, _)| name.as_str());
            Response::new(201).with_header("ETag", given.collect::<Vec<_>>().join(","))
        });
        let asked = Request::post("https://a.example.com/").header("idempotency-key", "k");
        let answer = fleet.enter(|| asked.json(&[1])?.send().map_err(Error::from))?;
        assert_eq!(answer.header("etag"), Some("idempotency-key,content-type"));
        Ok(())
    }

    #[test]
    fn without_answers_every_call_is_denied() {
        let refused = TestFleet::new().enter(|| get("https://a.example.com/"));
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, ApiCode::Denied);
        assert!(refused.message.contains("TestFleet::serve"), "{refused}");
    }

    #[test]
    fn a_status_becomes_an_error_where_the_guest_wants_one() {
        let answer = Response::new(429)
            .with_header("Retry-After", "7")
            .body("too many");
        let error = answer.success().unwrap_err();
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(error.to_string(), "the server answers 429: too many");
        assert!(Response::new(204).success().is_ok());
        let long = Response::new(500)
            .body("\u{e4}".repeat(SHOWN))
            .success()
            .unwrap_err();
        assert!(long.to_string().len() < 2 * SHOWN);
    }
}
