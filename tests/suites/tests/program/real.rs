//! The same guest and documents against real API servers, given as kubeconfig files that come, break and go.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::ask;
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::fs;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::{self, Environment, Spec};

const SOON: Duration = Duration::from_secs(60);

/// The names of the clusters and their states, as the running manager tells them.
async fn clusters(project: &Project, address: &str) -> Result<Vec<(String, String)>> {
    let told = ask(project, address, &["get", "clusters"]).await?;
    let text = |cluster: &Json, field: &str| cluster[field].as_str().unwrap_or_default().to_owned();
    let items = told["items"].as_array().context("items")?;
    Ok(items
        .iter()
        .map(|cluster| (text(cluster, "name"), text(cluster, "state")))
        .collect())
}

async fn expect_clusters(project: &Project, address: &str, expected: &[&str]) -> Result<()> {
    eventually(
        SOON,
        &format!("the clusters {expected:?} to be ready"),
        || async {
            Ok(Seen::of(clusters(project, address).await?, |seen| {
                seen.len() == expected.len()
                    && seen
                        .iter()
                        .zip(expected)
                        .all(|((name, state), part)| name.contains(part) && state == "Ready")
            }))
        },
    )
    .await?;
    Ok(())
}

/// Waits until some greeting that begins so stands beside `name`.
async fn expect_greeting_of(objects: &ConfigMaps, name: &str, begin: &str) -> Result<()> {
    eventually(
        SOON,
        &format!("the greeting of {name} to begin with {begin:?}"),
        || async {
            Ok(Seen::of(objects.greeting(name).await?, |seen| {
                seen.as_ref().is_some_and(|text| text.starts_with(begin))
            }))
        },
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn real_clusters_are_reconciled_and_come_break_heal_and_go_while_it_runs() -> Result<()> {
    if !testenv::enabled("real clusters are reconciled and come, break, heal and go while it runs")
    {
        return Ok(());
    }
    let environment = Environment::start([
        Spec::new("alpha").with_controllers(),
        Spec::new("beta").with_controllers(),
    ])
    .await?;
    let alpha = ConfigMaps::of(environment.server("alpha").client().await?);
    let beta = ConfigMaps::of(environment.server("beta").client().await?);
    alpha.ask("existing", "world").await?;
    beta.ask("existing", "world").await?;

    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let file = |name: &str| project.path().join(format!("clusters/{name}.kubeconfig"));
    environment
        .server("alpha")
        .write_kubeconfig(&file("alpha"))?;

    let mut program = Program::start(
        project.path(),
        ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"],
    )?;
    let line: Json = serde_json::from_str(&program.line_with("admin endpoints", SOON).await?)?;
    let address = line["address"].as_str().context("an address")?.to_owned();

    // Existing, new, changed and deleted objects.
    expect_greeting_of(&alpha, "existing", "hello, world, from ").await?;
    alpha.ask("fresh", "moon").await?;
    expect_greeting_of(&alpha, "fresh", "hello, moon, from ").await?;
    alpha.ask_again("fresh", "mars").await?;
    expect_greeting_of(&alpha, "fresh", "hello, mars, from ").await?;
    alpha.delete("fresh-greeting").await?;
    expect_greeting_of(&alpha, "fresh", "hello, mars, from ").await?;
    alpha.delete("fresh").await?;
    alpha.expect_greeting("fresh", None).await?;
    assert_eq!(
        beta.greeting("existing").await?,
        None,
        "beta is not in the fleet yet"
    );

    // A kubeconfig is added.
    environment.server("beta").write_kubeconfig(&file("beta"))?;
    expect_clusters(&project, &address, &["alpha", "beta"]).await?;
    expect_greeting_of(&beta, "existing", "hello, world, from ").await?;

    // It breaks: the cluster stays, and so does its work.
    let good = fs::read_to_string(file("beta"))?;
    let mark = program.line_count();
    fs::write(file("beta"), &good[..good.len() / 2])?;
    program
        .line_with_from(mark, "beta.kubeconfig", SOON)
        .await?;
    beta.ask("while-broken", "venus").await?;
    expect_greeting_of(&beta, "while-broken", "hello, venus, from ").await?;
    alpha.ask("beside", "venus").await?;
    expect_greeting_of(&alpha, "beside", "hello, venus, from ").await?;

    // It is repaired.
    fs::write(file("beta"), &good)?;
    expect_clusters(&project, &address, &["alpha", "beta"]).await?;
    beta.ask("after", "pluto").await?;
    expect_greeting_of(&beta, "after", "hello, pluto, from ").await?;

    // It is removed: the cluster leaves, the other goes on.
    fs::remove_file(file("beta"))?;
    expect_clusters(&project, &address, &["alpha"]).await?;
    beta.ask("too-late", "world").await?;
    alpha.ask("last", "world").await?;
    expect_greeting_of(&alpha, "last", "hello, world, from ").await?;
    assert_eq!(beta.greeting("too-late").await?, None);

    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}
