//! What all reconcilers share: guests, records, background tasks, and what they have to tell. Entry point: [`Environment`].

use super::file::{File, Sources};
use super::permits::TenantPermits;
use super::reloads::Reloads;
use crate::app::rollback::RollbackCall;
use crate::guests::{Guests, LoadFailure, Prepared};
use crate::status::reconcilers::Statuses;
use futures::FutureExt;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::task::{AbortHandle, Id, JoinSet};
use windlass_fleet::controller::Controller;
use windlass_fleet::{ControllerName, TenantName};

/// What the manager has to do.
pub(crate) enum Change {
    /// Adds a controller, or replaces the one of its name.
    Put(Box<Controller>),
    /// The same, of a guest whose revision stays: its rights or limits are revoked, or granted again.
    Bound(Box<Controller>),
    /// Removes a controller whose reconciler moves to another tenant. Its runs end before the next change of the reconciler.
    Move(TenantName, ControllerName),
    /// Removes a controller.
    Remove(TenantName, ControllerName),
}

/// What all reconcilers share.
pub(super) struct Environment {
    pub(super) guests: Guests,
    pub(super) sources: Sources,
    pub(super) statuses: Arc<Statuses>,
    pub(super) reloads: Reloads,
    pub(super) permits: TenantPermits,
    /// Background tasks, by reconciler: at most one that reads its file, one that prepares its guest and one that writes its record.
    pub(super) tasks: JoinSet<(String, Done)>,
    /// What the manager has to do.
    pub(super) changes: Vec<Change>,
    /// Reconcilers whose problem has changed since the last report.
    pub(super) unreported: BTreeSet<String>,
    /// Rollbacks that succeeded since then, by reconciler, each with why the next process may not know of it.
    pub(super) rolled_back: Vec<(String, RollbackCall, String)>,
}

/// The result of a background task.
pub(super) enum Done {
    Read(Result<Box<File>, LoadFailure>),
    Prepared(Result<Box<Prepared>, LoadFailure>),
    /// Its record is written, or why it is not.
    Recorded(Result<(), LoadFailure>),
}

/// A background task, cancelled on drop.
pub(super) struct Task(AbortHandle);

impl Task {
    pub(super) fn is(&self, id: Id) -> bool {
        self.0.id() == id
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Environment {
    /// Without any task.
    pub(super) fn new(
        guests: Guests,
        sources: Sources,
        statuses: Arc<Statuses>,
        reloads: Reloads,
    ) -> Self {
        Self {
            guests,
            sources,
            statuses,
            reloads,
            permits: TenantPermits::default(),
            tasks: JoinSet::new(),
            changes: Vec::new(),
            unreported: BTreeSet::new(),
            rolled_back: Vec::new(),
        }
    }

    /// Starts a task of a reconciler. One that panics ends with a failure that may pass.
    pub(super) fn spawn<T: Send + 'static>(
        &mut self,
        reconciler: &str,
        work: impl Future<Output = Result<T, LoadFailure>> + Send + 'static,
        done: fn(Result<T, LoadFailure>) -> Done,
    ) -> Task {
        let name = reconciler.to_owned();
        Task(self.tasks.spawn(async move {
            let result = AssertUnwindSafe(work).catch_unwind().await;
            let panicked = |_| Err(LoadFailure::transient("the host failed".to_owned()));
            (name, done(result.unwrap_or_else(panicked)))
        }))
    }
}
