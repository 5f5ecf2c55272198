//! What keeps keys waiting, and what a cluster and a reconciler say of it. Entry points: the tests.

use super::faults::{Faults, refusal};
use super::fixture::{Log, builder, builder_of, logged, object, recording};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_fleet::cluster::ClusterState;
use windlass_fleet::{Action, Controller, GroupVersionKind};
use windlass_harness::fleet::{TestFleet, request};

fn problems(fleet: &TestFleet, controller: &str) -> Vec<String> {
    let all = fleet.handle.controllers();
    let of = all.into_iter().find(|status| status.name == controller);
    of.map(|status| status.problems).unwrap_or_default()
}

fn of_secrets(log: &Arc<Log>) -> Controller {
    logged(builder_of("secrets", "Secret"), log, |_| async {
        Ok(Action::Done)
    })
}

#[tokio::test]
async fn a_cluster_whose_only_watch_is_forbidden_is_not_ready_and_says_why() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    faults.on_request(|call| (call.resource == "secrets").then(|| refusal(403, "Forbidden")));
    let secrets = of_secrets(&log);
    let fleet =
        TestFleet::start_with(faults.clone(), &["alpha"], |b| b.controller(secrets)).await?;
    fleet.add("alpha")?;
    let status = fleet.reaches("alpha", ClusterState::Degraded).await?;
    assert!(status.reason.contains("v1/Secret: forbidden"), "{status:?}");
    let problems = problems(&fleet, "secrets");
    assert!(
        problems.len() == 1 && problems[0].contains("alpha: v1/Secret: forbidden"),
        "{problems:?}"
    );
    let text = fleet.metrics()?;
    for line in [
        r#"windlass_cluster_ready{cluster="alpha"} 0"#,
        r#"reconciler="secrets"} 1"#,
    ] {
        let failing = text.lines().find(|text| {
            text.contains(line) && (text.contains("_ready{") || text.contains("_watches_failing{"))
        });
        assert!(failing.is_some(), "{line}: {text}");
    }
    faults.heal();
    fleet.ready("alpha").await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_kind_that_is_refused_or_fails_degrades_the_cluster_and_keeps_no_key_waiting()
-> Result<()> {
    for (code, reason) in [(403, "Forbidden"), (503, "ServiceUnavailable")] {
        let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
        faults.on_request(move |call| (call.resource == "secrets").then(|| refusal(code, reason)));
        let secrets = of_secrets(&Arc::default());
        let fleet = TestFleet::start_with(faults, &["alpha"], |b| {
            b.controller(recording(&log)).controller(secrets)
        })
        .await?;
        for n in 0..20 {
            fleet.apply("alpha", object(&format!("a{n}"), json!({})))?;
        }
        fleet.add("alpha")?;
        let status = fleet.reaches("alpha", ClusterState::Degraded).await?;
        assert!(status.reason.contains("v1/Secret"), "{status:?}");
        assert!(status.usable, "for all that do not use this watch");
        for n in 0..20 {
            log.ran(&request("alpha", &format!("a{n}")), 1).await?;
        }
        assert!(problems(&fleet, "test").is_empty());
        fleet.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_key_waits_for_its_own_controllers_caches_and_for_nobody_elses() -> Result<()> {
    let (own, other) = (Arc::new(Log::default()), Arc::new(Log::default()));
    let (faults, stuck) = (Arc::new(Faults::default()), Arc::new(AtomicBool::new(true)));
    let is_stuck = stuck.clone();
    faults.on_request(move |call| {
        let fails = call.resource == "secrets" && is_stuck.load(Ordering::SeqCst);
        fails.then(|| refusal(503, "ServiceUnavailable"))
    });
    // Its caches of ConfigMaps are filled at once, that of Secrets is not.
    let both = logged(
        builder().owns_kind(GroupVersionKind::new("", "v1", "Secret")),
        &own,
        |_| async { Ok(Action::Done) },
    );
    let single = logged(builder_of("single", "ConfigMap"), &other, |_| async {
        Ok(Action::Done)
    });
    let fleet = TestFleet::start_with(faults, &["alpha"], |b| {
        b.controller(both).controller(single)
    })
    .await?;
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.add("alpha")?;
    other.ran(&request("alpha", "a"), 1).await?;
    assert_eq!(
        own.total(),
        0,
        "not before all of its own caches are filled"
    );
    stuck.store(false, Ordering::SeqCst);
    own.ran(&request("alpha", "a"), 1).await?;
    fleet.stop().await
}
