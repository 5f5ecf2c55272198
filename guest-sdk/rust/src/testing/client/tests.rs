//! The test cluster behaves as an API server in what controllers rely on.

use crate::testing::{TestCluster, TestFleet, Verb};
use crate::{
    ApiCode, ApiError, DeleteOptions, GroupVersionKind, ListOptions, Metadata, Object, ObjectKey,
    Resource, Selection,
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
    TestFleet::new().cluster("alpha")
}

#[test]
fn a_write_of_an_old_version_is_a_conflict() {
    let (alpha, key) = (alpha(), ObjectKey::namespaced("default", "a"));
    let mut first = alpha.client().create(&widget("a")).unwrap();
    assert!(first.metadata.uid.is_some());
    assert_eq!(
        alpha.client().create(&widget("a")).unwrap_err().code,
        ApiCode::AlreadyExists
    );

    alpha.edit::<Widget>(&key, |widget| widget.spec = json!({"size": 2}));
    first.spec = json!({"size": 3});
    assert!(alpha.client().update(&first).unwrap_err().is_conflict());

    let mut fresh: Widget = alpha.client().get(&key).unwrap().unwrap();
    assert_eq!(fresh.metadata.generation, Some(2));
    fresh.spec = json!({"size": 3});
    assert_eq!(
        alpha.client().update(&fresh).unwrap().metadata.generation,
        Some(3)
    );
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
    assert_eq!(
        stored["metadata"],
        json!({
            "namespace": "default", "name": "a", "labels": {"m": "2"}, "finalizers": ["example.dev/hold"],
            "managedFields": [], "uid": "00000000-0000-4000-8000-000000000001", "resourceVersion": "2",
            "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z",
        })
    );
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
fn status_and_spec_are_written_apart() {
    let (alpha, key) = (alpha(), ObjectKey::namespaced("default", "a"));
    alpha.put_object(&widget("a"));
    let patched: Widget = alpha
        .client()
        .patch_status::<Widget>(&key, &json!({"ready": true}))
        .unwrap();
    assert_eq!(
        (&patched.status, patched.metadata.generation),
        (&json!({"ready": true}), Some(1))
    );

    let mut changed = patched;
    (changed.spec, changed.status) = (json!({"size": 9}), json!({"ready": false}));
    let stored = alpha.client().update(&changed).unwrap();
    assert_eq!(
        (stored.spec, stored.status),
        (json!({"size": 9}), json!({"ready": true}))
    );
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
fn a_finalizer_holds_an_object_and_its_removal_lets_it_go() {
    let (alpha, key) = (alpha(), ObjectKey::namespaced("default", "a"));
    let mut held = widget("a");
    held.metadata.finalizers.push("example.dev/hold".into());
    alpha.put_object(&held);
    assert!(alpha.client().delete::<Widget>(&key).unwrap());
    assert!(alpha.object::<Widget>(&key).unwrap().metadata.is_deleting());
    alpha
        .client()
        .patch::<Widget>(&key, &json!({"metadata": {"finalizers": null}}))
        .unwrap();
    assert!(alpha.object::<Widget>(&key).is_none());
}

#[test]
fn what_an_owner_leaves_behind_goes() {
    let alpha = alpha();
    let owner = alpha.client().create(&widget("owner")).unwrap();
    let mut owned = widget("owned");
    owned.metadata = owned.metadata.owner(owner.controller_reference());
    alpha.client().create(&owned).unwrap();
    assert!(alpha.client().delete_object(&owner).unwrap());
    assert!(alpha.objects().is_empty());
}

#[test]
fn a_selection_is_deleted_and_nothing_else() {
    let alpha = alpha();
    for (name, tier) in [("a", "front"), ("b", "back")] {
        let mut labelled = widget(name);
        labelled.metadata = labelled.metadata.label("tier", tier);
        alpha.put_object(&labelled);
    }
    let selection = Selection::default().labels("tier=front");
    let dry = DeleteOptions {
        dry_run: true,
        ..DeleteOptions::default()
    };
    alpha
        .client()
        .delete_collection_with(&widget("a").kind(), &selection, &dry)
        .unwrap();
    assert_eq!(alpha.objects().len(), 2);
    alpha
        .client()
        .delete_collection::<Widget>(&selection)
        .unwrap();
    assert_eq!(alpha.objects().len(), 1);
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
fn a_wrong_selector_of_clusters_is_refused_even_if_there_are_none() {
    TestFleet::new().enter(|| {
        let refused = crate::fleet::clusters_labelled("region like (eu)").unwrap_err();
        assert_eq!(refused.code, ApiCode::Invalid);
        assert_eq!(crate::now(), "2026-01-31T09:30:00.000Z");
    });
}
