//! The place of the author's source in the failure that the host gets. It is a test apart because the SDK's own files are no author's.

#![allow(clippy::unwrap_used, reason = "a test asserts by unwrapping")]

use windlass_sdk::bindings::windlass::runtime::types::Failure;
use windlass_sdk::prelude::*;
use windlass_sdk::testing::{TestFleet, Verb};
use windlass_sdk::{GroupVersionKind, Object};

/// What the host is told, and the line of this file that it should name: `0` for none.
fn told(result: Result<Action>, line: u32) {
    let (Failure::Retry(said) | Failure::Terminal(said)) = result.unwrap_err().into();
    let (message, at) = said.split_once("\nat ").unwrap_or((&said, ""));
    assert!(message.ends_with("timeout: no answer"), "{said}");
    let file = at.strip_suffix(&format!("places.rs:{line}"));
    assert_eq!(file.is_some(), line > 0, "{said}");
    assert_eq!(at.is_empty(), line == 0, "{said}");
}

fn call() -> Result<(), ApiError> {
    Err(ApiError::new(ApiCode::Timeout, "no answer"))
}

#[test]
fn a_failed_call_names_the_line_where_the_author_passes_it_on() {
    let plain = || -> Result<Action> {
        call()?;
        Ok(Action::Done)
    };
    told(plain(), line!() - 3);
    let contextual = || call().context("reading").map(|()| Action::Done);
    told(contextual(), line!() - 1);
    let passed = || -> Result<Action> { contextual().map(|_| Action::Done) };
    told(passed(), line!() - 3);
    told(call().terminal().map(|()| Action::Done), 0);
    told(Err(Error::retry("timeout: no answer")), 0);
}

struct Keeper;

impl Reconciler for Keeper {
    fn describe() -> Result<Description> {
        Ok(Description::new("keeps nothing"))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let kind = GroupVersionKind::new("v1", "ConfigMap");
        let Some(primary) = cluster.of(kind).get(&request.key)? else {
            return Ok(Action::Done);
        };
        let parts = Dependents::new().kind("v1", "Secret").finalizer("a.b/c");
        parts.reconcile(cluster, &primary, [] as [Object; 0]) // this line
    }
}

#[test]
fn a_failure_inside_of_the_sdk_names_the_line_of_the_authors_call() {
    let fleet = TestFleet::new();
    let alpha = fleet.cluster("alpha");
    let metadata = serde_json::json!({"namespace": "default", "name": "a"});
    alpha.put(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    alpha.fail_next(Verb::Patch, ApiError::new(ApiCode::Timeout, "no answer"));
    let (before, _) = include_str!("places.rs")
        .split_once("// this line")
        .unwrap();
    let result = alpha.reconcile::<Keeper>(&ObjectKey::namespaced("default", "a"));
    told(result, before.lines().count() as u32);
}
