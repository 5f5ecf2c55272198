//! Simulated clusters under a running manager. Entry points: [`TestFleet::start`], and [`RunningManager::start`] for clusters of
//! other servers.
//!
//! A suite that needs more keeps it in a type of its own, around a [`TestFleet`].

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

use crate::eventually::{DEADLINE, Seen, eventually, wait};
use crate::footprint::Footprint;
use anyhow::{Context as _, Result, anyhow};
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_apiserver::{Hook, Server, Verb};
use windlass_fleet::cluster::{
    Cluster, ClusterConfig, ClusterState, ClusterStatus, KubeconfigPolicy,
};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{Builder, ManagerError, ManagerHandle};
use windlass_fleet::metrics::Metrics;
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{ClusterName, Manager, ObjectKey, Request};

/// The name of a cluster.
pub fn name(cluster: &str) -> ClusterName {
    ClusterName::new(cluster).expect("a valid name")
}

/// A request for an object in the namespace `default`.
pub fn request(cluster: &str, object: &str) -> Request {
    Request::new(name(cluster), ObjectKey::namespaced("default", object))
}

/// A cluster that is reached as the context of its name in a kubeconfig says.
fn spec(cluster: &str, kubeconfig: &str, policy: &KubeconfigPolicy) -> Result<ClusterSpec> {
    let config = ClusterConfig::from_kubeconfig_text(kubeconfig, Some(cluster), None, policy)?;
    Ok(ClusterSpec::new(name(cluster), config))
}

/// A manager that runs in a task of its own, and its provider. The manager drains when this value is dropped.
pub struct RunningManager {
    /// The manager.
    pub handle: ManagerHandle,
    /// A manager that was started with [`TestFleet::local_only`] does not have this provider.
    pub provider: Arc<Clusters>,
    registry: Registry,
    stop: DropGuard,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl RunningManager {
    /// Starts a manager with one more provider, which has no clusters yet.
    ///
    /// # Errors
    /// When the manager cannot be built.
    pub fn start(builder: Builder) -> Result<Self> {
        let provider = Arc::new(Clusters::new("test"));
        Self::run(builder.provider(provider.clone()), provider)
    }

    fn run(builder: Builder, provider: Arc<Clusters>) -> Result<Self> {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let bound = builder.metrics(metrics).build()?.bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        let token = stop.clone();
        let running = tokio::spawn(async move {
            let outcome = bound.run(token).await;
            if let Err(error) = &outcome {
                eprintln!("the manager ended: {error}");
            }
            outcome
        });
        Ok(Self {
            handle,
            provider,
            registry,
            stop: stop.drop_guard(),
            running,
        })
    }

    /// Gives the provider a cluster, or changes it: the cluster of this name in a kubeconfig's contexts.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub fn add_from(
        &self,
        cluster: &str,
        kubeconfig: &str,
        policy: &KubeconfigPolicy,
    ) -> Result<()> {
        self.provider.put(spec(cluster, kubeconfig, policy)?);
        Ok(())
    }

    /// A cluster that is engaged.
    pub fn engaged(&self, cluster: &str) -> Option<Arc<Cluster>> {
        self.handle.fleet().cluster(&name(cluster))
    }

    /// The status of a cluster.
    ///
    /// # Errors
    /// When the cluster is not engaged.
    pub fn status(&self, cluster: &str) -> Result<ClusterStatus> {
        let engaged = self.engaged(cluster).context("not engaged")?;
        Ok(engaged.status())
    }

    /// Waits until a cluster is in a state.
    ///
    /// # Errors
    /// After [`DEADLINE`].
    pub async fn reaches(&self, cluster: &str, state: ClusterState) -> Result<ClusterStatus> {
        wait(
            &format!("{cluster:?} to be {}", state.as_str()),
            || match self.status(cluster) {
                Ok(status) if status.state == state => Seen::Yes(status),
                seen => Seen::NotYet(format!("{seen:?}")),
            },
        )
        .await
    }

    /// Waits until a cluster is ready.
    ///
    /// # Errors
    /// After [`DEADLINE`].
    pub async fn ready(&self, cluster: &str) -> Result<Arc<Cluster>> {
        self.reaches(cluster, ClusterState::Ready).await?;
        self.engaged(cluster).context("not engaged any more")
    }

