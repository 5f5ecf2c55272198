//! Labels and properties of clusters that change while work goes on.

use super::fixture::{Log, builder, config_map, logged, object};
use super::keys::wait_idle;
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::Verb;
use windlass_fleet::grant::{ClusterRule, Grant, Rule};
use windlass_fleet::manager::KeyFilter;
use windlass_fleet::source::{ClusterFilter, ClusterSelection};
use windlass_fleet::{Action, Context, Controller, Failure};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

/// Puts `alpha` with a label and a property.
fn describe(fleet: &TestFleet, tier: &str, heartbeat: &str) -> Result<()> {
    let spec = fleet.spec("alpha")?.label("tier", tier);
    fleet.provider.put(spec.property("heartbeat", heartbeat));
    Ok(())
}

/// A controller of the clusters with `tier=gold`, of which every object asks to run again soon.
fn of_gold(log: &Arc<Log>) -> Controller {
    of_tier("gold", log)
}

fn of_tier(tier: &str, log: &Arc<Log>) -> Controller {
    let selection = ClusterSelection {
        only: ClusterFilter {
            selector: Some(format!("tier={tier}").parse().expect("a selector")),
            ..ClusterFilter::default()
        },
        ..ClusterSelection::default()
    };
    let again =
        |_: Context| async { Ok::<_, Failure>(Action::RequeueAfter(Duration::from_millis(100))) };
    logged(builder().engage(selection), log, again)
}

#[tokio::test]
async fn other_properties_are_seen_at_once_and_disturb_nothing() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| {
        b.controller(super::fixture::recording(&log))
    })
    .await?;
    fleet.apply("alpha", object("a", json!({})))?;
    describe(&fleet, "gold", "1")?;
    let before = fleet.ready("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    // Lists are no sign of it: the cache is compared with the server now and then.
    let watches = || fleet.simulated("alpha").count(Verb::Watch, "configmaps");
    let watched = watches();
    describe(&fleet, "silver", "2")?;
    wait("the new property", || {
        Seen::of(before.properties(), |now| now.get("heartbeat") == Some("2"))
    })
    .await?;
    assert_eq!(before.labels().get("tier"), Some("silver"));
    wait_idle(&fleet).await?;
    let now = fleet.ready("alpha").await?;
    assert!(Arc::ptr_eq(&before, &now), "the same cluster");
    assert_eq!(log.total(), 1, "no key ran again");
    assert_eq!(watches(), watched, "nothing was watched again");
    fleet.stop().await
}

#[tokio::test]
async fn another_label_moves_a_cluster_into_a_filter_and_out_of_it_with_its_keys() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(of_gold(&log))).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    describe(&fleet, "silver", "1")?;
    let before = fleet.ready("alpha").await?;
    let clusters = || fleet.handle.controllers()[0].clusters;
    assert_eq!((clusters(), log.total()), (0, 0));

    describe(&fleet, "gold", "1")?;
    log.ran(&request("alpha", "a"), 2).await?;
    assert_eq!(clusters(), 1);

    describe(&fleet, "silver", "1")?;
    wait("the controller to leave", || {
        Seen::of(clusters(), |n| *n == 0)
    })
    .await?;
    wait_idle(&fleet).await?;
    let ran = log.total();
    fleet.apply("alpha", object("b", json!({})))?;
    describe(&fleet, "silver", "2")?;
    wait("the new property", || {
        Seen::of(before.properties(), |now| now.get("heartbeat") == Some("2"))
    })
    .await?;
    wait_idle(&fleet).await?;
    assert_eq!(log.total(), ran, "its keys have left with it");

    describe(&fleet, "gold", "2")?;
    log.ran(&request("alpha", "b"), 1).await?;
    let now = fleet.ready("alpha").await?;
    assert!(Arc::ptr_eq(&before, &now), "the same cluster throughout");
    fleet.stop().await
}

#[tokio::test]
async fn a_controller_whose_filter_leaves_a_cluster_out_leaves_no_key_there() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(of_gold(&log))).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    describe(&fleet, "gold", "1")?;
    fleet.ready("alpha").await?;
    log.ran(&request("alpha", "a"), 2).await?;
    fleet.handle.put_controller(of_tier("silver", &log))?;
    wait("the keys to leave", || {
        Seen::of(fleet.handle.keys(&KeyFilter::default()).len(), |n| *n == 0)
    })
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn rules_that_select_clusters_by_label_follow_the_labels() -> Result<()> {
    let rule = Rule {
        api_groups: vec!["".into()],
        resources: vec!["configmaps".into()],
        verbs: vec!["*".into()],
        resource_names: Vec::new(),
        namespaces: vec!["*".into()],
        clusters: Some(ClusterRule {
            selector: Some("tier=gold".parse()?),
            ..ClusterRule::default()
        }),
    };
    let log = Arc::new(Log::default());
    let done = |_: Context| async { Ok::<_, Failure>(Action::Done) };
    let controller = logged(builder().grant(Arc::new(Grant::new([rule]))), &log, done);
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    describe(&fleet, "silver", "1")?;
    fleet.ready("alpha").await?;
    let problems = || fleet.handle.controllers()[0].problems.clone();
    let denied = format!(
        "alpha: {}: no rule grants list and watch on configmaps",
        config_map()
    );
    wait("the denial", || {
        Seen::of(problems(), |all| *all == [denied.clone()])
    })
    .await?;
    describe(&fleet, "gold", "1")?;
    log.ran(&request("alpha", "a"), 1).await?;
    assert!(problems().is_empty());
    describe(&fleet, "silver", "1")?;
    wait("the denial", || {
        Seen::of(problems(), |all| *all == [denied.clone()])
    })
    .await?;
    fleet.stop().await
}
