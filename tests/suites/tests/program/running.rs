//! A program that runs against in-memory clusters, and ways to ask it. Entry point: [`start`].

use crate::objects::ConfigMaps;
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use windlass_apiserver::{Cluster, Faults, Server};
use windlass_fleet::{ClusterName, ObjectKey, Request};
pub(crate) use windlass_harness::http::Http;
use windlass_harness::program::Program;

/// More than anything here takes.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// An in-memory fleet whose kubeconfig lies where the project's provider looks.
pub(crate) async fn fleet(project: &Project, clusters: &[&str]) -> Result<Server> {
    fleet_with(project, clusters, None).await
}

/// The same, whose servers go wrong as they are told.
pub(crate) async fn fleet_with(
    project: &Project,
    clusters: &[&str],
    faults: Option<Arc<Faults>>,
) -> Result<Server> {
    let builder = clusters
        .iter()
        .fold(Server::builder(), |builder, name| builder.cluster(*name));
    let builder = match faults {
        Some(faults) => builder.hook(faults),
        None => builder,
    };
    let server = builder.bind("127.0.0.1:0").await?;
    project.write("clusters/fleet.kubeconfig", server.kubeconfig())?;
    Ok(server)
}

/// Starts `run` and returns it with its admin address.
pub(crate) async fn start(project: &Project) -> Result<(Program, String)> {
    let mut program = Program::start(
        project.path(),
        [
            "run",
            "-f",
            "windlass.yaml",
            "--admin",
            "127.0.0.1:0",
            "--log",
            "debug",
        ],
    )?;
    let line = program.line_with("admin endpoints", SOON).await?;
    Ok((program, address_in(&line)?))
}

/// The address that a line of the log names.
pub(crate) fn address_in(line: &str) -> Result<String> {
    let line: Json = serde_json::from_str(line)?;
    let address = line["address"].as_str().context("an address")?;
    Ok(address.to_owned())
}

/// Creates an object that the guests `test-*` watch.
pub(crate) fn create_watched(cluster: &Cluster, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
        {"namespace": "default", "name": name, "labels": {"test.windlass.dev/run": "yes"}}});
    let created = cluster.create(object);
    created
        .map(drop)
        .map_err(|error| anyhow::anyhow!("{error:?}"))
}

/// The name of a cluster of [`fleet`], as the provider gives it.
pub(crate) fn named(context: &str) -> String {
    context.to_owned()
}

/// A key in a cluster of [`fleet`], as it is printed.
pub(crate) fn key(context: &str, object: &str) -> Result<String> {
    let request = Request::new(
        ClusterName::new(named(context))?,
        ObjectKey::namespaced("default", object),
    );
    Ok(request.to_string())
}

/// What a command answers. What `get` prints is asked of the API itself: a process for each look is most of a test's time.
pub(crate) async fn ask(project: &Project, address: &str, args: &[&str]) -> Result<Json> {
    let ["get", what, flags @ ..] = args else {
        return printed(project, address, args).await;
    };
    let path = match flags {
        [key] => format!("/api/v1/explain{}", query(&["--key", key])),
        flags => format!("/api/v1/{what}{}", query(flags)),
    };
    let address = address.to_owned();
    let http = Http { address };
    let (status, body) = timeout(SOON, http.get(&path)).await??;
    ensure!(status == 200, "{path}: {status} {body}");
    Ok(serde_json::from_str(&body)?)
}

/// Flags of a command and their values, as it asks for them.
fn query(flags: &[&str]) -> String {
    let mut query = String::new();
    for flag in flags.chunks(2) {
        let [name, value] = flag else { continue };
        query.push(if query.is_empty() { '?' } else { '&' });
        let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
        query += &format!("{}={value}", name.trim_start_matches('-'));
    }
    query
}

/// What a command prints in JSON.
pub(crate) async fn printed(project: &Project, address: &str, args: &[&str]) -> Result<Json> {
    let args = args
        .iter()
        .copied()
        .chain(["--admin", address, "-o", "json"]);
    let finished = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(0)?;
    Ok(serde_json::from_str(&finished.stdout)?)
}

pub(crate) async fn client_of(project: &Project, context: &str) -> Result<ConfigMaps> {
    ConfigMaps::in_context(&project.path().join("clusters/fleet.kubeconfig"), context).await
}

/// What a command prints for people: a row for each line, by heading. Cells stand apart by two blanks at least.
pub(crate) async fn table(
    project: &Project,
    address: &str,
    args: &[&str],
) -> Result<Vec<BTreeMap<String, String>>> {
    let args = args.iter().copied().chain(["--admin", address]);
    let finished = Program::run(project.path(), args, SOON).await?;
    let text = finished.expect_code(0)?.stdout;
    let cells = |line: &str| -> Vec<String> {
        let cells = line.split("  ").map(str::trim);
        let cells = cells.filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    let mut lines = text.lines();
    let headings = cells(lines.next().context("headings")?);
    let rows = lines.map(|line| headings.iter().cloned().zip(cells(line)).collect());
    Ok(rows.collect())
}
