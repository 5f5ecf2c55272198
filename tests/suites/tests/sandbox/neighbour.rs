//! A guest that misbehaves beside one of another tenant that does not. Entry points: [`beside_a_neighbour`] and
//! [`well_beside_a_neighbour`].

use crate::fixture::{GuestBuilder, RunningGuest, Stage, config_map};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::time::Duration;
use windlass_fleet::{Action, Failure};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::footprint::Footprint;

/// ConfigMaps that both guests work at, before and while the one misbehaves.
const EARLY: [&str; 2] = ["early-a", "early-b"];
const LATE: [&str; 4] = ["a", "b", "c", "d"];

/// Runs of the second time: more than connections come and go by themselves.
const AGAIN: usize = 4;

/// Runs a guest beside a neighbour until it has failed at the ConfigMap `a`, and returns how. What the neighbour has to do meanwhile is
/// done, all of it and right, in runs that all succeed; and what the guest took is given back when it goes.
pub(crate) async fn beside_a_neighbour(
    stage: &Stage,
    builder: GuestBuilder<'_>,
) -> Result<Failure> {
    let outcome = outcome_beside_a_neighbour(stage, builder).await?;
    outcome.err().context("the run succeeded")
}

/// As [`beside_a_neighbour`], for a guest that does too much and succeeds.
pub(crate) async fn well_beside_a_neighbour(
    stage: &Stage,
    builder: GuestBuilder<'_>,
) -> Result<Action> {
    let outcome = outcome_beside_a_neighbour(stage, builder).await?;
    outcome.map_err(anyhow::Error::msg)
}

async fn outcome_beside_a_neighbour(
    stage: &Stage,
    builder: GuestBuilder<'_>,
) -> Result<Result<Action, Failure>> {
    let neighbour = format!("beside-{}", builder.called());
    let neighbour = stage.guest("hello").name(&neighbour);
    // How soon is measured elsewhere: here the whole machine may be busy.
    let neighbour = neighbour.limits(|limits| limits.timeout = Duration::from_secs(60));
    let neighbour = neighbour.run().await?;
    give(stage, &EARLY)?;
    greeted(stage, &EARLY).await?;

    let misbehaving = builder.run().await?;
    give(stage, &LATE)?;
    let outcome = misbehaving.outcome("alpha", "a").await?;
    greeted(stage, &LATE).await?;
    for name in EARLY.iter().chain(&LATE) {
        neighbour
            .outcome("alpha", name)
            .await?
            .expect("the neighbour greets");
    }
    assert_eq!(neighbour.failures(), Vec::<String>::new());

    misbehaving.leave(stage).await;
    gave_back(&misbehaving, &neighbour).await?;
    // What clusters keep for a while, such as a cache, was begun by the first time: a second one adds nothing.
    let before = Footprint::now(&[])?.tasks;
    let alike = || match &outcome {
        Ok(_) => misbehaving.runs() - misbehaving.failures().len(),
        Err(_) => misbehaving.failures().len(),
    };
    let runs = alike();
    misbehaving.put(stage)?;
    wait("it to misbehave again", || {
        Seen::of(alike(), |now| *now >= runs + AGAIN)
    })
    .await?;
    misbehaving.leave(stage).await;
    gave_back(&misbehaving, &neighbour).await?;
    wait("as many tasks as before", || match Footprint::now(&[]) {
        Ok(now) => Seen::of(now.tasks, |tasks| *tasks < before + AGAIN),
        Err(error) => Seen::NotYet(error.to_string()),
    })
    .await?;
    Ok(outcome)
}

fn give(stage: &Stage, names: &[&str]) -> Result<()> {
    names
        .iter()
        .try_for_each(|name| stage.apply("alpha", config_map(name, json!({}))))
}

async fn greeted(stage: &Stage, names: &[&str]) -> Result<()> {
    for name in names {
        let right = |data: &serde_json::Value| data["greeting"] == "hello, world, from alpha";
        stage
            .data("alpha", &format!("{name}-greeting"), right)
            .await?;
    }
    Ok(())
}

/// Waits until the tenants of both have their memory back.
async fn gave_back(misbehaving: &RunningGuest, neighbour: &RunningGuest) -> Result<()> {
    for running in [misbehaving, neighbour] {
        wait("a tenant's memory back", || {
            Seen::of(running.guest.status().tenant_memory, |used| *used == 0)
        })
        .await?;
    }
    Ok(())
}
