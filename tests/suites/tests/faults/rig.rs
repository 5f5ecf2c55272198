//! A simulated fleet under a manager whose reconciler keeps children right. Entry point: [`Rig::start`].

use crate::keeper::{Keeper, source};
use crate::oracle;
use anyhow::{Result, anyhow};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_apiserver::{Hook, Server};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::manager::{Builder, Concurrency, ManagerOptions};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::TestFleet;
use windlass_harness::footprint::Footprint;

/// Marked objects that every cluster begins with.
const SEEDS: usize = 3;

/// How a rig is set up.
pub(crate) struct Setup {
    /// Names of the clusters.
    pub(crate) clusters: Vec<String>,
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
        let rig = Self::idle(setup).await?;
        for cluster in rig.server.clusters() {
            for n in 0..SEEDS {
                rig.put(&cluster, &format!("seed-{n}"), "first")?;
            }
            rig.add(&cluster)?;
        }
        oracle::right_within(&rig, oracle::WITHIN).await?;
        Ok(rig)
    }

    /// Clusters and a manager that engages none of them yet.
    pub(crate) async fn idle(setup: Setup) -> Result<Self> {
        let keeper = Arc::new(Keeper::default());
        let clusters: Vec<&str> = setup.clusters.iter().map(String::as_str).collect();
        let fleet = TestFleet::start_on(setup.server, &clusters, |manager| {
            let controller = keeper.controller(setup.controller);
            (setup.build)(manager.options(setup.manager).controller(controller))
        })
        .await?;
        Ok(Self {
            before: fleet.at_rest().await?,
            fleet,
            keeper,
            provided: Mutex::default(),
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

    /// Makes a marked object, or changes it.
    pub(crate) fn put(&self, cluster: &str, object: &str, value: &str) -> Result<()> {
        let object = source(object, &serde_json::json!({ "value": value }));
        self.apply(cluster, object)
    }

    pub(crate) fn delete(&self, cluster: &str, object: &str) -> Result<()> {
        self.simulated(cluster)
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
        self.simulated(cluster)
            .get("v1", "ConfigMap", "default", object)
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
