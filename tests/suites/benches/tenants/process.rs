//! What the program takes: memory of the process, of an idle cluster and of an object, and its size on disk. Entry point: [`measure`].

use super::program::{Running, SOON, reconciler};
use super::stage::component;
use crate::table::verdict;
use crate::usage::Usage;
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use windlass_apiserver::Server;
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;

const CLUSTERS: usize = 200;
const OBJECTS: usize = 10_000;
/// Of an object's value, so that it has 2 KB with its metadata.
const VALUE: usize = 1_750;
/// Nothing is asked of the program for so long before its memory is read: what it allocated for the work is freed meanwhile.
const REST: Duration = Duration::from_secs(5);

/// Bars, in MB (10^6 bytes) and KB.
const PROCESS: f64 = 18.0;
const IDLE: f64 = 0.05;
const OBJECT: f64 = 2.3;
const PROGRAM: f64 = 30.0;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "process",
    title: "what the program takes, with a guest in Rust, over HTTP/2 and TLS",
    heads: &[
        "what                                              ",
        "takes    ",
        "bar               ",
    ],
    runs: &[&[]],
};

pub(crate) async fn measure() -> Result<()> {
    let server = Server::builder().tls().cluster("alpha");
    let server = server.bind("127.0.0.1:0").await?;
    let documents = reconciler(
        "reads",
        &component("reader"),
        "",
        "get, list, watch",
        "config: {gets: 0, lists: 0}",
    );
    let running = Running::start(TempDir::new()?, &server, &documents).await?;
    ready(&running, 1, 0).await?;
    let one = resident(&running).await?;
    row(
        "RSS of the process, one cluster without objects, MB",
        one / 1e6,
        PROCESS,
    )?;

    for n in 0..CLUSTERS {
        server.add_cluster(&format!("idle-{n}"));
    }
    std::fs::write(running.path().join("fleet.kubeconfig"), server.kubeconfig())?;
    ready(&running, 1 + CLUSTERS, 0).await?;
    let many = resident(&running).await?;
    let idle = (many - one) / CLUSTERS as f64;
    row("RSS of each of 200 idle clusters, MB", idle / 1e6, IDLE)?;

    let alpha = server.cluster("alpha").context("alpha is served")?;
    for n in 0..OBJECTS {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": format!("object-{n}")}, "data": {"value": "v".repeat(VALUE)}});
        let made = alpha.create(object);
        made.map_err(|error| anyhow!("{error:?}"))?;
    }
    ready(&running, 1 + CLUSTERS, OBJECTS).await?;
    let full = resident(&running).await?;
    let object = (full - many) / OBJECTS as f64;
    row(
        "RSS of each of 10,000 objects of 2 KB, KB",
        object / 1e3,
        OBJECT,
    )?;

    let size = stripped(running.program.pid().context("the program runs")?)?;
    row("the program, stripped, MB", size as f64 / 1e6, PROGRAM)
}

fn row(what: &str, takes: f64, bar: f64) -> Result<()> {
    tell(vec![
        what.to_owned(),
        format!("{takes:.3}"),
        verdict(&format!("at most {bar}"), takes <= bar),
    ])
}

/// Waits until so many clusters are ready, with so many objects, and nothing is left to do.
async fn ready(running: &Running, clusters: usize, objects: usize) -> Result<()> {
    let state = || async {
        let (_, all) = running.http.get("/api/v1/clusters").await?;
        let all: Value = serde_json::from_str(&all)?;
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let ready = items.iter().filter(|item| item["state"] == "Ready").count();
        let held = items.iter().filter_map(|item| item["objects"].as_u64());
        let reads = running.item("reconcilers", "reads").await?;
        let left = [&reads["ready"], &reads["running"]].map(Value::as_u64);
        Ok(Seen::of(
            (ready, held.sum::<u64>() as usize, left),
            |(ready, held, left)| {
                *ready == clusters && *held >= objects && *left == [Some(0), Some(0)]
            },
        ))
    };
    let seen = eventually(SOON, "clusters that are ready and idle", state).await?;
    ensure!(seen.0 == clusters, "{seen:?}");
    Ok(())
}

/// Resident bytes once the program has rested.
async fn resident(running: &Running) -> Result<f64> {
    // Not a wait: what the work has allocated is freed meanwhile.
    tokio::time::sleep(REST).await;
    let process = running.program.pid().context("the program runs")?;
    Ok(Usage::of(process)?.resident as f64)
}

/// Bytes of the program that runs, without its symbols.
fn stripped(process: u32) -> Result<u64> {
    let folder = TempDir::new()?;
    let copy = folder.path().join("stripped");
    let program = Path::new("/proc").join(process.to_string()).join("exe");
    let done = Command::new("strip")
        .arg("-o")
        .arg(&copy)
        .arg(std::fs::read_link(program)?)
        .status()
        .context("strip, of binutils, is needed")?;
    ensure!(done.success(), "strip failed");
    Ok(std::fs::metadata(copy)?.len())
}
