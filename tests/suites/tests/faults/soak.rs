//! Everything at once, at random: all faults, changes of objects, clusters that come and go. Entry point: the one test.
//!
//! `./test --soak SECONDS --seed N` runs it for longer and with other seeds. What happens follows from the seed; how the engine's
//! tasks meet it does not, so a failure may need more than one run to show again.

use crate::keeper::child_of;
use crate::rig::{Rig, Setup, name};
use anyhow::{Context as _, Result, anyhow};
use fastrand::Rng;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval};
use windlass_apiserver::{Faults, Schedule, Shape};
use windlass_fleet::cluster::Provenance;

const CLUSTERS: usize = 50;
/// Names of marked objects in each cluster.
const OBJECTS: u32 = 6;
/// Time between two things that go wrong in one cluster, on average.
const BETWEEN_FAULTS: Duration = Duration::from_millis(1_500);
const BETWEEN_CHANGES: Duration = Duration::from_millis(4);
const BETWEEN_MOVES: Duration = Duration::from_millis(150);

/// How long and from which seed: set by `./test`.
struct Length {
    time: Duration,
    seed: u64,
}

impl Length {
    fn from_environment() -> Result<Self> {
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => text
                .parse()
                .with_context(|| format!("{name} must be a number, not {text:?}")),
            Err(_) => Ok(default),
        };
        Ok(Self {
            time: Duration::from_secs(number("WINDLASS_SOAK_SECONDS", 5)?),
            seed: number("WINDLASS_SOAK_SEED", 1)?,
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_under_random_faults_and_changes_ends_as_desired() -> Result<()> {
    let length = Length::from_environment()?;
    let (seconds, seed) = (length.time.as_secs(), length.seed);
    println!("soak of {seconds} s with seed {seed}");
    let shape = shape(length.time);
    let schedule = Schedule::random(seed, &shape);
    let outcome = soak(&shape, &schedule, seed).await;
    outcome.map_err(|error| {
        let text = format!("{error:#}");
        let history = history(&schedule, &shape, &text);
        anyhow!("{text}\nagain with: ./test --soak {seconds} --seed {seed}\n{history}")
    })
}

fn shape(time: Duration) -> Shape {
    let steps = time.as_millis() / BETWEEN_FAULTS.as_millis();
    Shape {
        clusters: (0..CLUSTERS).map(|n| format!("c{n:02}")).collect(),
        length: time,
        steps: usize::try_from(steps).unwrap_or(usize::MAX) * CLUSTERS,
    }
}

/// What happened to the clusters that a failure names.
fn history(schedule: &Schedule, shape: &Shape, failure: &str) -> String {
    let named = |cluster: &str| failure.contains(cluster);
    let some = shape.clusters.iter().any(|cluster| named(cluster));
    let mut text = String::new();
    for step in schedule.steps() {
        if some && named(&step.cluster) {
            let _ = writeln!(text, "{step}");
        }
    }
    text
}

async fn soak(shape: &Shape, schedule: &Schedule, seed: u64) -> Result<()> {
    let faults = Arc::new(Faults::seeded(seed));
    let names: Vec<&str> = shape.clusters.iter().map(String::as_str).collect();
    let mut setup = Setup::of(&names).hook(faults.clone());
    setup.manager.transport.call_timeout = Duration::from_secs(2);
    // What takes a minute or ten in production takes seconds here.
    let caches = &mut setup.manager.caches;
    caches.watch_timeout = Duration::from_secs(3);
    caches.multiplexed_watch_timeout = Duration::from_secs(3);
    caches.compare_every = Duration::from_secs(5);
    caches.stale_for = Duration::from_secs(2);
    let rig = Rig::start(setup).await?;
    let until = Instant::now() + shape.length;
    let (_, changed, moved) = tokio::join!(
        schedule.play(&rig.server, &faults),
        change(&rig, Rng::with_seed(seed ^ 1), until),
        come_and_go(&rig, Rng::with_seed(seed ^ 2), until),
    );
    faults.clear();
    changed?;
    moved?;
    for cluster in rig.server.clusters() {
        rig.engage(&cluster)?;
    }
    // A key that failed all the time waits for as long again.
    rig.finish_within(crate::oracle::WITHIN + 2 * shape.length)
        .await
}

/// Changes objects, and children behind the engine's back.
async fn change(rig: &Rig, mut rng: Rng, until: Instant) -> Result<()> {
    let clusters = rig.server.clusters();
    let mut value = 0_u64;
    let mut pace = interval(BETWEEN_CHANGES);
    while Instant::now() < until {
        pace.tick().await;
        let cluster = rng.choice(&clusters).context("no clusters")?;
        let object = format!("o{}", rng.u32(0..OBJECTS));
        value += 1;
        match rng.u8(0..20) {
            0..=13 => rig.put(cluster, &object, &value.to_string())?,
            14..=16 => drop(rig.delete(cluster, &object)),
            17 => drop(rig.delete(cluster, &child_of(&object))),
            _ => {
                let spoilt = json!({"data": {"value": "spoilt"}});
                let child = child_of(&object);
                let at = rig.cluster(cluster);
                drop(at.merge("v1", "ConfigMap", "default", &child, &spoilt));
            }
        }
    }
    Ok(())
}

/// Engages a cluster with a token, or changes the token that it is engaged with.
fn engage_as(rig: &Rig, cluster: &str, token: &str) -> Result<()> {
    let text = json!({"apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": rig.server.url(cluster)}}],
        "users": [{"name": cluster, "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}]});
    rig.engage_with(cluster, &text.to_string(), Provenance::Program)
}

/// Lets clusters go, brings them back, and changes the credentials of those that stay.
async fn come_and_go(rig: &Rig, mut rng: Rng, until: Instant) -> Result<()> {
    let clusters = rig.server.clusters();
    let mut token = 0_u64;
    let mut pace = interval(BETWEEN_MOVES);
    while Instant::now() < until {
        pace.tick().await;
        let cluster = rng.choice(&clusters).context("no clusters")?;
        token += 1;
        match rng.u8(0..3) {
            0 => drop(rig.provider.remove(&name(cluster))),
            1 => rig.engage(cluster)?,
            _ => engage_as(rig, cluster, &format!("token-{token}"))?,
        }
    }
    Ok(())
}
