//! Objects that change all the time keep no other object from being reconciled: after a start, a reload and a takeover, and when a cluster
//! joins. Each run waits for a permit, and all busy objects are ready again before the next permits: so runs are counted, and time does not matter.

use super::election::{TIMING, leads};
use super::fixture::{Log, controller_with, object};
use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;
use windlass_apiserver::Server;
use windlass_fleet::cluster::{ClusterConfig, KubeconfigPolicy};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::election::ElectionOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{KeyFilter, KeyStatus};
use windlass_fleet::{Action, ClusterName, Controller, ControllerName, Manager, TenantName};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{RunningManager, name, request};

const BUSY: usize = 200;
/// Runs from one change of all busy objects to the next: less than there are busy objects, so that one of them is always ready.
const RUNS: usize = 100;
/// Permits for whatever is left to run.
const ALL: usize = 100_000;

fn gated(log: &Arc<Log>, gate: &Arc<Semaphore>, options: ControllerOptions) -> Controller {
    let gate = gate.clone();
    controller_with(log, options, move |_| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.expect("never closed").forget();
            Ok(Action::Done)
        }
    })
}

/// Names in the order in which a list has them: the busy objects come first.
fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n:03}")).collect()
}

fn in_line(manager: &RunningManager, cluster: &str, prefix: &str) -> Vec<KeyStatus> {
    let filter = KeyFilter {
        cluster: Some(name(cluster)),
        ..KeyFilter::default()
    };
    let mut keys = manager.handle.keys(&filter);
    keys.retain(|key| key.queued.request.key.name.starts_with(prefix));
    keys
}

/// A candidate for the lease in the cluster `hub`, and its runs, each of which waits for a permit.
struct Candidate {
    manager: RunningManager,
    log: Arc<Log>,
    gate: Arc<Semaphore>,
}

impl Candidate {
    fn start(server: &Server, identity: &str, options: ControllerOptions) -> Result<Self> {
        let (log, gate) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
        let config = ClusterConfig::from_url(&server.url("hub"))?;
        let election = ElectionOptions {
            candidate: identity.to_owned(),
            timing: TIMING,
            ..ElectionOptions::new("default", "test")
        };
        let builder = Manager::builder()
            .local(ClusterSpec::new(ClusterName::local(), config))
            .leader_election(election)
            .controller(gated(&log, &gate, options));
        Ok(Self {
            manager: RunningManager::start(builder)?,
            log,
            gate,
        })
    }

    fn add(&self, server: &Server, cluster: &str) -> Result<()> {
        let (kubeconfig, policy) = (server.kubeconfig(), KubeconfigPolicy::file());
        self.manager.add_from(cluster, &kubeconfig, &policy)
    }

    /// Waits until so many objects of a cluster are in line.
    async fn has_in_line(&self, cluster: &str, prefix: &str, count: usize) -> Result<()> {
        wait(&format!("the objects {prefix:?} in line"), || {
            let keys = in_line(&self.manager, cluster, prefix);
            Seen::of(keys.len(), |keys| *keys == count)
        })
        .await
        .map(drop)
    }

    /// Ends it, with all that it still has to run.
    async fn stop(self) -> Result<()> {
        self.gate.add_permits(ALL);
        self.manager.stop().await
    }
}

/// A fleet whose busy objects, in the cluster alpha, change before each round of runs of the leader.
struct Rounds {
    server: Server,
    leader: Candidate,
    round: usize,
}

impl Rounds {
    async fn start(clusters: &[&str], quiet: usize, options: ControllerOptions) -> Result<Self> {
        windlass_harness::logs::init();
        let server = ["hub"].iter().chain(clusters);
        let server = server.fold(Server::builder(), |server, name| server.cluster(*name));
        let server = server.bind("127.0.0.1:0").await?;
        let leader = Candidate::start(&server, "first", options)?;
        let rounds = Self {
            server,
            leader,
            round: 0,
        };
        for object_name in names("busy", BUSY).iter().chain(&names("quiet", quiet)) {
            rounds.apply("alpha", object_name, json!({}))?;
        }
        leads(&rounds.leader.manager).await?;
        rounds.leader.add(&rounds.server, "alpha")?;
        let leader = &rounds.leader;
        leader.has_in_line("alpha", "", BUSY + quiet).await?;
        Ok(rounds)
    }

