//! The proxies that the environment of the program names.

use crate::project::{Project, reconciler};
use crate::running::{SOON, address_in, ask};
use anyhow::Result;
use std::time::Duration;
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::real_proxy::{RealProxy, Scheme};

/// Starts `run` with a value of `HTTPS_PROXY`, over one cluster that no name server knows.
fn start(project: &Project, proxy: &str) -> Result<Program> {
    let kubeconfig = "clusters: [{name: c, cluster: {server: 'https://api.test:6443', insecure-skip-tls-verify: true}}]\n\
        contexts: [{name: alpha, context: {cluster: c}}]\ncurrent-context: alpha\n";
    project.write("clusters/fleet.kubeconfig", kubeconfig)?;
    run(project, &[("HTTPS_PROXY", proxy)])
}

/// Starts `run` with these variables, over the clusters in the project's folder.
fn run(project: &Project, variables: &[(&str, &str)]) -> Result<Program> {
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    Program::start_with(project.path(), args, variables)
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

/// Longer than a name server of the machine may take to say that it does not know a name.
const NAMELESS: Duration = Duration::from_secs(120);

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_proxy_program_of_the_environment_serves_all_clusters_but_those_excepted() -> Result<()> {
    for scheme in [Scheme::Http, Scheme::Socks5] {
        let (project, proxy) = (Project::new()?, RealProxy::start(scheme, true).await?);
        let server = Server::builder().tls().cluster("alpha").cluster("beta");
        let server = server.bind("127.0.0.1:0").await?;
        let (address, port) = (server.address(), server.address().port());
        let mut text = server.kubeconfig();
        for name in ["alpha", "beta"] {
            // Only the proxy knows these names.
            let known = format!("https://{address}/clusters/{name}");
            assert!(text.contains(&known), "{text}");
            text = text.replace(
                &known,
                &format!("https://{name}.test:{port}/clusters/{name}"),
            );
        }
        let text = text.replace(
            "    server: ",
            "    tls-server-name: localhost\n    server: ",
        );
        project.write("clusters/fleet.kubeconfig", text)?;
        let variables = [
            ("HTTPS_PROXY", &*proxy.url()),
            ("NO_PROXY", "other,beta.test"),
        ];
        let mut program = run(&project, &variables)?;
        let line = program.line_with("admin endpoints", SOON).await?;
        let admin = address_in(&line)?;
        eventually(
            NAMELESS,
            "alpha ready, and beta without the proxy",
            || async {
                let all = ask(&project, &admin, &["get", "clusters"]).await?;
                let alpha = server.cluster("alpha").map_or(0, |alpha| alpha.watchers());
                Ok(Seen::of((alpha, all.to_string()), |(watchers, text)| {
                    let direct = format!("cannot reach https://beta.test:{port}");
                    *watchers > 0 && text.contains(&direct) && !text.contains("through the proxy")
                }))
            },
        )
        .await?;
        // Only its proxy could resolve the name, whether it prints that or the address.
        let (asked, end) = (proxy.connections()?, format!(":{port}"));
        assert!(
            !asked.is_empty() && asked.iter().all(|one| one.ends_with(&end)),
            "{asked:?}"
        );
    }
    Ok(())
}
