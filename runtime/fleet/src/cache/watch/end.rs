//! How a list or a watch ended, and how a cluster's status reports it. Entry point: [`WatchEnd`].

use crate::api::{ApiCode, ApiError};
use crate::cache::continuity::NotConfirmed;
use crate::cache::store::{Problem, StaleList, Unfit};
use crate::http::transport::TransportError;
use crate::json::JsonError;
use std::sync::Arc;
use std::time::Duration;

/// How a list or a watch ended, and how to go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchEnd {
    /// Resume at the last version.
    #[error("the watch ended")]
    Ended,
    /// It ended at its timeout without a single line: check the server's version, then resume.
    #[error("the watch ended without an event")]
    EndedEmpty,
    /// It was open after its timeout and silent: resume, and do not trust the next watch before it has delivered something.
    #[error("the watch delivered nothing for {0:?} and did not end at its timeout")]
    Unresponsive(Duration),
    /// List again.
    #[error("the server has no history from the cache's version on")]
    Expired,
    /// The server does not know the version yet: check its version, then resume.
    #[error("the server has not reached the cache's version")]
    ServerBehind,
    /// List again; the server's history may be lost.
    #[error("HistoryLost: {0}")]
    Stale(#[from] StaleList),
    /// The cluster ends, and this watch with it.
    #[error("another server answers under this address")]
    IdentityChanged,
    /// List by pages.
    #[error("the server does not stream lists")]
    NotStreamed,
    /// List by pages, and every other kind too.
    #[error(
        "a streamed list had no end after {0:?}: a proxy before the server may drop the bookmark that marks it"
    )]
    Endless(Duration),
    #[error("{0}")]
    Refused(ApiError),
    /// The server cannot be reached, or the connection broke.
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error(
        "the objects of this kind exceed the {0} bytes that a cache may hold: raise the limit, or watch only metadata or a selection"
    )]
    TooLarge(usize),
    #[error("the server's answer is not a valid list or watch of this kind: {0}")]
    Malformed(#[from] Malformed),
}

/// Why an answer is not a list or a watch of the kind.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Object(#[from] Unfit),
    #[error("a bookmark without metadata.resourceVersion")]
    Bookmark,
    #[error("a line of more than {0} bytes")]
    LongLine(usize),
    #[error("a list without a resource version")]
    NoListVersion,
    #[error("a list of empty pages")]
    EmptyPages,
    #[error("a list with one object twice")]
    DuplicateObject,
    #[error("a list with two objects of one uid")]
    DuplicateUid,
    #[error("watches that end as soon as they begin")]
    ShortWatches,
}

impl WatchEnd {
    /// The problem that the cluster's status shows; `None` for an ordinary end.
    pub(super) fn problem(&self) -> Option<Problem> {
        let (mut definite, mut error) = (false, None);
        match self {
            Self::Ended | Self::EndedEmpty | Self::NotStreamed | Self::Endless(_) => return None,
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
            Self::Unresponsive(_) | Self::IdentityChanged => true,
            // The other transport errors are about an answer, so the server was reached.
            Self::Transport(error) => matches!(
                error,
                TransportError::Unreachable { .. }
                    | TransportError::Proxy { .. }
                    | TransportError::NotAllowed { .. }
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

    /// Whether it is a refusal that ends by itself, so that the watch can resume.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self, Self::Refused(error) if error.http_status == 429 || error.http_status >= 500)
    }

    /// Whether the server rejects the parameters of the request: it cannot stream lists, or that is switched off.
    pub(super) fn is_rejection(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == ApiCode::Invalid)
    }

    /// Whether the server does not serve the kind.
    pub(super) fn is_unserved(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == ApiCode::UnknownKind)
    }

    /// How long the server asks clients to wait.
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
            Self::ServerBehind
        } else {
            Self::Refused(error)
        }
    }
}

impl From<NotConfirmed> for WatchEnd {
    fn from(error: NotConfirmed) -> Self {
        match error {
            NotConfirmed::IdentityChanged => Self::IdentityChanged,
            NotConfirmed::NoAnswer(error) => error.into(),
        }
    }
}

impl From<JsonError> for WatchEnd {
    fn from(error: JsonError) -> Self {
        Self::Malformed(error.into())
    }
}

impl From<Unfit> for WatchEnd {
    fn from(unfit: Unfit) -> Self {
        Self::Malformed(unfit.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::status;

    #[test]
    fn a_version_that_the_server_has_not_reached_differs_from_other_timeouts() {
        let body = br#"{"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version: 9, current: 5",
            "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}}"#;
        assert!(matches!(
            status::error(504, None, body).into(),
            WatchEnd::ServerBehind
        ));
        let other: WatchEnd =
            status::error(504, None, br#"{"kind":"Status","reason":"Timeout"}"#).into();
        assert!(other.is_temporary());
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
            WatchEnd::Unresponsive(Duration::ZERO)
                .problem()
                .is_some_and(|p| p.unreachable)
        );
        assert!(WatchEnd::Ended.problem().is_none());
    }
}
