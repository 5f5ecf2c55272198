//! The host of a fleet's guest: one connection to the program, and the handles of the run that goes on. Entry point: [`Host`].

use super::program::connect;
use crate::wire::Lines;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The program's side of a fleet. Connected when the first cluster is made.
#[derive(Debug, Default)]
pub(super) struct Host {
    connection: Option<Lines>,
    /// The handles of the run that goes on, by cluster. Empty: none does.
    handles: BTreeMap<String, u32>,
}

impl Host {
    /// Does something for the test. The run that goes on ends first, so that its garbage is collected.
    pub(super) fn test(&mut self, asked: &Value) -> Value {
        self.end();
        self.asked(asked)
    }

    /// Calls a host function in a cluster, by its handle. Begins a run if none goes on.
    pub(super) fn call(&mut self, cluster: &str, function: impl FnOnce(u32) -> Value) -> Value {
        let handle = self.handle(cluster);
        self.connection().call(&function(handle))
    }

    /// Ends the run that goes on.
    pub(super) fn end(&mut self) {
        if !std::mem::take(&mut self.handles).is_empty() {
            self.asked(&json!("End"));
        }
    }

    fn handle(&mut self, cluster: &str) -> u32 {
        if let Some(handle) = self.handles.get(cluster) {
            return *handle;
        }
        let answer = if self.handles.is_empty() {
            self.asked(&json!({"Begin": {"cluster": cluster}}))
        } else {
            self.connection().call(&json!({"Open": {"name": cluster}}))["Ok"].take()
        };
        let handle = answer.as_u64().and_then(|handle| handle.try_into().ok());
        let handle = handle.unwrap_or_else(|| panic!("no handle of cluster {cluster:?}: {answer}"));
        self.handles.insert(cluster.to_owned(), handle);
        handle
    }

    /// What a test asks for. It fails only by the test's own mistake.
    fn asked(&mut self, asked: &Value) -> Value {
        let answer = self.connection().ask(&json!({ "Test": asked }));
        let mut answer = answer.unwrap_or_else(|error| panic!("windlass fleet has ended: {error}"));
        if let Some(problem) = answer["Err"].as_str() {
            panic!("{problem}");
        }
        answer["Ok"].take()
    }

    fn connection(&mut self) -> &mut Lines {
        self.connection.get_or_insert_with(connect)
    }
}
