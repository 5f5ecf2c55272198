//! `windlass preflight` over workspaces of kcp, where no question about rights is answered.

use crate::project::{HELLO_RULES, Project};
use crate::running::SOON;
use anyhow::{Result, anyhow, ensure};
use serde_json::{Value as Json, json};
use windlass_apiserver::Server;
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

fn claims(state: Option<&str>) -> Json {
    let claim = |group: &str, resource: &str| {
        let mut claim = json!({"group": group, "resource": resource, "verbs": ["*"]});
        if let Some(state) = state {
            claim["state"] = state.into();
            claim["selector"] = json!({"matchAll": true});
        }
        claim
    };
    json!([claim("", "configmaps"), claim("events.k8s.io", "events")])
}

#[tokio::test]
async fn a_claim_that_a_binding_does_not_accept_is_missing_in_that_workspace() -> Result<()> {
    let server = Server::builder().kcp_shards(1).bind("127.0.0.1:0").await?;
    let put = |path: &str, object: Json| -> Result<()> {
        let workspace = server.add_workspace(path)?;
        let put = workspace.apply(object);
        put.map(drop).map_err(|error| anyhow!("{error:?}"))
    };
    put(
        "root:provider",
        json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
        "metadata": {"name": "greetings"}, "spec": {"permissionClaims": claims(None)}}),
    )?;
    for (path, state) in [("root:blue", "Accepted"), ("root:green", "Rejected")] {
        put(
            path,
            json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "greetings"},
            "spec": {"reference": {"export": {"path": "root:provider", "name": "greetings"}},
                "permissionClaims": claims(Some(state))}}),
        )?;
    }
    let project = Project::new()?;
    let url = server.url("root:provider");
    project.write("kcp.kubeconfig", format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: kcp, cluster: {{server: \"{url}\"}}}}]\nusers: [{{name: me, user: {{}}}}]\n\
         contexts: [{{name: kcp, context: {{cluster: kcp, user: me}}}}]\ncurrent-context: kcp\n"
    ))?;
    let head = "---\napiVersion: windlass.dev/v1alpha1\n";
    project.write("windlass.yaml", format!(
        "{head}kind: Provider\nmetadata: {{name: consumers}}\nspec: {{kcp: {{from: {{kubeconfig: kcp.kubeconfig}}, apiExport: {{endpointSlice: greetings}}, names: path}}}}\n\
         {head}kind: Reconciler\nmetadata: {{name: hello}}\nspec:\n  guest: {{path: {:?}}}\n  rules: {HELLO_RULES}\n",
        guest("hello")
    ))?;
    let preflight = ["preflight", "-f", "windlass.yaml", "-o", "json"];
    let finished = Program::run(project.path(), preflight, SOON).await?;
    let finished = finished.expect_code(1)?;
    let report: Json = serde_json::from_str(&finished.stdout)?;
    let of = |name: &str| {
        let mut clusters = report["clusters"].as_array().into_iter().flatten();
        clusters
            .find(|one| one["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    let (blue, green) = (of("root:blue"), of("root:green"));
    ensure!(
        blue["reachable"] == true && blue["unchecked"].is_null(),
        "{blue}"
    );
    let unchecked = green["unchecked"].as_str().unwrap_or_default();
    ensure!(unchecked.contains("claims on configmaps"), "{green}");
    Ok(())
}
