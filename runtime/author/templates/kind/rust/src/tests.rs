//! Tests of the guest, in a cluster in memory: plain `cargo test`.

use super::*;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::testing::{TestCluster, TestFleet};

/// A cluster with an object, its key, and the key of its copy.
fn example() -> (TestCluster, ObjectKey, ObjectKey) {
    let alpha = TestFleet::new().cluster("alpha");
    alpha.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "copies"}}));
    alpha.put(json!({
        "apiVersion": "{{group}}/{{version}}", "kind": "{{kind}}",
        "metadata": {"namespace": "default", "name": "example"},
        "spec": {"text": "hello", "copyTo": "copies"},
    }));
    let key = ObjectKey::namespaced("default", "example");
    let copy = ObjectKey::namespaced("copies", "default.example-{{singular}}");
    (alpha, key, copy)
}

/// The text of a ConfigMap.
fn text(alpha: &TestCluster, key: &ObjectKey) -> Option<String> {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let found = alpha.client().of(kind).get(key).unwrap()?;
    found.text_at("/data/text").map(str::to_owned)
}

#[test]
fn an_object_has_a_config_map_and_a_copy() {
    let (alpha, key, copy) = example();
    assert_eq!(alpha.reconcile::<Guest>(&key), Ok(Action::Done));
    let own = key.sibling("example-{{singular}}");
    assert_eq!(text(&alpha, &own).as_deref(), Some("hello"));
    assert_eq!(text(&alpha, &copy).as_deref(), Some("hello"));

    let object = alpha.object::<types::{{stem}}::{{type}}>(&key).unwrap();
    let status = object.status.unwrap();
    assert_eq!(status.observed_generation, object.metadata.generation);
    let conditions = status.conditions.unwrap();
    let ready = conditions.iter().find(|one| one.r#type == "Ready").unwrap();
    assert_eq!(ready.status, "True");

    assert_eq!(alpha.reconciled_writes::<Guest>(&key), Ok(0));
}

#[test]
fn the_copy_goes_before_the_object() {
    let (alpha, key, copy) = example();
    alpha.reconcile::<Guest>(&key).unwrap();
    alpha.remove::<types::{{stem}}::{{type}}>(&key);
    assert!(
        alpha.object::<types::{{stem}}::{{type}}>(&key).is_some(),
        "the finalizer holds it"
    );

    assert_eq!(alpha.reconcile::<Guest>(&key), Ok(Action::Done));
    assert_eq!(text(&alpha, &copy), None);
    assert!(alpha.object::<types::{{stem}}::{{type}}>(&key).is_none());
}

/// A process for a debugger: start `windlass dev --native {{name}}` first, then debug this test. It goes on until that ends.
#[test]
#[ignore = "needs windlass dev --native"]
fn native() {
    windlass_sdk::native::serve::<Guest>();
}
