//! What benches stand on: a simulated server in a process of its own, a running manager. Entry points:
//! [`ServerProcess::start`], [`start`] and [`engage`].

#![allow(dead_code, reason = "each bench uses the parts it needs")]

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use windlass_apiserver::Server;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::Builder;
use windlass_fleet::{ClusterName, GroupVersionKind};
use windlass_harness::fleet::RunningManager;

pub(crate) fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

/// Runs a bench on a runtime like the program's.
pub(crate) fn run(bench: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(bench)
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident() -> Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = statm
        .split_whitespace()
        .nth(1)
        .context("no resident size")?
        .parse()?;
    Ok(pages * 4096)
}

const SERVE: &str = "--serve";

/// A simulated API server in a process of its own; it ends with this value.
pub(crate) struct ServerProcess {
    child: Child,
    /// Closing it ends the process.
    _stdin: ChildStdin,
    address: String,
}

impl ServerProcess {
    /// Starts this very program again as a server of these clusters.
    pub(crate) fn start(clusters: &[&str]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .args(clusters)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("no stdin")?;
        let mut address = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut address)?;
        Ok(Self {
            child,
            _stdin: stdin,
            address: address.trim().to_owned(),
        })
    }

    pub(crate) fn url(&self, cluster: &str) -> String {
        format!("http://{}/clusters/{cluster}", self.address)
    }

    pub(crate) fn spec(&self, cluster: &str) -> Result<ClusterSpec> {
        Ok(ClusterSpec::new(
            ClusterName::new(cluster)?,
            ClusterConfig::from_url(&self.url(cluster))?,
        ))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where this process was started as a server: serves until its standard input ends, with `objects` in each cluster, by its name.
pub(crate) fn serve_if_asked(objects: fn(&str) -> Vec<Value>) -> Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((SERVE, clusters)) = args
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    else {
        return Ok(false);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let builder = clusters.iter().fold(Server::builder(), |builder, cluster| {
            builder.cluster(cluster.as_str())
        });
        let server = builder.bind("127.0.0.1:0").await?;
        for name in clusters {
            let cluster = server.cluster(name).context("served")?;
            for object in objects(name) {
                cluster
                    .create(object)
                    .map_err(|e| anyhow::anyhow!("{e:?}"))?;
            }
        }
        println!("{}", server.address());
        std::io::stdout().flush()?;
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
            .await??;
        server.shutdown().await;
        Ok(true)
    })
}

/// Starts a manager on clusters of a server and waits until all are ready.
pub(crate) async fn start(
    builder: Builder,
    server: &ServerProcess,
    clusters: &[&str],
) -> Result<RunningManager> {
    let specs: Result<Vec<_>> = clusters.iter().map(|name| server.spec(name)).collect();
    engage(builder, specs?).await
}

/// Starts a manager on clusters and waits until all are ready.
pub(crate) async fn engage(builder: Builder, clusters: Vec<ClusterSpec>) -> Result<RunningManager> {
    let (manager, count) = (RunningManager::start(builder)?, clusters.len());
    for cluster in clusters {
        manager.provider.put(cluster);
    }
    manager.ready_clusters(count).await?;
    Ok(manager)
}
