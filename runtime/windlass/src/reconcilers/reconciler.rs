//! One reconciler: what its document asks for, what is being loaded, and what serves. Entry point: [`Reconciler`].
//!
//! It takes one step after the other: read the guest's file, load the guest, apply it. A newer change cancels the load of an older one,
//! so an old revision never replaces a newer one. A change that equals the one being loaded does not start a second load.
//!
//! While a rollback is in effect, its revision serves or nothing does, but never the one that an operator rolled back from.

mod pin;
mod view;

use super::failed::Failed;
use super::file::File;
use super::history::History;
use super::records::Recording;
use super::revoke::Revocation;
use crate::app::rollback::{Refusal, RollbackCall};
use crate::config::kinds::ReconcilerSpec;
use crate::config::load::Document;
use crate::config::record::{KnownRevision, Record, Rollback};
use crate::guests::{LoadFailure, TenantPolicy};
use crate::status::reconcilers::LastChange;
pub(super) use pin::Pin;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};
use tokio::task::{AbortHandle, Id};
use windlass_registry::Lookup;
use windlass_sandbox::Digest;

/// Everything that a reconciler is loaded from. It is loaded again when this changes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Inputs {
    pub(super) spec: ReconcilerSpec,
    pub(super) policy: TenantPolicy,
    guest: Digest,
}

impl Inputs {
    pub(super) fn tenant(&self) -> &str {
        self.spec.tenant()
    }

    pub(super) fn guest(&self) -> Digest {
        self.guest
    }
}

/// What the documents ask for.
#[derive(Clone)]
pub(super) struct Desired {
    pub(super) document: Document,
    pub(super) spec: ReconcilerSpec,
    pub(super) policy: TenantPolicy,
}

/// A background task, cancelled on drop.
pub(super) struct Task(AbortHandle);

impl Task {
    pub(super) fn new(handle: AbortHandle) -> Self {
        Self(handle)
    }

