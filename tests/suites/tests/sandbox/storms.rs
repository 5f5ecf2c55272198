//! Guests that do far too much of what is allowed, and mappers that fail.

use crate::fixture::{Stage, config_map, rule, wait};
use crate::neighbour::beside_a_neighbour;
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;
use windlass_fleet::outcome::Blame;
use windlass_harness::eventually::Seen;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_reads_of_a_cache_in_one_run_end_at_its_limit() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let cast = stage.guest("test-storm").config(json!({"live": false}));
    let failure = beside_a_neighbour(&stage, cast).await?;
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
    let cast = stage
        .guest("test-storm")
        .name("storms-a-server")
        .config(json!({"live": true}))
        .limits(|limits| limits.timeout = Duration::from_secs(3));
    let failure = beside_a_neighbour(&stage, cast).await?;
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
    stage.put("alpha", secret("s"))?;
    for name in ["a", "b"] {
        stage.put("alpha", config_map(name, json!({})))?;
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
    ] {
        let name = format!("mapping-{way}");
        mapping(way, |_| !crate::logs::lines(&name, said).is_empty()).await?;
    }
    Ok(())
}
