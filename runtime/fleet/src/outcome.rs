//! How a reconcile ends. Entry points: [`Action`] and [`Failure`].

use std::fmt;
use std::time::Duration;

/// A reconcile that succeeded. Both forms forget the key's backoff, as in controller-runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing more to do until an event.
    Done,
    /// Run again after this time, or earlier at an event. Zero runs again at once, but a key runs at most every 100 ms this way.
    RequeueAfter(Duration),
}

/// What the queue does with a key whose reconcile failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Runs again with growing delay, and not before the largest retry-after of the API's answers in this run.
    Retry,
    /// Runs again only at an event.
    Terminal,
}

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Blame {
    /// The reconciler: it returned a failure, trapped, or hit a limit.
    Guest,
    /// This process.
    Host,
    /// The API server of the request's cluster.
    Api,
}

impl Blame {
    /// The word in logs, metrics and status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Host => "host",
            Self::Api => "api",
        }
    }
}

/// A reconcile that failed.
///
/// The operator `?` makes one of every error: of [`ApiError`](crate::ApiError), of errors of your own, of `anyhow`. It is retried, and its
/// message has the error's causes. That is why `Failure` is not a [`std::error::Error`] itself.
///
/// ```
/// use windlass_fleet::{Action, Context, Failure, Result};
///
/// async fn reconcile(context: Context) -> Result<Action> {
///     let port: u16 = std::env::var("PORT")?.parse()?; // retried
///     if port < 1024 {
///         return Err(Failure::terminal("PORT is below 1024")); // waits for an event
///     }
///     Ok(Action::Done)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the queue does next.
    pub disposition: Disposition,
    /// Whose fault it is.
    pub blame: Blame,
    /// A short reason for metrics and status, from a closed set of the caller's: `error`, `trap`, `timeout`, `memory`, …
    pub reason: &'static str,
    /// For people; at most [`Failure::MAX_MESSAGE`] bytes.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The result of a reconcile, and of the functions that it calls.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Longest message kept, in bytes.
    pub const MAX_MESSAGE: usize = 4096;

    /// A failure that is retried with growing delay.
    #[must_use]
    pub fn retry(message: impl Into<String>) -> Self {
        Self {
            disposition: Disposition::Retry,
            blame: Blame::Guest,
            reason: "error",
            message: shortened(message.into(), Self::MAX_MESSAGE),
        }
    }

    /// A failure that waits for the next event.
    #[must_use]
    pub fn terminal(message: impl Into<String>) -> Self {
        Self {
            disposition: Disposition::Terminal,
            ..Self::retry(message)
        }
    }

    /// The same failure, with another to blame.
    #[must_use]
    pub fn blame(self, blame: Blame) -> Self {
        Self { blame, ..self }
    }

    /// The same failure, with another reason.
    #[must_use]
    pub fn reason(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }
}

/// Cuts a message for people to at most `limit` bytes, between characters. What is cut ends with an ellipsis.
#[must_use]
pub fn shortened(mut message: String, limit: usize) -> String {
    const MARK: char = '…';
    if message.len() > limit {
        message.truncate(message.floor_char_boundary(limit.saturating_sub(MARK.len_utf8())));
        message.push(MARK);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let failure = Failure::retry("é".repeat(5000));
        assert!(failure.message.len() <= Failure::MAX_MESSAGE && failure.message.ends_with("é…"));
        assert_eq!(Failure::terminal("short").message, "short");
    }
}
