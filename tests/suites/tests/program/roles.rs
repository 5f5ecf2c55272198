//! `windlass rbac`. What its roles allow is shown on real servers, with the examples.

use crate::project::{Project, reconciler};
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
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
    let named = [
        "--bind",
        "serviceaccount:ops/windlass",
        "--name",
        "windlass",
    ];
    let finished = rbac(&project, &named).await?.expect_code(0)?;
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
    assert!(!finished.stderr.contains("note:"), "{}", finished.stderr);

    let finished = rbac(&project, &["--local", "-o", "json"])
        .await?
        .expect_code(0)?;
    let told: Json = serde_json::from_str(&finished.stdout)?;
    assert_eq!(told["kind"], "List");
    let name = told["items"][0]["metadata"]["name"].as_str();
    assert!(
        name.is_some_and(|name| name.starts_with("windlass-local-")),
        "{told}"
    );
    let rules = told["items"][0]["rules"].as_array().map(Vec::len);
    assert_eq!(
        rules,
        Some(3),
        "it asks the local cluster about callers, and does nothing else there: {told}"
    );
    assert!(
        finished
            .stderr
            .contains("the namespace that the manager runs in is not known"),
        "{}",
        finished.stderr
    );
    Ok(())
}

/// The names of what is printed for a configuration of one reconciler.
async fn names(reconciler: &str, more: &[&str]) -> Result<BTreeSet<String>> {
    let project = Project::new()?;
    project.write_config(&[reconciler.to_owned()])?;
    let args = [&["-o", "json"], more].concat();
    let printed = rbac(&project, &args).await?.expect_code(0)?.stdout;
    let printed: Json = serde_json::from_str(&printed)?;
    let items = printed["items"].as_array().into_iter().flatten();
    Ok(items.map(|item| item["metadata"].to_string()).collect())
}

#[tokio::test]
async fn roles_of_another_configuration_and_of_another_subject_have_other_names() -> Result<()> {
    let hello = reconciler("hello", &guest("hello"));
    let less = hello.replace(", create, patch]", ", create]");
    let one = ["--bind", "user:one"];
    let own = names(&hello, &one).await?;
    assert_eq!(names(&hello, &one).await?, own, "the same have the same");
    let others = [
        names(&less, &one).await?,
        names(&hello, &["--bind", "user:two"]).await?,
        names(&hello, &["--bind", "user:one", "--local"]).await?,
    ];
    for other in others {
        assert!(own.is_disjoint(&other), "{own:?} {other:?}");
    }
    let chosen = names(&less, &["--bind", "user:one", "--name", "mine"]).await?;
    assert_eq!(
        chosen,
        BTreeSet::from([json!({"name": "mine"}).to_string()])
    );

    // Of the process in its own cluster it is the binding: its role is always the same.
    let project = Project::new()?;
    let bound = async |subject: &str| {
        let args = ["rbac", "--from-cluster", "--bind", subject, "-o", "json"];
        let printed = Program::run(project.path(), args, SOON).await?;
        let printed: Json = serde_json::from_str(&printed.expect_code(0)?.stdout)?;
        let items = printed["items"].as_array().into_iter().flatten();
        let mut bindings = items.filter(|item| item["kind"] == "ClusterRoleBinding");
        anyhow::Ok(bindings.next().map(|one| one["metadata"]["name"].clone()))
    };
    let (one, two) = (bound("user:one").await?, bound("user:two").await?);
    assert!(one.is_some() && two.is_some() && one != two, "{one:?}");
    Ok(())
}

#[tokio::test]
async fn the_managers_own_events_are_allowed_where_it_records_them() -> Result<()> {
    let project = Project::new()?;
    let hello = || reconciler("hello", &guest("hello"));
    let manager = |spec: &str| {
        format!(
            "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec: {{{spec}}}\n"
        )
    };
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                      clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]\n\
                      contexts: [{name: c, context: {cluster: c, namespace: home}}]\n";
    project.write("hub.kubeconfig", kubeconfig)?;
    let account = "serviceaccount:ops/windlass";
    for (spec, bind, namespace) in [
        ("", account, "ops"),
        ("local: {kubeconfig: ./hub.kubeconfig}", "user:w", "home"),
        (
            "leaderElection: {enabled: true, namespace: lead}",
            account,
            "lead",
        ),
    ] {
        project.write_config(&[manager(spec), hello()])?;
        let named = ["--local", "--bind", bind, "--name", "own"];
        let finished = rbac(&project, &named).await?.expect_code(0)?;
        let role = format!(
            "kind: Role\nmetadata: {{namespace: {namespace}, name: own}}\nrules:\n  \
             - {{apiGroups: [\"\"], resources: [events], verbs: [create, patch]}}\n"
        );
        assert!(finished.stdout.contains(&role), "{}", finished.stdout);
        assert!(!finished.stderr.contains("note:"), "{}", finished.stderr);
    }
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

#[tokio::test]
async fn what_a_provider_reads_in_its_hub_is_printed() -> Result<()> {
    let project = Project::new()?;
    let provider = |name: &str, spec: &str| {
        format!(
            "---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    project.write_config(&[
        provider("here", "{kubeconfigSecrets: {namespaces: [fleet]}}"),
        provider("capi", "{clusterAPI: {from: {kubeconfig: hub.yaml}}}"),
        reconciler("hello", &guest("hello")),
    ])?;
    let named = ["--local", "--bind", "user:w", "--name", "own"];
    let local = rbac(&project, &named).await?.expect_code(0)?;
    let role = "kind: Role\nmetadata: {namespace: fleet, name: own}\nrules:\n  \
                - {apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch]}\n";
    assert!(local.stdout.contains(role), "{}", local.stdout);
    assert!(local.stderr.contains("--provider capi"), "{}", local.stderr);

    let hub = rbac(&project, &["--provider", "capi"])
        .await?
        .expect_code(0)?;
    for line in [
        "metadata: {name: windlass-hub-",
        // A kind of the hub may come later.
        "  - {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch]}\n",
        "  - {apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch]}\n",
        "  - {apiGroups: [cluster.x-k8s.io], resources: [clusters], verbs: [get, list, watch]}\n",
    ] {
        assert!(hub.stdout.contains(line), "{line} in {}", hub.stdout);
    }
    let none = rbac(&project, &["--provider", "fleet"])
        .await?
        .expect_code(1)?;
    assert!(none.stderr.contains("reads no hub"), "{}", none.stderr);
    Ok(())
}
