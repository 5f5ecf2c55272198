//! Several processes over one sharded fleet, each behind a network of its own. Entry point: [`live`].
//!
//! The promise: a key runs in one process at any time, every cluster is somebody's, and a dead process's clusters run elsewhere within a Lease's
//! duration and 5 s. Each cluster is watched by its owner alone, and keys that other clusters ask for are run by their own cluster's owner.

use super::orders;
use super::wire::Wire;
use crate::keeper::{Keeper, SLOW, child_of, source};
use crate::oracle::{WITHIN, differ_at};
use anyhow::{Context as _, Result, anyhow, ensure};
use fastrand::Rng;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};
use windlass_apiserver::Server;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::shard::Sharding;
use windlass_fleet::{ClusterName, Manager};
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;
use windlass_harness::fleet::{RunningManager, name};

/// How long a fleet lives before nothing happens to it any more.
const LENGTH: Duration = Duration::from_secs(600);
/// Time between two things that happen to the members, on average.
const BETWEEN_STEPS: u64 = 30;
/// Time between two changes of objects, on average.
const BETWEEN_CHANGES: u64 = 5;
/// A Lease's duration, a twentieth for clocks, and the 5 s of the promise.
const TAKEN_OVER: Duration = Duration::from_millis(15_750 + 5_000);

/// What happens.
#[derive(Clone, Copy)]
enum Step {
    /// A process joins.
    Join,
    /// A process leaves, as at SIGTERM.
    Leave,
    /// Nothing gets through to a process, or from it, for so many seconds.
    Cut(u64),
    /// The server of the Leases is away for so many seconds.
    Away(u64),
    /// An object changes.
    Change,
}

/// The steps of a life. They follow from the seed.
pub(super) struct Plan(Vec<(Duration, Step)>);

impl Plan {
    pub(super) fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let seconds = LENGTH.as_secs();
        let moments = seconds / BETWEEN_STEPS;
        let mut steps = Vec::new();
        for at in 0..moments + seconds / BETWEEN_CHANGES {
            let step = match rng.u8(0..10) {
                _ if at >= moments => Step::Change,
                0..=2 => Step::Join,
                3..=4 => Step::Leave,
                5..=8 => Step::Cut(rng.u64(1..60)),
                _ => Step::Away(rng.u64(1..90)),
            };
            steps.push((Duration::from_millis(rng.u64(0..seconds * 1_000)), step));
        }
        steps.sort_by_key(|(at, _)| *at);
        Self(steps)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// One process.
struct Member {
    manager: RunningManager,
    wire: Arc<Wire>,
    /// Until when nothing gets through.
    cut_until: Option<Instant>,
}

/// All processes, and the clusters that they share.
struct World {
    server: Server,
    keeper: Arc<Keeper>,
    clusters: Vec<String>,
    members: Vec<Member>,
    rng: Rng,
    /// Until when the server of the Leases is away.
    away_until: Option<Instant>,
    /// Processes that have been started.
    started: u64,
    value: u64,
    /// Those that there were before any process.
    tasks: usize,
}

/// A sharded fleet from its start to its end.
pub(super) async fn live(seed: u64, plan: &Plan, without: &BTreeSet<usize>) -> Result<()> {
    let mut world = World::start(seed)?;
    world.settle().await.context("at the start")?;
    let began = Instant::now();
    for (at, (when, step)) in plan.0.iter().enumerate() {
        world.repair(began + *when).await;
        if !without.contains(&at) {
            world.happen(*step).await?;
        }
    }
    world
        .repair(Instant::now() + Duration::from_secs(100))
        .await;
    world.settle().await.context("after all steps")?;
    world.lose_one().await.context("after a process has died")?;
    world.end().await
}

impl World {
    fn start(seed: u64) -> Result<Self> {
        let mut rng = Rng::with_seed(seed ^ 0x6d65_6d62);
        let clusters: Vec<String> = (0..rng.usize(3..9)).map(|n| format!("c{n}")).collect();
        let names = clusters.iter();
        let server = names.fold(Server::builder().cluster("local"), |server, cluster| {
            server.cluster(cluster)
        });
        let mut world = Self {
            server: server.in_process(),
            keeper: Arc::new(Keeper::slow(seed)),
            clusters,
            members: Vec::new(),
            rng,
            away_until: None,
            started: 0,
            value: 0,
            tasks: tasks(),
        };
        orders::prepare(&world.server, &world.clusters)?;
        for _ in 0..3 {
            world.join()?;
        }
        for _ in 0..20 {
            world.change()?;
        }
        Ok(world)
    }

