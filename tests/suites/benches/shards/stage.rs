//! The clusters that processes share, what they are to do there, and whether they have. Entry point: [`Stage::start`].

use super::member::Member;
use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::json;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;

/// More than anything takes that is waited for.
const PATIENCE: Duration = Duration::from_secs(900);
const SHARDS: f64 = 256.0;
/// Time between two changes while processes are restarted, and between two looks whether they are echoed.
const PACE: Duration = Duration::from_millis(100);
/// Prime, so that changes come to clusters all over the fleet.
const STEP: usize = 7919;

pub(crate) struct Stage {
    server: Arc<Server>,
    folder: TempDir,
    clusters: usize,
    /// The value that every object has, or had last.
    value: Arc<AtomicU64>,
}

impl Stage {
    pub(crate) async fn start(clusters: usize) -> Result<Self> {
        // A start that is measured must build nothing.
        guest("echo");
        windlass_harness::program::binary()?;
        let folder = TempDir::new()?;
        let local = Server::builder().cluster("local").tls();
        let local = local.bind("127.0.0.1:0").await?;
        std::fs::write(folder.path().join("local.kubeconfig"), local.kubeconfig())?;
        // It serves as long as the bench runs.
        std::mem::forget(local);
        let names = (0..clusters).map(name);
        let server = names.fold(Server::builder().tls(), |server, name| server.cluster(name));
        let server = server.bind("127.0.0.1:0").await?;
        std::fs::write(folder.path().join("all.kubeconfig"), server.kubeconfig())?;
        let stage = Self {
            server: Arc::new(server),
            folder,
            clusters,
            value: Arc::default(),
        };
        stage.change()?;
        std::fs::write(stage.path("ca.pem"), stage.server.ca().context("TLS")?)?;
        stage.write(1, "one", "")?;
        stage.write(clusters, "alone", "")?;
        let shared = "local: {kubeconfig: ./local.kubeconfig}\n  sharding: {enabled: true, namespace: default}";
        stage.write(clusters, "shared", shared)?;
        Ok(stage)
    }

