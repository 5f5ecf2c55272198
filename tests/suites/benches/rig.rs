//! What benches stand on: a simulated server in a process of its own, a running manager. Entry points:
//! [`ServerProcess::start`] and [`Manager::start`].

#![allow(dead_code, reason = "each bench uses the parts it needs")]

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::Server;
use windlass_fleet::cluster::{ClusterConfig, ClusterState};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{Builder, ManagerHandle};
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{ClusterName, GroupVersionKind};
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;

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

/// A running manager.
pub(crate) struct Manager {
    pub(crate) handle: ManagerHandle,
    pub(crate) provider: Arc<Clusters>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Manager {
    /// Starts a manager on clusters of a server and waits until all are ready.
    pub(crate) async fn start(
        builder: Builder,
        server: &ServerProcess,
        clusters: &[&str],
    ) -> Result<Self> {
        let specs: Result<Vec<_>> = clusters.iter().map(|name| server.spec(name)).collect();
        Self::engage(builder, specs?).await
    }

    /// Starts a manager on clusters and waits until all are ready.
    pub(crate) async fn engage(builder: Builder, clusters: Vec<ClusterSpec>) -> Result<Self> {
        let provider = Arc::new(Clusters::new("bench"));
        let bound = builder.provider(provider.clone()).build()?.bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        let token = stop.clone();
        let running = tokio::spawn(async move {
            let _ = bound.run(token).await;
        });
        let count = clusters.len();
        for cluster in clusters {
            provider.put(cluster);
        }
        let this = Self {
            handle,
            provider,
            stop,
            running,
        };
        this.ready(count).await?;
        Ok(this)
    }

    /// Waits until so many clusters are ready.
    pub(crate) async fn ready(&self, clusters: usize) -> Result<()> {
        eventually(Duration::from_secs(120), "ready clusters", || {
            let fleet = self.handle.fleet().clusters();
            let ready = fleet
                .iter()
                .filter(|c| c.state() == ClusterState::Ready)
                .count();
            async move { Ok(Seen::of(ready, |ready| *ready >= clusters)) }
        })
        .await
        .map(drop)
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        Ok(self.running.await?)
    }
}
