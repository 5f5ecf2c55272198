//! A whole fleet in one thread, whose every run follows from a seed. Entry point: the tests.
//!
//! Engine, servers and network are those of the other tests, under simulated time and over streams in memory ([`Wire`]). What goes wrong, what
//! changes, how long each message takes and which task runs next follow from the seed: the same seed is the same run, line by line of its log.
//! The [oracle](crate::oracle) judges it.
//!
//! Each seed runs in a process of its own. `./test --simulate N` runs N seeds.

mod guest;
mod log;
mod members;
mod orders;
mod plan;
mod seeds;
mod wire;

use crate::keeper::FAIL;
use crate::oracle;
use crate::rig::{Rig, Setup};
use anyhow::{Context as _, Result, ensure};
use log::Log;
use plan::Plan;
use seeds::{Outcome, Seeds, Task};
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Faults, Server};
use wire::Wire;

/// How long a fleet lives before its faults end.
const LENGTH: Duration = Duration::from_secs(1_200);

/// Seeds that run in `./test`.
const SEEDS: usize = 150;

/// Seeds of sharded fleets that run in `./test`.
const SHARDED_SEEDS: usize = 16;

/// Of those, the ones that run twice, to compare their logs.
const TWICE: usize = 4;

/// The object whose key fails for long.
const FAILING: &str = "failing";

/// Where the guest's component is.
const COMPONENT: &str = "WINDLASS_SIMULATED_COMPONENT";

const NAME: &str = "simulation::every_seed_ends_as_desired_and_is_the_same_run_each_time";

#[test]
fn every_seed_ends_as_desired_and_is_the_same_run_each_time() -> Result<()> {
    let mut seeds = Seeds::of(NAME)?;
    if let Some(task) = Seeds::task()? {
        let plan = Plan::random(task.seed, LENGTH);
        return simulate(&task, plan.len(), async || live(&plan, &task).await);
    }
    seeds.give(COMPONENT, guest::prepare()?);
    tell(&seeds.run(SEEDS, TWICE)?);
    Ok(())
}

const SHARDED: &str = "simulation::every_sharded_fleet_has_one_runner_per_key_whatever_happens";

#[test]
fn every_sharded_fleet_has_one_runner_per_key_whatever_happens() -> Result<()> {
    let seeds = Seeds::of(SHARDED)?;
    if let Some(task) = Seeds::task()? {
        let plan = members::Plan::random(task.seed);
        return simulate(&task, plan.len(), async || {
            members::live(task.seed, &plan, &task.without).await
        });
    }
    tell(&seeds.run(SHARDED_SEEDS, TWICE)?);
    Ok(())
}

fn tell(outcomes: &[Outcome]) {
    let hours: f64 = outcomes.iter().map(|outcome| outcome.hours).sum();
    let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
    println!(
        "{} runs, {hours:.0} fleet-hours in {seconds:.0} s of processor: {:.0} a minute",
        outcomes.len(),
        hours / seconds * 60.0
    );
}

/// One seed, in this process.
fn simulate<L>(task: &Task, steps: usize, live: L) -> Result<()>
where
    L: AsyncFnOnce() -> Result<()> + Send,
{
    let log = Log::install(task.log.as_deref())?;
    Outcome::begin(steps);
    let hours = windlass_seeded::block_on(task.seed, || async {
        live().await?;
        anyhow::Ok(windlass_seeded::elapsed().as_secs_f64() / 3_600.0)
    })??;
    Outcome::print(hours, &log.digest())
}

/// A change is acted on at once, also where a key waits after many failures and nothing else happens.
async fn every_event_counts(rig: &Rig) -> Result<()> {
    for cluster in rig.all() {
        rig.ready(&cluster).await.context("after the faults")?;
        rig.put(&cluster, FAILING, FAIL)?;
    }
    // Not a wait: the keys that fail wait longer and longer meanwhile.
    tokio::time::sleep(LENGTH).await;
    for cluster in rig.all() {
        rig.follows(&cluster, FAILING, "repaired").await?;
    }
    Ok(())
}

/// A fleet from its start to its end.
async fn live(plan: &Plan, task: &Task) -> Result<()> {
    let faults = Arc::new(Faults::seeded(plan.seed));
    let mut setup = Setup::of(&plan.clusters());
    let server = Server::builder().hook(faults.clone());
    let server = plan
        .clusters()
        .iter()
        .fold(server, |server, cluster| server.cluster(*cluster))
        .in_process();
    setup.manager.transport.streams = Some(Arc::new(Wire::new(server.entrance(), plan.seed)));
    setup.parts.clone_from(&plan.parts);
    setup.stays = Duration::from_secs(900);
    let component = std::env::var_os(COMPONENT).context("the guest's component")?;
    let greeter = guest::controller(component.as_ref(), setup.controller.clone()).await?;
    setup.build = Box::new(|builder| builder.controller(greeter));
    let rig = Rig::start_on(server, setup).await?;
    plan.play(&rig, &faults, &task.without).await?;
    faults.clear();
    for cluster in rig.all() {
        rig.join(&cluster)?;
    }
    every_event_counts(&rig).await?;
    guest::all_greeted(&rig).await?;
    // A key that failed all the time waits for as long again.
    let ended = rig.finish_within(oracle::WITHIN + 2 * LENGTH).await;
    ended.context("after the faults")?;
    ensure!(windlass_seeded::elapsed() > LENGTH, "time stood still");
    Ok(())
}