    /// Waits until at least so many clusters are ready, and returns how many are.
    ///
    /// # Errors
    /// After [`DEADLINE`].
    pub async fn ready_clusters(&self, at_least: usize) -> Result<usize> {
        wait("ready clusters", || {
            let clusters = self.handle.fleet().clusters();
            let states = clusters.iter().map(|cluster| cluster.state());
            let ready = states.filter(|state| *state == ClusterState::Ready).count();
            Seen::of(ready, |ready| *ready >= at_least)
        })
        .await
    }

    /// The text of all metrics.
    ///
    /// # Errors
    /// When they cannot be encoded.
    pub fn metrics(&self) -> Result<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Drains the manager and waits for its end.
    ///
    /// # Errors
    /// When the manager fails, or after [`DEADLINE`].
    pub async fn stop(self) -> Result<()> {
        drop(self.stop);
        Ok(ended(self.running).await??)
    }

    /// Waits until the manager ends by itself, and returns its result.
    ///
    /// # Errors
    /// After [`DEADLINE`].
    pub async fn ended(self) -> Result<Result<(), ManagerError>> {
        let _stop = self.stop;
        ended(self.running).await
    }
}

async fn ended(running: JoinHandle<Result<(), ManagerError>>) -> Result<Result<(), ManagerError>> {
    let end = tokio::time::timeout(DEADLINE, running).await;
    Ok(end.context("the manager did not end")??)
}

/// A simulated server and a manager, which ends with this value. The manager's parts are used through `Deref`.
pub struct TestFleet {
    /// The server of all clusters.
    pub server: Server,
    manager: RunningManager,
}

impl TestFleet {
    /// Starts clusters, and a manager whose builder `build` completes. No cluster is engaged yet.
    ///
    /// # Errors
    /// When the server or the manager cannot be started.
    pub async fn start(clusters: &[&str], build: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        Self::start_on(Server::builder(), clusters, build).await
    }

    /// Like [`Self::start`], on a server whose answers a hook changes.
    ///
    /// # Errors
    /// When the server or the manager cannot be started.
    pub async fn start_with(
        hook: Arc<dyn Hook>,
        clusters: &[&str],
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        Self::start_on(Server::builder().hook(hook), clusters, build).await
    }

    /// Like [`Self::start`], on a server with options of its own.
    ///
    /// # Errors
    /// When the server or the manager cannot be started.
    pub async fn start_on(
        server: windlass_apiserver::Builder,
        clusters: &[&str],
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        crate::logs::init();
        let server = clusters
            .iter()
            .fold(server, |server, cluster| server.cluster(*cluster));
        Self::over(server.bind("127.0.0.1:0").await?, build)
    }

    /// Like [`Self::start`], over the clusters of a server that runs already.
    ///
    /// # Errors
    /// When the manager cannot be started.
    pub fn over(server: Server, build: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        let manager = RunningManager::start(build(Manager::builder()))?;
        Ok(Self { server, manager })
    }

    /// Like [`Self::start`], without a provider: the manager has only the local cluster, which its server names `local`.
    ///
    /// # Errors
    /// When the server or the manager cannot be started.
    pub async fn local_only(build: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        crate::logs::init();
        let server = Server::builder().cluster("local");
        let server = server.bind("127.0.0.1:0").await?;
        let config = ClusterConfig::from_url(&server.url("local"))?;
        let local = ClusterSpec::new(ClusterName::local(), config);
        let unused = Arc::new(Clusters::new("unused"));
        let manager = RunningManager::run(build(Manager::builder().local(local)), unused)?;
        Ok(Self { server, manager })
    }

    /// Like [`Self::start`], with a local cluster beside, which its server names `local`.
    ///
    /// # Errors
    /// When the server or the manager cannot be started.
    pub async fn with_local(
        clusters: &[&str],
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        crate::logs::init();
        let server = clusters
            .iter()
            .fold(Server::builder().cluster("local"), |server, cluster| {
                server.cluster(*cluster)
            });
        let server = server.bind("127.0.0.1:0").await?;
        let config = ClusterConfig::from_url(&server.url("local"))?;
        let local = ClusterSpec::new(ClusterName::local(), config);
        let manager = RunningManager::start(build(Manager::builder().local(local)))?;
        Ok(Self { server, manager })
    }

