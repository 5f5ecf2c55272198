//! One reconciler: what its document asks for, what is being loaded, and what serves. Entry point: [`Reconciler`].
//!
//! It takes one step after the other: read the guest's file, load the guest, apply it. A newer change cancels the load of an older one,
//! so an old revision never replaces a newer one. A change that equals the one being loaded does not start a second load.

use super::failed::Failed;
use super::file::File;
use super::revoke::Revocation;
use super::rollback::{ActiveRollback, RollbackChoice};
use crate::app::rollback::{Refusal, RollbackCall};
use crate::config::kinds::GuestSource;
use crate::config::kinds::ReconcilerSpec;
use crate::config::load::Document;
use crate::guests::{LoadFailure, TenantPolicy};
use crate::status::reconcilers::{LastChange, ReconcilerStatus};
use crate::status::view::RollbackReply;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};
use tokio::task::{AbortHandle, Id};
use windlass_registry::{GuestPolicy, Lookup};
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

    fn is(&self, id: Id) -> bool {
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
    /// The rollback that is in effect if the load succeeds.
    rollback: Option<ActiveRollback>,
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
    /// The revision that served before. It is kept compiled for a rollback.
    previous: Option<Digest>,
    /// The policy on guests that `previous` was loaded under.
    previous_policy: GuestPolicy,
    /// What came of the last look-up of its image; none: it is no image.
    lookup: Option<Lookup>,
    /// The rollback that is in effect.
    rollback: Option<ActiveRollback>,
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
    /// Read the guest's file again: a rollback failed, and the documents decide again.
    Again,
    /// Load this.
    Load(Box<Plan>),
}

/// A change to load.
pub(super) struct Plan {
    pub(super) inputs: Inputs,
    /// The file of the component; none: the component is kept compiled.
    pub(super) path: Option<PathBuf>,
    rollback: Option<ActiveRollback>,
    call: Option<RollbackCall>,
}

impl Reconciler {
    /// With nothing applied.
    pub(super) fn new(desired: Desired) -> Self {
        Self {
            desired,
            applied: None,
            revocation: Revocation::default(),
            has_less: false,
            previous: None,
            previous_policy: GuestPolicy::default(),
            lookup: None,
            rollback: None,
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
        failed.and_then(Failed::due)
    }

    pub(super) fn lookup(&self) -> Option<Lookup> {
        self.lookup.clone()
    }

    pub(super) fn set_lookup(&mut self, lookup: Option<Lookup>) {
        self.lookup = lookup;
    }

    /// When its image is to be looked up again.
    pub(super) fn look_up_at(&self) -> Option<Instant> {
        let lookup = self.lookup.as_ref().filter(|_| self.reading.is_none())?;
        lookup.due
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
        if self.call.is_some() || loading.is_some_and(|loading| loading.call.is_some()) {
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
            path: None,
            rollback: done.rollback,
            call: done.call,
        })
    }

