//! The example `workspace-setup`: in memory by its README's commands as they are written, and on a real kcp.

use crate::examples::USER;
use crate::plan::said;
use crate::readme;
use anyhow::{Result, ensure};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::{Binaries, Environment, Kcp, Spec};

const SOON: Duration = Duration::from_secs(60);

/// What a plan would create and change, each line with its kind.
async fn planned(folder: &Path) -> Result<Vec<String>> {
    let plan = ["plan", "-f", "windlass.yaml", "-o", "json"];
    let finished = Program::run(folder, plan, SOON).await?;
    let report = serde_json::from_str(&finished.expect_code(0)?.stdout)?;
    Ok(said(&report)?.into_keys().collect())
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn the_commands_of_the_readme_do_what_it_says_in_memory() -> Result<()> {
    readme::in_memory("workspace-setup", 10).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_commands_of_the_readme_do_what_it_says_on_real_servers() -> Result<()> {
    let environment = Environment::start([Spec::new("register").with_user(USER)]).await?;
    let server = environment.server("register");
    let kcp = Kcp::start(&[]).await?;
    readme::with_kcp(&kcp, server, "workspace-setup", "REGISTER", 14).await
}

/// The register's cluster is a workspace too, which to the program is a cluster as any.
#[tokio::test]
#[ignore = "needs real servers"]
async fn a_real_workspace_is_filled_and_registered_and_leaves_the_register_at_its_end() -> Result<()>
{
    let kcp = Kcp::start(&[]).await?;
    let client = kcp.client().await?;
    let platform = client.workspace("root", "platform").await?;
    let register = client.workspace("root", "register").await?;
    let example = windlass_harness::repository().join("examples/workspace-setup");
    let folder = tempfile::tempdir()?;
    let documents = fs::read_to_string(example.join("windlass.yaml"))?;
    let built = format!("{:?}", guest("workspace-setup"));
    let documents = documents.replace("../../guests/workspace-setup", built.trim_matches('"'));
    fs::write(folder.path().join("windlass.yaml"), documents)?;
    let clusters = folder.path().join("clusters");
    fs::create_dir(&clusters)?;
    fs::write(
        clusters.join("kcp.kubeconfig"),
        kcp.kubeconfig(&platform.path),
    )?;
    fs::write(
        clusters.join("register.kubeconfig"),
        kcp.kubeconfig(&register.path),
    )?;
    let applied = Command::new(Binaries::find()?.kubectl())
        .env("KUBECONFIG", clusters.join("kcp.kubeconfig"))
        .args(["apply", "-f"])
        .arg(example.join("seed/kcp/platform/type.yaml"))
        .output()
        .await?;
    ensure!(applied.status.success(), "{applied:?}");
    client
        .make_workspace("root", "blue", &platform.path, "project")
        .await?;
    eventually(DEADLINE, "a plan for the workspace that begins", || async {
        let planned = planned(folder.path()).await?;
        Ok(Seen::of(planned, |planned| planned.len() == 5))
    })
    .await?;

    let run = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    let program = Program::start(folder.path(), run)?;
    let blue = client.ready("root", "blue").await?;
    let quota = blue.at("api/v1/namespaces/apps/resourcequotas/small");
    let quota = client.get(&quota).await?.ok()?;
    assert_eq!(quota["spec"]["hard"]["count/secrets"], "20");
    let entry = register.at(&format!(
        "api/v1/namespaces/default/configmaps/{}",
        blue.cluster
    ));
    let registered = client.get(&entry).await?.ok()?;
    assert_eq!(registered["data"], json!({"path": "root:blue"}));

    client.end("root", "blue").await?;
    eventually(DEADLINE, "the register without it", || async {
        Ok(Seen::of(client.get(&entry).await?.code, |code| {
            *code == 404
        }))
    })
    .await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}
