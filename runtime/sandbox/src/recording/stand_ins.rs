//! What stands in a recording in place of the values of Secrets. Entry point: [`put_into`].
//!
//! A stand-in has the length of its value. Letters stand for letters, digits for digits, and everything else stays, so that a replay
//! goes the same way through a guest that splits or decodes the value. The same value has the same stand-in until the process ends, and
//! nobody can compute it from the outside.
//!
//! * All values of a Secret that the run read or wrote are replaced, however short: in `data`, `stringData`, patches, the annotation in
//!   which kubectl keeps what it applied, and tokens of service accounts. So are texts of the configuration that came from a Secret.
//! * Such a value of at least [`SHORTEST`] bytes is replaced wherever else the run shows it, encoded as base64 or not: in other objects,
//!   names, log lines, errors and the configuration. Only the request itself, kinds and the guest's own code stay.

mod places;
mod values;

use super::{Answer, ApiError, Asked, Key, Kind, Operation, Outcome, Recording, Step, Text};
use places::{secrets_of_object, secrets_of_patch};
use values::Values;

/// A shorter value is replaced in Secrets alone: elsewhere it could be any word.
const SHORTEST: usize = 6;

/// Puts stand-ins into a recording. `known`: texts of its configuration that are secret too.
pub(crate) fn put_into(recording: &mut Recording, known: &[String]) {
    let mut values = Values::default();
    values.hide(&mut recording.config, |config| {
        let is_known = |text: &str| known.iter().any(|secret| secret == text);
        places::texts(config, is_known)
    });
    for step in &mut recording.steps {
        if let Step::Call { asked, answer } = step {
            hide_in_secrets(asked, answer, &mut values);
        }
    }
    recording.stand_ins = values.len();
    if values.is_empty() {
        return;
    }
    values.spare([
        Some(recording.request.cluster.as_str()),
        recording.request.namespace.as_deref(),
        Some(recording.request.name.as_str()),
    ]);
    let hide = values.everywhere();
    hide.text(&mut recording.config);
    for step in &mut recording.steps {
        hide.step(step);
    }
    if let Outcome::Failed { message, .. } = &mut recording.outcome {
        hide.string(message);
    }
}

/// Hides the values of the Secrets that a call and its answer hold.
fn hide_in_secrets(asked: &mut Asked, answer: &mut Answer, values: &mut Values) {
    match (asked, answer) {
        (Asked::Do { operation, .. }, answer) => hide_in_operation(operation, answer, values),
        (Asked::Batch { operations, .. }, Answer::Batch(answers)) => {
            for (operation, answer) in operations.iter_mut().zip(answers) {
                hide_in_operation(operation, answer, values);
            }
        }
        (Asked::FleetBatch { operations }, Answer::Batch(answers)) => {
            for ((_, operation), answer) in operations.iter_mut().zip(answers) {
                hide_in_operation(operation, answer, values);
            }
        }
        // A batch that the run did not survive.
        (Asked::Batch { operations, .. }, _) => {
            for operation in operations {
                hide_in_operation(operation, &mut Answer::Unanswered, values);
            }
        }
        (Asked::FleetBatch { operations }, _) => {
            for (_, operation) in operations {
                hide_in_operation(operation, &mut Answer::Unanswered, values);
            }
        }
        _ => {}
    }
}

fn hide_in_operation(operation: &mut Operation, answer: &mut Answer, values: &mut Values) {
    let kind = match operation {
        Operation::Get { kind, .. }
        | Operation::List { kind, .. }
        | Operation::Create { kind, .. }
        | Operation::Update { kind, .. }
        | Operation::Patch { kind, .. }
        | Operation::Apply { kind, .. }
        | Operation::Delete { kind, .. } => kind,
    };
    if !is_secret(kind) {
        return;
    }
    match operation {
        Operation::Create { object, .. }
        | Operation::Update { object, .. }
        | Operation::Apply { object, .. } => values.hide(object, secrets_of_object),
        Operation::Patch { patch, .. } => values.hide(patch, secrets_of_patch),
        Operation::Get { .. } | Operation::List { .. } | Operation::Delete { .. } => {}
    }
    match answer {
        Answer::Object(object) => values.hide(object, secrets_of_object),
        Answer::Page { items, .. } => {
            for item in items {
                values.hide(item, secrets_of_object);
            }
        }
        _ => {}
    }
}

