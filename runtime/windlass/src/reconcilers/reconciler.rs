//! One reconciler: what its document asks for, what is being prepared, and what serves. Entry point: [`Reconciler`].
//!
//! It takes one step after the other: read the guest's file, prepare the guest, serve. A newer change cancels the preparation of an older
//! one, so an old revision never replaces a newer one. A change that equals the one being prepared does not start a second one.
//!
//! While a rollback is in effect, its revision serves or nothing does, but never the one that an operator rolled back from.

mod decision;
mod recording;
mod revoke;
mod view;

use super::environment::{Change, Done, Environment, Task};
use super::failed::Failed;
use super::file::{File, Pin};
use super::history::History;
use super::reloads::Reload;
use crate::app::rollback::RollbackCall;
use crate::config::record::{KnownRevision, Record, Rollback};
use crate::guests::component::announced_if_slow;
use crate::guests::{ControllerPolicy, Desired, LoadFailure, Prepared};
use crate::status::reconcilers::LastChange;
use recording::Recording;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tokio::task::Id;
use windlass_fleet::Digest;
use windlass_fleet::{ControllerName, TenantName};
use windlass_registry::Lookup;

/// Everything that a revision is prepared from. It is prepared again when this changes.
#[derive(Clone, PartialEq)]
pub(super) struct Inputs {
    pub(super) desired: Arc<Desired>,
    pub(super) component: Digest,
}

/// A revision to prepare, or one that is being prepared.
struct Plan {
    inputs: Inputs,
    /// The file of the component; none: the component is kept compiled.
    path: Option<PathBuf>,
    /// The image of the component; none: it was a file.
    image: Option<String>,
    /// The rollback that is in effect once it serves.
    rollback: Option<Rollback>,
    /// The caller that waits for that.
    call: Option<RollbackCall>,
}

/// What serves.
pub(super) struct Serving {
    inputs: Inputs,
    /// As it was prepared.
    policy: ControllerPolicy,
    /// What the documents leave of that.
    left: ControllerPolicy,
    /// Whether that is less.
    has_less: bool,
}

impl Serving {
    fn tenant(&self) -> &str {
        self.inputs.desired.tenant()
    }

    /// The tenant and the name of its controller. None cannot happen: the names of a document are checked.
    fn owner(&self) -> Option<(TenantName, ControllerName)> {
        let tenant = TenantName::new(self.tenant()).ok()?;
        let name = ControllerName::new(self.inputs.desired.name()).ok()?;
        Some((tenant, name))
    }
}

/// A task that reads the guest's file.
struct Reading {
    /// Whether the file may have changed since the task started, so that it has to be read once more.
    stale: bool,
    task: Task,
}

/// A task that prepares a revision.
struct Preparing {
    plan: Plan,
    task: Task,
}

/// A reconciler that a document asks for.
pub(super) struct Reconciler {
    pub(super) desired: Arc<Desired>,
    /// None: nothing serves.
    pub(super) serving: Option<Serving>,
    /// The revisions that it can serve, and its rollback.
    pub(super) history: History,
    /// What came of the last look-up of its image; none: it is no image.
    lookup: Option<Lookup>,
    /// The revision of a rollback that is to be read, because this process has not loaded it.
    pin: Option<Pin>,
    /// How its record is being written.
    recording: Recording,
    reading: Option<Reading>,
    preparing: Option<Preparing>,
    /// A rollback to decide on once the file is read.
    call: Option<RollbackCall>,
    /// The last failure, with the inputs of that load; without inputs if the file could not be read.
    failed: Option<Failed<Option<Inputs>>>,
    /// Why the desired state is not in effect; none when it is.
    pub(super) problem: Option<String>,
    /// The last change.
    changed: Option<LastChange>,
    /// When the current change, or the last one, started.
    began: Instant,
}

impl Reconciler {
    /// With nothing that serves. The record is that of a file.
    pub(super) fn new(desired: Arc<Desired>, record: Record) -> Self {
        let history = match &desired.document.record {
            Some(of) => History::new(&of.uid, of.record.clone()),
            None => History::new("", record),
        };
        Self {
            desired,
            serving: None,
            history,
            lookup: None,
            pin: None,
            recording: Recording::default(),
            reading: None,
            preparing: None,
            call: None,
            failed: None,
            problem: None,
            changed: None,
            began: Instant::now(),
        }
    }

    pub(super) fn set_desired(&mut self, desired: Arc<Desired>) {
        if let Some(of) = &desired.document.record
            && self.history.follow(&of.uid, of.record.rollback.clone())
        {
            // Whether the rollback holds depends on what the guest is now.
            self.lookup = None;
        }
        self.desired = desired;
    }

    /// Whether a task reads or prepares.
    pub(super) fn is_busy(&self) -> bool {
        self.reading.is_some() || self.preparing.is_some()
    }

