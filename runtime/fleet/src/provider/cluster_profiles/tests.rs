//! What ClusterProfiles ask for.

use super::*;
use crate::provider::inventory::Wish;
use serde_json::{Value, json};

fn plugin(name: &str) -> AccessProvider {
    AccessProvider {
        name: name.to_owned(),
        plugin: CredentialPlugin {
            command: "plugin".to_owned(),
            ..CredentialPlugin::default()
        },
        arguments: ProfileArgs::default(),
        variables: ProfileVariables::default(),
    }
}

fn by_plugin() -> ClusterProfilesOptions {
    ClusterProfilesOptions::new(AccessStrategy::access_providers(vec![plugin("a")]).unwrap())
}

fn profile(status: &Value) -> Value {
    json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"namespace": "ns", "name": "prod", "labels": {"env": "prod"}}, "status": status})
}

fn status(healthy: &str, provider: &str, heartbeat: &str) -> Value {
    json!({
        "conditions": [{"type": "ControlPlaneHealthy", "status": healthy, "lastTransitionTime": heartbeat}],
        "version": {"kubernetes": "v1.35.2"},
        "properties": [{"name": "clusterset.k8s.io", "value": "environ-1", "lastObservedTime": heartbeat}],
        "accessProviders": [{"name": provider, "cluster": {"server": "https://cluster.example.com"}}],
    })
}

fn engaged(desired: &Desired) -> Option<&ClusterSpec> {
    match &desired.wish {
        Wish::Engage(spec) => Some(spec),
        _ => None,
    }
}

fn leaves(desired: &Desired) -> bool {
    matches!(desired.wish, Wish::Leave)
}

fn desired(options: ClusterProfilesOptions, object: &Value) -> Desired {
    Profiles { options }.desired(&HubObject::of(object), &[])
}

const THEN: &str = "2026-01-01T00:00:00Z";

#[test]
fn a_healthy_profile_is_a_cluster_named_by_namespace_and_name() {
    let object = profile(&status("True", "a", THEN));
    let desired = desired(by_plugin(), &object);
    let spec = engaged(&desired).unwrap();
    assert_eq!(spec.name.as_str(), "ns/prod");
    assert_eq!(spec.config.server(), "https://cluster.example.com/");
    assert_eq!(spec.labels.get("env"), Some("prod"));
    assert_eq!(spec.properties.get("version.kubernetes"), Some("v1.35.2"));
    assert_eq!(spec.properties.get("clusterset.k8s.io"), Some("environ-1"));
    assert_eq!(desired.problem.as_deref(), None);
}

#[test]
fn a_heartbeat_asks_for_the_same_cluster() {
    let at = |time: &str| {
        let desired = desired(by_plugin(), &profile(&status("True", "a", time)));
        engaged(&desired).cloned().unwrap()
    };
    assert!(at(THEN).same(&at("2026-01-01T00:01:00Z")));
}

#[test]
fn an_unhealthy_profile_keeps_its_cluster_unless_it_is_to_leave() {
    let object = profile(&status("False", "a", THEN));
    let kept = desired(by_plugin(), &object);
    assert!(engaged(&kept).is_none() && !leaves(&kept));
    let reason = "not ready: its condition ControlPlaneHealthy is False, and must be True";
    assert_eq!(kept.problem.as_deref(), Some(reason));
    let mut options = by_plugin();
    options.on_unready = OnUnready::Disengage;
    assert!(leaves(&desired(options, &object)));
    let mut options = by_plugin();
    options.ready = Readiness::Always;
    assert!(engaged(&desired(options, &object)).is_some());
}

#[test]
fn a_profile_that_is_being_deleted_leaves_whatever_its_health() {
    let mut object = profile(&status("True", "a", THEN));
    object["metadata"]["deletionTimestamp"] = THEN.into();
    assert!(leaves(&desired(by_plugin(), &object)));
}

#[test]
fn a_profile_that_cannot_be_used_keeps_its_cluster_and_says_why() {
    let mut long = profile(&status("True", "a", THEN));
    long["metadata"]["name"] = "x".repeat(253).into();
    for (object, reason) in [
        (
            profile(&status("True", "other", THEN)),
            "its access providers are other",
        ),
        (
            profile(&json!({"conditions": "none"})),
            "it is not of the expected shape",
        ),
        (long, "cluster name of 256 bytes is too long"),
    ] {
        let desired = desired(by_plugin(), &object);
        assert!(engaged(&desired).is_none() && !leaves(&desired));
        let problem = desired.problem.as_deref().unwrap();
        assert!(problem.starts_with(reason), "{problem}");
    }
}

#[test]
fn exactly_one_usable_strategy_is_accepted() {
    let refused = |providers| {
        AccessStrategy::access_providers(providers)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(Vec::new()).starts_with("no access provider is configured"));
    assert!(refused(vec![plugin("a"), plugin("a")]).contains("twice"));
    assert!(refused(vec![plugin("")]).contains("no name"));
    let mut without = plugin("a");
    without.plugin.command.clear();
    assert!(refused(vec![without]).contains("no command"));
    assert!(
        AccessStrategy::secret("")
            .unwrap_err()
            .to_string()
            .starts_with("no consumer")
    );
    for consumer in ["not a label", "a,b", "a)"] {
        let error = AccessStrategy::secret(consumer).unwrap_err().to_string();
        assert!(error.contains(consumer), "{error}");
    }
    assert!(AccessStrategy::secret("windlass").is_ok());
}
