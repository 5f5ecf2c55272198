//! What a test does beside the guest, and what it sees of the guest's calls.

use crate::resource::Typed;
use crate::testing::{ServerFailure, TestCluster, TestFleet, Verb};
use crate::{
    ApiCode, ApiError, DeleteOptions, GroupVersionKind, ListOptions, Metadata, Object, ObjectKey,
    Resource,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Serialize, Deserialize)]
struct Widget {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    status: Value,
}
crate::kind!(Widget, "example.dev/v1", "Widget");

fn widget(name: &str) -> Widget {
    Widget {
        metadata: Metadata::new("default", name),
        spec: json!({"size": 1}),
        status: Value::Null,
    }
}

fn alpha() -> TestCluster {
    let fleet = TestFleet::new();
    let alpha = fleet.cluster("alpha");
    fleet.define(&Widget::KIND.into(), true);
    alpha
}

#[test]
fn an_edit_removes_what_is_no_longer_there_and_keeps_the_rest() {
    let (alpha, key) = (alpha(), ObjectKey::namespaced("default", "a"));
    alpha.put(json!({
        "apiVersion": "example.dev/v1", "kind": "Widget",
        "metadata": {
            "namespace": "default", "name": "a", "labels": {"l": "1", "m": "2"}, "annotations": {"n": "3"},
            "finalizers": ["example.dev/hold"], "managedFields": [],
        },
        "spec": {"size": 1, "color": "red"}, "status": {"ready": true}, "theirs": 4,
    }));
    alpha.edit::<Widget>(&key, |_| {});
    alpha.edit::<Widget>(&key, |widget| {
        widget.metadata.labels.remove("l");
        widget.metadata.annotations.clear();
        widget.spec = json!({"size": 2});
        widget.status = Value::Null;
    });
    let stored = alpha.objects().remove(0).0;
    let metadata = &stored["metadata"];
    assert_eq!(metadata["labels"], json!({"m": "2"}));
    assert_eq!(metadata["annotations"], Value::Null);
    assert_eq!(metadata["finalizers"], json!(["example.dev/hold"]));
    assert_eq!(
        (&stored["spec"], stored.get("status")),
        (&json!({"size": 2}), None)
    );
    assert_eq!(stored["theirs"], 4);

    alpha.remove::<Widget>(&key);
    alpha.edit::<Widget>(&key, |widget| widget.metadata.finalizers.clear());
    assert!(alpha.objects().is_empty());
}

#[test]
fn absence_is_none_on_a_read_and_false_on_a_delete() {
    let (alpha, key) = (alpha(), ObjectKey::namespaced("default", "gone"));
    assert!(alpha.client().get::<Widget>(&key).unwrap().is_none());
    assert!(!alpha.client().delete::<Widget>(&key).unwrap());
    let raw = alpha.client().raw().delete(
        &GroupVersionKind::new("example.dev/v1", "Widget"),
        &key,
        &DeleteOptions::default(),
    );
    assert!(raw.unwrap_err().is_not_found());
}

#[test]
fn a_list_goes_through_every_page() {
    let alpha = alpha();
    for index in 0..7 {
        alpha.put_object(&widget(&format!("w{index}")));
    }
    let client = alpha.client();
    let names: Vec<String> = client
        .list::<Widget>(&ListOptions::default().limit(3))
        .unwrap()
        .iter()
        .map(|w| w.metadata.name.clone())
        .collect();
    assert_eq!(names, ["w0", "w1", "w2", "w3", "w4", "w5", "w6"]);
    assert_eq!(
        alpha
            .calls()
            .iter()
            .filter(|verb| **verb == Verb::List)
            .count(),
        3
    );
}

#[test]
fn a_failure_hits_the_next_call_of_its_sort_once() {
    let (alpha, key) = (alpha(), ObjectKey::namespaced("default", "a"));
    alpha.fail_next(Verb::Get, ApiError::new(ApiCode::Throttled, "slow down"));
    alpha.client().create(&widget("a")).unwrap();
    assert_eq!(
        alpha.client().get::<Widget>(&key).unwrap_err().code,
        ApiCode::Throttled
    );
    assert!(alpha.client().get::<Widget>(&key).unwrap().is_some());
    assert_eq!(alpha.writes(), 1);
}

#[test]
fn a_kind_without_a_type_works_as_well() {
    let (alpha, kind) = (alpha(), GroupVersionKind::new("example.dev/v1", "Widget"));
    let (client, key) = (alpha.client(), ObjectKey::namespaced("default", "a"));
    let mut object = Object::new(&kind, &key);
    object.0["spec"] = json!({"size": 4});
    client.apply(&object).unwrap();
    assert_eq!(
        client
            .of(kind.clone())
            .get(&key)
            .unwrap()
            .unwrap()
            .at("/spec/size"),
        Some(&json!(4))
    );
    assert_eq!(
        client.of(kind).list(&ListOptions::default()).unwrap()[0].key(),
        key
    );
}

#[test]
fn the_fleet_is_listed_by_label_and_opened_by_name() {
    let fleet = TestFleet::new();
    fleet.cluster("alpha").label("region", "eu");
    let _ = fleet.cluster("beta");
    fleet.enter(|| {
        let names: Vec<String> = crate::fleet::clusters_labelled("region=eu")
            .unwrap()
            .into_iter()
            .map(|info| info.name)
            .collect();
        assert_eq!(names, ["alpha"]);
        assert_eq!(crate::fleet::open("beta").unwrap().name(), "beta");
        let denied = crate::fleet::open("gamma").unwrap_err();
        assert_eq!(denied.code, ApiCode::Denied);
        assert_eq!(
            denied.message,
            "this fleet has no cluster \"gamma\": the test names it with TestFleet::cluster"
        );
    });
}

#[test]
fn clusters_change_labels_fail_heal_leave_and_join_again() {
    let fleet = TestFleet::new();
    let (_, beta) = (fleet.cluster("alpha"), fleet.cluster("beta"));
    let (kind, key) = (
        GroupVersionKind::new("v1", "ConfigMap"),
        ObjectKey::namespaced("default", "a"),
    );
    beta.put(Object::new(&kind, &key).0);
    let ready = |selector: &str| {
        let infos = fleet.enter(|| crate::fleet::clusters_labelled(selector));
        let ready = infos
            .unwrap()
            .into_iter()
            .map(|info| (info.name, info.ready));
        ready.collect::<Vec<_>>()
    };
    let read = || {
        fleet.enter(|| {
            let beta = crate::fleet::open("beta")?;
            beta.of(kind.clone()).get(&key)
        })
    };
    beta.label("region", "eu");
    assert_eq!(ready("region=eu"), [("beta".to_owned(), true)]);
    for failure in [ServerFailure::Errors, ServerFailure::Unreachable] {
        beta.fail(failure);
        assert!(read().is_err(), "{failure:?}");
    }
    assert_eq!(ready("region=eu"), [("beta".to_owned(), false)]);
    beta.heal();
    assert!(read().unwrap().is_some());
    beta.unlabel("region");
    assert_eq!(ready("region=eu"), []);
    beta.leave();
    assert_eq!(ready(""), [("alpha".to_owned(), true)]);
    assert_eq!(read().unwrap_err().code, ApiCode::Denied);
    let _ = fleet.cluster("beta");
    assert!(read().unwrap().is_some(), "it keeps its objects");
}
