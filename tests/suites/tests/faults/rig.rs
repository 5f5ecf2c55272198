//! A simulated fleet under a manager whose reconciler keeps children right. Entry point: [`Rig::start`].

use crate::keeper::{Keeper, source};
use crate::oracle;
use anyhow::{Context as _, Result, anyhow, bail};
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{Hook, Server, Verb};
use windlass_fleet::cluster::{Cluster, ClusterConfig, ClusterStatus, Provenance};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{Concurrency, ManagerHandle, ManagerOptions};
use windlass_fleet::metrics::Metrics;
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{ClusterName, Manager, ObjectKey, Request};
use windlass_harness::eventually::Seen;
use windlass_harness::footprint::Footprint;

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// Marked objects that every cluster begins with.
const SEEDS: usize = 3;

pub(crate) fn name(name: &str) -> ClusterName {
    ClusterName::new(name).expect("a valid name")
}

pub(crate) fn request(cluster: &str, object: &str) -> Request {
    Request::new(name(cluster), ObjectKey::namespaced("default", object))
}

/// Waits for a condition that can be looked at without waiting.
pub(crate) async fn wait<T>(what: &str, mut look: impl FnMut() -> Seen<T>) -> Result<T> {
    windlass_harness::eventually(DEADLINE, what, || {
        let seen = look();
        async move { Ok(seen) }
    })
    .await
}

/// How a rig is set up.
pub(crate) struct Setup {
    /// Names of the clusters.
    pub(crate) clusters: Vec<String>,
    /// Decides what goes wrong.
    pub(crate) hook: Option<Arc<dyn Hook>>,
    /// Whether the servers have TLS, and HTTP/2 with it.
    pub(crate) tls: bool,
    pub(crate) manager: ManagerOptions,
    pub(crate) controller: ControllerOptions,
    /// How long everything stays right at the end, with nobody writing and no key running.
    pub(crate) stays: Duration,
}

impl Setup {
    /// With a hook that decides what goes wrong.
    pub(crate) fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Clusters of these names, and a manager with room for all.
    pub(crate) fn of(clusters: &[&str]) -> Self {
        Self {
            clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
            hook: None,
            tls: false,
            manager: ManagerOptions {
                concurrency: Concurrency {
                    global: 32,
                    per_cluster: 4,
                    ..Concurrency::default()
                },
                ..ManagerOptions::default()
            },
            controller: ControllerOptions {
                concurrency: Some(32),
                timeout: Duration::from_secs(5),
                ..Default::default()
            },
            stays: Duration::from_secs(1),
        }
    }
}

