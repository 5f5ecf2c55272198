//! What a changed Manager or Provider does to a program that runs.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, address_in, ask, fleet, start};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

const MANAGER: &str = "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: manager}\nspec: {SPEC}\n";

/// A document of kind Manager.
pub(crate) fn manager(spec: &str) -> String {
    MANAGER.replace("{SPEC}", spec)
}

fn single(name: &str, kubeconfig: &str, context: &str) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: {name}}}\nspec: {{single: {{kubeconfig: {kubeconfig}, \
         context: {context}}}}}\n"
    )
}

/// Waits until the clusters that are Ready have these names, but for the paths of their kubeconfigs.
async fn clusters(project: &Project, address: &str, expected: &[&str]) -> Result<()> {
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    eventually(SOON, &format!("the clusters {expected:?}"), || async {
        let answer = ask(project, address, &["get", "clusters"]).await?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let state = |item: &Json| item["state"].as_str().unwrap_or_default().to_owned();
        let of = items.iter().filter(|item| state(item) == "Ready");
        let of: BTreeSet<String> = of
            .filter_map(|item| Some(item["name"].as_str()?.rsplit('+').next()?.to_owned()))
            .collect();
        Ok(if of == expected {
            Seen::Yes(())
        } else {
            Seen::NotYet(answer.to_string())
        })
    })
    .await
}

#[tokio::test]
async fn providers_are_replaced_and_removed_as_their_documents_are() -> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    // Two Providers have alpha in the end.
    project.write_config(&[hello, manager("{duplicateClusters: true}")])?;
    let server = fleet(&project, &["alpha", "beta", "gamma"]).await?;
    fs::create_dir(project.path().join("other"))?;
    fs::rename(
        project.path().join("clusters/fleet.kubeconfig"),
        project.path().join("other/fleet.kubeconfig"),
    )?;
    let (mut program, address) = start(&project).await?;
    clusters(&project, &address, &[]).await?;

    // Another folder: the provider is replaced.
    let text = fs::read_to_string(project.path().join("windlass.yaml"))?;
    let moved = text.replace("./clusters", "./other");
    project.write("windlass.yaml", &moved)?;
    clusters(&project, &address, &["alpha", "beta", "gamma"]).await?;

    // A second one, whose file does not exist yet, is in nobody's way, and starts once it does.
    let both = format!("{moved}{}", single("extra", "./later.kubeconfig", "alpha"));
    project.write("windlass.yaml", &both)?;
    program
        .line_with("later.kubeconfig: no such file", SOON)
        .await?;
    let http = Http {
        address: address.clone(),
    };
    let (_, metrics) = http.get("/metrics").await?;
    assert!(
        metrics.contains("\nwindlass_configuration_problems 1\n"),
        "{metrics}"
    );
    let (_, configuration) = http.get("/api/v1/configuration").await?;
    assert!(
        configuration.contains("later.kubeconfig"),
        "{configuration}"
    );
    clusters(&project, &address, &["alpha", "beta", "gamma"]).await?;
    project.write("later.kubeconfig", server.kubeconfig())?;
    clusters(&project, &address, &["alpha", "beta", "gamma", "extra"]).await?;
    let (_, metrics) = http.get("/metrics").await?;
    assert!(
        metrics.contains("\nwindlass_configuration_problems 0\n"),
        "{metrics}"
    );

    // A file that was good and is no more: what ran before goes on.
    let mark = program.line_count();
    project.write("later.kubeconfig", "clusters: [")?;
    program
        .line_with_from(mark, "later.kubeconfig", SOON)
        .await?;
    clusters(&project, &address, &["alpha", "beta", "gamma", "extra"]).await?;

    // The first one goes, and its clusters with it.
    let head = both
        .find("---\n")
        .context("a document follows the provider")?;
    project.write("windlass.yaml", &both[head..])?;
    clusters(&project, &address, &["extra"]).await?;
    Ok(())
}

