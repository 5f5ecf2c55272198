//! `windlass preflight`: clusters that answer, refuse, hang and are absent, before anything runs.

use crate::examples::kubectl;
use crate::preflight_hubs;
use crate::project::{Project, reconciler};
use crate::running::{SOON, named};
use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{
    AnswerVerdict, Call, Hook, Reply, ReplyBody, RequestVerdict, Server, Verb,
};
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};
use windlass_harness::testenv::{Environment, Spec};

async fn preflight(project: &Project, more: &[&str]) -> Result<Finished> {
    let args = ["preflight", "-f", "windlass.yaml"].iter().chain(more);
    Program::run(project.path(), args, SOON).await
}

async fn as_json(project: &Project, code: i32) -> Result<Json> {
    let finished = preflight(project, &["-o", "json"]).await?;
    Ok(serde_json::from_str(&finished.expect_code(code)?.stdout)?)
}

fn hello() -> String {
    reconciler("hello", &guest("hello"))
}

/// Clusters whose kubeconfig the project's provider reads, on a server that a hook changes.
async fn served(project: &Project, clusters: &[&str], hook: Arc<dyn Hook>) -> Result<Server> {
    let builder = clusters
        .iter()
        .fold(Server::builder(), |builder, name| builder.cluster(*name));
    let server = builder.hook(hook).bind("127.0.0.1:0").await?;
    project.write("clusters/fleet.kubeconfig", server.kubeconfig())?;
    Ok(server)
}

/// The entry of a cluster of [`served`].
fn cluster<'a>(report: &'a Json, context: &str) -> Result<&'a Json> {
    let clusters = report["clusters"].as_array().context("clusters")?;
    let found = clusters
        .iter()
        .find(|cluster| cluster["name"] == *named(context));
    found.with_context(|| format!("no {context} in {report}"))
}

/// Everything is answered as usual.
struct Quiet;

impl Hook for Quiet {}

/// In `beta` nobody may patch, and the server cannot list what is allowed.
struct NoPatches;

impl Hook for NoPatches {
    fn answer(&self, cluster: &str, call: &Call, body: &Bytes) -> AnswerVerdict {
        let Ok(mut review) = serde_json::from_slice::<Json>(body) else {
            return AnswerVerdict::Send;
        };
        match (cluster, call.resource.as_str()) {
            ("beta", "selfsubjectrulesreviews") => {
                review["status"] =
                    json!({"resourceRules": [], "nonResourceRules": [], "incomplete": true});
            }
            ("beta", "selfsubjectaccessreviews") => {
                let verb = &review["spec"]["resourceAttributes"]["verb"];
                review["status"] = json!({"allowed": *verb != "patch"});
            }
            _ => return AnswerVerdict::Send,
        }
        AnswerVerdict::Reply(Reply {
            code: 201,
            headers: Vec::new(),
            body: ReplyBody::Whole(review.to_string().into()),
        })
    }
}

#[tokio::test]
async fn a_fleet_that_may_do_everything_needs_nothing_and_is_not_watched() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[hello()])?;
    let server = served(&project, &["alpha", "beta"], Arc::new(Quiet)).await?;
    let report = as_json(&project, 0).await?;
    assert_eq!(report["ok"], true, "{report}");
    for context in ["alpha", "beta"] {
        let seen = cluster(&report, context)?;
        assert_eq!(
            (&seen["reachable"], &seen["provider"]),
            (&json!(true), &json!("fleet"))
        );
        let version = seen["version"].as_str().context("a version")?;
        assert!(version.starts_with("v1."), "{version}");
        assert_eq!(seen["identity"].as_str().map(str::len), Some(36), "{seen}");
        let calls = server.cluster(context).context("a cluster")?.requests();
        let reviews = calls
            .iter()
            .filter(|call| call.resource.starts_with("selfsubject"));
        assert_eq!(
            reviews.count(),
            2,
            "its user, and one question for all rights"
        );
        let others = calls
            .iter()
            .filter(|call| !matches!(call.verb, Verb::Other | Verb::Get | Verb::Create));
        assert_eq!(others.count(), 0, "nothing is listed, watched or changed");
    }
    let text = preflight(&project, &[]).await?.expect_code(0)?;
    assert!(text.stdout.contains("RIGHTS"), "{}", text.stdout);
    assert_eq!(text.stderr, "");
    Ok(())
}

