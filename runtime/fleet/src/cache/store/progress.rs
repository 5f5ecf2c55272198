//! How far a store is in step with its server, and why it is not. Entry point: [`Progress`].

use super::Store;
use crate::api::{ApiCode, ApiError};
use crate::kind::GroupVersionKind;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// How far a store is in step with its server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Progress {
    /// Whether the first list is in.
    pub(crate) synced: bool,
    /// Why the watch does not run, or is not trusted yet.
    pub(crate) problem: Option<Problem>,
    /// Whether a watch is established.
    pub(crate) watching: bool,
    /// Watches established so far, except those that follow a watch which ended on schedule.
    pub(crate) watches: u64,
    /// When a failed list or watch is tried again.
    pub(crate) next_attempt: Option<SystemTime>,
}

/// Why a watch does not run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// Whether the server gave a definite answer (403, kind not served), so that waiting for the first list is pointless.
    pub(crate) definite: bool,
    /// Whether the server could not be reached at all, which concerns every kind.
    pub(crate) unreachable: bool,
    /// Whether the server's list is older than the store, which concerns every kind: its history may be lost.
    pub(crate) stale: bool,
    pub(crate) message: String,
    pub(crate) error: Option<Arc<ApiError>>,
}

impl Problem {
    /// Whether the server does not serve the kind.
    pub(crate) fn is_unserved(&self) -> bool {
        let error = self.error.as_ref();
        error.is_some_and(|error| error.code == ApiCode::UnknownKind)
    }

    /// The error of a read that needs the cache.
    pub(crate) fn read_error(&self, kind: &GroupVersionKind) -> ApiError {
        let mut error = match &self.error {
            Some(error) => (**error).clone(),
            None => ApiError::host(ApiCode::Unavailable, self.message.clone()),
        };
        error.message = format!("the cache of {kind} cannot be filled: {}", error.message);
        error
    }
}

impl Progress {
    /// Whether the server does not serve the kind, and the store is empty.
    pub(crate) fn is_unserved(&self) -> bool {
        !self.synced && self.problem.as_ref().is_some_and(Problem::is_unserved)
    }

    /// Whether the first list is in, or the server has definitely refused it.
    pub(crate) fn is_decided(&self) -> bool {
        self.synced
            || self
                .problem
                .as_ref()
                .is_some_and(|problem| problem.definite)
    }

    /// What keeps the first list from coming, if that is known. It is tried again all the time, but a read need not wait for that.
    pub(crate) fn obstacle(&self) -> Option<&Problem> {
        self.problem.as_ref().filter(|_| !self.synced)
    }
}

impl Store {
    /// The progress now, and a way to wait for more.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Records that a watch is established. If it is trusted, the problem is over. `on_schedule`: the previous watch ended on schedule.
    pub(crate) fn watch_opened(&self, trusted: bool, on_schedule: bool) {
        self.progress.send_modify(|p| {
            p.watching = true;
            p.watches += u64::from(!on_schedule);
            if trusted {
                p.problem = None;
            }
        });
    }

    /// Records that the watch has delivered something: the problem is over.
    pub(crate) fn watch_proven(&self) {
        self.progress
            .send_if_modified(|p| p.problem.take().is_some());
    }

    /// Sets when the next attempt is due; `None`: it is under way.
    pub(crate) fn set_next_attempt(&self, at: Option<SystemTime>) {
        self.progress
            .send_if_modified(|p| std::mem::replace(&mut p.next_attempt, at) != at);
    }

    pub(crate) fn watch_closed(&self) {
        self.progress
            .send_if_modified(|p| std::mem::replace(&mut p.watching, false));
    }

    pub(crate) fn set_problem(&self, problem: Problem) {
        let is_definite = problem.definite || problem.is_unserved();
        let is_new = self.progress.send_if_modified(|p| {
            p.watching = false;
            let change = p.problem.as_ref() != Some(&problem);
            p.problem = Some(problem);
            change
        });
        if is_new && is_definite {
            self.writer.lock().progressed();
        }
    }
}
