//! Which keys run, how often, and never twice at once.

use super::fixture::{
    Log, bytes, client, config_map, controller, controller_with, key, object, recording,
};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use windlass_fleet::api::{PatchType, WriteOptions};
use windlass_fleet::backoff::Backoff;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::{Action, Context, Failure, Grant};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

#[tokio::test]
async fn every_existing_object_is_reconciled_once_with_its_cluster() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(recording(&log))).await?;
    for cluster in ["alpha", "beta"] {
        for name in ["a", "b", "c"] {
            fleet.apply(cluster, object(name, json!({})))?;
        }
    }
    fleet.engage("alpha").await?;
    fleet.engage("beta").await?;
    wait("an idle queue", || Seen::of(log.total(), |n| *n >= 6)).await?;
    assert!(fleet.handle.idle().await.idle);
    for cluster in ["alpha", "beta"] {
        for name in ["a", "b", "c"] {
            assert_eq!(log.count(&request(cluster, name)), 1, "{cluster}/{name}");
        }
    }
    fleet.stop().await
}

#[tokio::test]
async fn a_created_object_is_reconciled_and_an_emptied_one_is_repaired() -> Result<()> {
    let log = Arc::new(Log::default());
    let repair = controller(&log, |context| async move {
        let client = context.client(&Arc::new(Grant::all()));
        let patch = bytes(&json!({"data": {"stomach": "food"}}));
        let key = context.request.key.clone();
        client
            .patch(
                &config_map(),
                &key,
                PatchType::Merge,
                patch,
                &WriteOptions::default(),
            )
            .await?;
        Ok(Action::Done)
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(repair)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("animal", json!({})))?;
    let cluster = fleet.ready("alpha").await?;
    let fed = || async {
        let now = super::fixture::get(
            &client(&cluster),
            "animal",
            windlass_fleet::api::ReadMode::Live,
        )
        .await?;
        Ok(Seen::of(now, |now| {
            now.as_ref().is_some_and(|o| o["data"]["stomach"] == "food")
        }))
    };
    windlass_harness::eventually(windlass_harness::eventually::DEADLINE, "a fed animal", fed)
        .await?;
    let empty = bytes(&json!({"data": {"stomach": null}}));
    client(&cluster)
        .patch(
            &config_map(),
            &key("animal"),
            PatchType::Merge,
            empty,
            &WriteOptions::default(),
        )
        .await?;
    windlass_harness::eventually(
        windlass_harness::eventually::DEADLINE,
        "an animal fed again",
        fed,
    )
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn the_same_name_in_two_clusters_is_two_keys_and_no_key_runs_twice_at_once() -> Result<()> {
    let log = Arc::new(Log::default());
    let slow = controller(&log, |_| async {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        Ok(Action::Done)
    });
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(slow)).await?;
    fleet.engage("alpha").await?;
    fleet.engage("beta").await?;
    for round in 0..40 {
        for cluster in ["alpha", "beta"] {
            fleet.apply(cluster, object("same", json!({"round": round.to_string()})))?;
        }
        tokio::task::yield_now().await;
    }
    log.ran(&request("alpha", "same"), 2).await?;
    log.ran(&request("beta", "same"), 2).await?;
    assert!(!log.overlapped());
    fleet.stop().await
}

#[tokio::test]
async fn an_event_during_a_run_runs_the_key_again() -> Result<()> {
    let log = Arc::new(Log::default());
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = gate.clone();
    let held = controller(&log, move |_| {
        let gate = waiting.clone();
        async move {
            gate.acquire().await.expect("never closed").forget();
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(held)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({"n": "1"})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    fleet.apply("alpha", object("a", json!({"n": "2"})))?;
    let cluster = fleet.ready("alpha").await?;
    let seen = || async {
        let now = super::fixture::get(
            &client(&cluster),
            "a",
            windlass_fleet::api::ReadMode::Cached,
        )
        .await?;
        Ok(Seen::of(now, |now| {
            now.as_ref().is_some_and(|o| o["data"]["n"] == "2")
        }))
    };
    windlass_harness::eventually(
        windlass_harness::eventually::DEADLINE,
        "the second event in the cache",
        seen,
    )
    .await?;
    assert_eq!(
        log.count(&request("alpha", "a")),
        1,
        "the key must not run twice at once"
    );
    gate.add_permits(2);
    log.ran(&request("alpha", "a"), 2).await?;
    assert!(!log.overlapped());
    fleet.stop().await
}

#[tokio::test]
async fn a_failure_is_retried_a_terminal_one_waits_and_a_panic_is_one_failed_run() -> Result<()> {
    let log = Arc::new(Log::default());
    let tries = Arc::new(AtomicUsize::new(0));
    let counting = tries.clone();
    let failing = controller(&log, move |context| {
        let tries = counting.clone();
        async move {
            match &*context.request.key.name {
                "retry" if tries.fetch_add(1, Ordering::SeqCst) < 2 => {
                    Err(Failure::retry("not yet"))
                }
                "terminal" => Err(Failure::terminal("never")),
                "panic" if context.attempt() == 1 => panic!("oh"),
                _ => Ok(Action::Done),
            }
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(failing)).await?;
    for name in ["retry", "terminal", "panic"] {
        fleet.apply("alpha", object(name, json!({})))?;
    }
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "retry"), 3).await?;
    log.ran(&request("alpha", "panic"), 2).await?;
    log.ran(&request("alpha", "terminal"), 1).await?;
    let idle = wait_idle(&fleet).await?;
    assert_eq!(log.count(&request("alpha", "terminal")), 1);
    let [terminal] = &idle.terminal[..] else {
        panic!("{idle:?}")
    };
    let failure = terminal.queued.last_failure.as_ref();
    let failure = failure.map(|failure| (&*failure.message, failure.blame.as_str()));
    assert_eq!(failure, Some(("never", "guest")));
    fleet.apply("alpha", object("terminal", json!({"event": "new"})))?;
    log.ran(&request("alpha", "terminal"), 2).await?;
    fleet.stop().await
}

pub(crate) async fn wait_idle(fleet: &TestFleet) -> Result<windlass_fleet::manager::Idle> {
    windlass_harness::eventually(
        windlass_harness::eventually::DEADLINE,
        "an idle manager",
        || async {
            let idle = fleet.handle.idle().await;
            Ok(if idle.idle {
                Seen::Yes(idle)
            } else {
                Seen::NotYet(format!("{:?}", idle.busy))
            })
        },
    )
    .await
}

#[tokio::test]
async fn a_run_that_overruns_its_deadline_fails_and_is_retried() -> Result<()> {
    let log = Arc::new(Log::default());
    let logged = log.clone();
    let reconcile = move |context: Context| {
        let log = logged.clone();
        async move {
            log.enter(&context.request);
            if context.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            Ok(Action::Done)
        }
    };
    let options = ControllerOptions {
        timeout: Duration::from_millis(200),
        ..Default::default()
    };
    let hanging = super::fixture::builder()
        .options(options)
        .build(Arc::new(reconcile))?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(hanging)).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 2).await?;
    wait_idle(&fleet).await?;
    fleet.stop().await
}

#[tokio::test]
async fn an_event_runs_a_key_that_waits_for_its_time() -> Result<()> {
    const HOUR: Duration = Duration::from_secs(3600);
    let log = Arc::new(Log::default());
    let options = ControllerOptions {
        backoff: Backoff::new(HOUR, HOUR),
        ..ControllerOptions::default()
    };
    let waiting = controller_with(&log, options, |context: Context| async move {
        match &*context.request.key.name {
            "later" => Ok(Action::RequeueAfter(HOUR)),
            "failed" => Err(Failure::retry("not yet")),
            _ => Err(Failure::terminal("never")),
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(waiting)).await?;
    fleet.engage("alpha").await?;
    for (at, name) in ["later", "failed", "never"].into_iter().enumerate() {
        fleet.apply("alpha", object(name, json!({})))?;
        log.ran(&request("alpha", name), 1).await?;
        // Nothing else happens that somebody would be woken for.
        wait("a key that waits", || {
            let told = &fleet.handle.controllers()[0];
            let waits = told.delayed + told.backoff + told.terminal;
            Seen::of((waits, told.running), |now| *now == (at + 1, 0))
        })
        .await?;
        fleet.apply("alpha", object(name, json!({"changed": "yes"})))?;
        log.ran(&request("alpha", name), 2).await?;
    }
    fleet.stop().await
}