#[tokio::test]
async fn a_right_that_is_missing_in_one_cluster_is_printed_with_the_role_that_grants_it()
-> Result<()> {
    let project = Project::new()?;
    project.write_config(&[hello()])?;
    let _server = served(&project, &["alpha", "beta"], Arc::new(NoPatches)).await?;
    let text = preflight(&project, &[]).await?.expect_code(1)?.stdout;
    let beta = named("beta");
    for part in [
        format!("reconciler hello may not, in {beta}:\n"),
        "  {apiGroups: [\"\"], resources: [configmaps, events], verbs: [patch], namespaces: [\"*\"]}\n"
            .to_owned(),
        format!("---\n# for system:admin, in {beta}\n"),
        "  - {apiGroups: [\"\"], resources: [configmaps, events], verbs: [patch]}\n".to_owned(),
        "kind: ClusterRoleBinding\n".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} in\n{text}");
    }
    let report = as_json(&project, 1).await?;
    assert_eq!(cluster(&report, "alpha")?["missing"], json!([]));
    assert_eq!(report["grants"].as_array().map(Vec::len), Some(1));
    Ok(())
}

/// `beta` never answers.
struct Silent;

impl Hook for Silent {
    fn request(&self, cluster: &str, _: &Call) -> RequestVerdict {
        match cluster {
            "beta" => RequestVerdict::Silence,
            _ => RequestVerdict::Proceed,
        }
    }
}

#[tokio::test]
async fn clusters_and_providers_that_cannot_be_used_hide_no_others_and_end_with_the_time()
-> Result<()> {
    let project = Project::new()?;
    project.write_config(&[hello()])?;
    let _server = served(&project, &["alpha", "beta"], Arc::new(Silent)).await?;
    let dead = "apiVersion: v1\nkind: Config\ncurrent-context: dead\n\
                clusters: [{name: dead, cluster: {server: \"http://127.0.0.1:1\"}}]\n\
                contexts: [{name: dead, context: {cluster: dead}}]\n";
    project.write("clusters/dead.kubeconfig", dead)?;
    project.write("clusters/broken.kubeconfig", "{")?;
    let begun = Instant::now();
    let finished = preflight(&project, &["-o", "json", "--timeout", "2s"]).await?;
    assert!(begun.elapsed() < Duration::from_secs(30));
    let report: Json = serde_json::from_str(&finished.expect_code(1)?.stdout)?;
    assert_eq!(cluster(&report, "alpha")?["reachable"], true);
    let beta = cluster(&report, "beta")?;
    let reason = beta["reason"].as_str().context("a reason")?;
    assert!(reason.contains("no answer within 2s"), "{reason}");
    let clusters = report["clusters"].as_array().context("clusters")?;
    assert_eq!(clusters.len(), 3, "{report}");
    let problem = &report["problems"][0];
    assert_eq!(problem["provider"], "fleet");
    assert!(
        problem["subject"]
            .as_str()
            .is_some_and(|subject| subject.contains("broken")),
        "{report}"
    );
    Ok(())
}

#[tokio::test]
async fn hundreds_of_clusters_are_checked_within_the_usual_time() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[hello()])?;
    let names: Vec<String> = (0..200).map(|index| format!("c{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let _server = served(&project, &names, Arc::new(Quiet)).await?;
    let report = as_json(&project, 0).await?;
    assert_eq!(report["clusters"].as_array().map(Vec::len), Some(200));
    Ok(())
}

#[tokio::test]
async fn the_impersonated_user_is_asked_about_writes() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[hello()])?;
    let config = fs::read_to_string(project.path().join("windlass.yaml"))?;
    let team = "spec: {weight: 1, limits: {concurrency: 32}}";
    assert!(config.contains(team));
    let config = config.replace(team, "spec: {impersonate: {user: bot}}");
    project.write("windlass.yaml", config)?;
    let server = served(&project, &["alpha", "beta"], Arc::new(NoPatches)).await?;
    let text = preflight(&project, &[]).await?.expect_code(1)?.stdout;
    let heading = format!("reconciler hello may not, as bot, in {}:\n", named("beta"));
    assert!(text.contains(&heading), "{text}");
    assert!(text.contains("kind: User, name: bot}\n"), "{text}");
    let calls = server.cluster("beta").context("beta")?.requests();
    let as_bot = calls.iter().filter(|call| call.impersonate_user == "bot");
    assert!(as_bot.count() > 1);
    Ok(())
}

