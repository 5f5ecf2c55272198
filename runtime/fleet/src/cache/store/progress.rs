//! How far a store has come, and why it comes no further. Entry point: [`Progress`].

use super::Store;
use std::sync::Arc;
use std::time::SystemTime;

/// How far a store has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Progress {
    /// Whether the first list is in.
    pub(crate) synced: bool,
    /// Why the watch does not run, or is not trusted.
    pub(crate) problem: Option<Problem>,
    /// Whether a new list and watch may be owed: false only while a watch is established.
    pub(crate) watching: bool,
    /// Watches established, but for those that follow one that ended at its time: another server may be behind each.
    pub(crate) watches: u64,
    /// When the list or watch that failed is tried again.
    pub(crate) next_attempt: Option<SystemTime>,
}

/// Why a watch does not run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// Whether the server gave a definite answer (403, kind not served), so that waiting for it is pointless.
    pub(crate) definite: bool,
    /// Whether the server could not be reached at all, which is no matter of this kind alone.
    pub(crate) unreachable: bool,
    /// Whether the server's list is older than the store: another server may answer.
    pub(crate) stale: bool,
    pub(crate) message: String,
    pub(crate) error: Option<Arc<crate::api::ApiError>>,
}

impl Problem {
    /// Whether the server does not serve the kind.
    pub(crate) fn is_unserved(&self) -> bool {
        let error = self.error.as_ref();
        error.is_some_and(|error| error.code == crate::api::ApiCode::UnknownKind)
    }
}

impl Progress {
    /// Whether nothing more is to be waited for before the store is read the first time: it is filled, or the server refuses to.
    pub(crate) fn is_decided(&self) -> bool {
        self.synced
            || self
                .problem
                .as_ref()
                .is_some_and(|problem| problem.definite)
    }
}

impl Store {
    /// A watch is established. One that is trusted ends the problem; `timely` is whether the one before ended at its time.
    pub(crate) fn watch_opened(&self, trusted: bool, timely: bool) {
        self.progress.send_modify(|p| {
            p.watching = true;
            p.watches += u64::from(!timely);
            if trusted {
                p.problem = None;
            }
        });
    }

    /// The watch has shown that it is one: the problem is over.
    pub(crate) fn watch_proven(&self) {
        self.progress
            .send_if_modified(|p| p.problem.take().is_some());
    }

    /// Notes when the next attempt is due, or that it is under way.
    pub(crate) fn set_next_attempt(&self, at: Option<SystemTime>) {
        self.progress
            .send_if_modified(|p| std::mem::replace(&mut p.next_attempt, at) != at);
    }

    pub(crate) fn watch_closed(&self) {
        self.progress
            .send_if_modified(|p| std::mem::replace(&mut p.watching, false));
    }

    pub(crate) fn set_problem(&self, problem: Problem) {
        self.progress.send_if_modified(|p| {
            p.watching = false;
            let change = p.problem.as_ref() != Some(&problem);
            p.problem = Some(problem);
            change
        });
    }
}