    fn spec(&self, cluster: &str) -> Result<ClusterSpec> {
        let config = ClusterConfig::from_url(&self.server.url(cluster))?;
        let name = match cluster {
            "local" => ClusterName::local(),
            cluster => name(cluster),
        };
        Ok(ClusterSpec::new(name, config))
    }

    fn join(&mut self) -> Result<()> {
        self.started += 1;
        let wire = Arc::new(Wire::new(self.server.entrance(), self.rng.u64(..)));
        let mut options = ManagerOptions::default();
        options.transport.streams = Some(wire.clone());
        let mut sharding = Sharding::new("default", "fleet");
        sharding.member = format!("member-{}", self.started).into();
        sharding.weight = self.rng.u8(5..20);
        let builder = Manager::builder()
            .options(options)
            .local(self.spec("local")?)
            .sharding(sharding)
            .controller(self.keeper.controller(Default::default()))
            .controller(orders::controller()?);
        let manager = RunningManager::start(builder)?;
        for cluster in &self.clusters {
            manager.provider.put(self.spec(cluster)?);
        }
        self.members.push(Member {
            manager,
            wire,
            cut_until: None,
        });
        Ok(())
    }

    async fn happen(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Change => self.change()?,
            Step::Join if self.members.len() < 5 => self.join()?,
            Step::Leave if self.members.len() > 2 => {
                let at = self.rng.usize(..self.members.len());
                let member = self.members.swap_remove(at);
                member.wire.cut(false);
                member.manager.stop().await?;
            }
            Step::Cut(seconds) => {
                let at = self.rng.usize(..self.members.len());
                let member = &mut self.members[at];
                member.wire.cut(true);
                member.cut_until = Some(Instant::now() + Duration::from_secs(seconds));
            }
            Step::Away(seconds) => {
                self.local()?.down(true);
                self.away_until = Some(Instant::now() + Duration::from_secs(seconds));
            }
            Step::Join | Step::Leave => {}
        }
        Ok(())
    }

    fn local(&self) -> Result<windlass_apiserver::Cluster> {
        self.server.cluster("local").context("the local cluster")
    }

    /// Waits until a time, and ends meanwhile what is due to end.
    async fn repair(&mut self, until: Instant) {
        loop {
            let cuts = self.members.iter().filter_map(|member| member.cut_until);
            let next = cuts
                .chain(self.away_until)
                .min()
                .unwrap_or(until)
                .min(until);
            // Not a wait: time is simulated.
            sleep_until(next).await;
            for member in &mut self.members {
                if member.cut_until.is_some_and(|at| at <= next) {
                    member.cut_until = None;
                    member.wire.cut(false);
                }
            }
            if self.away_until.is_some_and(|at| at <= next)
                && let Ok(local) = self.local()
            {
                self.away_until = None;
                local.down(false);
            }
            if next == until {
                return;
            }
        }
    }