#[tokio::test]
async fn a_guest_that_cannot_be_asked_and_a_document_that_is_not_valid_are_told() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", "./nowhere.wasm".as_ref())])?;
    let _server = served(&project, &["alpha"], Arc::new(Quiet)).await?;
    let finished = preflight(&project, &[]).await?.expect_code(0)?;
    assert!(
        finished.stderr.contains("its guest cannot be asked"),
        "{}",
        finished.stderr
    );

    project.write_config(&[hello().replace("verbs: [get", "verbs: [gett")])?;
    let finished = preflight(&project, &[]).await?.expect_code(1)?;
    assert!(
        finished.stderr.contains("did you mean \"get\"?"),
        "{}",
        finished.stderr
    );
    preflight(&project, &["--timeout", "soon"])
        .await?
        .expect_code(2)?;
    Ok(())
}

#[tokio::test]
async fn an_interrupt_ends_it_at_once() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[hello()])?;
    let server = served(&project, &["beta"], Arc::new(Silent)).await?;
    let args = ["preflight", "-f", "windlass.yaml", "--timeout", "1h"];
    let program = Program::start(project.path(), args)?;
    windlass_harness::eventually::wait("a call to beta", || {
        let calls = server
            .cluster("beta")
            .map_or(0, |beta| beta.requests().len());
        windlass_harness::eventually::Seen::of(calls, |calls| *calls > 0)
    })
    .await?;
    program.signal("INT")?;
    let finished = program.wait(SOON).await?;
    assert_eq!(finished.code(), None, "ended by the signal: {finished:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_limited_user_of_a_real_server_is_granted_what_the_roles_say() -> Result<()> {
    let environment = Environment::start([Spec::new("alpha").with_user("windlass")]).await?;
    let server = environment.server("alpha");
    let project = Project::new()?;
    let in_team = HELLO_TEAM;
    let text = hello().replace("namespaces: [\"*\"]}]", in_team);
    assert!(text.contains(in_team));
    project.write_config(&[text])?;
    project.write(
        "clusters/alpha.kubeconfig",
        server.kubeconfig_of("windlass"),
    )?;
    let report = as_json(&project, 1).await?;
    let seen = &report["clusters"][0];
    assert_eq!(
        (&seen["user"], &seen["unchecked"]),
        (&json!("windlass"), &Json::Null)
    );
    assert_eq!(
        seen["identity"],
        Json::Null,
        "it may not read kube-system yet"
    );
    assert_eq!(
        report["grants"].as_array().map(Vec::len),
        Some(1),
        "{report}"
    );

    let manifests = report["grants"][0]["manifests"].clone();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
    kubectl(&environment, server, &["create", "namespace", "team"], "").await?;
    kubectl(
        &environment,
        server,
        &["apply", "-f", "-"],
        &list.to_string(),
    )
    .await?;
    let report = as_json(&project, 0).await?;
    let seen = &report["clusters"][0];
    assert_eq!(seen["identity"].as_str().map(str::len), Some(36), "{seen}");

    // One namespace's Role counts for no other, and not for all of them.
    project.write_config(&[hello()])?;
    let report = as_json(&project, 1).await?;
    let missing = &report["clusters"][0]["missing"][0];
    assert_eq!(missing["watches"], json!(["configmaps"]), "{report}");
    assert_eq!(missing["rules"][0]["namespaces"], json!(["*"]), "{report}");
    preflight_hubs::a_limited_user_is_granted_what_the_roles_say(&environment, server).await
}

/// Rules of the hello guest in one namespace.
const HELLO_TEAM: &str = "namespaces: [team]}]";
