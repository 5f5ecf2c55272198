//! Tests of the guest, in clusters in memory.

use super::*;
use crate::trouble::ABANDON;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_sdk::testing::{TestCluster, TestFleet, Verb};

/// Any kind of these tests.
#[derive(Serialize, Deserialize)]
struct Bin {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}
windlass_sdk::kind!(Bin, "example.com/v1", "HttpBin");

#[derive(Serialize, Deserialize)]
struct Secret {
    metadata: Metadata,
    #[serde(default)]
    data: Value,
}
windlass_sdk::kind!(Secret, "v1", "Secret");

const BLUE: &str = "1x2y3z";
const GREEN: &str = "4u5v6w";

struct Stage {
    fleet: TestFleet,
    compute: TestCluster,
    blue: TestCluster,
    key: ObjectKey,
}

/// A published HttpBin with more fields, and one object of it in one workspace.
fn stage(more: Value) -> Stage {
    let mut resource = json!({"source": {"apiVersion": "example.com/v1", "kind": "HttpBin"}});
    for (field, value) in more.as_object().unwrap() {
        resource[field] = value.clone();
    }
    let fleet = TestFleet::new().config(&json!({"resources": [resource]}));
    fleet.define(&Bin::KIND.into(), true);
    fleet.define(&GroupVersionKind::new("inner.example.com/v2", "Box"), true);
    let (compute, blue) = (fleet.cluster(""), fleet.cluster(BLUE));
    blue.put(bin());
    let key = ObjectKey::namespaced("default", "bin");
    Stage {
        fleet,
        compute,
        blue,
        key,
    }
}

/// The Secret that the object names goes down, the one that its service makes comes back.
fn with_secrets() -> Stage {
    let stage = stage(json!({"related": [
        {"kind": "Secret", "origin": "consumer", "path": "spec.token"},
        {"kind": "Secret", "origin": "service", "path": "status.access"},
    ]}));
    stage.blue.put(secret("default", "token", "b25l"));
    stage
}

fn bin() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "HttpBin",
        "metadata": {"namespace": "default", "name": "bin", "labels": {"tier": "gold"}},
        "spec": {"region": "eu", "token": "token"},
    })
}

fn secret(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}, "data": {"value": value}})
}

fn away() -> ApiError {
    ApiError::new(ApiCode::Unavailable, "no server")
}

impl Stage {
    fn reconcile(&self) -> Result<Action> {
        self.blue.reconcile::<Sync>(&self.key)
    }

    /// The copies, of all workspaces.
    fn copies(&self) -> Vec<Object> {
        let all = self.compute.objects().into_iter();
        all.filter(|object| object.0["kind"] == "HttpBin").collect()
    }

    fn copy_key(&self) -> ObjectKey {
        self.copies()[0].key()
    }

    fn original(&self) -> Bin {
        self.blue.object(&self.key).unwrap()
    }

    fn reason(&self) -> Value {
        let conditions = self.original().status["conditions"].clone();
        let of = |one: &&Value| one["type"] == "Synced";
        conditions.as_array().unwrap().iter().find(of).unwrap()["reason"].clone()
    }

    fn delete(&self) {
        self.blue.client().delete::<Bin>(&self.key).unwrap();
    }

    fn running(self) -> Self {
        self.reconcile().unwrap();
        self
    }
}

#[test]
fn what_is_asked_for_goes_down_and_the_status_comes_up() {
    let stage = stage(json!({
        "down": {"labels": ["tier"], "mutations": [{"path": "spec.region", "template": "{value}-1"}]},
        "up": {"mutations": [{"path": "status.internal", "delete": true}]},
    }))
    .running();
    let copy = &stage.copies()[0];
    assert_eq!(copy.0["spec"], json!({"region": "eu-1", "token": "token"}));
    assert_eq!(copy.label("tier"), Some("gold"));
    stage.compute.edit::<Bin>(&copy.key(), |copy| {
        copy.status = json!({"url": "https://x", "internal": 1});
    });
    stage.reconcile().unwrap();
    let status = stage.original().status;
    assert_eq!(
        (&status["url"], status.get("internal")),
        (&json!("https://x"), None)
    );
    assert_eq!(stage.reason(), "Synced");
    assert_eq!(stage.blue.reconciled_writes::<Sync>(&stage.key).unwrap(), 0);
    assert_eq!(stage.compute.writes(), 2, "a namespace and a copy");
}

