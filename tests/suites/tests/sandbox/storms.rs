//! Guests that do far too much of what is allowed, and mappers that fail.

use crate::fixture::{Setup, Stage, config_map, rule};
use crate::neighbour::beside_a_neighbour;
use anyhow::Result;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use windlass_fleet::manager::{HotKeyLimit, KeyFilter, ManagerOptions};
use windlass_fleet::outcome::Blame;
use windlass_harness::eventually::{Seen, wait};

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_reads_of_a_cache_in_one_run_end_at_its_limit() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = stage
        .guest("test-storm")
        .config(json!({"live": false}))
        // It is the number of calls that ends it, also where others compute beside it.
        .limits(|limits| limits.timeout = Duration::from_secs(60));
    let failure = beside_a_neighbour(&stage, builder).await?;
    assert_eq!((failure.reason, failure.blame), ("error", Blame::Guest));
    assert!(
        failure.message.starts_with("call 10001: limit-exceeded"),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_calls_of_an_api_server_in_one_run_end_with_it() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = stage
        .guest("test-storm")
        .name("storms-a-server")
        .config(json!({"live": true}))
        .limits(|limits| limits.timeout = Duration::from_secs(3));
    let failure = beside_a_neighbour(&stage, builder).await?;
    assert_eq!(failure.blame, Blame::Guest);
    let limits = ["raise limits.timeout", "cancelled", "limit-exceeded"];
    assert!(
        limits.iter().any(|limit| failure.message.contains(limit)),
        "{failure}"
    );
    Ok(())
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}})
}

/// Has `test-mapping` map an event badly while a neighbour greets; `seen` says when it has.
async fn mapping(way: &str, seen: impl Fn(&windlass_sandbox::GuestStatus) -> bool) -> Result<()> {
    let stage = Stage::start(&["alpha", "gamma"]).await?;
    let name = format!("mapping-{way}");
    let mapping = stage
        .guest("test-mapping")
        .name(&name)
        .config(json!({"way": way}))
        .rules(vec![rule("", &["secrets"], &["get", "list", "watch"], "*")])
        .limits(|limits| limits.timeout = Duration::from_secs(1))
        .run()
        .await?;
    let hello = stage
        .guest("hello")
        .name(&format!("beside-{name}"))
        .run()
        .await?;
    stage.apply("alpha", secret("s"))?;
    for name in ["a", "b"] {
        stage.apply("alpha", config_map(name, json!({})))?;
        hello
            .outcome("alpha", name)
            .await?
            .expect("the neighbour greets");
    }
    wait("the mapping to go wrong", || {
        Seen::of(mapping.guest.status(), &seen)
    })
    .await?;
    assert_eq!(mapping.runs(), 0, "nothing was asked for");
    mapping.leave(&stage).await;
    wait("its memory back", || {
        Seen::of(mapping.guest.status().tenant_memory, |used| *used == 0)
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_clusters_that_are_none_or_not_granted_are_dropped() -> Result<()> {
    mapping("forge", |status| status.requests_dropped > 0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_that_loops_traps_or_floods_is_tried_again_and_disturbs_nobody() -> Result<()> {
    for (way, said) in [
        ("loop", "no result within 1s"),
        ("trap", "no way to map this"),
        ("flood", "more than 2 MiB"),
        ("huge", "a request of no object"),
    ] {
        let name = format!("mapping-{way}");
        mapping(way, |_| !crate::logs::lines(&name, said).is_empty()).await?;
    }
    Ok(())
}

/// Where a guest that sets itself off may touch anything.
const STORMY: &str = "stormy";

/// Runs a guest that has itself run again without end, beside a neighbour, until it is held back to some runs per second, and has the
/// neighbour work while it is. The log, the metrics and the keys name the reconciler.
async fn held_back(name: &str, config: Value, per_second: f64, state: &'static str) -> Result<()> {
    let manager = ManagerOptions {
        // Little, so that a machine that is busy with other things gets there too.
        hot_key: HotKeyLimit {
            per_second: 20,
            burst: 100,
        },
        ..ManagerOptions::default()
    };
    let setup = Setup {
        manager,
        ..Setup::default()
    };
    let stage = Stage::with(&["alpha"], setup).await?;
    stage.apply(
        "alpha",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STORMY}}),
    )?;
    let beside = format!("beside-{name}");
    let hello = stage.guest("hello").name(&beside).run().await?;
    let running = stage
        .guest("test-requeue")
        .name(name)
        .config(config)
        .rules(vec![rule("", &["configmaps"], &["*"], STORMY)])
        .run()
        .await?;
    stage.apply(
        "alpha",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hot", "namespace": STORMY}}),
    )?;

    let told = || crate::logs::lines(name, "a key asks to run without end");
    wait("the storm to be reported", || {
        Seen::of((told(), running.runs()), |(lines, _)| !lines.is_empty())
    })
    .await?;
    let (before, began) = (running.runs(), Instant::now());
    // It is held back, and not stopped.
    let (mut longest, mut served) = (Duration::ZERO, 0);
    while began.elapsed() < Duration::from_secs(2) || served < 10 || running.runs() == before {
        let (object, asked) = (format!("m{served}"), Instant::now());
        stage.apply("alpha", config_map(&object, json!({})))?;
        hello
            .outcome("alpha", &object)
            .await?
            .expect("the neighbour greets");
        longest = longest.max(asked.elapsed());
        served += 1;
    }
    let (runs, time) = (running.runs() - before, began.elapsed().as_secs_f64());
    // A run at each end of that time may be one more.
    let most = per_second * time + 2.0;
    assert!(runs as f64 <= most, "{runs} runs in {time} s: {most}");
    assert!(longest < Duration::from_secs(20), "{longest:?}");
    assert_eq!(hello.failures(), Vec::<String>::new());
    assert_eq!(running.failures(), Vec::<String>::new());

    let lines = told();
    assert_eq!(lines.len(), 1, "one line, however long it lasts: {lines:?}");
    for part in [
        "WARN".to_owned(),
        format!("tenant=tenant-of-{name}"),
        "cluster=alpha".to_owned(),
        "namespace=\"stormy\"".to_owned(),
        "name=\"hot\"".to_owned(),
    ] {
        assert!(lines[0].contains(&part), "{part} in {}", lines[0]);
    }
    let storms = |of: &str| stage.metric("windlass_queue_storms_total", of);
    assert!(storms(name)? > Some(0.0), "{:?}", storms(name)?);
    assert_eq!(storms(&beside)?, Some(0.0), "of the other one");
    wait("its key, by its reconciler", || {
        let keys = stage.handle.keys(&KeyFilter::default());
        let hot = keys
            .iter()
            .find(|key| key.queued.request.to_string().ends_with("/hot"));
        let seen = hot.map(|key| (key.controller.to_string(), key.queued.state.as_str()));
        Seen::of(seen, |seen| *seen == Some((name.to_owned(), state)))
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_writes_to_what_it_watches_in_every_run_is_held_back_and_disturbs_nobody()
-> Result<()> {
    // Each of its runs is asked for during the one before, and counts ten times.
    held_back("sets-itself-off", json!({"counts": true}), 2.0, "throttled").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_asks_to_run_at_once_for_ever_is_held_back_and_disturbs_nobody() -> Result<()>
{
    // Each of its runs is asked for sooner than a key may, and counts twenty times.
    held_back("asks-for-ever", json!({"after": 0}), 1.0, "delayed").await
}
