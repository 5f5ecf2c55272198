//! Objects that change all the time keep no other object from being reconciled: after a start, a reload, and when a cluster joins.
//! Each run waits for a permit, and all busy objects are ready again before the next permits: so runs are counted, and time does not matter.

use super::fixture::{Log, controller_with, object};
use anyhow::{Result, bail};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::manager::{KeyFilter, KeyStatus};
use windlass_fleet::{Action, Controller, ControllerName, TenantName};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};

const BUSY: usize = 200;
/// Runs from one change of all busy objects to the next: less than there are busy objects, so that one of them is always ready.
const RUNS: usize = 100;

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

fn in_line(fleet: &TestFleet, cluster: &str, prefix: &str) -> Vec<KeyStatus> {
    let filter = KeyFilter {
        cluster: Some(name(cluster)),
        ..KeyFilter::default()
    };
    let mut keys = fleet.handle.keys(&filter);
    keys.retain(|key| key.queued.request.key.name.starts_with(prefix));
    keys
}

/// A fleet whose busy objects, in the cluster alpha, change before each round of runs.
struct Rounds {
    fleet: TestFleet,
    log: Arc<Log>,
    gate: Arc<Semaphore>,
    round: usize,
}

impl Rounds {
    async fn start(clusters: &[&str], quiet: usize, options: ControllerOptions) -> Result<Self> {
        let (log, gate) = (Arc::new(Log::default()), Arc::new(Semaphore::new(0)));
        let controller = gated(&log, &gate, options);
        let fleet = TestFleet::start(clusters, |b| b.controller(controller)).await?;
        for object_name in names("busy", BUSY).iter().chain(&names("quiet", quiet)) {
            fleet.apply("alpha", object(object_name, json!({})))?;
        }
        fleet.engage("alpha").await?;
        wait("all objects in line", || {
            let keys = in_line(&fleet, "alpha", "");
            Seen::of(keys.len(), |keys| *keys == BUSY + quiet)
        })
        .await?;
        Ok(Self {
            fleet,
            log,
            gate,
            round: 0,
        })
    }

    /// Changes all busy objects, waits until each is to run for its change, and lets so many runs end.
    async fn run(&mut self) -> Result<()> {
        self.round += 1;
        let data = json!({"round": self.round.to_string()});
        for busy in names("busy", BUSY) {
            self.fleet.apply("alpha", object(&busy, data.clone()))?;
        }
        wait("all changes in line", || {
            let keys = in_line(&self.fleet, "alpha", "busy");
            let is_due = |key: &&KeyStatus| match key.queued.state.as_str() {
                "running" => key.queued.dirty,
                _ => key.queued.priority == 0,
            };
            Seen::of(keys.iter().filter(is_due).count(), |due| *due == BUSY)
        })
        .await?;
        self.gate.add_permits(RUNS);
        self.log.ended(self.round * RUNS).await
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
            let ran = |object: &&String| self.log.count(&request(cluster, object)) >= times;
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
async fn quiet_objects_run_beside_busy_ones_after_a_start_and_after_a_reload() -> Result<()> {
    const QUIET: usize = 200;
    // One run of four goes to the object that has been ready for longest: docs/limits.md.
    const BOUND: usize = 4 * (BUSY + QUIET);
    let mut rounds = Rounds::start(&["alpha"], QUIET, ControllerOptions::default()).await?;
    let quiet = names("quiet", QUIET);
    rounds.until("alpha", &quiet, 1, BOUND).await?;

    let test = ControllerName::new("test").expect("a valid name");
    let known = rounds.fleet.handle.resync(&TenantName::default(), &test);
    assert!(known, "the controller is there");
    wait("the quiet objects in line again", || {
        let keys = in_line(&rounds.fleet, "alpha", "quiet");
        Seen::of(keys.len(), |keys| *keys == QUIET)
    })
    .await?;
    rounds.until("alpha", &quiet, 2, BOUND).await?;
    rounds.gate.add_permits(100_000);
    rounds.fleet.stop().await
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
        let object = object(object_name, json!({}));
        rounds.fleet.apply("beta", object)?;
    }
    rounds.fleet.engage("beta").await?;
    wait("the objects of the cluster that joins", || {
        let keys = in_line(&rounds.fleet, "beta", "joining");
        Seen::of(keys.len(), |keys| *keys == JOINING)
    })
    .await?;
    rounds.until("beta", &joining, 1, BOUND).await?;
    rounds.gate.add_permits(100_000);
    rounds.fleet.stop().await
}
