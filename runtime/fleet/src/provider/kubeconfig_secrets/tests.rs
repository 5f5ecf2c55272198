//! What Secrets ask for.

use super::*;
use crate::provider::inventory::Wish;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: first
clusters:
- {name: one, cluster: {server: 'https://one.example'}}
- {name: two, cluster: {server: 'https://two.example'}}
contexts:
- {name: first, context: {cluster: one, user: ''}}
- {name: second, context: {cluster: two, user: ''}}
";

fn secret(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prod-eu", "namespace": "fleet", "labels": {"env": "prod"}}, "data": data})
}

fn with(kubeconfig: &str) -> Value {
    secret(json!({"kubeconfig": STANDARD.encode(kubeconfig)}))
}

fn desired(options: KubeconfigSecretsOptions, secret: &Value) -> Desired {
    Secrets { options }.desired(&HubObject::of(secret), &[])
}

fn engaged(options: KubeconfigSecretsOptions, secret: &Value) -> ClusterSpec {
    match desired(options, secret).wish {
        Wish::Engage(spec) => *spec,
        other => panic!("{other:?}"),
    }
}

fn problem(secret: &Value) -> String {
    let desired = desired(KubeconfigSecretsOptions::default(), secret);
    assert!(matches!(desired.wish, Wish::Keep(_)), "{desired:?}");
    desired.problem.unwrap()
}

#[test]
fn a_secret_is_a_cluster_of_the_current_context_with_its_labels() {
    let spec = engaged(KubeconfigSecretsOptions::default(), &with(KUBECONFIG));
    assert_eq!(spec.name.as_str(), "fleet/prod-eu");
    assert_eq!(spec.config.server(), "https://one.example/");
    assert_eq!(spec.labels.get("env"), Some("prod"));
}

#[test]
fn a_name_has_no_namespace_where_one_namespace_is_configured() {
    let named = |namespaces: &[&str]| {
        let options = KubeconfigSecretsOptions {
            namespaces: namespaces.iter().map(ToString::to_string).collect(),
            ..KubeconfigSecretsOptions::default()
        };
        engaged(options, &with(KUBECONFIG)).name
    };
    assert_eq!(named(&["fleet"]).as_str(), "prod-eu");
    assert_eq!(named(&["fleet", "other"]).as_str(), "fleet/prod-eu");
}

#[test]
fn another_context_and_another_key_can_be_configured() {
    let options = KubeconfigSecretsOptions {
        context: Some("second".to_owned()),
        key: "config".to_owned(),
        ..KubeconfigSecretsOptions::default()
    };
    let spec = engaged(
        options,
        &secret(json!({"config": STANDARD.encode(KUBECONFIG)})),
    );
    assert_eq!(spec.config.server(), "https://two.example/");
}

#[test]
fn a_secret_that_is_being_deleted_takes_its_cluster_with_it() {
    let mut secret = with(KUBECONFIG);
    secret["metadata"]["deletionTimestamp"] = json!("2026-11-24T00:00:00Z");
    let desired = desired(KubeconfigSecretsOptions::default(), &secret);
    assert!(matches!(desired.wish, Wish::Leave), "{desired:?}");
}

#[test]
fn a_secret_without_a_kubeconfig_says_what_is_missing() {
    assert!(problem(&secret(json!(null))).contains("no key \"kubeconfig\""));
    assert!(problem(&secret(json!({"other": "eA=="}))).contains("no key \"kubeconfig\""));
    assert!(problem(&secret(json!({"kubeconfig": ""}))).contains("is empty"));
    assert!(problem(&secret(json!({"kubeconfig": "/w=="}))).contains("not UTF-8"));
    assert!(problem(&with("clusters: [")).contains("not a kubeconfig"));
}

#[test]
fn a_kubeconfig_in_a_secret_may_run_nothing_and_name_no_file() {
    let user = |user: &str| {
        with(&format!(
            "{KUBECONFIG}users:\n- {{name: '', user: {user}}}\n"
        ))
    };
    assert!(
        problem(&user(
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}"
        ))
        .contains("plugin")
    );
    assert!(problem(&user("{tokenFile: /etc/passwd}")).contains("tokenFile"));
}

#[test]
fn a_name_that_is_too_long_for_a_cluster_is_a_problem() {
    let mut secret = with(KUBECONFIG);
    secret["metadata"]["name"] = json!("x".repeat(253));
    assert!(problem(&secret).contains("too long"));
}
