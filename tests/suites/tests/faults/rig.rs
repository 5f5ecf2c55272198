//! A simulated fleet under a manager whose reconciler keeps children right. Entry point: [`Rig::start`].

use crate::keeper::{Keeper, child_of, source};
use crate::oracle;
use anyhow::{Context as _, Result, anyhow};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_apiserver::{Hook, Server};
use windlass_fleet::cluster::{NamespaceScope, Scope};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{Builder, Concurrency, ManagerOptions};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name};
use windlass_harness::footprint::Footprint;

/// Marked objects that every cluster begins with.
const SEEDS: usize = 3;

/// How a rig is set up.
pub(crate) struct Setup {
    /// Names of the clusters.
    pub(crate) clusters: Vec<String>,
    /// Namespaces that are clusters too, with the clusters that they are parts of. Default: none.
    pub(crate) parts: BTreeMap<String, String>,
    pub(crate) server: windlass_apiserver::Builder,
    pub(crate) manager: ManagerOptions,
    pub(crate) controller: ControllerOptions,
    /// Adds to the manager.
    pub(crate) build: Box<dyn FnOnce(Builder) -> Builder>,
    /// How long everything stays right at the end, with nobody writing and no key running.
    pub(crate) stays: Duration,
}

impl Setup {
    /// With a hook that decides what goes wrong.
    pub(crate) fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.server = self.server.hook(hook);
        self
    }

    /// With a server that has TLS, and HTTP/2 with it.
    pub(crate) fn tls(mut self) -> Self {
        self.server = self.server.tls();
        self
    }

    /// Clusters of these names, and a manager with room for all.
    pub(crate) fn of(clusters: &[&str]) -> Self {
        Self {
            clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
            parts: BTreeMap::new(),
            server: Server::builder(),
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
            build: Box::new(|builder| builder),
            stays: Duration::from_millis(300),
        }
    }
}

/// A fleet whose controller is a [`Keeper`], and what was held before the first cluster was engaged.
pub(crate) struct Rig {
    fleet: TestFleet,
    pub(crate) keeper: Arc<Keeper>,
    /// Clusters that other providers than the rig's own engage.
    provided: Mutex<BTreeSet<String>>,
    /// Namespaces that are clusters, with the clusters that they are parts of.
    parts: BTreeMap<String, String>,
    pub(crate) before: Footprint,
    /// How long everything is held to stay right.
    pub(crate) stays: Duration,
}

impl Deref for Rig {
    type Target = TestFleet;

    fn deref(&self) -> &TestFleet {
        &self.fleet
    }
}

impl Rig {
    /// Starts clusters and a manager, engages all of them and waits until their children are right.
    pub(crate) async fn start(setup: Setup) -> Result<Self> {
        Self::idle(setup).await?.fill().await
    }

    async fn fill(self) -> Result<Self> {
        for (part, whole) in &self.parts {
            self.apply(
                whole,
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": part}}),
            )?;
        }
        for cluster in self.all() {
            for n in 0..SEEDS {
                self.put(&cluster, &format!("seed-{n}"), "first")?;
            }
            self.join(&cluster)?;
        }
        oracle::right_within(&self, oracle::WITHIN).await?;
        Ok(self)
    }

    /// Clusters and a manager that engages none of them yet.
    pub(crate) async fn idle(mut setup: Setup) -> Result<Self> {
        windlass_harness::logs::init();
        let server = std::mem::take(&mut setup.server);
        let clusters = setup.clusters.iter();
        let server = clusters.fold(server, |server, cluster| server.cluster(cluster));
        Self::idle_on(server.bind("127.0.0.1:0").await?, setup).await
    }

    /// As [`Rig::start`], with the clusters of a server that runs already.
    pub(crate) async fn start_on(server: Server, setup: Setup) -> Result<Self> {
        Self::idle_on(server, setup).await?.fill().await
    }

    async fn idle_on(server: Server, setup: Setup) -> Result<Self> {
        let keeper = Arc::new(Keeper::default());
        let fleet = TestFleet::over(server, |manager| {
            let controller = keeper.controller(setup.controller);
            (setup.build)(manager.options(setup.manager).controller(controller))
        })?;
        Ok(Self {
            before: fleet.at_rest().await?,
            fleet,
            keeper,
            provided: Mutex::default(),
            parts: setup.parts,
            stays: setup.stays,
        })
    }

    /// The clusters whose children have to be right.
    pub(crate) fn kept(&self) -> BTreeSet<String> {
        let own = self.provider.names();
        let own = own.iter().map(ToString::to_string);
        own.chain(self.provided.lock().iter().cloned()).collect()
    }

