//! Decides what a reconciler is to serve: the revision of its guest's file, or that of a rollback. Entry point: [`Reconciler::decide`].

use super::{Inputs, Plan, Preparing, Reconciler};
use crate::app::rollback::{Refusal, RollbackCall};
use crate::config::record::{KnownRevision, Rollback};
use crate::guests::LoadFailure;
use crate::reconcilers::environment::Environment;
use crate::reconcilers::failed::Failed;
use crate::reconcilers::file::{File, Found, Pin};
use std::path::PathBuf;
use std::time::Instant;

impl Reconciler {
    /// Decides what to do once the guest's file is read.
    pub(super) fn decide(&mut self, environment: &mut Environment, mut file: File) {
        self.lookup = file.guest.lookup.take();
        let read = file.guest.component;
        let held = read.as_ref().ok().map(|read| read.digest);
        self.history.set_file(held);
        let plan = self.preparing.as_ref().map(|preparing| &preparing.plan);
        let mut rollback = match plan.filter(|plan| plan.call.is_some()) {
            Some(plan) => plan.rollback.clone(),
            None => self.history.asked(),
        };
        let mut call = None;
        if let Some(new) = self.call.take()
            && let Some(request) = new.request()
        {
            match self.history.choose(request, held) {
                Ok(chosen) => (rollback, call) = (chosen, Some(new)),
                Err(error) => {
                    let name = self.desired.name();
                    let refusal = Refusal::Impossible(format!("reconciler {name} {error}"));
                    new.answer(Err(refusal));
                }
            }
        }
        let rollback = rollback.filter(|rollback| rollback.holds(held));
        if rollback.is_none() {
            self.pin = None;
        }
        // What was read, or another revision, which a rollback asks for.
        let source = match (read, &rollback) {
            (Ok(read), None) => Ok(read),
            (Ok(read), Some(rollback)) if read.digest == rollback.to.digest => Ok(read),
            (_, Some(rollback)) => Err(rollback.clone()),
            (Err(failure), None) => {
                let call = call.or_else(|| self.cancel_preparing());
                return self.fail(environment, None, rollback, call, failure);
            }
        };
        let component = match &source {
            Ok(read) => read.digest,
            Err(rollback) => rollback.to.digest,
        };
        let inputs = Inputs {
            desired: self.desired.clone(),
            component,
        };
        if let Some(Preparing { plan, .. }) = &mut self.preparing
            && plan.inputs == inputs
        {
            plan.rollback = rollback;
            plan.call = call.or(plan.call.take());
            return;
        }
        let serving = self.serving.as_ref().map(|serving| &serving.inputs);
        if serving == Some(&inputs) {
            let former = self.cancel_preparing();
            self.history.set_rollback(rollback);
            (self.failed, self.pin) = (None, None);
            return self.settled(environment, call.or(former), false);
        }
        let (path, image) = match source {
            Ok(read) => {
                self.pin = None;
                (Some(read.path), read.image)
            }
            Err(pinned) => match self.pinned(&pinned.to, file.pinned) {
                Ok(path) => (path, pinned.to.image),
                Err(Some(failure)) => {
                    let call = call.or_else(|| self.cancel_preparing());
                    return self.fail(environment, Some(inputs), rollback, call, failure);
                }
                Err(None) => {
                    self.call = call.or_else(|| self.cancel_preparing());
                    return self.read(environment);
                }
            },
        };
        if let Some(failed) = &self.failed
            && call.is_none()
            && failed.attempted.as_ref() == Some(&inputs)
            && !failed.is_due(Instant::now())
        {
            let problem = failed.problem.clone();
            if let Some(call) = self.cancel_preparing() {
                call.answer(Err(Refusal::Impossible(problem.clone())));
            }
            self.history.set_rollback(rollback);
            return self.refused(environment, problem);
        }
        let plan = Plan {
            inputs,
            path,
            image,
            rollback,
            call,
        };
        self.prepare(environment, plan);
    }

    /// A failed rollback changes nothing: the documents decide again.
    pub(super) fn fail(
        &mut self,
        environment: &mut Environment,
        attempted: Option<Inputs>,
        rollback: Option<Rollback>,
        call: Option<RollbackCall>,
        failure: LoadFailure,
    ) {
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
            let name = self.desired.name();
            let refusal = format!(
                "reconciler {name} cannot serve that revision now, and keeps serving the current one: {problem}"
            );
            call.answer(Err(Refusal::Impossible(refusal)));
            self.pin = None;
            return self.read(environment);
        }
        let mut failed = Failed::new(attempted, problem.clone());
        if is_transient {
            failed = failed.again_after(self.failed.as_ref(), Instant::now());
            // An image may be damaged on this machine: a new look-up compares it with its digest.
            self.lookup = None;
            if let Some(pin) = &mut self.pin {
                pin.lookup = None;
            }
        }
        self.failed = Some(failed);
        let serving = self
            .serving
            .as_ref()
            .map(|serving| serving.inputs.component);
        let from = rollback.as_ref().and_then(|rollback| rollback.instead_of);
        self.history.set_rollback(rollback);
        if serving.is_some() && serving == from {
            self.stop(environment);
        }
        self.refused(environment, problem);
    }

    /// The file of a rollback's revision; none: it is kept compiled.
    ///
    /// # Errors
    /// Why there is none; none: it has not been read, and is to be.
    fn pinned(
        &mut self,
        to: &KnownRevision,
        read: Option<(KnownRevision, Found)>,
    ) -> Result<Option<PathBuf>, Option<LoadFailure>> {
        if self.history.is_kept(to.digest, &self.desired.policy.guests) {
            self.pin = None;
            return Ok(None);
        }
        let found = read.filter(|(revision, _)| revision == to);
        let found = found.map(|(_, found)| found);
        self.pin = Some(Pin {
            revision: to.clone(),
            lookup: found.as_ref().and_then(|found| found.lookup.clone()),
        });
        let component = found.ok_or(None)?.component;
        component.map(|found| Some(found.path)).map_err(Some)
    }

    /// Why nothing serves while a rollback is in effect.
    fn not_pinned(&self, rollback: &Rollback, problem: &str) -> String {
        let name = self.desired.name();
        let to = rollback.to.digest.short();
        format!(
            "it is rolled back to {to}, which cannot serve: {problem}: windlass rollback {name} --undo serves the revision of its guest instead"
        )
    }
}
