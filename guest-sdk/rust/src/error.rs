//! How calls and reconciles fail. Entry points: [`ApiError`] and [`Error`].

use crate::types::{Action, ApiCode, Failure, RawApiError};
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// A call to a cluster that failed. Match on [`ApiError::code`], or let `?` turn it into an [`Error`].
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// The code to branch on.
    pub code: ApiCode,
    /// 0 where there was no answer.
    pub http_status: u16,
    /// The API server's machine-readable reason, or the host's.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The API server's `details` as JSON: field errors, causes.
    pub details: Option<String>,
    /// How long the server asked to wait. The host honours it by itself.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// An error that no server answered, for code of your own and for tests.
    #[must_use]
    pub fn new(code: ApiCode, message: impl Into<String>) -> Self {
        let reason = code.as_str().to_owned();
        Self {
            code,
            http_status: 0,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
        }
    }

    /// The same error with an HTTP status.
    #[must_use]
    pub fn with_status(self, http_status: u16) -> Self {
        Self {
            http_status,
            ..self
        }
    }

    /// Whether the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code == ApiCode::NotFound
    }

    /// Whether an object of this name exists already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.code == ApiCode::AlreadyExists
    }

    /// Whether the object has changed, or another manager owns a field.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.code == ApiCode::Conflict
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for ApiError {}

impl From<RawApiError> for ApiError {
    fn from(raw: RawApiError) -> Self {
        Self {
            code: raw.code,
            http_status: raw.http_status,
            reason: raw.reason,
            message: raw.message,
            details: raw.details,
            retry_after: raw
                .retry_after_ms
                .map(|ms| Duration::from_millis(ms.into())),
        }
    }
}

/// A reconcile that failed: a message, and whether it is retried.
///
/// `?` turns every `std::error::Error` into one that is retried with growing delay, and whose report has the line of that `?`. [`Error::terminal`] and
/// [`Context::terminal`] make an error that waits for the next event.
#[derive(Debug, Clone)]
pub struct Error {
    message: String,
    then: Then,
    /// Where a `?` of the author made it of another error.
    at: Option<&'static Location<'static>>,
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (&self.message, self.then) == (&other.message, other.then)
    }
}

impl Eq for Error {}

/// What happens after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Retry,
    Terminal,
    /// It is no failure.
    NotReady(Duration),
}

/// The result of a reconcile.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Retries with growing delay, and not before the largest retry-after that the API returned in this run.
    #[must_use]
    pub fn retry(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            then: Then::Retry,
            at: None,
        }
    }

    /// Runs again only after an event.
    #[must_use]
    pub fn terminal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            then: Then::Terminal,
            at: None,
        }
    }

    /// Of a reconcile that waits for something: it runs again after this delay, or earlier after an event, and counts as succeeded. The
    /// message is in the log.
    #[must_use]
    pub fn not_ready(message: impl Into<String>, after: Duration) -> Self {
        Self {
            message: message.into(),
            then: Then::NotReady(after),
            at: None,
        }
    }

    /// The error with this place, unless it has one in the author's files.
    pub(crate) fn or_at(self, place: &'static Location<'static>) -> Self {
        let at = self.at.or_else(|| Some(place).filter(|at| is_author(at)));
        Self { at, ..self }
    }

    /// What the host logs: the message, and the line of the source where a call failed.
    pub(crate) fn report(self) -> String {
        match self.at {
            Some(at) if self.then == Then::Retry => {
                format!("{}\nat {}:{}", self.message, at.file(), at.line())
            }
            _ => self.message,
        }
    }

    /// For people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the reconcile waits for the next event.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.then == Then::Terminal
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Whether a place is neither in this SDK nor in the standard library, whose `into` is the place of a conversion without a `?`.
fn is_author(at: &Location<'_>) -> bool {
    let own = file!().strip_suffix("error.rs").unwrap_or_default();
    !at.file().starts_with(own) && !at.file().contains("/library/core/")
}

impl<E: std::error::Error> From<E> for Error {
    #[track_caller]
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::retry(message).or_at(Location::caller())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.then {
            Then::Terminal => Self::Terminal(error.message),
            Then::Retry | Then::NotReady(_) => Self::Retry(error.report()),
        }
    }
}

/// The result of a reconcile as the host takes it: not ready yet is a requeue.
pub(crate) fn settled(result: Result<Action>) -> Result<Action> {
    match result {
        Err(Error {
            message,
            then: Then::NotReady(after),
            ..
        }) => {
            crate::info!("not ready yet", why = message);
            Ok(Action::requeue_after(after))
        }
        result => result,
    }
}

/// Adds context to an error.
pub trait Context<T> {
    /// Puts `what: ` before the message.
    ///
    /// # Errors
    /// The error it was called on.
    #[track_caller]
    fn context(self, what: impl fmt::Display) -> Result<T>;

    /// Waits for the next event instead of a retry.
    ///
    /// # Errors
    /// The error it was called on.
    #[track_caller]
    fn terminal(self) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    #[track_caller]
    fn context(self, what: impl fmt::Display) -> Result<T> {
        // A closure would be the place.
        let place = Location::caller();
        self.map_err(|error| {
            let error = error.into().or_at(place);
            Error {
                message: format!("{what}: {}", error.message),
                ..error
            }
        })
    }

    fn terminal(self) -> Result<T> {
        self.map_err(|error| Error {
            then: Then::Terminal,
            ..error.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict() -> Result<(), ApiError> {
        Err(ApiError::new(ApiCode::Conflict, "the object has changed").with_status(409))
    }

    #[test]
    fn a_question_mark_makes_a_retry() {
        let run = || -> Result<()> { Ok(conflict()?) };
        let error = run().unwrap_err();
        assert!(!error.is_terminal());
        assert_eq!(error.message(), "conflict: the object has changed");
    }

    #[test]
    fn terminal_is_said_and_survives_context() {
        let error = conflict()
            .terminal()
            .context("writing the child")
            .unwrap_err();
        assert!(error.is_terminal());
        assert_eq!(
            error.to_string(),
            "writing the child: conflict: the object has changed"
        );
        assert_eq!(
            Failure::from(error),
            Failure::Terminal("writing the child: conflict: the object has changed".into())
        );
    }
}