    fn change(&mut self) -> Result<()> {
        self.value += 1;
        let cluster = &self.clusters[self.rng.usize(..self.clusters.len())];
        let at = self.server.cluster(cluster).context("a cluster")?;
        let object = format!("o{}", self.rng.u8(0..4));
        let failed = |error| anyhow!("{error:?}");
        match self.rng.u8(0..7) {
            6 => orders::order(&self.server, cluster, &self.value.to_string())?,
            0 => drop(at.delete("v1", "ConfigMap", "default", &object)),
            1 => {
                let spoilt = json!({"data": {"value": "spoilt"}});
                let child = child_of(&object);
                drop(at.merge("v1", "ConfigMap", "default", &child, &spoilt));
            }
            _ => {
                let object = source(&object, &json!({"value": self.value.to_string()}));
                at.apply(object).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Everything is as desired, every shard is held by one member, and no key ever ran twice at once.
    async fn settle(&mut self) -> Result<()> {
        self.right_within(WITHIN).await?;
        let owned = eventually(WITHIN, "every shard to be held by one process", || {
            let states = self
                .members
                .iter()
                .map(|member| member.manager.handle.shards());
            let states: Vec<_> = states.flatten().collect();
            let held: u32 = states.iter().map(|state| state.held).sum();
            let whole = states
                .iter()
                .all(|state| state.ownerless == 0 && state.problem.is_none());
            let watched: usize = self.members.iter().map(watched_by).sum();
            let seen = if whole && held == 256 && watched == self.clusters.len() {
                Seen::Yes(())
            } else {
                Seen::NotYet(format!(
                    "{held} shards are held, clusters are watched {watched} times: {states:#?}"
                ))
            };
            async move { Ok(seen) }
        });
        owned.await?;
        self.none_ran_twice()
    }

    fn none_ran_twice(&self) -> Result<()> {
        let overlaps = self.keeper.overlaps();
        ensure!(
            overlaps.is_empty(),
            "keys that ran twice at once: {overlaps:?}"
        );
        Ok(())
    }

    async fn right_within(&self, within: Duration) -> Result<()> {
        eventually(within, "every child to be right", || {
            let mut wrong = Vec::new();
            let looked = self.clusters.iter().try_for_each(|cluster| {
                let at = self.server.cluster(cluster).context("a cluster")?;
                differ_at(&at, "default", cluster, &mut wrong)
            });
            let looked = looked.and_then(|()| orders::differ(&self.server, &mut wrong));
            async move { looked.map(|()| Seen::of(wrong, Vec::is_empty)) }
        })
        .await
        .map(drop)
    }

    /// A process dies. Its clusters run elsewhere in time.
    async fn lose_one(&mut self) -> Result<()> {
        let at = self.rng.usize(..self.members.len());
        let dead = self.members.swap_remove(at);
        dead.wire.cut(true);
        let joins = self.members.is_empty();
        if joins {
            self.join()?;
        }
        for cluster in &self.clusters {
            let at = self.server.cluster(cluster).context("a cluster")?;
            let changed = at.apply(source("o0", &json!({"value": "after its death"})));
            changed.map_err(|error| anyhow!("{error:?}"))?;
        }
        self.right_within(TAKEN_OVER + SLOW).await?;
        self.none_ran_twice()?;
        // It was only cut off: it must do no harm when it is back.
        dead.wire.cut(false);
        self.members.push(dead);
        self.settle().await
    }

    async fn end(mut self) -> Result<()> {
        while let Some(member) = self.members.pop() {
            member.manager.stop().await?;
            if !self.members.is_empty() {
                self.settle().await.context("after a process has left")?;
            }
        }
        self.none_ran_twice()?;
        let tasks = || async { Ok(Seen::of(tasks(), |tasks| *tasks <= self.tasks)) };
        let left = eventually(WITHIN, "all tasks of all processes to have ended", tasks);
        left.await.map(drop)
    }
}

/// Tasks of everything that runs: of processes, servers and networks.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// In how many clusters a process watches the objects of the keeper.
fn watched_by(member: &Member) -> usize {
    let controllers = member.manager.handle.controllers().into_iter();
    let keepers = controllers.filter(|controller| controller.name == "keeper");
    keepers.map(|keeper| keeper.clusters).sum()
}