    /// When to [try again](Self::try_again): after a transient failure, or because an image is to be looked up.
    pub(super) fn due(&self) -> Option<Instant> {
        let failed = self.failed.as_ref().filter(|_| !self.is_busy());
        let pinned = self.pin.as_ref().and_then(|pin| pin.lookup.as_ref());
        let lookups = [self.lookup.as_ref(), pinned].into_iter().flatten();
        let lookups = lookups.filter(|_| self.reading.is_none());
        let due = [failed.and_then(Failed::due), self.recording.due()];
        let due = due.into_iter().flatten();
        due.chain(lookups.filter_map(|lookup| lookup.due)).min()
    }

    /// Writes its record and reads its file again.
    pub(super) fn try_again(&mut self, environment: &mut Environment) {
        self.keep_record(environment, None);
        self.read(environment);
    }

    /// Handles the end of a task. The end of one that was cancelled meanwhile counts for nothing.
    pub(super) fn ended(&mut self, environment: &mut Environment, id: Id, done: Done) {
        match done {
            Done::Read(file) => self.file_read(environment, id, file),
            Done::Prepared(prepared) => self.prepared(environment, id, prepared),
            Done::Recorded(result) => self.recorded(environment, id, result),
        }
        self.show(environment);
    }

    /// Starts to read the guest's file. If a task reads it already, the file is read once more after that.
    pub(super) fn read(&mut self, environment: &mut Environment) {
        if let Some(reading) = &mut self.reading {
            reading.stale = true;
            return;
        }
        if self.preparing.is_none() {
            self.began = Instant::now();
        }
        let (desired, sources) = (self.desired.clone(), environment.sources.clone());
        let (lookup, pin) = (self.lookup.clone(), self.pin.clone());
        let permits = environment.permits.reading(desired.tenant());
        let most = environment.guests.largest_component();
        let reading = async move {
            let _permit = permits.acquire().await;
            let file = File::read(&desired, &sources, lookup, pin, most).await;
            Ok(Box::new(file))
        };
        let task = environment.spawn(self.desired.name(), reading, Done::Read);
        self.reading = Some(Reading { stale: false, task });
    }

    fn file_read(
        &mut self,
        environment: &mut Environment,
        id: Id,
        file: Result<Box<File>, LoadFailure>,
    ) {
        let Some(ended) = self.reading.take_if(|reading| reading.task.is(id)) else {
            return;
        };
        match file {
            // The documents name another file by now.
            Ok(file) if ended.stale && file.has_moved(&self.desired) => {}
            Ok(file) => self.decide(environment, *file),
            Err(failure) => {
                let call = self.call.take();
                self.fail(environment, None, self.history.asked(), call, failure);
            }
        }
        if ended.stale {
            self.read(environment);
        }
    }

    /// Starts to prepare a revision, in place of another one.
    fn prepare(&mut self, environment: &mut Environment, mut plan: Plan) {
        let (desired, name) = (plan.inputs.desired.clone(), self.desired.name());
        let permits = environment.permits.loading(desired.tenant());
        let guests = &environment.guests;
        let prepared = guests.prepare(desired, plan.path.as_deref(), plan.inputs.component);
        let prepared = async move {
            let _permit = permits.acquire().await;
            prepared.await.map(Box::new)
        };
        let task = environment.spawn(name, announced(name.to_owned(), prepared), Done::Prepared);
        plan.call = plan.call.or_else(|| self.cancel_preparing());
        self.preparing = Some(Preparing { plan, task });
    }

    fn prepared(
        &mut self,
        environment: &mut Environment,
        id: Id,
        result: Result<Box<Prepared>, LoadFailure>,
    ) {
        let Some(Preparing { plan, .. }) = self.preparing.take_if(|of| of.task.is(id)) else {
            return;
        };
        if plan.inputs.desired != self.desired {
            // The documents have changed. The file is being read, and the end of that decides.
            self.call = self.call.take().or(plan.call);
            return;
        }
        match result {
            Ok(prepared) => self.serve(environment, plan, *prepared),
            Err(failure) => {
                self.fail(
                    environment,
                    Some(plan.inputs),
                    plan.rollback,
                    plan.call,
                    failure,
                );
            }
        }
    }

    fn serve(&mut self, environment: &mut Environment, plan: Plan, prepared: Prepared) {
        let Plan {
            inputs,
            path,
            image,
            rollback,
            call,
        } = plan;
        let (controller, policy) = environment.guests.serve(prepared);
        environment.keep_component(&inputs, path);
        let revision = KnownRevision {
            digest: inputs.component,
            image,
        };
        let guests = inputs.desired.policy.guests.clone();
        self.history.serve(revision, guests);
        self.history.set_rollback(rollback);
        (self.failed, self.pin) = (None, None);
        let before = self.serving.replace(Serving {
            inputs,
            left: policy.clone(),
            policy,
            has_less: false,
        });
        if let Some(before) = &before {
            let (name, tenant) = (self.desired.name(), self.desired.tenant());
            if before.tenant() != tenant {
                environment.reloads.forget(before.tenant(), name);
                let left = before.owner();
                let moves = left.map(|(tenant, name)| Change::Move(tenant, name));
                environment.changes.extend(moves);
            }
            if call.is_none() {
                environment.reloads.count(tenant, name, Reload::Taken);
            }
        }
        environment.changes.push(Change::Put(Box::new(controller)));
        self.settled(environment, call, before.is_some());
    }