#[test]
fn a_kind_and_its_place_can_be_others() {
    let projection = json!({"apiVersion": "inner.example.com/v2", "kind": "Box", "namespace": "boxes", "name": "{logicalCluster}-{name}"});
    let stage = stage(json!({"projection": projection})).running();
    let objects = stage.compute.objects();
    let copy = objects.iter().find(|object| object.0["kind"] == "Box");
    let copy = copy.unwrap();
    assert_eq!(copy.0["apiVersion"], "inner.example.com/v2");
    assert_eq!(copy.key(), ObjectKey::namespaced("boxes", "1x2y3z-bin"));
}

#[test]
fn objects_of_the_same_name_in_two_workspaces_do_not_collide() {
    let stage = stage(json!({})).running();
    let green = stage.fleet.cluster(GREEN);
    green.put(bin());
    green.reconcile::<Sync>(&stage.key).unwrap();
    assert_eq!(stage.copies().len(), 2);
    stage.delete();
    stage.reconcile().unwrap();
    stage.reconcile().unwrap();
    let left = stage.copies();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].annotation(mark::CLUSTER), Some(GREEN));
}

#[test]
fn drift_is_corrected_on_either_side() {
    let stage = stage(json!({})).running();
    stage.compute.edit::<Bin>(&stage.copy_key(), |copy| {
        copy.spec["region"] = json!("us");
        copy.status = json!({"url": "https://x"});
    });
    stage.reconcile().unwrap();
    assert_eq!(stage.copies()[0].0["spec"]["region"], "eu");
    stage
        .blue
        .edit::<Bin>(&stage.key, |bin| bin.status = json!({"url": "spoilt"}));
    stage.reconcile().unwrap();
    assert_eq!(stage.original().status["url"], "https://x");
    stage.compute.remove::<Bin>(&stage.copy_key());
    stage.reconcile().unwrap();
    assert_eq!(stage.copies().len(), 1);
    // A field that the consumer takes away goes.
    stage
        .blue
        .edit::<Bin>(&stage.key, |bin| bin.spec = json!({"region": "eu"}));
    stage.reconcile().unwrap();
    assert_eq!(stage.copies()[0].0["spec"], json!({"region": "eu"}));
}

#[test]
fn a_namespace_stays_while_an_object_asks_for_a_copy_in_it() {
    let kind = |kind: &str| json!({"source": {"apiVersion": "example.com/v1", "kind": kind}});
    let fleet = TestFleet::new().config(&json!({"resources": [kind("HttpBin"), kind("Box")]}));
    for kind in ["HttpBin", "Box"] {
        fleet.define(&GroupVersionKind::new("example.com/v1", kind), true);
    }
    let (compute, blue) = (fleet.cluster(""), fleet.cluster(BLUE));
    let key = ObjectKey::namespaced("default", "bin");
    let other = key.sibling("other");
    for name in ["bin", "other"] {
        let mut bin = bin();
        bin["metadata"]["name"] = json!(name);
        blue.put(bin);
        blue.reconcile::<Sync>(&key.sibling(name)).unwrap();
    }
    // A run has made the namespace, and not yet its copy.
    let copies = compute.objects().into_iter();
    let mut copies = copies.filter(|copy| copy.0["metadata"]["name"] == "bin");
    compute.remove::<Bin>(&copies.next().unwrap().key());
    let is_there = || {
        let mut all = compute.objects().into_iter();
        all.any(|object| object.0["kind"] == "Namespace")
    };
    // Another object goes, and a third one never was. Of neither there is a Box.
    blue.client().delete::<Bin>(&other).unwrap();
    blue.reconcile::<Sync>(&other).unwrap();
    assert!(is_there(), "another object goes");
    let none = key.sibling("none");
    blue.reconcile::<Sync>(&none).unwrap();
    assert!(is_there(), "an object that never was");
    blue.client().delete::<Bin>(&key).unwrap();
    blue.reconcile::<Sync>(&key).unwrap();
    assert!(!is_there(), "the last object goes");
}

#[test]
fn a_namespace_that_consumers_may_share_stays() {
    let stage = stage(json!({"projection": {"namespace": "boxes"}})).running();
    stage.delete();
    stage.reconcile().unwrap();
    let left = stage.compute.objects();
    assert_eq!((left.len(), &left[0].0["kind"]), (1, &json!("Namespace")));
}

#[test]
fn a_foreign_object_is_not_overwritten() {
    let stage = stage(json!({"projection": {"namespace": "boxes", "name": "{name}"}}));
    let foreign = ObjectKey::namespaced("boxes", "bin");
    let mut theirs = bin();
    theirs["metadata"] = json!({"namespace": "boxes", "name": "bin"});
    theirs["spec"] = json!({"region": "moon"});
    stage.compute.put(theirs);
    assert!(matches!(stage.reconcile(), Ok(Action::RequeueAfterMs(_))));
    assert_eq!(stage.reason(), "NameTaken");
    let untouched: Bin = stage.compute.object(&foreign).unwrap();
    assert_eq!(untouched.spec["region"], "moon");
    // Nor is it deleted with the object.
    stage.delete();
    stage.reconcile().unwrap();
    assert!(stage.blue.object::<Bin>(&stage.key).is_none());
    assert!(stage.compute.object::<Bin>(&foreign).is_some());
}

