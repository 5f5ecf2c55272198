//! Tests of the guest, in a cluster in memory: plain `cargo test`.

use super::*;
use serde_json::json;
use windlass_sdk::testing::TestFleet;

#[test]
fn who_asks_is_greeted_once() {
    let fleet = TestFleet::new();
    let alpha = fleet.cluster("alpha");
    alpha.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "crew", "labels": {GREET: "world"}},
    }));
    let crew = ObjectKey::namespaced("default", "crew");

    assert_eq!(alpha.reconcile::<Greeter>(&crew), Ok(Action::Done));
    let greeting: ConfigMap = alpha.object(&crew.sibling("crew-greeting")).unwrap();
    assert_eq!(greeting.data["greeting"], "hello, world, from alpha");
    assert_eq!(greeting.metadata.controller().unwrap().name, "crew");

    assert_eq!(alpha.reconciled_writes::<Greeter>(&crew), Ok(0));
}

#[test]
fn without_the_label_nobody_is_greeted() {
    let fleet = TestFleet::new();
    let alpha = fleet.cluster("alpha");
    alpha.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "crew"},
    }));
    let crew = ObjectKey::namespaced("default", "crew");
    assert_eq!(alpha.reconciled_writes::<Greeter>(&crew), Ok(0));
}

/// A process for a debugger: start `windlass dev --native {{name}}` first, then debug this test. It goes on until that ends.
#[test]
#[ignore = "needs windlass dev --native"]
fn native() {
    windlass_sdk::native::serve::<Greeter>();
}