    /// Ends what serves.
    pub(super) fn stop(&mut self, environment: &mut Environment) {
        self.history.stop();
        let Some(served) = self.serving.take() else {
            return;
        };
        environment.guests.remove(self.desired.name());
        environment
            .reloads
            .forget(served.tenant(), self.desired.name());
        let owner = served.owner();
        let removed = owner.map(|(tenant, name)| Change::Remove(tenant, name));
        environment.changes.extend(removed);
    }

    /// Notes that it is as its document or a rollback asks. `replaced`: another version serves now.
    fn settled(
        &mut self,
        environment: &mut Environment,
        call: Option<RollbackCall>,
        replaced: bool,
    ) {
        if call.is_some() {
            let name = self.desired.name();
            let tenant = self.serving.as_ref().map_or("", Serving::tenant);
            environment.reloads.count(tenant, name, Reload::Taken);
            let reply = self.reply(String::new());
            tracing::info!(
                reconciler = name,
                revision = reply.revision,
                previous = reply.previous,
                rolled_back = reply.rolled_back,
                "reconciler rolled back or rollback undone"
            );
        }
        self.settle(environment, None, replaced || call.is_some());
        self.keep_record(environment, call);
    }

    /// Notes that it cannot be as its document asks.
    fn refused(&mut self, environment: &mut Environment, problem: String) {
        let problem = self.describe_problem(problem);
        let has_changed = self.settle(environment, Some(problem), false);
        if let Some(serving) = self.serving.as_ref().filter(|_| has_changed) {
            let name = self.desired.name();
            environment
                .reloads
                .count(serving.tenant(), name, Reload::Refused);
        }
    }

    /// Sets the problem. `replaced`: another version serves now. Returns whether the problem has changed.
    fn settle(
        &mut self,
        environment: &mut Environment,
        problem: Option<String>,
        replaced: bool,
    ) -> bool {
        let has_changed = self.problem != problem;
        if has_changed || replaced {
            self.changed = Some(LastChange {
                at: SystemTime::now(),
                took: self.began.elapsed(),
            });
        }
        if has_changed {
            environment
                .unreported
                .insert(self.desired.name().to_owned());
        }
        self.problem = problem;
        has_changed
    }

    /// Keeps a rollback until the file is read.
    ///
    /// # Errors
    /// The same call, if another rollback is under way.
    pub(super) fn accept(&mut self, call: RollbackCall) -> Result<(), RollbackCall> {
        let preparing = self.preparing.as_ref();
        let is_preparing = preparing.is_some_and(|preparing| preparing.plan.call.is_some());
        if self.call.is_some() || is_preparing || self.recording.has_call() {
            return Err(call);
        }
        self.call = Some(call);
        Ok(())
    }

    /// Cancels what is being prepared. Returns the caller that waits for it.
    fn cancel_preparing(&mut self) -> Option<RollbackCall> {
        self.preparing.take()?.plan.call
    }

    /// The revisions that serve, can be rolled back to, or are being prepared: three at most.
    pub(super) fn used(&self) -> impl Iterator<Item = Digest> {
        let serving = self.serving.as_ref().map(|serving| &serving.inputs);
        let preparing = self.preparing.as_ref().map(|one| &one.plan.inputs);
        let inputs = [serving, preparing].into_iter().flatten();
        let previous = self.history.previous().map(|previous| previous.digest);
        inputs.map(|inputs| inputs.component).chain(previous)
    }

    /// Its current tenant and its next one.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &str> {
        let current = self.serving.as_ref().map(Serving::tenant);
        [Some(self.desired.tenant()), current].into_iter().flatten()
    }
}

/// Says so if a guest takes long to prepare.
async fn announced<T>(
    reconciler: String,
    prepared: impl Future<Output = Result<T, LoadFailure>>,
) -> Result<T, LoadFailure> {
    let began = Instant::now();
    let mut is_slow = false;
    let say = || {
        is_slow = true;
        tracing::info!(reconciler, "the guest is being compiled");
    };
    let prepared = announced_if_slow(prepared, say).await;
    if is_slow && prepared.is_ok() {
        let seconds = began.elapsed().as_secs_f64();
        tracing::info!(reconciler, seconds, "the guest is compiled");
    }
    prepared
}