/// Clusters, a manager, and what it held before it had anything to do.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) provider: Arc<Clusters>,
    pub(crate) handle: ManagerHandle,
    pub(crate) keeper: Arc<Keeper>,
    registry: Registry,
    before: Footprint,
    stays: Duration,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Rig {
    /// Starts clusters and a manager, engages all of them and waits until their children are right.
    pub(crate) async fn start(setup: Setup) -> Result<Self> {
        let rig = Self::idle(setup).await?;
        for cluster in rig.server.clusters() {
            for n in 0..SEEDS {
                rig.put(&cluster, &format!("seed-{n}"), "first")?;
            }
            rig.engage(&cluster)?;
        }
        oracle::right_within(&rig, oracle::WITHIN).await?;
        Ok(rig)
    }

    /// Clusters and a manager that engages none of them yet.
    async fn idle(setup: Setup) -> Result<Self> {
        windlass_harness::logs::init();
        let mut server = Server::builder();
        for cluster in &setup.clusters {
            server = server.cluster(cluster);
        }
        if setup.tls {
            server = server.tls();
        }
        if let Some(hook) = setup.hook {
            server = server.hook(hook);
        }
        let server = server.bind("127.0.0.1:0").await?;
        let (provider, keeper) = (Arc::new(Clusters::new("test")), Arc::new(Keeper::default()));
        let mut registry = Registry::default();
        let bound = Manager::builder()
            .options(setup.manager)
            .metrics(Metrics::new(&mut registry))
            .provider(provider.clone())
            .controller(keeper.controller(setup.controller))
            .build()?
            .bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        let token = stop.clone();
        let running = tokio::spawn(async move {
            bound.run(token).await.expect("the manager runs");
        });
        let before = at_rest(server.address().port()).await?;
        Ok(Self {
            server,
            provider,
            handle,
            keeper,
            registry,
            before,
            stays: setup.stays,
            stop,
            running: Some(running),
        })
    }

    /// Engages a cluster with what its server's kubeconfig says now; it gets ready in the background.
    pub(crate) fn engage(&self, cluster: &str) -> Result<()> {
        let user = self.server.kubeconfig();
        self.engage_with(cluster, &user, Provenance::Program)
    }

    /// Engages a cluster, or changes it, with a kubeconfig's context of its name.
    pub(crate) fn engage_with(
        &self,
        cluster: &str,
        kubeconfig: &str,
        provenance: Provenance,
    ) -> Result<()> {
        let config =
            ClusterConfig::from_kubeconfig_text(kubeconfig, Some(cluster), None, provenance)?;
        self.provider.put(ClusterSpec::new(name(cluster), config));
        Ok(())
    }

    /// A cluster's own side: what an administrator does to it, past the engine and its faults.
    pub(crate) fn cluster(&self, name: &str) -> windlass_apiserver::Cluster {
        self.server.cluster(name).expect("a simulated cluster")
    }

    /// Makes a marked object, or changes it.
    pub(crate) fn put(&self, cluster: &str, object: &str, value: &str) -> Result<()> {
        let object = source(object, &serde_json::json!({ "value": value }));
        self.cluster(cluster)
            .apply(object)
            .map(drop)
            .map_err(|error| anyhow!("{error:?}"))
    }

    pub(crate) fn delete(&self, cluster: &str, object: &str) -> Result<()> {
        self.cluster(cluster)
            .delete("v1", "ConfigMap", "default", object)
            .map_err(|error| anyhow!("{error:?}"))
    }

    /// Changes an object and waits until its child has followed.
    pub(crate) async fn carried(&self, cluster: &str, value: &str) -> Result<()> {
        self.put(cluster, "seed-0", value)?;
        wait(&format!("the child in {cluster} to be {value}"), || {
            let child = self.stored(cluster, "seed-0-out");
            let data = child.map(|child| child["data"]["value"].clone());
            Seen::of(data, |data| data.as_ref().is_some_and(|data| data == value))
        })
        .await
        .map(drop)
    }

    /// An object as its server has it.
    pub(crate) fn stored(&self, cluster: &str, object: &str) -> Option<Value> {
        self.cluster(cluster)
            .get("v1", "ConfigMap", "default", object)
            .expect("a kind that is served")
    }

    /// Lists (streamed ones too) and other watches of ConfigMaps that a server has been asked for.
    pub(crate) fn asked(&self, cluster: &str) -> (usize, usize) {
        let calls = self.cluster(cluster).requests();
        let of_kind = calls.iter().filter(|call| call.resource == "configmaps");
        let (lists, others): (Vec<_>, Vec<_>) = of_kind.partition(|call| call.asks_for_all());
        let watches = others.iter().filter(|call| call.verb == Verb::Watch);
        (lists.len(), watches.count())
    }

    /// The engine's side of a cluster.
    pub(crate) fn engaged(&self, cluster: &str) -> Option<Arc<Cluster>> {
        self.handle.fleet().cluster(&name(cluster))
    }

    pub(crate) fn status(&self, cluster: &str) -> Result<ClusterStatus> {
        let engaged = self.engaged(cluster).context("not engaged")?;
        Ok(engaged.status())
    }

    /// Waits until a cluster is in a state.
    pub(crate) async fn reaches(&self, cluster: &str, state: &str) -> Result<ClusterStatus> {
        wait(&format!("{cluster} to be {state}"), || {
            match self.status(cluster) {
                Ok(status) if status.state.as_str() == state => Seen::Yes(status),
                seen => Seen::NotYet(format!("{seen:?}")),
            }
        })
        .await
    }

    /// Holds a condition to stay so for a time.
    pub(crate) async fn holds(
        &self,
        what: &str,
        time: Duration,
        mut look: impl FnMut() -> Result<(), String>,
    ) -> Result<()> {
        let until = Instant::now() + time;
        let outcome = wait(what, || match look() {
            Ok(()) if Instant::now() < until => Seen::NotYet("so far so good".into()),
            outcome => Seen::Yes(outcome),
        })
        .await?;
        outcome.map_err(|seen| anyhow!("{what} did not last: {seen}"))
    }

    /// The text of all metrics.
    pub(crate) fn metrics(&self) -> Result<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Asks the oracle, then lets every cluster go and proves that nothing of them remains.
    pub(crate) async fn finish(self) -> Result<()> {
        self.finish_within(oracle::WITHIN).await
    }

    /// As [`Rig::finish`], with so much time for everything to be right.
    pub(crate) async fn finish_within(mut self, within: Duration) -> Result<()> {
        oracle::settled_within(&self, within).await?;
        for cluster in self.provider.names() {
            self.provider.remove(&cluster);
        }
        oracle::nothing_is_left(&self).await?;
        self.stop.cancel();
        let Some(running) = self.running.take() else {
            bail!("stopped twice")
        };
        tokio::time::timeout(DEADLINE, running)
            .await
            .context("the drain did not end")??;
        Ok(())
    }

    /// How long everything is held to stay right.
    pub(crate) fn stays(&self) -> Duration {
        self.stays
    }

    /// What was held before the first cluster was engaged.
    pub(crate) fn before(&self) -> Footprint {
        self.before
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What is held once what has just been started waits for something to do.
async fn at_rest(port: u16) -> Result<Footprint> {
    let mut last = Footprint::now(&[port])?;
    let mut same = 0;
    wait("a manager at rest", || {
        let now = Footprint::now(&[port]).unwrap_or(last);
        same = if now.tasks == last.tasks { same + 1 } else { 0 };
        last = now;
        Seen::of((same, now), |(same, _)| *same >= 3)
    })
    .await
    .map(|(_, now)| now)
}
