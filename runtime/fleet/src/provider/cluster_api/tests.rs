//! What objects of Cluster API ask for.

use super::*;
use crate::provider::inventory::Wish;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: admin@one
clusters: [{name: one, cluster: {server: 'https://one.example:6443'}}]
contexts: [{name: admin@one, context: {cluster: one, user: admin}}]
users: [{name: admin, user: {token: t}}]
";

fn cluster(version: &str, spec: Value, status: Value) -> Value {
    json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster", "spec": spec, "status": status,
        "metadata": {"name": "one", "namespace": "fleet", "labels": {"env": "prod"}}})
}

fn ready_cluster() -> Value {
    let status =
        json!({"phase": "Provisioned", "initialization": {"controlPlaneInitialized": true}});
    cluster("v1beta2", json!({}), status)
}

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one-kubeconfig", "namespace": "fleet"},
        "data": {"value": STANDARD.encode(KUBECONFIG)}})
}

fn desired_with(options: ClusterApiOptions, cluster: &Value, secret: Option<&Value>) -> Desired {
    let related: Vec<HubObject> = secret.map(HubObject::of).into_iter().collect();
    CapiClusters { options }.desired(&HubObject::of(cluster), &related)
}

fn desired(cluster: &Value) -> Desired {
    desired_with(ClusterApiOptions::default(), cluster, Some(&secret()))
}

fn is_engaged(desired: &Desired) -> bool {
    matches!(desired.wish, Wish::Engage(_))
}

#[test]
fn a_cluster_has_the_name_labels_and_topology_of_its_object() {
    let status = json!({"phase": "Provisioned", "controlPlaneReady": true, "initialization": {"controlPlaneInitialized": true}});
    let topologies = [
        (
            "v1beta2",
            json!({"classRef": {"name": "quick-start"}, "version": "v1.34.1"}),
        ),
        (
            "v1beta1",
            json!({"class": "quick-start", "version": "v1.34.1"}),
        ),
    ];
    for (version, topology) in topologies {
        let object = cluster(version, json!({"topology": topology}), status.clone());
        let Wish::Engage(spec) = desired(&object).wish else {
            panic!("{version} is not engaged");
        };
        assert_eq!(spec.name.as_str(), "fleet/one");
        assert_eq!(spec.config.server(), "https://one.example:6443/");
        assert_eq!(spec.labels.get("env"), Some("prod"));
        let properties: Vec<(&str, &str)> = spec.properties.iter().collect();
        let expected = [
            ("phase", "Provisioned"),
            ("topology.class", "quick-start"),
            ("topology.version", "v1.34.1"),
        ];
        assert_eq!(properties, expected, "{version}");
    }
}

#[test]
fn a_cluster_is_engaged_once_its_control_plane_is_initialized() {
    let condition = |status: &str| json!([{"type": "ControlPlaneInitialized", "status": status}]);
    let cases = [
        ("v1beta2", json!(null), false),
        ("v1beta2", json!({"phase": "Provisioning"}), false),
        ("v1beta2", json!({"conditions": condition("False")}), false),
        ("v1beta2", json!({"conditions": condition("True")}), true),
        (
            "v1beta2",
            json!({"initialization": {"infrastructureProvisioned": true}}),
            false,
        ),
        (
            "v1beta2",
            json!({"initialization": {"controlPlaneInitialized": true}}),
            true,
        ),
        ("v1beta1", json!({"controlPlaneReady": false}), false),
        ("v1beta1", json!({"controlPlaneReady": true}), true),
        (
            "v1beta1",
            json!({"controlPlaneReady": false, "conditions": condition("True")}),
            true,
        ),
    ];
    for (version, status, engaged) in cases {
        let desired = desired(&cluster(version, json!({}), status.clone()));
        assert_eq!(is_engaged(&desired), engaged, "{version} {status}");
        let waits = matches!(desired.wish, Wish::Refresh(_));
        assert_eq!(waits, !engaged, "{version} {status}");
    }
}

#[test]
fn another_condition_or_none_can_decide() {
    let options = |ready| ClusterApiOptions {
        ready,
        ..ClusterApiOptions::default()
    };
    let available = || options(Readiness::Condition("Available".to_owned()));
    let status = |status: &str| json!({"conditions": [{"type": "Available", "status": status}]});
    let engaged = |options, status| {
        let object = cluster("v1beta2", json!({}), status);
        is_engaged(&desired_with(options, &object, Some(&secret())))
    };
    assert!(engaged(available(), status("True")));
    assert!(!engaged(available(), status("False")));
    assert!(!engaged(
        available(),
        json!({"initialization": {"controlPlaneInitialized": true}})
    ));
    assert!(engaged(options(Readiness::Always), json!(null)));
    // The object's own version decides before the conditions of the other version.
    let both = json!({"conditions": [{"type": "Available", "status": "False"}],
        "v1beta2": {"conditions": [{"type": "Available", "status": "True"}]}});
    assert!(!engaged(available(), both));
    let other = json!({"conditions": [], "v1beta2": {"conditions": [{"type": "Available", "status": "True"}]}});
    assert!(engaged(available(), other));
}

#[test]
fn a_cluster_that_is_not_ready_any_more_stays_unless_it_is_to_leave() {
    let unready = cluster("v1beta2", json!({}), json!({}));
    assert!(matches!(desired(&unready).wish, Wish::Refresh(_)));
    let options = ClusterApiOptions {
        on_unready: OnUnready::Disengage,
        ..ClusterApiOptions::default()
    };
    let desired = desired_with(options, &unready, Some(&secret()));
    assert!(matches!(desired.wish, Wish::Leave));
    assert!(desired.problem.unwrap().contains("not initialized"));
}

#[test]
fn a_cluster_that_is_being_deleted_leaves() {
    let mut object = ready_cluster();
    object["metadata"]["deletionTimestamp"] = json!("2026-11-24T00:00:00Z");
    assert!(matches!(desired(&object).wish, Wish::Leave));
}

#[test]
fn a_cluster_without_a_usable_secret_stays_as_it_is() {
    let options = ClusterApiOptions::default;
    let missing = desired_with(options(), &ready_cluster(), None);
    assert!(matches!(missing.wish, Wish::Keep(_)));
    let problem = missing.problem.unwrap();
    assert!(
        problem.contains(
            "no Secret fleet/one-kubeconfig with the label cluster.x-k8s.io/cluster-name"
        ),
        "{problem}"
    );
    let mut broken = secret();
    broken["data"] = json!({"value": ""});
    let broken = desired_with(options(), &ready_cluster(), Some(&broken));
    assert!(matches!(broken.wish, Wish::Keep(_)));
    assert!(
        broken
            .problem
            .unwrap()
            .starts_with("Secret fleet/one-kubeconfig: key \"value\"")
    );
    // Before the control plane is initialized nobody expects a Secret.
    let new = desired_with(options(), &cluster("v1beta2", json!({}), json!({})), None);
    assert!(new.problem.unwrap().contains("not initialized"));
}
