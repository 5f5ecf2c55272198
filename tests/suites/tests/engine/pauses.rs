//! Objects, reconcilers, tenants and clusters that are paused: their keys wait, deletions go on, and all runs when the pause ends.

use super::fixture::{Log, builder, logged, recording};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use windlass_fleet::manager::{KeyFilter, KeyState, PauseError, PauseSet};
use windlass_fleet::paused::{DELETIONS, End, Pause, PauseOf, REASON, RESUMED, UNTIL};
use windlass_fleet::predicate::Predicate;
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{Action, Controller, ControllerName, TenantName};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};

const HOUR: Duration = Duration::from_secs(3600);

/// A ConfigMap with these annotations and this number in its data.
fn map(name: &str, annotations: Value, number: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "data": {"number": number.to_string()},
    })
}

fn in_an_hour() -> String {
    End::at(SystemTime::now() + HOUR).to_string()
}

fn until_resumed() -> Pause {
    Pause {
        end: End::Resumed,
        reason: Some("a freeze".into()),
        deletions: false,
    }
}

/// Waits until so many keys are paused.
async fn paused(fleet: &TestFleet, count: usize) -> Result<()> {
    wait(&format!("{count} paused keys"), || {
        let all = fleet.handle.controllers();
        let paused: usize = all.iter().map(|of| of.paused).sum();
        Seen::of(paused, |paused| *paused == count)
    })
    .await
    .map(drop)
}

fn events(fleet: &TestFleet) -> BTreeMap<String, usize> {
    let server = fleet.simulated("alpha");
    let mut reasons = BTreeMap::new();
    for event in server.list("v1", "Event", "default").unwrap_or_default() {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let about = event["involvedObject"]["name"].as_str().unwrap_or_default();
        let what = format!("{} {} {about}", text("type"), text("reason"));
        *reasons.entry(what).or_default() += 1;
    }
    reasons
}

