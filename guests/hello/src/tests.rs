//! Tests of the guest, in a cluster in memory.

use super::*;
use serde_json::{Value, json};
use windlass_sdk::testing::{TestCluster, TestFleet, Verb};

fn asking(who: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "a", "labels": {GREET: who}},
    })
}

fn fleet(config: &Value) -> (TestFleet, TestCluster, ObjectKey) {
    let fleet = TestFleet::new().config(config);
    let alpha = fleet.cluster("alpha");
    (fleet, alpha, ObjectKey::namespaced("default", "a"))
}

fn said(alpha: &TestCluster, key: &ObjectKey) -> Option<String> {
    let child: ConfigMap = alpha.object(&key.sibling("a-greeting"))?;
    child.data.get("greeting").cloned()
}

#[test]
fn a_labelled_config_map_is_greeted_once() {
    let (_fleet, alpha, key) = fleet(&json!({"greeting": "good morning"}));
    alpha.put(asking("world"));

    assert_eq!(alpha.reconcile::<Hello>(&key), Ok(Action::Done));
    assert_eq!(
        said(&alpha, &key).as_deref(),
        Some("good morning, world, from alpha")
    );
    assert_eq!(alpha.events()[0].reason, "GreetingCreated");

    assert_eq!(alpha.reconciled_writes::<Hello>(&key), Ok(0));
    assert_eq!(alpha.events().len(), 1);
}

#[test]
fn a_greeting_that_was_changed_or_deleted_comes_back() {
    let (_fleet, alpha, key) = fleet(&json!({}));
    alpha.put(asking("world"));
    alpha.reconcile::<Hello>(&key).unwrap();

    alpha.edit::<ConfigMap>(&key.sibling("a-greeting"), |child| {
        child.data.insert("greeting".into(), "go away".into());
    });
    alpha.reconcile::<Hello>(&key).unwrap();
    assert_eq!(
        said(&alpha, &key).as_deref(),
        Some("hello, world, from alpha")
    );

    alpha.remove::<ConfigMap>(&key.sibling("a-greeting"));
    alpha.reconcile::<Hello>(&key).unwrap();
    assert_eq!(
        said(&alpha, &key).as_deref(),
        Some("hello, world, from alpha")
    );
    let reasons: Vec<_> = alpha
        .events()
        .into_iter()
        .map(|event| event.reason)
        .collect();
    assert_eq!(
        reasons,
        ["GreetingCreated", "GreetingChanged", "GreetingCreated"]
    );
}

#[test]
fn the_greeting_goes_with_the_one_who_asked() {
    let (_fleet, alpha, key) = fleet(&json!({}));
    alpha.put(asking("world"));
    alpha.reconcile::<Hello>(&key).unwrap();
    alpha.remove::<ConfigMap>(&key);
    assert_eq!(said(&alpha, &key), None);
    assert_eq!(alpha.reconciled_writes::<Hello>(&key), Ok(0));
}

#[test]
fn without_the_label_nobody_is_greeted() {
    let (_fleet, alpha, key) = fleet(&json!({}));
    alpha.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}}));
    assert_eq!(alpha.reconciled_writes::<Hello>(&key), Ok(0));
    assert_eq!(said(&alpha, &key), None);
}

#[test]
fn a_failed_write_is_tried_again() {
    let (_fleet, alpha, key) = fleet(&json!({}));
    alpha.put(asking("world"));
    alpha.fail_next(
        Verb::Apply,
        ApiError::new(ApiCode::Unavailable, "no server").with_status(503),
    );
    let error = alpha.reconcile::<Hello>(&key).unwrap_err();
    assert!(!error.is_terminal());
    assert!(alpha.events().is_empty());
    assert_eq!(alpha.reconcile::<Hello>(&key), Ok(Action::Done));
}

#[test]
fn a_wrong_config_fails_the_load() {
    let (fleet, ..) = fleet(&json!({"greeting": 7}));
    assert!(
        fleet
            .describe::<Hello>()
            .unwrap_err()
            .message()
            .starts_with("config: greeting: expected a string")
    );
}

#[test]
fn it_watches_those_who_ask_and_its_greetings() {
    let (fleet, ..) = fleet(&json!({}));
    let description = fleet.describe::<Hello>().unwrap();
    assert_eq!(
        description.watches[0].label_selector.as_deref(),
        Some(GREET)
    );
    assert_eq!(description.watches[1].enqueue, Enqueue::ControllerOwner);
}

/// A process for a debugger: start `windlass dev --native hello` first, then debug this test. It goes on until that ends.
#[test]
#[ignore = "needs windlass dev --native"]
fn native() {
    windlass_sdk::native::serve::<Hello>();
}