#[tokio::test]
async fn a_changed_manager_is_in_effect_where_it_can_be_and_says_where_it_is_not() -> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    project.write_config(&[hello.clone(), manager("{concurrency: {global: 8}}")])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (mut program, address) = start(&project).await?;
    clusters(&project, &address, &["alpha"]).await?;
    let mark = program.line_count();
    project.write_config(&[
        hello.clone(),
        manager("{concurrency: {global: 2, perCluster: 1}, drainTimeout: 5s}"),
    ])?;
    program
        .line_with_from(mark, "the changed Manager is in effect", SOON)
        .await?;

    let mark = program.line_count();
    project.write_config(&[
        hello.clone(),
        manager("{leaderElection: {name: other}, transport: {callTimeout: 5s}}"),
    ])?;
    let line = program
        .line_with_from(mark, "restart for these fields", SOON)
        .await?;
    let fields = ["spec.transport", "spec.leaderElection"];
    assert!(line.contains(&fields.join(", ")), "{line}");
    let http = Http { address };
    let (_, configuration) = http.get("/api/v1/configuration").await?;
    let configuration: Json = serde_json::from_str(&configuration)?;
    assert_eq!(configuration["needsRestart"], serde_json::json!(fields));

    // Taken back, nothing waits for a restart any more.
    project.write_config(&[hello, manager("{concurrency: {global: 8}}")])?;
    eventually(SOON, "nothing to wait for a restart", || async {
        let (_, text) = http.get("/api/v1/configuration").await?;
        let configuration: Json = serde_json::from_str(&text)?;
        Ok(Seen::of(configuration["needsRestart"].clone(), |fields| {
            fields.as_array().is_some_and(Vec::is_empty)
        }))
    })
    .await?;
    Ok(())
}

/// An address that is free, as nobody else asks for one meanwhile.
fn free_address() -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

#[tokio::test]
async fn the_admin_endpoints_move_while_the_program_runs() -> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    let (first, second) = (free_address()?, free_address()?);
    let configure = |admin: &str| project.write_config(&[hello.clone(), manager(admin)]);
    configure(&format!("{{admin: {{address: \"{first}\"}}}}"))?;
    let _server = fleet(&project, &["alpha"]).await?;
    let mut program = Program::start(project.path(), ["run", "-f", "windlass.yaml"])?;
    let line = program
        .line_with("admin endpoints are served", SOON)
        .await?;
    assert_eq!(address_in(&line)?, first);
    clusters(&project, &first, &["alpha"]).await?;

    let mark = program.line_count();
    configure(&format!(
        "{{admin: {{address: \"{second}\", probeAddress: \"127.0.0.1:0\", allowHosts: [windlass.example]}}}}"
    ))?;
    let line = program
        .line_with_from(mark, "admin endpoints are served", SOON)
        .await?;
    assert_eq!(address_in(&line)?, second);
    let line = program
        .line_with_from(mark, "probes are served", SOON)
        .await?;
    let probes = Http {
        address: address_in(&line)?,
    };
    assert_eq!(probes.get("/livez").await?.0, 200);
    let http = Http { address: second };
    let token = http.authorization();
    let named =
        format!("GET /api/v1/configuration HTTP/1.0\r\nHost: windlass.example\r\n{token}\r\n");
    let configuration: Json = eventually(SOON, "the name to be known", || async {
        let (status, text) = http.send(&named).await?;
        Ok(match status {
            200 => Seen::Yes(serde_json::from_str(&text)?),
            _ => Seen::NotYet(text),
        })
    })
    .await?;
    assert_eq!(configuration["needsRestart"], serde_json::json!([]));
    let before = Http { address: first };
    assert!(before.get("/livez").await.is_err());

    // Where somebody else listens, they stay where they are, and say so.
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?;
    configure(&format!("{{admin: {{address: \"{address}\"}}}}"))?;
    let problems = |text: &str| -> Result<Json> {
        Ok(serde_json::from_str::<Json>(text)?["problems"].clone())
    };
    eventually(SOON, "the problem to be shown", || async {
        let (_, text) = http.get("/api/v1/configuration").await?;
        Ok(Seen::of(problems(&text)?, |problems| {
            problems.to_string().contains("spec.admin.address")
        }))
    })
    .await?;
    drop(taken);
    program
        .line_with(&format!("\"address\":\"{address}\""), SOON)
        .await?;
    Ok(())
}
