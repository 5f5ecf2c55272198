//! WASI as guests have it: clocks and random work, and there is nothing else.

use crate::fixture::{Stage, config_map};
use crate::neighbour::beside_a_neighbour;
use anyhow::{Context, Result};
use serde_json::json;
use std::time::{Duration, SystemTime};
use windlass_fleet::outcome::Blame;

#[tokio::test(flavor = "multi_thread")]
async fn clocks_and_random_work_and_there_is_nothing_else() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = stage.guest("test-wasi").config(json!({"way": "look"}));
    let running = builder.run().await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let said = running.failure("alpha", "a").await?.message;
    let (seconds, rest) = said
        .strip_prefix("seconds: ")
        .and_then(|rest| rest.split_once(", "))
        .context("it says the time")?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    assert!(now.as_secs().abs_diff(seconds.parse()?) < 60, "{said}");
    assert_eq!(
        rest,
        "monotonic: true, random: true, environment: [], arguments: [], folders: 0, socket: access-denied"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_sleeps_is_cut_off_at_its_deadline() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = stage
        .guest("test-wasi")
        .name("sleeping")
        .config(json!({"way": "sleep"}))
        .limits(|limits| limits.timeout = Duration::from_millis(500));
    let failure = beside_a_neighbour(&stage, builder).await?;
    assert_eq!((failure.reason, failure.blame), ("timeout", Blame::Guest));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn random_is_given_in_bounded_amounts() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = stage
        .guest("test-wasi")
        .name("gambling")
        .config(json!({"way": "gamble"}));
    let failure = beside_a_neighbour(&stage, builder).await?;
    assert_eq!((failure.reason, failure.blame), ("trap", Blame::Guest));
    Ok(())
}