async fn recorded(fleet: &TestFleet, what: &str) -> Result<()> {
    wait(what, || {
        Seen::of(events(fleet), |events| events.contains_key(what))
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn a_paused_object_waits_for_its_time_and_a_removed_annotation_runs_it_at_once() -> Result<()>
{
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    for (name, end) in [("timed", in_an_hour()), ("endless", RESUMED.to_owned())] {
        let annotations = json!({UNTIL: end, REASON: "a freeze"});
        fleet.apply("alpha", map(name, annotations, 0))?;
    }
    fleet.apply("alpha", map("other", json!({}), 0))?;
    fleet.engage("alpha").await?;
    paused(&fleet, 2).await?;
    log.ran(&request("alpha", "other"), 1).await?;
    // Events, and an operator's requeue, do not run it.
    let annotations = json!({UNTIL: RESUMED, REASON: "a freeze"});
    fleet.apply("alpha", map("endless", annotations, 1))?;
    assert_eq!(fleet.handle.requeue(&request("alpha", "endless"), None), 1);
    assert_eq!(fleet.handle.requeue(&request("alpha", "other"), None), 1);
    log.ran(&request("alpha", "other"), 2).await?;
    paused(&fleet, 2).await?;
    assert!(fleet.handle.idle().await.idle, "a paused key is at rest");
    let keys = fleet.handle.keys(&KeyFilter {
        state: Some("paused".to_owned()),
        ..KeyFilter::default()
    });
    assert_eq!(keys.len(), 2);
    for key in &keys {
        assert!(matches!(key.queued.state, KeyState::Paused(_)), "{key:?}");
        let paused = key.paused.as_ref().context("a pause")?;
        assert_eq!(paused.of, PauseOf::Object);
        assert_eq!(paused.pause.reason.as_deref(), Some("a freeze"));
    }
    let why = fleet.handle.explain(&request("alpha", "endless"), None);
    assert_eq!(why[0].why, "it is paused until resumed: a freeze");
    assert!(
        fleet
            .metrics()?
            .contains("windlass_queue_paused{name=\"test\"")
    );

    fleet.apply("alpha", map("endless", json!({}), 1))?;
    log.ran(&request("alpha", "endless"), 1).await?;
    assert_eq!(log.count(&request("alpha", "timed")), 0);
    fleet.handle.advance(HOUR + Duration::from_secs(1));
    log.ran(&request("alpha", "timed"), 1).await?;
    for what in [
        "Paused timed",
        "Paused endless",
        "Resumed timed",
        "Resumed endless",
    ] {
        recorded(&fleet, &format!("Normal {what}")).await?;
    }
    let events = events(&fleet);
    assert!(events.values().all(|count| *count == 1), "{events:?}");
    fleet.stop().await
}

#[tokio::test]
async fn deletions_run_in_spite_of_a_pause_unless_it_holds_them_too() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    let with_finalizer = |name: &str, annotations: Value| {
        let mut map = map(name, annotations, 0);
        map["metadata"]["finalizers"] = json!(["test/x"]);
        map
    };
    let held = json!({UNTIL: RESUMED, DELETIONS: "true"});
    fleet.apply(
        "alpha",
        with_finalizer("finalized", json!({UNTIL: RESUMED})),
    )?;
    fleet.apply("alpha", with_finalizer("held", held))?;
    fleet.apply("alpha", map("plain", json!({UNTIL: RESUMED}), 0))?;
    fleet.engage("alpha").await?;
    paused(&fleet, 3).await?;
    let server = fleet.simulated("alpha");
    for name in ["finalized", "held", "plain"] {
        let deleted = server.delete("v1", "ConfigMap", "default", name);
        deleted.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    log.ran(&request("alpha", "finalized"), 1).await?;
    log.ran(&request("alpha", "plain"), 1).await?;
    paused(&fleet, 1).await?;
    assert_eq!(log.count(&request("alpha", "held")), 0);
    fleet.stop().await
}

#[tokio::test]
async fn a_pause_whose_end_is_no_time_pauses_and_says_so() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", map("a", json!({UNTIL: "tomorrow"}), 0))?;
    fleet.engage("alpha").await?;
    paused(&fleet, 1).await?;
    recorded(&fleet, "Warning Paused a").await?;
    let why = fleet.handle.explain(&request("alpha", "a"), None);
    assert!(why[0].why.contains("\"tomorrow\" is corrected"), "{why:?}");
    fleet.apply("alpha", map("a", json!({UNTIL: "2020-01-01T00:00:00Z"}), 0))?;
    log.ran(&request("alpha", "a"), 1).await?;
    fleet.stop().await
}

/// A controller whose watch of its own objects counts changes of their labels alone.
fn of_labels(log: &Arc<Log>) -> Controller {
    let mut watch = Watch::new(super::fixture::config_map(), Enqueue::Primary);
    watch.predicate = Predicate::Labels;
    let builder = Controller::builder(ControllerName::new("test").expect("a valid name"));
    logged(builder.watch(watch), log, |_| async { Ok(Action::Done) })
}

#[tokio::test]
async fn an_object_is_paused_and_resumed_by_its_key_whatever_its_watch_counts() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(of_labels(&log))).await?;
    fleet.apply("alpha", map("a", json!({}), 0))?;
    fleet.engage("alpha").await?;
    let a = request("alpha", "a");
    log.ran(&a, 1).await?;
    let pause = until_resumed();
    let kind = fleet.handle.pause(&a, None, Some(&pause)).await?;
    assert_eq!(kind, "v1/ConfigMap");
    paused(&fleet, 1).await?;
    let object = fleet
        .simulated("alpha")
        .get("v1", "ConfigMap", "default", "a");
    let object = object.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let object = object.context("the object")?;
    let expected = json!({UNTIL: RESUMED, REASON: "a freeze"});
    assert_eq!(object["metadata"]["annotations"], expected);
    assert_eq!(log.count(&a), 1, "its data counts for nothing");
    fleet.handle.pause(&a, None, None).await?;
    log.ran(&a, 2).await?;

    let absent = fleet
        .handle
        .pause(&request("alpha", "b"), None, Some(&pause))
        .await;
    assert!(matches!(absent, Err(PauseError::NoObject(_))), "{absent:?}");
    let nowhere = fleet
        .handle
        .pause(&request("beta", "a"), None, Some(&pause))
        .await;
    assert!(
        matches!(nowhere, Err(PauseError::NoReconciler(_))),
        "{nowhere:?}"
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_paused_reconciler_tenant_or_cluster_works_on_deletions_alone_and_keeps_its_caches()
-> Result<()> {
    let log = Arc::new(Log::default());
    let controller = logged(builder(), &log, |_| async { Ok(Action::Done) });
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(controller)).await?;
    fleet.engage("alpha").await?;
    fleet.engage("beta").await?;
    let (tenant, pause) = (TenantName::default(), until_resumed());
    let reconciler = (tenant.clone(), ControllerName::new("test")?);
    let wide = [
        PauseSet {
            reconcilers: [(reconciler, pause.clone())].into(),
            ..PauseSet::default()
        },
        PauseSet {
            tenants: [(tenant, pause.clone())].into(),
            ..PauseSet::default()
        },
        PauseSet {
            clusters: [(name("alpha"), pause)].into(),
            ..PauseSet::default()
        },
    ];
    for (at, set) in wide.into_iter().enumerate() {
        let of_cluster = !set.clusters.is_empty();
        fleet.handle.set_pauses(set);
        let [a, b] = ["a", "b"].map(|name| format!("{name}-{at}"));
        fleet.apply("alpha", map(&a, json!({}), 0))?;
        fleet.apply("beta", map(&a, json!({}), 0))?;
        fleet.apply("alpha", map(&b, json!({}), 0))?;
        paused(&fleet, if of_cluster { 2 } else { 3 }).await?;
        let why = fleet.handle.explain(&request("alpha", &a), None);
        let text = &why[0].why;
        assert!(text.contains("is paused until resumed: a freeze"), "{text}");
        let deleted = fleet
            .simulated("alpha")
            .delete("v1", "ConfigMap", "default", &b);
        deleted.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        log.ran(&request("alpha", &b), 1).await?;
        assert_eq!(log.count(&request("alpha", &a)), 0);
        assert_eq!(log.count(&request("beta", &a)), usize::from(of_cluster));
        fleet.handle.set_pauses(PauseSet::default());
        log.ran(&request("alpha", &a), 1).await?;
        log.ran(&request("beta", &a), 1).await?;
        paused(&fleet, 0).await?;
    }
    // No Event is about an object that is not paused itself.
    assert!(events(&fleet).is_empty());
    assert_eq!(fleet.asked("alpha", "configmaps").0, 1, "lists");
    fleet.stop().await
}