#[test]
fn an_object_goes_when_its_copy_is_gone() {
    let stage = stage(json!({})).running();
    let copy = stage.copy_key();
    let hold = |copy: &mut Bin| copy.metadata.finalizers = vec!["operator/x".into()];
    stage.compute.edit::<Bin>(&copy, hold);
    stage.delete();
    assert_eq!(stage.reconcile(), Ok(Action::Done));
    assert_eq!(stage.reason(), "Deleting");
    let done = json!({"metadata": {"finalizers": []}});
    let operator = stage.compute.client();
    operator.patch::<Bin>(&copy, &done).unwrap();
    stage.reconcile().unwrap();
    assert!(stage.blue.object::<Bin>(&stage.key).is_none());
    let left = stage.compute.objects();
    assert!(left.is_empty(), "the namespace goes too: {left:?}");
}

#[test]
fn an_object_waits_while_the_compute_cluster_is_away() {
    let stage = stage(json!({})).running();
    stage.delete();
    for _ in 0..2 {
        stage.compute.fail_next(Verb::List, away());
        assert!(!stage.reconcile().unwrap_err().is_terminal());
        assert_eq!(stage.reason(), "DeletionWaits");
    }
    stage.reconcile().unwrap();
    assert!(stage.blue.object::<Bin>(&stage.key).is_none() && stage.copies().is_empty());
}

#[test]
fn an_object_is_let_go_when_asked_and_its_copy_goes_when_it_can() {
    let stage = stage(json!({})).running();
    stage.delete();
    stage.compute.fail_next(Verb::List, away());
    stage.reconcile().unwrap_err();
    stage.blue.edit::<Bin>(&stage.key, |bin| {
        let annotations = &mut bin.metadata.annotations;
        annotations.insert(ABANDON.to_owned(), "true".to_owned());
    });
    stage.reconcile().unwrap();
    assert!(stage.blue.object::<Bin>(&stage.key).is_none());
    assert_eq!(stage.copies().len(), 1);
    // The copy's event asks for an object that is not there.
    stage.reconcile().unwrap();
    assert!(stage.copies().is_empty());
}

#[test]
fn a_copy_may_outlive_its_object() {
    let stage = stage(json!({"deletion": "Orphan"})).running();
    assert!(stage.original().metadata.finalizers.is_empty());
    stage.delete();
    stage.reconcile().unwrap();
    assert!(stage.blue.object::<Bin>(&stage.key).is_none());
    assert_eq!(stage.copies().len(), 1);
}

#[test]
fn an_object_that_is_not_selected_is_left_alone_and_one_that_was_is_let_go() {
    let source = json!({"apiVersion": "example.com/v1", "kind": "HttpBin", "selector": {"matchLabels": {"tier": "gold"}}});
    let stage = stage(json!({"source": source})).running();
    assert_eq!(stage.copies().len(), 1);
    stage.blue.edit::<Bin>(&stage.key, |bin| {
        bin.metadata.labels.insert("tier".into(), "lead".into());
    });
    stage.reconcile().unwrap();
    assert!(stage.copies().is_empty());
    assert!(stage.original().metadata.finalizers.is_empty());
    assert_eq!(stage.blue.reconciled_writes::<Sync>(&stage.key).unwrap(), 0);
}

#[test]
fn secrets_go_down_and_come_back_and_are_kept_so() {
    let stage = with_secrets().running();
    let copy = stage.copy_key();
    let below = |name: &str| stage.compute.object::<Secret>(&copy.sibling(name));
    assert_eq!(below("token").unwrap().data["value"], "b25l");

    // The service makes one.
    let namespace = copy.namespace.clone().unwrap();
    stage.compute.put(secret(&namespace, "access", "a2V5"));
    stage.compute.edit::<Bin>(&copy, |copy| {
        copy.status = json!({"access": "access"});
    });
    stage.reconcile().unwrap();
    let back = || stage.blue.object::<Secret>(&stage.key.sibling("access"));
    assert_eq!(back().unwrap().data["value"], "a2V5");

    // Both are put right, and follow.
    stage
        .compute
        .edit::<Secret>(&copy.sibling("token"), |token| token.data = json!({}));
    stage.blue.remove::<Secret>(&stage.key.sibling("access"));
    stage.blue.put(secret("default", "token", "dHdv"));
    stage.reconcile().unwrap();
    assert_eq!(below("token").unwrap().data["value"], "dHdv");
    assert!(back().is_some());

    // All of it goes with the object, and the consumer's own stays.
    stage.delete();
    stage.reconcile().unwrap();
    assert!(back().is_none() && below("token").is_none());
    assert!(
        stage
            .blue
            .object::<Secret>(&stage.key.sibling("token"))
            .is_some()
    );
}

