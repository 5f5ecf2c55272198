//! The proxies that the environment of the program names.

use crate::project::{Project, reconciler};
use crate::running::{SOON, address_in, ask};
use anyhow::Result;
use tokio::process::Command;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Program, binary};

/// Starts `run` with a value of `HTTPS_PROXY`, over one cluster that no name server knows.
fn start(project: &Project, proxy: &str) -> Result<Program> {
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let kubeconfig = "clusters: [{name: c, cluster: {server: 'https://api.test:6443', insecure-skip-tls-verify: true}}]\n\
        contexts: [{name: alpha, context: {cluster: c}}]\ncurrent-context: alpha\n";
    project.write("clusters/fleet.kubeconfig", kubeconfig)?;
    let mut command = Command::new(binary()?);
    command
        .args(["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"])
        .current_dir(project.path())
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .env("HTTPS_PROXY", proxy);
    Program::spawn(command)
}

#[tokio::test]
async fn clusters_are_reached_through_the_proxy_of_the_environment() -> Result<()> {
    let project = Project::new()?;
    let mut program = start(&project, "http://me:hush@127.0.0.1:1")?;
    let line = program.line_with("admin endpoints", SOON).await?;
    let address = address_in(&line)?;
    let expected = "through the proxy http://127.0.0.1:1: ";
    let clusters = eventually(SOON, "the proxy in the reason", || async {
        let clusters = ask(&project, &address, &["get", "clusters"]).await?;
        Ok(Seen::of(clusters.to_string(), |text| {
            text.contains(expected)
        }))
    })
    .await?;
    assert!(!clusters.contains("hush"), "{clusters}");
    Ok(())
}

#[tokio::test]
async fn a_variable_that_names_no_proxy_ends_the_start_and_is_not_quoted() -> Result<()> {
    let project = Project::new()?;
    let finished = start(&project, "ftp://me:hush@proxy")?.wait(SOON).await?;
    let text = format!("{finished:?}");
    assert!(finished.code().is_some_and(|code| code != 0), "{text}");
    assert!(
        text.contains("HTTPS_PROXY") && !text.contains("hush"),
        "{text}"
    );
    Ok(())
}
