//! Clusters that come and go.

use super::fixture::{Log, bytes, client, config_map, controller, key, object, recording};
use super::keys::wait_idle;
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_fleet::api::{ApiCode, GetOptions, PatchType, ReadMode, WriteOptions};
use windlass_fleet::{Action, Failure, Grant};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};

#[tokio::test]
async fn after_a_disengage_no_event_reaches_the_queue_watches_close_and_keys_vanish() -> Result<()>
{
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(recording(&log))).await?;
    fleet.engage("alpha").await?;
    fleet.engage("beta").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    wait("an open watch", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 1)
    })
    .await?;
    fleet.provider.remove(&name("alpha"));
    wait("closed watches", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 0)
    })
    .await?;
    fleet.apply("alpha", object("late", json!({})))?;
    // The other cluster's event comes after it, and has been handled when it is looked at.
    fleet.apply("beta", object("b", json!({})))?;
    log.ran(&request("beta", "b"), 1).await?;
    assert_eq!(log.count(&request("alpha", "late")), 0);
    assert!(
        fleet
            .handle
            .keys(&windlass_fleet::manager::KeyFilter::default())
            .iter()
            .all(|key| !key.queued.request.to_string().contains("alpha"))
    );
    assert!(
        fleet
            .handle
            .clusters()
            .iter()
            .all(|cluster| cluster.name != "alpha")
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_run_of_a_cluster_that_leaves_is_cancelled_and_counts_as_done() -> Result<()> {
    let log = Arc::new(Log::default());
    let seen = Arc::new(parking_lot::Mutex::new(None));
    let noted = seen.clone();
    let hanging = controller(&log, move |context| {
        let noted = noted.clone();
        async move {
            context.cancelled().cancelled().await;
            let client = context.client(&Arc::new(Grant::all()));
            let answer = client
                .get(&config_map(), &context.request.key, &GetOptions::default())
                .await;
            *noted.lock() = answer.err().map(|error| error.code);
            Err(Failure::retry("the cluster has left"))
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(hanging)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    fleet.provider.remove(&name("alpha"));
    let code = wait("an answer to the run's call", || match *seen.lock() {
        Some(code) => Seen::Yes(code),
        None => Seen::NotYet("none".into()),
    })
    .await?;
    assert!(
        matches!(code, ApiCode::ClusterGone | ApiCode::Cancelled),
        "{code:?}"
    );
    wait_idle(&fleet).await?;
    assert_eq!(
        log.count(&request("alpha", "a")),
        1,
        "a failure after the end must not be retried"
    );
    fleet.stop().await
}

#[tokio::test]
async fn engaging_the_same_again_changes_nothing() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let before = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    fleet.add("alpha")?;
    fleet.apply("alpha", object("b", json!({})))?;
    log.ran(&request("alpha", "b"), 1).await?;
    let after = fleet.ready("alpha").await?;
    assert!(Arc::ptr_eq(&before, &after));
    assert_eq!(log.count(&request("alpha", "a")), 1);
    assert_eq!(fleet.simulated("alpha").watchers(), 1);
    fleet.stop().await
}

#[tokio::test]
async fn another_server_under_the_same_name_replaces_the_cluster_and_no_event_is_handled_twice()
-> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "other"], |b| b.controller(recording(&log))).await?;
    let before = fleet.engage("alpha").await?;
    fleet.apply("other", object("new", json!({})))?;
    let mut spec = fleet.spec("other")?;
    spec.name = name("alpha");
    fleet.provider.put(spec);
    log.ran(&request("alpha", "new"), 1).await?;
    wait("the old server's watches to close", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 0)
    })
    .await?;
    let after = fleet.ready("alpha").await?;
    assert!(!Arc::ptr_eq(&before, &after));
    fleet.apply("alpha", object("old", json!({})))?;
    fleet.apply("other", object("newer", json!({})))?;
    log.ran(&request("alpha", "newer"), 1).await?;
    wait_idle(&fleet).await?;
    assert_eq!(
        (
            log.count(&request("alpha", "old")),
            log.count(&request("alpha", "newer"))
        ),
        (0, 1)
    );
    fleet.stop().await
}

/// One unreachable among several clusters: the others are engaged in their usual time, it is retried and reported, and is engaged
/// without a restart once it returns. The same on real servers: `faults::real`.
#[tokio::test]
async fn a_cluster_that_is_down_costs_the_others_nothing_and_joins_when_it_is_back() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(recording(&log))).await?;
    fleet.simulated("alpha").down(true);
    fleet.add("alpha")?;
    fleet.apply("beta", object("b", json!({})))?;
    fleet.engage("beta").await?;
    log.ran(&request("beta", "b"), 1).await?;
    let alpha = fleet
        .handle
        .fleet()
        .cluster(&name("alpha"))
        .expect("engaged though it is down");
    assert_eq!(alpha.status().state.as_str(), "Connecting");
    assert!(
        alpha.status().reason.contains("cannot reach"),
        "{}",
        alpha.status().reason
    );
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.simulated("alpha").down(false);
    log.ran(&request("alpha", "a"), 1).await?;
    fleet.stop().await
}

#[tokio::test]
async fn keys_of_a_cluster_that_is_lost_wait_until_it_is_back() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let alpha = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    fleet.simulated("alpha").down(true);
    fleet.simulated("alpha").cut_watches();
    wait("a degraded cluster", || {
        Seen::of(alpha.status().state.as_str(), |state| *state == "Degraded")
    })
    .await?;
    fleet.simulated("alpha").down(false);
    fleet.apply("alpha", object("b", json!({})))?;
    log.ran(&request("alpha", "b"), 1).await?;
    wait("a ready cluster", || {
        Seen::of(alpha.status().state.as_str(), |state| *state == "Ready")
    })
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_write_in_flight_is_awaited_before_the_key_runs_again() -> Result<()> {
    let log = Arc::new(Log::default());
    let first = Arc::new(AtomicBool::new(true));
    let writing = controller(&log, move |context| {
        let first = first.swap(false, Ordering::SeqCst);
        async move {
            let client = context.client(&Arc::new(Grant::all()));
            let value = if first { "abandoned" } else { "kept" };
            let patch = bytes(&json!({"metadata": {"annotations": {"write": value}}}));
            let (kind, key, options) = (
                config_map(),
                context.request.key.clone(),
                WriteOptions::default(),
            );
            let write = client.patch(&kind, &key, PatchType::Merge, patch, &options);
            if first {
                // The call is polled once, which sends it, and then abandoned.
                assert!(futures::poll!(std::pin::pin!(write)).is_pending());
                return Err(Failure::retry("abandoned"));
            }
            write.await?;
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(writing)).await?;
    let cluster = fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 2).await?;
    wait_idle(&fleet).await?;
    let now = client(&cluster)
        .get(
            &config_map(),
            &key("a"),
            &GetOptions {
                mode: ReadMode::Live,
                ..Default::default()
            },
        )
        .await?;
    let now: serde_json::Value = serde_json::from_slice(&now.expect("it is there"))?;
    assert_eq!(
        now["metadata"]["annotations"]["write"], "kept",
        "the abandoned write must not land after the second run's"
    );
    fleet.stop().await
}