    pub(super) fn is(&self, id: Id) -> bool {
        self.0.id() == id
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A task that reads the guest's file.
struct Reading {
    /// Whether the file may have changed since the task started, so that it has to be read once more.
    stale: bool,
    task: Task,
}

/// A task that loads the guest.
struct Loading {
    inputs: Inputs,
    path: Option<PathBuf>,
    image: Option<String>,
    /// The rollback that is in effect if the load succeeds.
    rollback: Option<Rollback>,
    /// The caller that waits for the load.
    call: Option<RollbackCall>,
    task: Task,
}

/// A reconciler that a document asks for.
pub(super) struct Reconciler {
    desired: Desired,
    /// What serves; none: nothing does.
    pub(super) applied: Option<Inputs>,
    /// What the controller has lost since it was loaded.
    pub(super) revocation: Revocation,
    /// Whether rights or limits were revoked since what serves was loaded. A reload resets this.
    pub(super) has_less: bool,
    /// The revisions that it can serve, and its rollback.
    pub(super) history: History,
    /// What came of the last look-up of its image; none: it is no image.
    lookup: Option<Lookup>,
    /// The revision of a rollback that is to be read, because this process has not loaded it.
    pin: Option<Pin>,
    /// How its record is being written.
    pub(super) recording: Recording,
    /// The last failure, with the inputs of that load; without inputs if the file could not be read.
    failed: Option<Failed<Option<Inputs>>>,
    /// Why the desired state is not in effect; none when it is.
    problem: Option<String>,
    /// The last change.
    changed: Option<LastChange>,
    /// When the current change, or the last one, started.
    began: Instant,
    reading: Option<Reading>,
    loading: Option<Loading>,
    /// A rollback to decide on once the file is read.
    call: Option<RollbackCall>,
}

/// What to do after a task has ended.
pub(super) enum Step {
    /// Nothing.
    None,
    /// Note that the desired state is applied.
    Settled(Option<RollbackCall>),
    /// Note why the desired state cannot be applied.
    Refused(String),
    /// The same, and stop what serves: an operator rolled back from it.
    Stop(String),
    /// Read the guest's file again: a rollback failed, and the documents decide again; or its revision is to be read too.
    Again,
    /// Load this.
    Load(Box<Plan>),
}

/// A change to load.
pub(super) struct Plan {
    pub(super) inputs: Inputs,
    /// The file of the component; none: the component is kept compiled.
    pub(super) path: Option<PathBuf>,
    /// The image of the component; none: it was a file.
    pub(super) image: Option<String>,
    rollback: Option<Rollback>,
    call: Option<RollbackCall>,
}

impl Reconciler {
    /// With nothing applied. The record is that of a file.
    pub(super) fn new(desired: Desired, record: Record) -> Self {
        let of = desired.document.record.clone();
        let history = match of {
            Some(of) => History::new(&of.uid, of.record.clone()),
            None => History::new("", record),
        };
        Self {
            desired,
            applied: None,
            revocation: Revocation::default(),
            has_less: false,
            history,
            lookup: None,
            pin: None,
            recording: Recording::default(),
            failed: None,
            problem: None,
            changed: None,
            began: Instant::now(),
            reading: None,
            loading: None,
            call: None,
        }
    }

    pub(super) fn desired(&self) -> &Desired {
        &self.desired
    }

    pub(super) fn set_desired(&mut self, desired: Desired) {
        if let Some(of) = &desired.document.record
            && self.history.follow(&of.uid, of.record.rollback.clone())
        {
            // Whether the rollback holds depends on what the guest is now.
            self.lookup = None;
        }
        self.desired = desired;
    }

    pub(super) fn applied(&self) -> Option<&Inputs> {
        self.applied.as_ref()
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Sets the problem. `replaced` says whether another version serves now. Returns whether the problem has changed.
    pub(super) fn settle(&mut self, problem: Option<String>, replaced: bool) -> bool {
        let has_changed = self.problem != problem;
        if has_changed || replaced {
            self.changed = Some(LastChange {
                at: SystemTime::now(),
                took: self.began.elapsed(),
            });
        }
        self.problem = problem;
        has_changed
    }

    /// Whether a task runs.
    pub(super) fn is_busy(&self) -> bool {
        self.reading.is_some() || self.loading.is_some()
    }

    /// When to try again after a transient failure.
    pub(super) fn due(&self) -> Option<Instant> {
        let failed = self.failed.as_ref().filter(|_| !self.is_busy());
        let due = [failed.and_then(Failed::due), self.recording.due()];
        due.into_iter().flatten().min()
    }

    pub(super) fn lookup(&self) -> Option<Lookup> {
        self.lookup.clone()
    }

    pub(super) fn pin(&self) -> Option<Pin> {
        self.pin.clone()
    }

    pub(super) fn set_lookup(&mut self, lookup: Option<Lookup>) {
        self.lookup = lookup;
    }

    /// When its images are to be looked up again.
    pub(super) fn look_up_at(&self) -> Option<Instant> {
        if self.reading.is_some() {
            return None;
        }
        let pinned = self.pin.as_ref().and_then(|pin| pin.lookup.as_ref());
        let lookups = [self.lookup.as_ref(), pinned].into_iter().flatten();
        lookups.filter_map(|lookup| lookup.due).min()
    }

    /// Whether to start reading the file now. If a task reads it already, the file is read once more after that.
    pub(super) fn wants_reading(&mut self) -> bool {
        match &mut self.reading {
            Some(reading) => reading.stale = true,
            None => return true,
        }
        false
    }

    pub(super) fn begin_reading(&mut self, task: Task) {
        if self.loading.is_none() {
            self.began = Instant::now();
        }
        self.reading = Some(Reading { stale: false, task });
    }

    /// Keeps a rollback until the file is read.
    ///
    /// # Errors
    /// The same call, if another rollback is under way.
    pub(super) fn accept(&mut self, call: RollbackCall) -> Result<(), RollbackCall> {
        let loading = self.loading.as_ref();
        let is_loading = loading.is_some_and(|loading| loading.call.is_some());
        if self.call.is_some() || is_loading || self.recording.has_call() {
            return Err(call);
        }
        self.call = Some(call);
        Ok(())
    }

    /// Ends the task that reads the file, and returns whether the file has to be read once more. None for a cancelled task.
    pub(super) fn finish_reading(&mut self, id: Id) -> Option<bool> {
        let reading = self.reading.take_if(|reading| reading.task.is(id))?;
        Some(reading.stale)
    }

    /// Ends the task that loads the guest, and returns its plan. None for a cancelled task, and for documents that have changed since:
    /// their file is being read, and the end of that decides.
    pub(super) fn finish_loading(&mut self, id: Id) -> Option<Plan> {
        let done = self.loading.take_if(|loading| loading.task.is(id))?;
        if done.inputs.spec != self.desired.spec || done.inputs.policy != self.desired.policy {
            self.call = self.call.take().or(done.call);
            return None;
        }
        Some(Plan {
            inputs: done.inputs,
            path: done.path,
            image: done.image,
            rollback: done.rollback,
            call: done.call,
        })
    }

    /// Decides what to do once the guest's file is read.
    pub(super) fn decide(&mut self, file: File) -> Step {
        let held = file.digest.as_ref().ok().copied();
        self.history.set_file(held);
        let loading = self.loading.as_ref();
        let mut rollback = match loading.filter(|loading| loading.call.is_some()) {
            Some(loading) => loading.rollback.clone(),
            None => self.history.asked(),
        };
        let mut call = None;
        if let Some(new) = self.call.take()
            && let Some(request) = new.request()
        {
            match self.history.choice(held).take(request) {
                Ok(chosen) => (rollback, call) = (chosen, Some(new)),
                Err(error) => {
                    let name = &self.desired.document.identity.name;
                    let refusal = Refusal::Impossible(format!("reconciler {name} {error}"));
                    new.answer(Err(refusal));
                }
            }
        }
        let rollback = rollback.filter(|rollback| rollback.holds(held));
        if rollback.is_none() {
            self.pin = None;
        }
        let guest = match (&rollback, &file.digest) {
            (Some(rollback), _) => rollback.to.digest,
            (None, Ok(digest)) => *digest,
            (None, Err(failure)) => {
                let call = call.or_else(|| self.cancel_loading());
                return self.fail(None, rollback, call, failure.clone());
            }
        };
        let inputs = Inputs {
            spec: self.desired.spec.clone(),
            policy: self.desired.policy.clone(),
            guest,
        };
        if let Some(loading) = &mut self.loading
            && loading.inputs == inputs
        {
            loading.rollback = rollback;
            loading.call = call.or(loading.call.take());
            return Step::None;
        }
        if self.applied.as_ref() == Some(&inputs) {
            let former = self.cancel_loading();
            self.history.set_rollback(rollback);
            (self.failed, self.pin) = (None, None);
            return Step::Settled(call.or(former));
        }
        let (path, image) = match &rollback {
            Some(rollback) if held != Some(guest) => {
                let path = match self.pinned(&rollback.to, file.pinned) {
                    Ok(path) => path,
                    Err(Some(failure)) => {
                        let call = call.or_else(|| self.cancel_loading());
                        return self.fail(Some(inputs), Some(rollback.clone()), call, failure);
                    }
                    Err(None) => {
                        self.call = call.or_else(|| self.cancel_loading());
                        return Step::Again;
                    }
                };
                (path, rollback.to.image.clone())
            }
            _ => (Some(file.path), file.image),
        };
        if let Some(failed) = &self.failed
            && call.is_none()
            && failed.attempted.as_ref() == Some(&inputs)
            && !failed.is_due(Instant::now())
        {
            let problem = failed.problem.clone();
            if let Some(call) = self.cancel_loading() {
                call.answer(Err(Refusal::Impossible(problem.clone())));
            }
            self.history.set_rollback(rollback);
            return Step::Refused(problem);
        }
        Step::Load(Box::new(Plan {
            inputs,
            path,
            image,
            rollback,
            call,
        }))
    }

    /// Notes the task that loads a plan, and cancels the one before it.
    pub(super) fn begin_loading(&mut self, plan: Plan, task: Task) {
        let call = plan.call.or_else(|| self.cancel_loading());
        self.loading = Some(Loading {
            inputs: plan.inputs,
            path: plan.path,
            image: plan.image,
            rollback: plan.rollback,
            call,
            task,
        });
    }

    /// Notes that a change is in effect. Returns what served before, and the caller that waits for the change.
    pub(super) fn apply(&mut self, plan: Plan) -> (Option<Inputs>, Option<RollbackCall>) {
        let revision = KnownRevision {
            digest: plan.inputs.guest,
            image: plan.image,
        };
        let policy = plan.inputs.policy.guests.clone();
        self.history.serve(revision, policy);
        self.history.set_rollback(plan.rollback);
        let before = self.applied.replace(plan.inputs);
        (self.failed, self.pin) = (None, None);
        (self.revocation, self.has_less) = (Revocation::default(), false);
        (before, plan.call)
    }

    /// Notes that a guest could not be loaded.
    pub(super) fn load_failed(&mut self, plan: Plan, failure: LoadFailure) -> Step {
        self.fail(Some(plan.inputs), plan.rollback, plan.call, failure)
    }

    /// Notes that the task that reads the guest's file panicked.
    pub(super) fn read_failed(&mut self, failure: LoadFailure) -> Step {
        let call = self.call.take();
        self.fail(None, self.history.asked(), call, failure)
    }

    /// A failed rollback changes nothing: the documents decide again.
    fn fail(
        &mut self,
        attempted: Option<Inputs>,
        rollback: Option<Rollback>,
        call: Option<RollbackCall>,
        failure: LoadFailure,
    ) -> Step {
        let LoadFailure {
            problem,
            is_transient,
        } = failure;
        let problem = match rollback.as_ref().filter(|_| call.is_none()) {
            Some(rollback) => self.not_pinned(rollback, &problem),
            None => problem,
        };
        let problem = self.desired.document.problem(problem).to_string();
        if let Some(call) = call {
            let name = &self.desired.document.identity.name;
            let refusal = format!(
                "reconciler {name} cannot serve that revision now, and keeps serving the current one: {problem}"
            );
            call.answer(Err(Refusal::Impossible(refusal)));
            self.pin = None;
            return Step::Again;
        }
        let failed = Failed::new(attempted, problem.clone());
        self.failed = Some(match is_transient {
            true => failed.again_after(self.failed.as_ref(), Instant::now()),
            false => failed,
        });
        let applied = self.applied.as_ref().map(|applied| applied.guest);
        let from = rollback.as_ref().and_then(|rollback| rollback.instead_of);
        self.history.set_rollback(rollback);
        if applied.is_some() && applied == from {
            Step::Stop(problem)
        } else {
            Step::Refused(problem)
        }
    }

    /// Cancels the load. Returns the caller that waits for it.
    fn cancel_loading(&mut self) -> Option<RollbackCall> {
        self.loading.take().and_then(|loading| loading.call)
    }

    /// The revisions that serve, can be rolled back to, or are being loaded: three at most.
    pub(super) fn used(&self) -> impl Iterator<Item = Digest> {
        let applied = self.applied.as_ref().map(|inputs| inputs.guest);
        let loading = self.loading.as_ref().map(|loading| loading.inputs.guest);
        let previous = self.history.previous().map(|previous| previous.digest);
        [applied, previous, loading].into_iter().flatten()
    }

    /// Its current tenant and its next one.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &str> {
        let current = self.applied.as_ref().map(Inputs::tenant);
        [Some(self.desired.spec.tenant()), current]
            .into_iter()
            .flatten()
    }
}