    pub(crate) fn clusters(&self) -> usize {
        self.clusters
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Writes a configuration for the first clusters, with more fields of its Manager.
    fn write(&self, clusters: usize, name: &str, manager: &str) -> Result<()> {
        std::fs::write(
            self.path(&format!("{name}.kubeconfig")),
            self.kubeconfig(clusters),
        )?;
        let guest = guest("echo");
        let documents = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec:\n  duplicateClusters: true\n  {manager}\n---\n\
             apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: clusters}}\nspec:\n  kubeconfigFiles: {{paths: [./{name}.kubeconfig]}}\n---\n\
             apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: echo}}\nspec:\n  guest: {{path: {guest:?}}}\n  rules:\n  \
             - {{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, patch], namespaces: [\"*\"]}}\n"
        );
        Ok(std::fs::write(
            self.path(&format!("{name}.yaml")),
            documents,
        )?)
    }

    /// With the authority's certificate once, in a file.
    fn kubeconfig(&self, clusters: usize) -> String {
        let names = || (0..clusters).map(name);
        let cluster = |name: String| {
            let server = self.server.url(&name);
            json!({"name": name, "cluster": {"server": server, "certificate-authority": "ca.pem"}})
        };
        let context =
            |name: String| json!({"name": name, "context": {"cluster": name, "user": "admin"}});
        json!({
            "apiVersion": "v1", "kind": "Config", "users": [{"name": "admin", "user": {}}],
            "clusters": names().map(cluster).collect::<Vec<_>>(), "contexts": names().map(context).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// One process that works on the first clusters, or on all of them.
    pub(crate) fn alone(&self, clusters: usize) -> Result<Member> {
        let file = if clusters == 1 {
            "one.yaml"
        } else {
            "alone.yaml"
        };
        Member::start(self.folder.path(), file, "alone")
    }

    /// A further process of those that share the clusters.
    pub(crate) fn join(&self, number: usize) -> Result<Member> {
        Member::start(
            self.folder.path(),
            "shared.yaml",
            &format!("member-{number}"),
        )
    }

    /// Waits until a process has brought in so many clusters.
    pub(crate) async fn ready(&self, member: &Member, clusters: usize) -> Result<()> {
        eventually(PATIENCE, "all clusters to be ready", || async {
            let ready = member.metric("windlass_clusters{state=\"Ready\"}").await?;
            Ok(Seen::of(ready, |ready| *ready >= clusters as f64))
        })
        .await
        .map(drop)
    }

    /// Waits until every process holds a part of the shards, and all together hold all.
    pub(crate) async fn shared(&self, members: &[Member]) -> Result<()> {
        eventually(PATIENCE, "all shards to be held", || async {
            let mut held = Vec::new();
            for member in members {
                held.push(member.metric("windlass_shards_held").await?);
            }
            let whole = |held: &Vec<f64>| {
                held.iter().sum::<f64>() == SHARDS && held.iter().all(|held| *held > 0.0)
            };
            Ok(Seen::of(held, whole))
        })
        .await
        .map(drop)
    }

    /// Changes the object of every cluster.
    pub(crate) fn change(&self) -> Result<()> {
        let value = self.next();
        (0..self.clusters).try_for_each(|number| change(&self.server, number, value))
    }

    fn next(&self) -> u64 {
        self.value.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits until every cluster has the echo of its object.
    pub(crate) async fn echoed(&self) -> Result<()> {
        let mut left: Vec<usize> = (0..self.clusters).collect();
        let begun = Instant::now();
        loop {
            left.retain(|number| !is_echoed(&self.server, *number));
            if left.is_empty() {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "{} objects have no echo, {:?} among them",
                left.len(),
                left.first()
            );
            // Not a wait: the condition above has a deadline.
            tokio::time::sleep(PACE).await;
        }
    }

    /// Changes an object after the other from now on, and measures how long each waits for its echo.
    pub(crate) fn longest(&self) -> Longest {
        let stop = CancellationToken::new();
        let (server, clusters, ended) = (self.server.clone(), self.clusters, stop.clone());
        let first = self.next();
        let follow = tokio::spawn(async move {
            let mut waiting = VecDeque::new();
            let mut longest = Duration::ZERO;
            for turn in 0.. {
                if !ended.is_cancelled() {
                    let number = turn * STEP % clusters;
                    change(&server, number, first + turn as u64)?;
                    waiting.push_back((number, Instant::now()));
                } else if waiting.is_empty() {
                    break;
                }
                // Not a wait: the pace of changes.
                tokio::time::sleep(PACE).await;
                waiting.retain(|(number, since): &(usize, Instant)| {
                    longest = longest.max(since.elapsed());
                    !is_echoed(&server, *number)
                });
            }
            Ok(longest)
        });
        Longest { stop, follow }
    }
}

/// A measurement that goes on.
pub(crate) struct Longest {
    stop: CancellationToken,
    follow: JoinHandle<Result<Duration>>,
}

impl Longest {
    /// Waits for the echoes that are still to come, and returns the longest time.
    pub(crate) async fn end(self) -> Result<Duration> {
        self.stop.cancel();
        self.follow.await?
    }
}

fn name(cluster: usize) -> String {
    format!("c{cluster}")
}

fn change(server: &Server, cluster: usize, value: u64) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "o", "labels": {"bench": "in"}}, "data": {"value": value.to_string()}});
    let at = server.cluster(&name(cluster)).context("a cluster")?;
    at.apply(object)
        .map(drop)
        .map_err(|error| anyhow!("{error:?}"))
}

fn is_echoed(server: &Server, cluster: usize) -> bool {
    let Some(at) = server.cluster(&name(cluster)) else {
        return false;
    };
    let data = |name| {
        at.get("v1", "ConfigMap", "default", name)
            .ok()
            .flatten()
            .map(|object| object["data"].clone())
    };
    let (source, echo) = (data("o"), data("o-out"));
    source
        .zip(echo)
        .is_some_and(|(source, echo)| source["value"] == echo["echo"])
}
