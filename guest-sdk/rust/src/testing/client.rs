//! The calls of a guest on a cluster of a test. Entry points: [`TestCluster::run`] and its neighbours, which only [`crate::raw`] calls.

use super::Verb;
use super::cluster::TestCluster;
use crate::dependents::OWNER;
use crate::error::ApiError;
use crate::types::{
    DeleteOptions, Event, GroupVersionKind, ListOptions, Operation, Reply, Selection,
};
use crate::wire;
use serde_json::Value;

impl TestCluster {
    /// Runs one call.
    pub(crate) fn run(&self, operation: &Operation) -> Result<Reply, ApiError> {
        let answer = match operation {
            Operation::List((kind, options)) => {
                let listed = Operation::List((kind.clone(), unindexed(options)?));
                self.call(Verb::List, |handle| wire::function(handle, &listed))
            }
            _ => self.call(verb(operation), |handle| wire::function(handle, operation)),
        };
        answer.map(wire::reply)
    }

    /// Deletes a selection.
    pub(crate) fn delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let function = |handle| wire::delete_collection(handle, kind, selection, options);
        self.call(Verb::DeleteCollection, function).map(drop)
    }

    /// Keeps an event for the test.
    pub(crate) fn record(&self, event: &Event) {
        self.state.borrow_mut().events.push(event.clone());
    }

    /// Counts a call, and fails it if the test asked for it.
    fn call(&self, verb: Verb, function: impl FnOnce(u32) -> Value) -> Result<Value, ApiError> {
        let failure = {
            let state = &mut *self.state.borrow_mut();
            state.calls.push(verb);
            let mut failures = state.failures.iter();
            let at = failures.position(|(failing, _)| *failing == verb);
            at.map(|at| state.failures.remove(at).1)
        };
        match failure {
            Some(error) => Err(error),
            None => wire::result(self.fleet.call(self.name(), function)),
        }
    }
}

/// The same list without the index of dependents: a fleet of tests watches nothing, so it has no indexes.
fn unindexed(options: &ListOptions) -> Result<ListOptions, ApiError> {
    let owned = match &options.index {
        None => return Ok(options.clone()),
        Some((name, uid)) if name == OWNER => format!("{OWNER}={uid}"),
        Some((name, _)) => {
            let message = format!(
                "a fleet of tests has no index {name:?}: list by label, or use `windlass test`"
            );
            return Err(ApiError::new(crate::ApiCode::Invalid, message).with_status(422));
        }
    };
    Ok(ListOptions {
        index: None,
        label_selector: Some(owned),
        ..options.clone()
    })
}

fn verb(operation: &Operation) -> Verb {
    match operation {
        Operation::Get(_) => Verb::Get,
        Operation::List(_) => Verb::List,
        Operation::Create(_) => Verb::Create,
        Operation::Update(_) => Verb::Update,
        Operation::Patch(_) => Verb::Patch,
        Operation::Apply(_) => Verb::Apply,
        Operation::Delete(_) => Verb::Delete,
    }
}

#[cfg(test)]
mod tests;
