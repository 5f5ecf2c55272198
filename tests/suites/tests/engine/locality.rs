//! The local cluster and the provider's, and who engages which.

use super::fixture::{Log, builder, object, recording};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::name::NamePattern;
use windlass_fleet::source::{ClusterFilter, ClusterSelection, Enqueue, Watch};
use windlass_fleet::{Action, ClusterName, Context, Controller, GroupVersionKind};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

fn selecting(log: &Arc<Log>, selection: ClusterSelection) -> Controller {
    let log = log.clone();
    let reconcile = move |context: Context| {
        log.enter(&context.request);
        log.leave(&context.request);
        async { Ok(Action::Done) }
    };
    builder()
        .engage(selection)
        .build(Arc::new(reconcile))
        .expect("a valid controller")
}

/// A fleet of `alpha` with a local cluster, both holding an object, run with a selection until all that should run has run.
async fn ran_where(selection: ClusterSelection, expected: usize) -> Result<(bool, bool)> {
    let log = Arc::new(Log::default());
    let hub = windlass_apiserver::Server::builder()
        .cluster("hub")
        .bind("127.0.0.1:0")
        .await?;
    let local = ClusterSpec::new(
        ClusterName::local(),
        ClusterConfig::from_url(&hub.url("hub"))?,
    );
    let fleet = TestFleet::start(&["alpha"], |b| {
        b.local(local).controller(selecting(&log, selection))
    })
    .await?;
    fleet.apply("alpha", object("a", json!({})))?;
    hub.cluster("hub")
        .expect("it is there")
        .apply(object("a", json!({})))
        .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    fleet.engage("alpha").await?;
    fleet.ready("").await?;
    wait("the runs", || Seen::of(log.total(), |n| *n >= expected)).await?;
    super::keys::wait_idle(&fleet).await?;
    let ran = (
        log.count(&request("", "a")) > 0,
        log.count(&request("alpha", "a")) > 0,
    );
    fleet.stop().await?;
    Ok(ran)
}

#[tokio::test]
async fn without_a_provider_the_local_cluster_is_engaged() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::local_only(|b| b.controller(recording(&log))).await?;
    fleet.apply("local", object("a", json!({})))?;
    log.ran(&request("", "a"), 1).await?;
    fleet.stop().await
}

#[tokio::test]
async fn with_a_provider_only_its_clusters_are_engaged() -> Result<()> {
    assert_eq!(
        ran_where(ClusterSelection::default(), 1).await?,
        (false, true)
    );
    Ok(())
}

#[tokio::test]
async fn local_and_provider_are_set_independently() -> Result<()> {
    let only_local = ClusterSelection {
        local: Some(true),
        provider: Some(false),
        ..Default::default()
    };
    assert_eq!(ran_where(only_local, 1).await?, (true, false));
    let local_too = ClusterSelection {
        local: Some(true),
        ..Default::default()
    };
    assert_eq!(ran_where(local_too, 2).await?, (true, true));
    let nothing_of_the_provider = ClusterSelection {
        provider: Some(false),
        ..Default::default()
    };
    assert_eq!(ran_where(nothing_of_the_provider, 0).await?, (false, false));
    Ok(())
}

fn named(pattern: &str) -> ClusterFilter {
    ClusterFilter {
        names: vec![NamePattern::new(pattern)],
        ..Default::default()
    }
}

/// A filter of names or labels that leaves a cluster out keeps it from being engaged by that controller; the local cluster is engaged
/// whatever the filter says.
#[tokio::test]
async fn a_cluster_filter_leaves_clusters_out_and_never_the_local_one() -> Result<()> {
    let nobody = ClusterSelection {
        local: Some(true),
        only: named("no-*"),
        ..Default::default()
    };
    assert_eq!(ran_where(nobody, 1).await?, (true, false));
    let by_name = ClusterSelection {
        local: Some(true),
        only: named("al*"),
        ..Default::default()
    };
    assert_eq!(ran_where(by_name, 2).await?, (true, true));
    let by_label = ClusterSelection {
        local: Some(true),
        only: ClusterFilter {
            selector: Some("tier=gold".parse()?),
            ..Default::default()
        },
        ..Default::default()
    };
    assert_eq!(ran_where(by_label, 1).await?, (true, false));
    Ok(())
}

/// Objects of one kind in all clusters, and those that they refer to in one of them.
#[tokio::test]
async fn a_watch_engages_only_the_clusters_that_its_filter_names() -> Result<()> {
    let log = Arc::new(Log::default());
    let mut filtered = Watch::new(GroupVersionKind::new("", "v1", "Secret"), Enqueue::SameName);
    filtered.only = named("be*");
    let watching = log.clone();
    let reconcile = move |context: Context| {
        watching.enter(&context.request);
        watching.leave(&context.request);
        async { Ok(Action::Done) }
    };
    let controller = builder()
        .watch(filtered)
        .build(Arc::new(reconcile))
        .expect("a valid controller");
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(controller)).await?;
    for cluster in ["alpha", "beta"] {
        fleet.apply(cluster, object("a", json!({})))?;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata":
            {"namespace": "default", "name": "b"}});
        fleet.apply(cluster, secret)?;
        fleet.engage(cluster).await?;
    }
    wait("the runs", || Seen::of(log.total(), |n| *n >= 3)).await?;
    super::keys::wait_idle(&fleet).await?;
    let ran = |cluster, name| log.count(&request(cluster, name));
    assert_eq!([ran("alpha", "a"), ran("beta", "a")], [1, 1]);
    assert_eq!([ran("alpha", "b"), ran("beta", "b")], [0, 1]);
    fleet.stop().await
}

#[tokio::test]
async fn the_empty_name_is_the_local_cluster_and_an_unknown_name_is_none() -> Result<()> {
    let fleet = TestFleet::local_only(|b| b).await?;
    let local = fleet.ready("").await?;
    assert!(local.name().is_local());
    assert!(fleet.engaged("nobody").is_none());
    fleet.stop().await
}