/// Whether objects of a kind hold secrets: Secrets, and tokens of service accounts, which are made by `create` of a subresource of these.
fn is_secret(kind: &Kind) -> bool {
    let kind = (kind.group.as_str(), kind.kind.as_str());
    matches!(
        kind,
        ("", "Secret" | "ServiceAccount")
            | ("authentication.k8s.io", "TokenRequest" | "TokenReview")
    )
}

/// Hides values wherever else a recording shows them.
struct Hide<'a>(&'a [(String, String)]);

impl Hide<'_> {
    fn string(&self, text: &mut String) {
        for (value, stand_in) in self.0 {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), stand_in);
            }
        }
    }

    fn maybe(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.string(text);
        }
    }

    fn text(&self, text: &mut Text) {
        self.string(&mut text.0);
    }

    fn key(&self, key: &mut Key) {
        self.maybe(&mut key.namespace);
        self.string(&mut key.name);
    }

    fn step(&self, step: &mut Step) {
        match step {
            Step::Call { asked, answer } => {
                self.asked(asked);
                self.answer(answer);
            }
            Step::Log {
                message, fields, ..
            } => {
                self.string(message);
                for (name, value) in fields {
                    self.string(name);
                    self.string(value);
                }
            }
        }
    }

    fn asked(&self, asked: &mut Asked) {
        match asked {
            Asked::Do { operation, .. } => self.operation(operation),
            Asked::DeleteCollection { selection, .. } => {
                self.maybe(&mut selection.namespace);
                self.maybe(&mut selection.label_selector);
                self.maybe(&mut selection.field_selector);
            }
            Asked::RecordEvent { event, .. } => {
                self.key(&mut event.key);
                for text in [&mut event.reason, &mut event.action, &mut event.note] {
                    self.string(text);
                }
            }
            Asked::Batch { operations, .. } => {
                for operation in operations {
                    self.operation(operation);
                }
            }
            Asked::FleetBatch { operations } => {
                for (_, operation) in operations {
                    self.operation(operation);
                }
            }
            Asked::Clusters { label_selector } => self.maybe(label_selector),
            Asked::Open { .. } => {}
        }
    }

    fn operation(&self, operation: &mut Operation) {
        match operation {
            Operation::Get { key, .. } | Operation::Delete { key, .. } => self.key(key),
            Operation::List { options, .. } => {
                self.maybe(&mut options.namespace);
                self.maybe(&mut options.label_selector);
                self.maybe(&mut options.field_selector);
                if let Some((_, value)) = &mut options.index {
                    self.string(value);
                }
            }
            Operation::Create { object, .. }
            | Operation::Update { object, .. }
            | Operation::Apply { object, .. } => self.text(object),
            Operation::Patch { key, patch, .. } => {
                self.key(key);
                self.text(patch);
            }
        }
    }

    fn answer(&self, answer: &mut Answer) {
        match answer {
            Answer::Object(object) => self.text(object),
            Answer::Page { items, .. } => items.iter_mut().for_each(|item| self.text(item)),
            Answer::Clusters(clusters) => {
                for cluster in clusters {
                    let pairs = cluster.labels.iter_mut().chain(&mut cluster.properties);
                    pairs.for_each(|(_, value)| self.string(value));
                }
            }
            Answer::Batch(answers) => answers.iter_mut().for_each(|answer| self.answer(answer)),
            Answer::Error(error) => self.error(error),
            Answer::Nothing | Answer::Unanswered => {}
        }
    }

    fn error(&self, error: &mut ApiError) {
        self.string(&mut error.reason);
        self.string(&mut error.message);
        if let Some(details) = &mut error.details {
            self.text(details);
        }
    }
}

#[cfg(test)]
mod tests;