    /// Decides what to do once the guest's file is read.
    pub(super) fn decide(&mut self, file: File) -> Step {
        let held = file.digest.as_ref().ok().copied();
        let loading = self.loading.as_ref();
        let mut rollback = match loading.filter(|loading| loading.call.is_some()) {
            Some(loading) => loading.rollback,
            None => self.rollback,
        };
        let mut call = None;
        if let Some(new) = self.call.take()
            && let Some(request) = new.request()
        {
            match self.choice(held).take(request) {
                Ok(Some(chosen)) if !self.is_still_allowed(chosen.to) => {
                    let name = &self.desired.document.identity.name;
                    new.answer(Err(Refusal::Impossible(format!(
                        "reconciler {name} cannot serve revision {}: spec.guests of its Tenant has changed since that was loaded",
                        chosen.to.short()
                    ))));
                }
                Ok(chosen) => (rollback, call) = (chosen, Some(new)),
                Err(error) => {
                    let name = &self.desired.document.identity.name;
                    let refusal = Refusal::Impossible(format!("reconciler {name} {error}"));
                    new.answer(Err(refusal));
                }
            }
        }
        let rollback = rollback
            .filter(|rollback| rollback.holds(held))
            .filter(|rollback| self.is_still_allowed(rollback.to));
        let guest = match (rollback, file.digest) {
            (Some(rollback), _) => rollback.to,
            (None, Ok(digest)) => digest,
            (None, Err(failure)) => {
                let call = call.or_else(|| self.cancel_loading());
                return self.fail(None, rollback, call, failure);
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
            (self.rollback, self.failed) = (rollback, None);
            return Step::Settled(call.or(former));
        }
        if let Some(failed) = &self.failed
            && call.is_none()
            && failed.attempted.as_ref() == Some(&inputs)
            && !failed.is_due(Instant::now())
        {
            let problem = failed.problem.clone();
            if let Some(call) = self.cancel_loading() {
                call.answer(Err(Refusal::Impossible(problem.clone())));
            }
            self.rollback = rollback;
            return Step::Refused(problem);
        }
        Step::Load(Box::new(Plan {
            inputs,
            path: rollback.is_none().then_some(file.path),
            rollback,
            call,
        }))
    }

    /// Whether a revision was loaded under the policy on guests that holds now: it is not verified again for a rollback.
    fn is_still_allowed(&self, revision: Digest) -> bool {
        let applied = self.applied.as_ref();
        let under = match applied.filter(|applied| applied.guest == revision) {
            Some(applied) => &applied.policy.guests,
            None => &self.previous_policy,
        };
        *under == self.desired.policy.guests
    }

    /// Notes the task that loads a plan, and cancels the one before it.
    pub(super) fn begin_loading(&mut self, plan: Plan, task: Task) {
        let call = plan.call.or_else(|| self.cancel_loading());
        self.loading = Some(Loading {
            inputs: plan.inputs,
            rollback: plan.rollback,
            call,
            task,
        });
    }

    /// Notes that a change is in effect. Returns what served before, and the caller that waits for the change.
    pub(super) fn apply(&mut self, plan: Plan) -> (Option<Inputs>, Option<RollbackCall>) {
        let guest = plan.inputs.guest;
        let before = self.applied.replace(plan.inputs);
        if let Some(before) = before.as_ref().filter(|before| before.guest != guest) {
            self.previous = Some(before.guest);
            self.previous_policy = before.policy.guests.clone();
        }
        (self.rollback, self.failed) = (plan.rollback, None);
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
        self.fail(None, self.rollback, call, failure)
    }

    /// A failed rollback changes nothing: the documents decide again.
    fn fail(
        &mut self,
        attempted: Option<Inputs>,
        rollback: Option<ActiveRollback>,
        call: Option<RollbackCall>,
        failure: LoadFailure,
    ) -> Step {
        let LoadFailure {
            problem,
            is_transient,
        } = failure;
        let problem = self.desired.document.problem(problem).to_string();
        if let Some(call) = call {
            let name = &self.desired.document.identity.name;
            let refusal = format!(
                "reconciler {name} cannot serve that revision now, and keeps serving the current one: {problem}"
            );
            call.answer(Err(Refusal::Impossible(refusal)));
            return Step::Again;
        }
        let failed = Failed::new(attempted, problem.clone());
        self.failed = Some(match is_transient {
            true => failed.again_after(self.failed.as_ref(), Instant::now()),
            false => failed,
        });
        self.rollback = rollback;
        Step::Refused(problem)
    }

    /// Cancels the load. Returns the caller that waits for it.
    fn cancel_loading(&mut self) -> Option<RollbackCall> {
        self.loading.take().and_then(|loading| loading.call)
    }

    fn choice(&self, file: Option<Digest>) -> RollbackChoice {
        RollbackChoice {
            serving: self.applied.as_ref().map(|applied| applied.guest),
            previous: self.previous,
            file,
            rollback: self.rollback,
        }
    }

    pub(super) fn reply(&self) -> RollbackReply {
        let print = |digest: Option<Digest>| digest.map_or_else(String::new, |d| d.to_string());
        RollbackReply {
            reconciler: self.desired.document.identity.name.clone(),
            revision: print(self.applied.as_ref().map(|applied| applied.guest)),
            previous: print(self.previous),
            rolled_back: self.rollback.is_some(),
        }
    }

    /// The revisions that serve, can be rolled back to, or are being loaded: three at most.
    pub(super) fn used(&self) -> impl Iterator<Item = Digest> {
        let applied = self.applied.as_ref().map(|inputs| inputs.guest);
        let loading = self.loading.as_ref().map(|loading| loading.inputs.guest);
        [applied, self.previous, loading].into_iter().flatten()
    }

    /// Its current tenant and its next one.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &str> {
        let current = self.applied.as_ref().map(Inputs::tenant);
        [Some(self.desired.spec.tenant()), current]
            .into_iter()
            .flatten()
    }

    pub(super) fn status(&self) -> ReconcilerStatus {
        let Desired { document, spec, .. } = &self.desired;
        let applied = self.applied.as_ref();
        ReconcilerStatus {
            tenant: applied.map_or(spec.tenant(), Inputs::tenant).to_owned(),
            guest: self.source(document, spec),
            revision: self.applied.as_ref().map(|inputs| inputs.guest.to_string()),
            previous: self.previous.map(|digest| digest.to_string()),
            rolled_back: self.rollback.is_some(),
            problem: self.problem.clone(),
            may_pass: self.problem.is_some() && self.may_pass(),
            changed: self.changed,
            loading: (self.loading.is_some() || self.is_new()).then_some(self.began),
        }
    }

    /// Whether the last failure is neither the document's nor the guest's.
    fn may_pass(&self) -> bool {
        let is_of_the_host = self.failed.as_ref().is_some_and(|of| of.due().is_some());
        is_of_the_host || self.lookup.as_ref().is_some_and(Lookup::found_silence)
    }

    /// What the document names, with the digest of an image that is here.
    fn source(&self, document: &Document, spec: &ReconcilerSpec) -> String {
        match spec.guest.source() {
            Ok(GuestSource::Path(path)) => document.resolve(path).display().to_string(),
            Ok(GuestSource::Image(image)) => {
                let pulled = self
                    .lookup
                    .as_ref()
                    .and_then(|lookup| lookup.outcome.as_ref().ok());
                pulled.map_or_else(
                    || image.to_string(),
                    |pulled| image.at(pulled.digest).to_string(),
                )
            }
            Err(_) => String::new(),
        }
    }

    /// Whether its first load has not ended yet.
    fn is_new(&self) -> bool {
        self.reading.is_some() && self.applied.is_none() && self.problem.is_none()
    }
}