    /// Has the oracle hold a cluster that another provider engages.
    pub(crate) fn keep(&self, cluster: &str) {
        self.provided.lock().insert(cluster.to_owned());
    }

    pub(crate) fn keep_no_more(&self, cluster: &str) {
        self.provided.lock().remove(cluster);
    }

    /// All clusters and parts of clusters, engaged or not.
    pub(crate) fn all(&self) -> Vec<String> {
        let mut all = self.server.clusters();
        all.extend(self.parts.keys().cloned());
        all
    }

    /// Engages a cluster or a part of one, or changes it, as its server's kubeconfig says now.
    pub(crate) fn join(&self, cluster: &str) -> Result<()> {
        let Some(whole) = self.parts.get(cluster) else {
            return self.add(cluster);
        };
        let namespace = self.simulated(whole).get("v1", "Namespace", "", cluster);
        let namespace = namespace.map_err(|error| anyhow!("{error:?}"))?;
        let uid = namespace.context("a namespace")?["metadata"]["uid"].clone();
        let scope = NamespaceScope {
            name: cluster.into(),
            uid: uid.as_str().unwrap_or_default().into(),
        };
        self.provider.put(ClusterSpec {
            scope: Scope::Namespace(scope),
            ..ClusterSpec::new(name(cluster), self.spec(whole)?.config)
        });
        Ok(())
    }

    /// The cluster that a cluster is a part of, or itself.
    pub(crate) fn whole<'a>(&'a self, cluster: &'a str) -> &'a str {
        self.parts.get(cluster).map_or(cluster, String::as_str)
    }

    /// The server's cluster and the namespace where the objects of a cluster are.
    pub(crate) fn place<'a>(&self, cluster: &'a str) -> (windlass_apiserver::Cluster, &'a str) {
        match self.parts.get(cluster) {
            Some(whole) => (self.simulated(whole), cluster),
            None => (self.simulated(cluster), "default"),
        }
    }

    /// Makes a marked object, or changes it.
    pub(crate) fn put(&self, cluster: &str, object: &str, value: &str) -> Result<()> {
        let (at, namespace) = self.place(cluster);
        let mut object = source(object, &json!({ "value": value }));
        object["metadata"]["namespace"] = namespace.into();
        let applied = at.apply(object);
        applied.map(drop).map_err(|error| anyhow!("{error:?}"))
    }

    pub(crate) fn delete(&self, cluster: &str, object: &str) -> Result<()> {
        let (at, namespace) = self.place(cluster);
        let deleted = at.delete("v1", "ConfigMap", namespace, object);
        deleted.map_err(|error| anyhow!("{error:?}"))
    }

    /// Changes an object and waits until its child has followed.
    pub(crate) async fn carried(&self, cluster: &str, value: &str) -> Result<()> {
        self.follows(cluster, "seed-0", value).await
    }

    /// As [`Rig::carried`], with an object of one's choice.
    pub(crate) async fn follows(&self, cluster: &str, object: &str, value: &str) -> Result<()> {
        self.put(cluster, object, value)?;
        wait(&format!("the child in {cluster} to be {value}"), || {
            let child = self.stored(cluster, &child_of(object));
            let data = child.map(|child| child["data"]["value"].clone());
            Seen::of(data, |data| data.as_ref().is_some_and(|data| data == value))
        })
        .await
        .map(drop)
    }

    /// An object as its server has it.
    pub(crate) fn stored(&self, cluster: &str, object: &str) -> Option<Value> {
        let (at, namespace) = self.place(cluster);
        at.get("v1", "ConfigMap", namespace, object)
            .expect("a kind that is served")
    }

    /// Lists (streamed ones too) and other watches of ConfigMaps that a server has been asked for.
    pub(crate) fn asked(&self, cluster: &str) -> (usize, usize) {
        self.fleet.asked(cluster, "configmaps")
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

    /// Asks the oracle, then lets every cluster go and proves that nothing of them remains.
    pub(crate) async fn finish(self) -> Result<()> {
        self.finish_within(oracle::WITHIN).await
    }

    /// As [`Rig::finish`], with so much time for everything to be right.
    pub(crate) async fn finish_within(self, within: Duration) -> Result<()> {
        oracle::settled_within(&self, within).await?;
        for cluster in self.provider.names() {
            self.provider.remove(&cluster);
        }
        self.nothing_is_left(self.before).await?;
        self.fleet.stop().await
    }
}
