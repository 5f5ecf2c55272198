//! Writes a reconciler's record. Entry point: [`Reconciler::keep_record`].
//!
//! A rollback is in effect before it is recorded, so that a bad revision stops at once. Its caller is answered after that.

use super::{Inputs, Reconciler};
use crate::app::rollback::RollbackCall;
use crate::config::kinds::Origin;
use crate::config::record::Record;
use crate::guests::LoadFailure;
use crate::reconcilers::environment::{Done, Environment, Task};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::task::Id;

/// Time until a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(15);
/// The note to a caller whose rollback ends with the process.
const FORGETFUL: &str =
    "a restart of the process forgets it, because there is no cache folder: see --cache";

/// How a record is being written.
#[derive(Default)]
pub(super) struct Recording {
    writing: Option<(Record, Task)>,
    /// The caller that waits for it.
    call: Option<RollbackCall>,
    /// When to try again after a failure.
    again: Option<Instant>,
}

impl Recording {
    /// Whether a caller waits.
    pub(super) fn has_call(&self) -> bool {
        self.call.is_some()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.again.filter(|_| self.writing.is_none())
    }
}

impl Environment {
    /// Keeps what a reconciler serves from a file, so that a later process can roll back to it.
    pub(super) fn keep_component(&self, inputs: &Inputs, path: Option<PathBuf>) {
        let is_file = inputs.desired.spec.guest.path().is_some();
        if let Some(path) = path.filter(|_| is_file) {
            let records = &self.sources.records;
            records.keep_component(inputs.component, path);
        }
    }
}

impl Reconciler {
    /// Writes its record if that has changed. Answers the caller after that.
    pub(super) fn keep_record(
        &mut self,
        environment: &mut Environment,
        call: Option<RollbackCall>,
    ) {
        let records = environment.sources.records.clone();
        let recording = &mut self.recording;
        if call.is_some() {
            self.history.decide();
            recording.call = call;
        }
        // The end of the write looks again.
        if recording.writing.is_some() {
            return;
        }
        let document = &self.desired.document;
        let may_write = document.origin == Origin::File || records.leads();
        let place = records.place(document);
        let record = self.history.to_write();
        let note = match (&place, may_write) {
            (None, _) => FORGETFUL,
            (_, false) => "a restart forgets it: this process does not lead any more",
            _ => "",
        };
        let (Some(record), Some(place), true) = (record, place, may_write) else {
            recording.again = None;
            let call = recording.call.take();
            return self.answered(environment, call, note.to_owned());
        };
        let is_due = recording.again.is_none_or(|at| at <= Instant::now());
        if !is_due && !recording.has_call() {
            return;
        }
        let written = record.clone();
        let writing = async move {
            let written = records.write(place, written).await;
            written.map_err(LoadFailure::transient)
        };
        let task = environment.spawn(self.desired.name(), writing, Done::Recorded);
        recording.writing = Some((record, task));
    }

    /// Notes that its record was written, or was not.
    pub(super) fn recorded(
        &mut self,
        environment: &mut Environment,
        id: Id,
        result: Result<(), LoadFailure>,
    ) {
        let recording = &mut self.recording;
        let Some((record, _)) = recording.writing.take_if(|(_, task)| task.is(id)) else {
            return;
        };
        let call = recording.call.take();
        match result {
            Ok(()) => {
                recording.again = None;
                self.history.written(record);
                self.answered(environment, call, String::new());
                // It may have changed meanwhile.
                self.keep_record(environment, None);
            }
            Err(LoadFailure { problem, .. }) => {
                recording.again = Some(Instant::now() + AGAIN);
                tracing::warn!(
                    reconciler = self.desired.name(),
                    reason = problem,
                    "a restart forgets its rollback: it is not recorded, and is tried again"
                );
                let note = format!(
                    "a restart forgets it until it is recorded, which is tried again: {problem}"
                );
                self.answered(environment, call, note);
            }
        }
    }

    fn answered(&self, environment: &mut Environment, call: Option<RollbackCall>, note: String) {
        let name = || self.desired.name().to_owned();
        let call = call.map(|call| (name(), call, note));
        environment.rolled_back.extend(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::{Configuration, load};
    use crate::config::registries;
    use crate::guests::{Desired, Guests};
    use crate::reconcilers::{Records, Sources};
    use std::sync::Arc;
    use windlass_fleet::Manager;
    use windlass_registry::Registries;
    use windlass_sandbox::Options;

    fn environment() -> Environment {
        let manager = Manager::builder().build().unwrap().bind().handle();
        let options = registries::options(&Configuration::default(), None).unwrap();
        let sources = Sources {
            registry: Registries::new(options),
            records: Records::new(None, manager),
            trusts_files: false,
        };
        let options = Options {
            instances: 1,
            ..Options::default()
        };
        let guests = Guests::new(&options, Arc::default(), None, Default::default(), true).unwrap();
        Environment::new(guests, sources, Arc::default(), Default::default())
    }

    #[tokio::test]
    async fn a_record_that_need_not_be_written_any_more_is_not_tried_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windlass.yaml");
        let text = "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {name: x}\nspec: {guest: {path: ./x.wasm}}\n";
        std::fs::write(&file, text).unwrap();
        let configuration = load(&[file]).configuration;
        let (document, spec) = configuration.reconcilers().next().unwrap();
        let desired = Arc::new(Desired::of(&configuration, document, spec));
        let mut reconciler = Reconciler::new(desired, Record::default());
        let failed = Instant::now();
        reconciler.recording.again = Some(failed);
        assert_eq!(reconciler.due(), Some(failed));
        reconciler.try_again(&mut environment());
        assert_eq!(reconciler.due(), None);
    }
}
