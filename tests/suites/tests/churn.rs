//! Clusters that come and go, ten thousand times: nothing of those that are gone remains. Entry point: [`churn`].
//!
//! A process of its own, because memory can be told apart by process only.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

use anyhow::{Context as _, Result, ensure};
use prometheus_client::registry::Registry;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::Server;
use windlass_fleet::cluster::{ClusterConfig, Provenance, every_context};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::ManagerHandle;
use windlass_fleet::metrics::Metrics;
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, GroupVersionKind, Manager,
};
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;
use windlass_harness::footprint::Footprint;

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
const DEADLINE: Duration = Duration::from_secs(60);

struct World {
    server: Server,
    provider: Arc<Clusters>,
    handle: ManagerHandle,
    registry: Registry,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    /// The served clusters' configurations, and as many of a server that nobody is at.
    live: Vec<ClusterConfig>,
    dead: Vec<ClusterConfig>,
}

impl World {
    async fn start() -> Result<Self> {
        let mut server = Server::builder().tls();
        for n in 0..SERVED {
            server = server.cluster(format!("served-{n}"));
        }
        let server = server.bind("127.0.0.1:0").await?;
        let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let live = server.kubeconfig();
        let dead = live.replace(&server.address().to_string(), &nobody.to_string());
        let provider = Arc::new(Clusters::new("churn"));
        let mut registry = Registry::default();
        let bound = Manager::builder()
            .metrics(Metrics::new(&mut registry))
            .provider(provider.clone())
            .controller(controller()?)
            .build()?
            .bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        let token = stop.clone();
        let running = tokio::spawn(async move {
            bound.run(token).await.expect("the manager runs");
        });
        Ok(Self {
            server,
            provider,
            handle,
            registry,
            stop,
            running,
            live: configs(&live)?,
            dead: configs(&dead)?,
        })
    }

    /// Puts a cluster without a past under each name that is served: a server remembers what it was asked.
    fn renew_served(&self) -> Result<()> {
        for name in self.server.clusters() {
            self.server.remove_cluster(&name);
            let cluster = self.server.add_cluster(&name);
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
            self.provider.put(spec);
        }
        let ready = eventually(DEADLINE, "clusters to be ready", || async {
            let all = self.handle.fleet().clusters();
            let ready = all.iter().filter(|c| c.state().as_str() == "Ready").count();
            Ok(Seen::of(ready, |ready| *ready >= READY))
        })
        .await?;
        for name in &names {
            self.provider.remove(name);
        }
        Ok(ready)
    }

    /// What is held once what has just been started waits for something to do.
    async fn at_rest(&self) -> Result<Footprint> {
        let port = self.server.address().port();
        let (mut last, mut same) = (Footprint::now(&[port])?, 0);
        eventually(DEADLINE, "a manager at rest", || {
            let now = Footprint::now(&[port]);
            let seen = now.map(|now| {
                same = if now.tasks == last.tasks { same + 1 } else { 0 };
                last = now;
                Seen::of((same, now), |(same, _)| *same >= 5)
            });
            async move { seen }
        })
        .await
        .map(|(_, now)| now)
    }

    /// Waits until as little is held as before the first cluster came.
    async fn nothing_is_left(&self, before: Footprint) -> Result<Footprint> {
        let port = self.server.address().port();
        eventually(DEADLINE, "nothing to be left of the clusters", || async {
            let now = Footprint::now(&[port])?;
            let mut metrics = String::new();
            prometheus_client::encoding::text::encode(&mut metrics, &self.registry)?;
            let series = metrics
                .lines()
                .filter(|line| line.contains("cluster-"))
                .count();
            let engaged = self.handle.fleet().clusters().len();
            let clean = engaged == 0
                && series == 0
                && now.tasks <= before.tasks
                && now.sockets <= before.sockets;
            let seen =
                format!("{engaged} clusters, {series} series, {now:?} where there was {before:?}");
            Ok(if clean {
                Seen::Yes(now)
            } else {
                Seen::NotYet(seen)
            })
        })
        .await
    }
}

fn configs(kubeconfig: &str) -> Result<Vec<ClusterConfig>> {
    let contexts = every_context(kubeconfig, None, Provenance::Program)?;
    Ok(contexts
        .into_iter()
        .map(|(_, config)| config)
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
    let before = world.at_rest().await?;
    let (began, mut ready, mut warm) = (Instant::now(), 0, None);
    for round in 0..CYCLES / AT_ONCE {
        ready += world.round(round * AT_ONCE).await?;
        if round + 1 == WARM {
            warm = Some(world.nothing_is_left(before).await?);
        }
    }
    let after = world.nothing_is_left(before).await?;
    let warm = warm.context("it got warm")?;
    let grown = after.resident.saturating_sub(warm.resident);
    println!(
        "{CYCLES} clusters, {ready} of them ready, in {:?}: {} bytes resident after {} and {} at the end, {} connections",
        began.elapsed(),
        warm.resident,
        WARM * AT_ONCE,
        after.resident,
        world.server.connections().accepted,
    );
    let of_each = grown / (CYCLES - WARM * AT_ONCE);
    ensure!(
        of_each <= LEFT_OF_EACH,
        "{of_each} bytes are left of each cluster"
    );
    world.stop.cancel();
    tokio::time::timeout(DEADLINE, world.running).await??;
    Ok(())
}