#[test]
fn a_secret_that_two_objects_name_goes_with_the_last_of_them() {
    let stage = with_secrets().running();
    let mut second = bin();
    second["metadata"]["name"] = json!("second");
    stage.blue.put(second);
    let second = stage.key.sibling("second");
    stage.blue.reconcile::<Sync>(&second).unwrap();
    let token = stage.copy_key().sibling("token");
    let there = || stage.compute.object::<Secret>(&token).is_some();
    stage.delete();
    stage.reconcile().unwrap();
    assert!(there());
    stage.blue.client().delete::<Bin>(&second).unwrap();
    stage.blue.reconcile::<Sync>(&second).unwrap();
    assert!(!there() && stage.compute.objects().is_empty());
}

#[test]
fn a_secret_that_is_not_named_any_more_goes() {
    let stage = with_secrets().running();
    stage.blue.put(secret("default", "other", "dHdv"));
    stage
        .blue
        .edit::<Bin>(&stage.key, |bin| bin.spec["token"] = json!("other"));
    stage.reconcile().unwrap();
    let there = |name: &str| {
        let key = stage.copy_key().sibling(name);
        stage.compute.object::<Secret>(&key).is_some()
    };
    assert!(there("other") && !there("token"));
}

#[test]
fn what_is_missing_or_in_the_way_is_told() {
    let stage = with_secrets();
    stage.blue.remove::<Secret>(&stage.key.sibling("token"));
    stage.reconcile().unwrap();
    assert_eq!(stage.reason(), "RelatedMissing");
    stage.blue.put(secret("default", "token", "b25l"));
    stage.blue.put(secret("default", "access", "bWluZQ=="));
    stage.reconcile().unwrap();
    let copy = stage.copy_key();
    let namespace = copy.namespace.clone().unwrap();
    stage.compute.put(secret(&namespace, "access", "a2V5"));
    stage.compute.edit::<Bin>(&copy, |copy| {
        copy.status = json!({"access": "access"});
    });
    stage.reconcile().unwrap();
    assert_eq!(stage.reason(), "RelatedTaken");
    let own: Secret = stage.blue.object(&stage.key.sibling("access")).unwrap();
    assert_eq!(own.data["value"], "bWluZQ==");
}

#[test]
fn events_tell_what_is_wrong_where_there_is_no_condition() {
    let stage = stage(json!({"up": {"condition": ""}}));
    stage.compute.fail_next(Verb::Get, away());
    stage.reconcile().unwrap_err();
    assert_eq!(stage.blue.events()[0].reason, "ServiceUnreachable");
    assert!(stage.original().status.is_null());
}

#[test]
fn an_event_asks_for_the_objects_that_it_is_about() {
    let stage = with_secrets().running();
    let wanted = format!("cluster://{BLUE}/default/bin");
    let asked = |cluster: &TestCluster, kind: GroupVersionKind, object: Object| {
        let requests = cluster.map::<Sync>(&kind, &[object]).unwrap();
        let texts = requests.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>().join(" ")
    };
    let copy = stage.copies().remove(0);
    assert_eq!(asked(&stage.compute, Bin::KIND.into(), copy), wanted);
    let token = Object(secret("default", "token", "x"));
    assert_eq!(asked(&stage.blue, Secret::KIND.into(), token), wanted);
    let objects = stage.compute.objects().into_iter();
    let mut secrets = objects.filter(|object| object.0["kind"] == "Secret");
    let brought = secrets.next().unwrap();
    assert_eq!(asked(&stage.compute, Secret::KIND.into(), brought), wanted);
    let foreign = Object(secret("default", "other", "x"));
    assert_eq!(asked(&stage.blue, Secret::KIND.into(), foreign), "");
}

#[test]
fn both_sides_are_watched() {
    let stage = with_secrets();
    let description = stage.fleet.describe::<Sync>().unwrap();
    let watches = description.watches.iter();
    let watches = watches.map(|watch| (&*watch.kind.kind, watch.clusters));
    let (local, workspaces) = (ClusterScope::Local, ClusterScope::Provider);
    let expected = [
        ("HttpBin", workspaces),
        ("HttpBin", local),
        ("Secret", workspaces),
        ("Secret", local),
    ];
    assert!(watches.eq(expected));
}
