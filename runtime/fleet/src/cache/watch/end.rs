//! How a list or a watch ends, and what people are told of it. Entry point: [`WatchEnd`].

use crate::api::{ApiCode, ApiError};
use crate::cache::continuity::NotConfirmed;
use crate::cache::store::{Problem, StaleList, Unfit};
use crate::http::transport::TransportError;
use crate::json::JsonError;
use std::sync::Arc;
use std::time::Duration;

/// How a list or a watch ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchEnd {
    /// The watch came to its end, or broke: resume at the last version.
    #[error("the watch ended")]
    Ended,
    /// The watch should have ended and said nothing either: resume, and do not trust the next one before it has said something.
    #[error("the watch was silent for {0:?} and did not end when it should have")]
    Silent(Duration),
    /// The watch came to its end and never said a word, not even how far the server is: ask it before resuming.
    #[error("the watch ended without a word")]
    Quiet,
    /// The version is too old: list anew.
    #[error("the server has no history from the cache's version on")]
    Expired,
    /// The server does not know the version yet: ask it how far it is.
    #[error("the server is not as far as the cache")]
    Behind,
    #[error("HistoryLost: {0}")]
    Stale(#[from] StaleList),
    /// Another server answers: this cluster ends, and with it this watch.
    #[error("another server answers under this address")]
    Replaced,
    /// The server does not stream lists.
    #[error("the server does not stream lists")]
    Unstreamed,
    /// The server refused.
    #[error("{0}")]
    Refused(ApiError),
    /// The server cannot be reached, or broke off.
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error(
        "there is more of this kind than the {0} bytes that a cache may hold: raise the limit, or watch its metadata or a selection"
    )]
    TooMuch(usize),
    #[error("the server sent what is not a list or watch of this kind: {0}")]
    Garbage(String),
}

impl WatchEnd {
    /// What the cluster's status says of it; `None` for what is ordinary.
    pub(super) fn problem(&self) -> Option<Problem> {
        let (mut definite, mut error) = (false, None);
        match self {
            Self::Ended | Self::Quiet | Self::Unstreamed => return None,
            Self::Refused(refusal) => {
                definite = matches!(
                    refusal.code,
                    ApiCode::Forbidden
                        | ApiCode::UnknownKind
                        | ApiCode::NotFound
                        | ApiCode::Invalid
                );
                error = Some(Arc::new(refusal.clone()));
            }
            _ => {}
        }
        let unreachable = match self {
            Self::Silent(_) | Self::Replaced => true,
            // An answer that cannot be read is an answer.
            Self::Transport(error) => matches!(
                error,
                TransportError::Unreachable { .. }
                    | TransportError::Crowded { .. }
                    | TransportError::NoDescriptors { .. }
                    | TransportError::Timeout { .. }
                    | TransportError::Credentials { .. }
            ),
            _ => false,
        };
        Some(Problem {
            definite,
            unreachable,
            stale: matches!(self, Self::Stale(_)),
            message: self.to_string(),
            error,
        })
    }

    /// Whether a refusal may be over by itself, so that the watch resumes where it was.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Refused(error) if error.http_status == 429 || error.http_status >= 500)
    }

    /// Whether the server does not know how to stream a list, or has that switched off.
    pub(super) fn is_rejection(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == ApiCode::Invalid)
    }

    /// Whether the server does not serve the kind.
    pub(super) fn is_unserved(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == ApiCode::UnknownKind)
    }

    /// How long the server has asked to be left alone.
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Refused(error) => error.retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

impl From<ApiError> for WatchEnd {
    fn from(error: ApiError) -> Self {
        let too_large = |details: &String| details.contains("ResourceVersionTooLarge");
        if error.http_status == 410 {
            Self::Expired
        } else if error.details.as_ref().is_some_and(too_large) {
            Self::Behind
        } else {
            Self::Refused(error)
        }
    }
}

impl From<NotConfirmed> for WatchEnd {
    fn from(error: NotConfirmed) -> Self {
        match error {
            NotConfirmed::Replaced => Self::Replaced,
            NotConfirmed::Unknown(error) => error.into(),
        }
    }
}

impl From<JsonError> for WatchEnd {
    fn from(error: JsonError) -> Self {
        Self::Garbage(error.to_string())
    }
}

impl From<Unfit> for WatchEnd {
    fn from(unfit: Unfit) -> Self {
        Self::Garbage(unfit.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::answer;

    #[test]
    fn a_version_that_the_server_has_not_reached_is_told_from_other_timeouts() {
        let body = br#"{"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version: 9, current: 5",
            "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}}"#;
        assert!(matches!(
            answer::error(504, None, body).into(),
            WatchEnd::Behind
        ));
        let other: WatchEnd =
            answer::error(504, None, br#"{"kind":"Status","reason":"Timeout"}"#).into();
        assert!(other.is_passing());
    }

    #[test]
    fn too_large_an_answer_does_not_make_a_server_unreachable() {
        let too_large = TransportError::TooLarge {
            server: "s".into(),
            limit: 1,
        };
        assert!(
            !WatchEnd::from(too_large)
                .problem()
                .is_some_and(|p| p.unreachable)
        );
        assert!(
            WatchEnd::Silent(Duration::ZERO)
                .problem()
                .is_some_and(|p| p.unreachable)
        );
        assert!(WatchEnd::Ended.problem().is_none());
    }
}