    fn apply(&self, cluster: &str, object_name: &str, data: serde_json::Value) -> Result<()> {
        let simulated = self.server.cluster(cluster).context("a cluster")?;
        let applied = simulated.apply(object(object_name, data));
        applied.map(drop).map_err(|error| anyhow!("{error:?}"))
    }

    /// Another candidate, which has all objects in line, leads from now on.
    async fn take_over(self, quiet: usize, options: ControllerOptions) -> Result<Self> {
        let second = Candidate::start(&self.server, "second", options)?;
        second.add(&self.server, "alpha")?;
        second.has_in_line("alpha", "", BUSY + quiet).await?;
        self.leader.stop().await?;
        leads(&second.manager).await?;
        Ok(Self {
            server: self.server,
            leader: second,
            round: 0,
        })
    }

    /// Changes all busy objects, waits until each is to run for its change, and lets so many runs end.
    async fn run(&mut self) -> Result<()> {
        self.round += 1;
        let data = json!({"round": self.round.to_string()});
        for busy in names("busy", BUSY) {
            self.apply("alpha", &busy, data.clone())?;
        }
        wait("all changes in line", || {
            let keys = in_line(&self.leader.manager, "alpha", "busy");
            let is_due = |key: &&KeyStatus| match key.queued.state.as_str() {
                "running" => key.queued.dirty,
                _ => key.queued.priority == 0,
            };
            Seen::of(keys.iter().filter(is_due).count(), |due| *due == BUSY)
        })
        .await?;
        self.leader.gate.add_permits(RUNS);
        self.leader.log.ended(self.round * RUNS).await
    }

    /// Runs until each object has run so often, within so many runs of all.
    async fn until(
        &mut self,
        cluster: &str,
        objects: &[String],
        times: usize,
        bound: usize,
    ) -> Result<()> {
        let before = self.round;
        loop {
            let log = &self.leader.log;
            let ran = |object: &&String| log.count(&request(cluster, object)) >= times;
            let ran = objects.iter().filter(ran).count();
            let runs = (self.round - before) * RUNS;
            if ran == objects.len() {
                return Ok(());
            }
            if runs >= bound {
                bail!("{ran} of {} have run after {runs} runs", objects.len());
            }
            self.run().await?;
        }
    }
}

#[tokio::test]
async fn quiet_objects_run_beside_busy_ones_after_a_start_a_reload_and_a_takeover() -> Result<()> {
    const QUIET: usize = 200;
    // One run of four goes to the object that has been ready for longest: docs/limits.md.
    const BOUND: usize = 4 * (BUSY + QUIET);
    let options = ControllerOptions::default;
    let mut rounds = Rounds::start(&["alpha"], QUIET, options()).await?;
    let quiet = names("quiet", QUIET);
    rounds.until("alpha", &quiet, 1, BOUND).await?;

    let test = ControllerName::new("test").expect("a valid name");
    let handle = &rounds.leader.manager.handle;
    let known = handle.resync(&TenantName::default(), &test);
    assert!(known, "the controller is there");
    rounds.leader.has_in_line("alpha", "quiet", QUIET).await?;
    rounds.until("alpha", &quiet, 2, BOUND).await?;

    let mut rounds = rounds.take_over(QUIET, options()).await?;
    rounds.until("alpha", &quiet, 1, BOUND).await?;
    rounds.leader.stop().await
}

#[tokio::test]
async fn a_cluster_that_joins_runs_beside_a_busy_one() -> Result<()> {
    const JOINING: usize = 50;
    // One run of four goes to the cluster whose turn it is. Turns are by slot time, and a run that waits for the next permits has much
    // of that: hence five times as many.
    const BOUND: usize = 5 * 4 * JOINING;
    let options = ControllerOptions {
        concurrency: Some(4),
        ..ControllerOptions::default()
    };
    let mut rounds = Rounds::start(&["alpha", "beta"], 0, options).await?;
    for _ in 0..4 {
        rounds.run().await?;
    }
    let joining = names("joining", JOINING);
    for object_name in &joining {
        rounds.apply("beta", object_name, json!({}))?;
    }
    rounds.leader.add(&rounds.server, "beta")?;
    rounds
        .leader
        .has_in_line("beta", "joining", JOINING)
        .await?;
    rounds.until("beta", &joining, 1, BOUND).await?;
    rounds.leader.stop().await
}
