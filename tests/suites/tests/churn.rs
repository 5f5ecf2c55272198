//! Clusters that come and go, ten thousand times: nothing of those that are gone remains. Entry point: [`churn`].
//!
//! A process of its own, because memory can be told apart by process only.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use windlass_apiserver::Server;
use windlass_fleet::cluster::{ClusterConfig, Kubeconfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, GroupVersionKind,
};
use windlass_harness::fleet::TestFleet;

/// Clusters that are engaged in all.
const CYCLES: usize = 10_000;
/// Clusters that are engaged at a time, and how many of them are dead: one in five.
const AT_ONCE: usize = 100;
const DEAD: usize = 5;
/// Clusters that a round waits for; the others leave in whatever state they are in.
const READY: usize = 10;
/// Clusters that the server serves.
const SERVED: usize = 8;
/// Rounds until memory has its working size.
const WARM: usize = 20;
/// Most memory that may be left of each cluster beyond that, on average.
const LEFT_OF_EACH: usize = 1024;

/// A fleet whose clusters are engaged under other names than the server's.
struct World {
    fleet: TestFleet,
    /// The served clusters' configurations, and as many of a server that nobody is at.
    live: Vec<ClusterConfig>,
    dead: Vec<ClusterConfig>,
}

impl World {
    async fn start() -> Result<Self> {
        let names: Vec<String> = (0..SERVED).map(|n| format!("served-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let controller = controller()?;
        let fleet = TestFleet::start_on(Server::builder().tls(), &names, |manager| {
            // Many names of few servers.
            let options = ManagerOptions {
                duplicate_clusters: true,
                ..ManagerOptions::default()
            };
            manager.options(options).controller(controller)
        })
        .await?;
        let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let live = fleet.server.kubeconfig();
        let dead = live.replace(&fleet.server.address().to_string(), &nobody.to_string());
        Ok(Self {
            fleet,
            live: configs(&live)?,
            dead: configs(&dead)?,
        })
    }

    /// Puts a cluster without a past under each name that is served: a server remembers what it was asked.
    fn renew_served(&self) -> Result<()> {
        for name in self.fleet.server.clusters() {
            self.fleet.server.remove_cluster(&name);
            let cluster = self.fleet.server.add_cluster(&name);
            for n in 0..3 {
                cluster.apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": format!("object-{n}"), "namespace": "default"}}))?;
            }
        }
        Ok(())
    }

    /// Engages the clusters of a round, waits for some of them, and lets all go. Returns how many were ready.
    async fn round(&self, first: usize) -> Result<usize> {
        self.renew_served()?;
        let specs = (first..first + AT_ONCE).map(|n| {
            let configs = if n % DEAD == 0 {
                &self.dead
            } else {
                &self.live
            };
            let config = configs[n % SERVED].clone();
            Ok(ClusterSpec::new(
                ClusterName::new(format!("cluster-{n}"))?,
                config,
            ))
        });
        let specs: Vec<ClusterSpec> = specs.collect::<Result<_>>()?;
        let names: Vec<ClusterName> = specs.iter().map(|spec| spec.name.clone()).collect();
        for spec in specs {
            self.fleet.provider.put(spec);
        }
        let ready = self.fleet.ready_clusters(READY).await?;
        for name in &names {
            self.fleet.provider.remove(name);
        }
        Ok(ready)
    }
}

fn configs(kubeconfig: &str) -> Result<Vec<ClusterConfig>> {
    let contexts = Kubeconfig::parse(kubeconfig, None)?.contexts(&KubeconfigPolicy::file());
    Ok(contexts
        .into_iter()
        .map(|context| context.config)
        .collect::<Result<_, _>>()?)
}

fn controller() -> Result<Controller> {
    let reconcile = |_: Context| async { Ok::<_, Failure>(Action::Done) };
    Ok(Controller::builder(ControllerName::new("churn")?)
        .for_kind(GroupVersionKind::new("", "v1", "ConfigMap"))
        .build(Arc::new(reconcile))?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_ten_thousand_clusters_that_came_and_went_dead_ones_among_them()
-> Result<()> {
    let world = World::start().await?;
    world.renew_served()?;
    let before = world.fleet.at_rest().await?;
    let (began, mut ready, mut warm) = (Instant::now(), 0, None);
    for round in 0..CYCLES / AT_ONCE {
        ready += world.round(round * AT_ONCE).await?;
        if round + 1 == WARM {
            warm = Some(world.fleet.nothing_is_left(before).await?);
        }
    }
    let after = world.fleet.nothing_is_left(before).await?;
    let warm = warm.context("it got warm")?;
    let grown = after.resident.saturating_sub(warm.resident);
    println!(
        "{CYCLES} clusters, {ready} of them ready, in {:?}: {} bytes resident after {} and {} at the end, {} connections",
        began.elapsed(),
        warm.resident,
        WARM * AT_ONCE,
        after.resident,
        world.fleet.server.connections().accepted,
    );
    let of_each = grown / (CYCLES - WARM * AT_ONCE);
    ensure!(
        of_each <= LEFT_OF_EACH,
        "{of_each} bytes are left of each cluster"
    );
    world.fleet.stop().await
}
