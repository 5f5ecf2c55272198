//! `windlass rbac`. What its roles allow is shown on real servers, with the examples.

use crate::project::{Project, reconciler};
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::time::Duration;
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};

const SOON: Duration = Duration::from_secs(60);

async fn rbac(project: &Project, more: &[&str]) -> Result<Finished> {
    let args = ["rbac", "-f", "windlass.yaml"].iter().chain(more);
    Program::run(project.path(), args, SOON).await
}

#[tokio::test]
async fn roles_are_printed_for_people_and_programs() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let finished = rbac(&project, &["--bind", "serviceaccount:ops/windlass"]).await?;
    let finished = finished.expect_code(0)?;
    let role = "kind: ClusterRole\nmetadata: {name: windlass}\nrules:\n  \
        - {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, patch]}\n  \
        - {apiGroups: [\"\"], resources: [events], verbs: [create, patch]}\n  \
        - {apiGroups: [\"\"], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}\n---\n";
    assert!(finished.stdout.contains(role), "{}", finished.stdout);
    assert!(
        finished
            .stdout
            .ends_with("subjects:\n  - {kind: ServiceAccount, namespace: ops, name: windlass}\n"),
        "{}",
        finished.stdout
    );
    assert_eq!(finished.stderr, "");

    let finished = rbac(&project, &["--local", "-o", "json"])
        .await?
        .expect_code(0)?;
    let told: Json = serde_json::from_str(&finished.stdout)?;
    assert_eq!(told["kind"], "List");
    assert_eq!(
        told["items"][0]["metadata"],
        json!({"name": "windlass-local"})
    );
    let rules = told["items"][0]["rules"].as_array().map(Vec::len);
    assert_eq!(
        rules,
        Some(1),
        "it does nothing in the local cluster: {told}"
    );
    Ok(())
}

#[tokio::test]
async fn a_guest_that_cannot_be_asked_is_told_and_half_a_configuration_is_refused() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", Path::new("./nowhere.wasm"))])?;
    let finished = rbac(&project, &[]).await?.expect_code(0)?;
    assert!(
        finished.stderr.contains("Reconciler hello") && finished.stderr.contains("no such file"),
        "{}",
        finished.stderr
    );
    assert!(
        finished.stdout.contains("resources: [events]"),
        "{}",
        finished.stdout
    );

    let wrong = reconciler("wrong", &guest("hello")).replace("verbs: [get", "verbs: [gett");
    project.write_config(&[reconciler("hello", &guest("hello")), wrong])?;
    let finished = rbac(&project, &[]).await?.expect_code(1)?;
    assert!(
        finished.stderr.contains("did you mean \"get\"?"),
        "{}",
        finished.stderr
    );
    assert_eq!(finished.stdout, "");
    Ok(())
}