    /// A cluster that is reached as the server's kubeconfig says now.
    ///
    /// # Errors
    /// When there is no such cluster.
    pub fn spec(&self, cluster: &str) -> Result<ClusterSpec> {
        spec(
            cluster,
            &self.server.kubeconfig(),
            &KubeconfigPolicy::file(),
        )
    }

    /// Gives the provider a cluster, or changes it. The manager engages it in the background.
    ///
    /// # Errors
    /// When there is no such cluster.
    pub fn add(&self, cluster: &str) -> Result<()> {
        self.provider.put(self.spec(cluster)?);
        Ok(())
    }

    /// Adds a cluster and waits until it is ready.
    ///
    /// # Errors
    /// When there is no such cluster, or after [`DEADLINE`].
    pub async fn engage(&self, cluster: &str) -> Result<Arc<Cluster>> {
        self.add(cluster)?;
        self.ready(cluster).await
    }

    /// The server's side of a cluster: an administrator uses it, without the manager and without faults.
    pub fn simulated(&self, cluster: &str) -> windlass_apiserver::Cluster {
        let found = self.server.cluster(cluster);
        found.expect("a simulated cluster of this name")
    }

    /// Creates or changes an object.
    ///
    /// # Errors
    /// When the server rejects the object.
    pub fn apply(&self, cluster: &str, object: Value) -> Result<()> {
        let applied = self.simulated(cluster).apply(object);
        applied.map(drop).map_err(|error| anyhow!("{error:?}"))
    }

    /// How often a cluster has been asked for lists (streamed ones too) and for other watches of a resource.
    pub fn asked(&self, cluster: &str, resource: &str) -> (usize, usize) {
        let calls = self.simulated(cluster).requests();
        let of_kind = calls.iter().filter(|call| call.resource == resource);
        let (lists, others): (Vec<_>, Vec<_>) = of_kind.partition(|call| call.asks_for_all());
        let watches = others.iter().filter(|call| call.verb == Verb::Watch);
        (lists.len(), watches.count())
    }

    fn footprint(&self) -> Result<Footprint> {
        Footprint::now(&[self.server.address().port()])
    }

    /// Waits until tasks neither begin nor end, and returns what is held then.
    ///
    /// # Errors
    /// After [`DEADLINE`].
    pub async fn at_rest(&self) -> Result<Footprint> {
        let (mut last, mut same) = (self.footprint()?, 0);
        eventually(DEADLINE, "a manager at rest", || {
            let seen = self.footprint().map(|now| {
                same = if now.tasks == last.tasks { same + 1 } else { 0 };
                last = now;
                Seen::of((same, now), |(same, _)| *same >= 5)
            });
            async move { seen }
        })
        .await
        .map(|(_, now)| now)
    }

    /// Waits until nothing is left of clusters that have all been removed: no more tasks and sockets than `before`, and no metrics.
    ///
    /// # Errors
    /// After [`DEADLINE`].
    pub async fn nothing_is_left(&self, before: Footprint) -> Result<Footprint> {
        let host = self.server.address().to_string();
        let of_cluster = |line: &&str| {
            line.contains("cluster=\"") && !line.contains("cluster=\"\"") || line.contains(&host)
        };
        eventually(DEADLINE, "nothing to be left of the clusters", || async {
            let (now, metrics) = (self.footprint()?, self.metrics()?);
            let engaged = self.handle.clusters().len();
            let series: Vec<&str> = metrics.lines().filter(of_cluster).collect();
            let more = now.tasks > before.tasks || now.sockets > before.sockets;
            if engaged == 0 && series.is_empty() && !more {
                return Ok(Seen::Yes(now));
            }
            Ok(Seen::NotYet(format!(
                "{engaged} clusters, series {series:?}, {now:?} where there was {before:?}"
            )))
        })
        .await
    }

    /// Drains the manager and waits for its end.
    ///
    /// # Errors
    /// When the manager fails, or after [`DEADLINE`].
    pub async fn stop(self) -> Result<()> {
        self.manager.stop().await
    }
}

impl Deref for TestFleet {
    type Target = RunningManager;

    fn deref(&self) -> &RunningManager {
        &self.manager
    }
}
