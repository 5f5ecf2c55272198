//! Tests of the guest, in clusters in memory.

use super::*;
use serde_json::{Value, json};
use windlass_sdk::testing::{TestCluster, TestFleet};

fn map(label: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "a", "labels": {label: "yes"}}, "data": {"k": value},
    })
}

struct Stage {
    fleet: TestFleet,
    hub: TestCluster,
    east: TestCluster,
    key: ObjectKey,
}

fn stage() -> Stage {
    let fleet = TestFleet::new();
    let (hub, east) = (fleet.cluster(""), fleet.cluster("east"));
    let key = ObjectKey::namespaced("default", "a");
    Stage {
        fleet,
        hub,
        east,
        key,
    }
}

impl Stage {
    fn there(&self) -> Option<BTreeMap<String, String>> {
        let map: ConfigMap = self.east.object(&self.key)?;
        Some(map.data)
    }

    fn value(&self) -> Option<String> {
        self.there()?.remove("k")
    }
}

#[test]
fn an_original_is_copied_followed_and_deleted() {
    let stage = stage();
    stage.hub.put(map(SPREAD, "1"));
    stage.east.reconcile::<Spread>(&stage.key).unwrap();
    assert_eq!(stage.value().as_deref(), Some("1"));
    assert_eq!(stage.east.reconciled_writes::<Spread>(&stage.key), Ok(0));

    stage.hub.put(map(SPREAD, "2"));
    stage.east.reconcile::<Spread>(&stage.key).unwrap();
    assert_eq!(stage.value().as_deref(), Some("2"));

    stage.hub.remove::<ConfigMap>(&stage.key);
    stage.east.reconcile::<Spread>(&stage.key).unwrap();
    assert_eq!(stage.value(), None);
}

#[test]
fn an_original_that_is_one_no_more_takes_its_copies_along() {
    let stage = stage();
    stage.hub.put(map(SPREAD, "1"));
    stage.east.reconcile::<Spread>(&stage.key).unwrap();
    stage.hub.remove::<ConfigMap>(&stage.key);
    stage.hub.put(map("other", "1"));
    stage.east.reconcile::<Spread>(&stage.key).unwrap();
    assert_eq!(stage.value(), None);
}

#[test]
fn a_cluster_has_a_copy_while_the_original_selects_it() {
    let stage = stage();
    let mut original = map(SPREAD, "1");
    original["metadata"]["annotations"] = json!({CLUSTERS: "env=prod"});
    stage.hub.put(original);
    assert_eq!(stage.east.reconciled_writes::<Spread>(&stage.key), Ok(0));
    for (env, there) in [("prod", Some("1")), ("dev", None)] {
        stage.east.label("env", env);
        stage.east.reconcile::<Spread>(&stage.key).unwrap();
        assert_eq!(stage.value().as_deref(), there);
    }
}

#[test]
fn a_copy_that_was_changed_is_repaired_whole() {
    let stage = stage();
    stage.hub.put(map(SPREAD, "1"));
    stage.east.reconcile::<Spread>(&stage.key).unwrap();
    stage.east.edit::<ConfigMap>(&stage.key, |copy| {
        copy.data = [("k", "no"), ("more", "of it")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
    });
    stage.east.reconcile::<Spread>(&stage.key).unwrap();
    let there = stage.there().unwrap();
    assert_eq!((there.len(), there["k"].as_str()), (1, "1"));
}

#[test]
fn what_is_no_copy_is_never_touched() {
    let stage = stage();
    stage.east.put(map("other", "mine"));
    assert_eq!(stage.east.reconciled_writes::<Spread>(&stage.key), Ok(0));
    stage.hub.put(map(SPREAD, "1"));
    let error = stage.east.reconcile::<Spread>(&stage.key).unwrap_err();
    assert!(error.message().contains("is there and no copy") && !error.is_terminal());
    assert_eq!(stage.value().as_deref(), Some("mine"));
}

#[test]
fn an_original_asks_for_every_cluster_and_a_cluster_for_every_original() {
    let stage = stage();
    let _west = stage.fleet.cluster("west");
    let config_map = GroupVersionKind::new("v1", "ConfigMap");
    let original = Object(map(SPREAD, "1"));
    let asked = |cluster: &TestCluster, kind: &GroupVersionKind, object: &Object| {
        let requests = cluster.map::<Spread>(kind, std::slice::from_ref(object));
        let names = requests.unwrap().into_iter();
        names.map(|request| request.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        asked(&stage.hub, &config_map, &original),
        ["cluster://east/default/a", "cluster://west/default/a"]
    );

    stage.hub.put(map(SPREAD, "1"));
    let mut other = map(SPREAD, "2");
    other["metadata"]["name"] = json!("b");
    stage.hub.put(other);
    stage.hub.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "c"},
    }));
    let comes = json!({"metadata": {"name": "west"}, "spec": {"name": "west"}});
    assert_eq!(
        asked(&stage.hub, &FleetCluster::KIND.into(), &Object(comes)),
        ["cluster://west/default/a", "cluster://west/default/b"]
    );
}
