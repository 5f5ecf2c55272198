//! `windlass dev` and `windlass test` with workspaces of an in-memory kcp.

use crate::objects::ConfigMaps;
use crate::project::{HELLO_RULES, Project};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::fs;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::kcp::Client;

const SOON: Duration = Duration::from_secs(60);

/// The export claims ConfigMaps and Events, which the hello guest writes.
const EXPORT: &str = "\
apiVersion: apis.kcp.io/v1alpha2
kind: APIExport
metadata: {name: greetings}
spec:
  permissionClaims:
  - {group: '', resource: configmaps, verbs: ['*']}
  - {group: events.k8s.io, resource: events, verbs: ['*']}
";

/// A binding that accepts both claims. Manifests may be JSON.
fn binding() -> Json {
    let claim = |group, resource| json!({"group": group, "resource": resource, "verbs": ["*"], "selector": {"matchAll": true}, "state": "Accepted"});
    json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "greetings"},
        "spec": {"reference": {"export": {"path": "root:provider", "name": "greetings"}},
            "permissionClaims": [claim("", "configmaps"), claim("events.k8s.io", "events")]}})
}

const ASKING: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: default, labels: {hello.windlass.dev/greet: world}}
";

fn documents(providers: &str) -> String {
    let head = "---\napiVersion: windlass.dev/v1alpha1\n";
    format!(
        "{head}kind: Provider\nmetadata: {{name: consumers}}\nspec:\n  allowServers: [kcp.example.com]\n  kcp:\n    \
         from: {{kubeconfig: absent.kubeconfig}}\n    apiExport: {{endpointSlice: greetings}}\n    names: path\n\
         {providers}{head}kind: Reconciler\nmetadata: {{name: hello}}\nspec:\n  guest: {{path: {:?}}}\n  rules: {HELLO_RULES}\n",
        guest("hello")
    )
}

/// Two consumers, the objects of one of which need its binding, and a workspace between.
fn seed(project: &Project, folder: &str) -> Result<()> {
    let binding = binding().to_string();
    for (file, text) in [
        ("provider/export.yaml", EXPORT),
        ("teams/blue/a.yaml", ASKING),
        ("teams/blue/binding.json", &*binding),
        ("teams/green/binding.json", &*binding),
        ("teams/idle/a.yaml", ASKING),
    ] {
        project.write(&format!("{folder}/kcp/{file}"), text)?;
    }
    Ok(())
}

#[tokio::test]
async fn workspaces_of_a_seed_are_read_by_the_provider_as_those_of_a_real_kcp() -> Result<()> {
    let project = Project::new()?;
    let other = "---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {name: compute}\nspec: {single: {kubeconfig: absent}}\n";
    project.write("windlass.yaml", documents(other))?;
    seed(&project, "seed")?;
    project.write("seed/compute/a.yaml", ASKING)?;
    let args = ["dev", "--admin", "127.0.0.1:0"];
    let mut program = Program::start(project.path(), args)?;
    let said = program
        .line_with("in-memory kcp on two shards", SOON)
        .await?;
    assert!(said.contains("Provider consumers"), "{said}");
    program.line_with("admin endpoints", SOON).await?;
    let kubeconfig = project.path().join(".windlass/kubeconfig");
    for name in ["root:teams:blue", "compute"] {
        let maps = ConfigMaps::in_context(&kubeconfig, name).await?;
        let greeting = format!("hello, world, from {name}");
        maps.expect_greeting("a", Some(&greeting)).await?;
    }
    // The other shard too.
    let green = ConfigMaps::in_context(&kubeconfig, "root:teams:green").await?;
    green.ask("b", "moon").await?;
    let greeting = "hello, moon, from root:teams:green";
    green.expect_greeting("b", Some(greeting)).await?;
    let idle = ConfigMaps::in_context(&kubeconfig, "root:teams:idle").await?;
    assert_eq!(idle.greeting("a").await?, None);

    // A workspace that somebody makes now is as good, and gets a context.
    let text = fs::read_to_string(&kubeconfig)?;
    let url = text.split("server: \"").nth(1).context("a server")?;
    let url = url.split("/clusters/").next().context("a URL")?;
    let client = Client::plain(url).await?;
    let new = client.workspace("root:teams", "new").await?;
    client
        .post(&new.at("apis/apis.kcp.io/v1alpha2/apibindings"), &binding())
        .await?
        .ok()?;
    eventually(SOON, "the context of the new workspace", || async {
        let text = fs::read_to_string(&kubeconfig)?;
        Ok(Seen::of(text, |text| text.contains("root:teams:new")))
    })
    .await?;
    let maps = ConfigMaps::in_context(&kubeconfig, "root:teams:new").await?;
    maps.ask("c", "sun").await?;
    let greeting = "hello, sun, from root:teams:new";
    maps.expect_greeting("c", Some(greeting)).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn a_run_in_workspaces_alone_ends_when_idle_and_cases_look_into_them() -> Result<()> {
    let project = Project::new()?;
    project.write("windlass.yaml", documents(""))?;
    seed(&project, "seed")?;
    seed(&project, "tests/greets/seed")?;
    let wanted = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-greeting}\n";
    let greeting = format!("{wanted}data: {{greeting: \"hello, world, from root:teams:blue\"}}\n");
    project.write("tests/greets/expect/kcp/teams/blue/a.yaml", greeting)?;
    project.write("tests/greets/absent/kcp/teams/idle/a.yaml", wanted)?;
    let args = [
        "dev",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
        "-o",
        "json",
    ];
    let finished = Program::run(project.path(), args, SOON).await?;
    let told: Json = serde_json::from_str(&finished.expect_code(0)?.stdout)?;
    let clusters = told["clusters"].as_array().context("clusters")?;
    let rows: Vec<(&str, bool)> = clusters
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap_or_default(),
                row["succeeded"].as_u64() > Some(0),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [("root:teams:blue", true), ("root:teams:green", false)],
        "{told}"
    );
    let finished = Program::run(project.path(), ["test"], SOON).await?;
    finished.expect_code(0)?;
    let crash = "test --crash --seed 1 --budget 6s -o json".split(' ');
    let finished = Program::run(project.path(), crash, SOON).await?;
    let told: Json = serde_json::from_str(&finished.expect_code(0)?.stdout)?;
    let tried = told["cases"][0]["crash"]["tried"].as_u64();
    assert!(tried > Some(0), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_provider_that_finds_no_workspace_to_read_is_told() -> Result<()> {
    let project = Project::new()?;
    project.write("windlass.yaml", documents(""))?;
    let finished = Program::run(project.path(), ["dev", "--exit-when-idle"], SOON).await?;
    let said = finished.expect_code(1)?.stderr;
    let expected = "Provider consumers: no workspace of the seed has an APIExportEndpointSlice \"greetings\": put it into seed/kcp/<workspace>";
    assert!(said.contains(expected), "{said}");
    Ok(())
}
