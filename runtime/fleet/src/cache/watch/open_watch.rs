//! A watch that a server has begun to answer. Entry point: [`OpenWatch`].

use super::end::{Malformed, WatchEnd};
use crate::http::lines::Lines;
use crate::http::status;
use crate::http::transport::AnswerBody;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A watch that is open this long after its timeout is overdue.
const GRACE: Duration = Duration::from_secs(4);

/// A watch that a server has begun to answer.
pub(super) struct OpenWatch {
    pub(super) lines: Lines<AnswerBody>,
    /// When the last line came.
    pub(super) last_line: Option<Instant>,
    /// How long the server was asked to keep it open.
    timeout: Duration,
    ends_at: Instant,
    /// Cancelled once the credentials are exchanged that it was opened with, which ends it.
    pub(super) replaced: CancellationToken,
}

impl OpenWatch {
    pub(super) fn new(
        lines: Lines<AnswerBody>,
        timeout: Duration,
        replaced: CancellationToken,
    ) -> Self {
        Self {
            lines,
            last_line: None,
            timeout,
            ends_at: Instant::now() + timeout,
            replaced,
        }
    }

    /// When the server should have ended it, even if its clock is slow.
    pub(super) fn overdue_at(&self) -> Instant {
        self.ends_at + GRACE
    }

    /// How it ended, if the server ended it.
    pub(super) fn ended(&self) -> WatchEnd {
        if self.last_line.is_none() && self.has_timed_out() {
            return WatchEnd::EndedEmpty;
        }
        WatchEnd::Ended
    }

    /// Whether it has lasted about as long as the server was asked to keep it open.
    pub(super) fn has_timed_out(&self) -> bool {
        let left = self.ends_at.saturating_duration_since(Instant::now());
        left < self.timeout / 10 + Duration::from_secs(1)
    }

    /// How it ended, if it is overdue.
    pub(super) fn overdue(&self) -> WatchEnd {
        let silent = self
            .last_line
            .map_or(self.timeout + GRACE, |at| at.elapsed());
        // A server that has sent something lately is alive, even if it ignores the timeout.
        if silent > self.timeout / 2 {
            WatchEnd::Unresponsive(Duration::from_secs(silent.as_secs()))
        } else {
            WatchEnd::Ended
        }
    }
}

/// The error that an `ERROR` event carries.
pub(super) fn error_event(text: &[u8]) -> WatchEnd {
    let code = serde_json::from_slice::<status::Status>(text).map_or(500, |body| body.code);
    status::error(code, None, text).into()
}

/// A `BOOKMARK` event: a version without an object.
#[derive(Deserialize)]
pub(super) struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
struct BookmarkMetadata {
    #[serde(rename = "resourceVersion")]
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

impl Bookmark {
    pub(super) fn read(text: &[u8]) -> Result<Self, Malformed> {
        serde_json::from_slice(text).map_err(|_| Malformed::Bookmark)
    }

    pub(super) fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// Whether it ends the list that a watch began with.
    pub(super) fn ends_list(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get("k8s.io/initial-events-end"))
            .is_some_and(|value| value == "true")
    }
}
