//! `windlass preflight` over Providers that read a hub: what they lack there, and clusters that are namespaces.

use crate::examples::kubectl;
use crate::project::{Project, reconciler};
use crate::running::SOON;
use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use windlass_apiserver::{AnswerVerdict, Call, Hook, Reply, ReplyBody, Server};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::{self, Environment};

/// A Provider document.
fn provider(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

async fn preflight(project: &Project, code: i32, more: &[&str]) -> Result<String> {
    let args = ["preflight", "-f", "windlass.yaml"].iter().chain(more);
    let finished = Program::run(project.path(), args, SOON).await?;
    Ok(finished.expect_code(code)?.stdout)
}

async fn as_json(project: &Project, code: i32) -> Result<Json> {
    Ok(serde_json::from_str(
        &preflight(project, code, &["-o", "json"]).await?,
    )?)
}

/// The names of a part of a report.
fn names(report: &Json, part: &str) -> Vec<String> {
    let all = report[part].as_array().into_iter().flatten();
    all.map(|one| one["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Nobody may patch in `team-b`, or watch in all namespaces.
struct Limited;

impl Hook for Limited {
    fn answer(&self, _: &str, call: &Call, body: &Bytes) -> AnswerVerdict {
        let Ok(mut review) = serde_json::from_slice::<Json>(body) else {
            return AnswerVerdict::Send;
        };
        let attributes = &review["spec"]["resourceAttributes"];
        let (verb, namespace) = (&attributes["verb"], attributes["namespace"].as_str());
        let is_refused = match namespace.unwrap_or_default() {
            "" => *verb == "watch",
            namespace => namespace == "team-b" && *verb == "patch",
        };
        review["status"] = match call.resource.as_str() {
            "selfsubjectrulesreviews" => {
                json!({"resourceRules": [], "nonResourceRules": [], "incomplete": true})
            }
            "selfsubjectaccessreviews" => json!({"allowed": !is_refused}),
            _ => return AnswerVerdict::Send,
        };
        AnswerVerdict::Reply(Reply {
            code: 201,
            headers: Vec::new(),
            body: ReplyBody::Whole(review.to_string().into()),
        })
    }
}

#[tokio::test]
async fn a_namespace_lacks_writes_in_itself_and_watches_in_all_namespaces() -> Result<()> {
    let project = Project::new()?;
    let spaces = "{namespaces: {from: {kubeconfig: hub.kubeconfig}, selector: team}}";
    project.write_config(&[
        provider("spaces", spaces),
        reconciler("hello", &guest("hello")),
    ])?;
    let server = Server::builder().cluster("hub").hook(Arc::new(Limited));
    let server = server.bind("127.0.0.1:0").await?;
    project.write("hub.kubeconfig", server.kubeconfig())?;
    let hub = server.cluster("hub").context("the hub")?;
    for name in ["team-a", "team-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": "yes"}}});
        let created = hub.create(namespace);
        created.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    let report = as_json(&project, 1).await?;
    assert_eq!(names(&report, "clusters"), ["team-a", "team-b"], "{report}");
    let watches = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"], "namespaces": ["*"]});
    let patches = json!({"apiGroups": [""], "resources": ["configmaps", "events"], "verbs": ["patch"], "namespaces": ["team-b"]});
    let lacks = |index: usize| &report["clusters"][index]["missing"][0]["rules"];
    assert_eq!(*lacks(0), json!([watches]), "{report}");
    let rules = lacks(1).as_array().context("rules")?;
    assert!(
        rules.len() == 2 && rules.contains(&watches) && rules.contains(&patches),
        "{report}"
    );

    assert_eq!(names(&report, "hubs"), ["the hub of spaces"], "{report}");
    let of_hub = &report["hubs"][0]["missing"][0];
    assert_eq!(of_hub["provider"], "spaces", "{report}");
    assert_eq!(of_hub["rules"][0]["resources"], json!(["namespaces"]));
    let text = preflight(&project, 1, &[]).await?;
    for part in [
        "Provider spaces may not, in the hub of spaces:\n  {apiGroups: [\"\"], resources: [namespaces], verbs: [watch],",
        "kind: Role\nmetadata: {namespace: team-b, name: windlass-",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_hub_that_cannot_be_reached_is_shown_with_the_reason() -> Result<()> {
    let project = Project::new()?;
    let teams = "{kubeconfigSecrets: {from: {kubeconfig: hub.kubeconfig}}}";
    project.write_config(&[provider("teams", teams)])?;
    let dead = "apiVersion: v1\nkind: Config\ncurrent-context: dead\n\
                clusters: [{name: dead, cluster: {server: \"http://127.0.0.1:1\"}}]\n\
                contexts: [{name: dead, context: {cluster: dead}}]\n";
    project.write("hub.kubeconfig", dead)?;
    let report = as_json(&project, 1).await?;
    let hub = &report["hubs"][0];
    assert_eq!(
        (&hub["provider"], &hub["reachable"]),
        (&json!("teams"), &json!(false))
    );
    let reason = hub["reason"].as_str().context("a reason")?;
    assert!(reason.contains("127.0.0.1:1"), "{reason}");
    Ok(())
}

/// That the user `windlass` of a real server, which is a hub, is granted what the roles say until nothing is missing.
pub(crate) async fn a_limited_user_is_granted_what_the_roles_say(
    environment: &Environment,
    server: &testenv::Server,
) -> Result<()> {
    let project = Project::new()?;
    let from = "from: {kubeconfig: hub.kubeconfig}";
    project.write_config(&[
        provider("spaces", &format!("{{namespaces: {{{from}, selector: team}}}}")),
        provider(
            "teams",
            &format!("{{kubeconfigSecrets: {{{from}, namespaces: [fleet]}}, allowServers: [127.0.0.0/8]}}"),
        ),
        reconciler("hello", &guest("hello")),
    ])?;
    project.write("hub.kubeconfig", server.kubeconfig_of("windlass"))?;
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "yes"}}},
        {"apiVersion": "v1", "kind": "Secret", "data": {"kubeconfig": STANDARD.encode(server.kubeconfig())},
            "metadata": {"namespace": "fleet", "name": "prod",
                "labels": {"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}}}]});
    let apply = async |objects: &Json| {
        let args = ["apply", "-f", "-"];
        kubectl(environment, server, &args, &objects.to_string()).await
    };
    apply(&objects).await?;
    let hubs = ["the hub of spaces", "the hub of teams"];

    // First the hubs: without them no cluster is known.
    let report = as_json(&project, 1).await?;
    assert_eq!(names(&report, "hubs"), hubs, "{report}");
    assert_eq!(names(&report, "clusters"), [""; 0], "{report}");
    let secrets = &report["hubs"][1]["missing"][0];
    assert_eq!(secrets["provider"], "teams", "{report}");
    assert_eq!(report["hubs"][1]["user"], "windlass", "{report}");
    grant(&report, &apply).await?;

    // Then the namespace, which the same user works in.
    let report = as_json(&project, 1).await?;
    assert_eq!(names(&report, "hubs"), hubs, "{report}");
    for hub in [0, 1] {
        assert_eq!(report["hubs"][hub]["missing"], json!([]), "{report}");
    }
    assert_eq!(names(&report, "clusters"), ["prod", "team-a"], "{report}");
    assert_eq!(report["clusters"][0]["missing"], json!([]), "{report}");
    grant(&report, &apply).await?;

    let report = as_json(&project, 0).await?;
    assert_eq!(
        (&report["ok"], &report["problems"]),
        (&json!(true), &json!([]))
    );
    Ok(())
}

/// Applies the roles of a report.
async fn grant<T>(report: &Json, apply: &impl AsyncFn(&Json) -> Result<T>) -> Result<()> {
    let grants = report["grants"].as_array().context("grants")?;
    assert!(!grants.is_empty(), "{report}");
    for grant in grants {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": grant["manifests"]});
        apply(&list).await?;
    }
    Ok(())
}
