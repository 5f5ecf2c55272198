//! Servers that say less than they should: nothing, not the newest, not all.

use crate::keeper::config_map;
use crate::rig::{Rig, Setup};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{Damage, EventFault, Faults, RequestFault, Rule, Verb};
use windlass_fleet::Grant;
use windlass_fleet::ObjectKey;
use windlass_fleet::api::GetOptions;
use windlass_fleet::cluster::{CacheOptions, ClusterState};
use windlass_harness::eventually;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::request;

async fn pair(adjust: impl FnOnce(&mut CacheOptions)) -> Result<(Rig, Arc<Faults>)> {
    let faults = Arc::new(Faults::default());
    let mut setup = Setup::of(&["alpha", "beta"]).hook(faults.clone());
    setup.manager.transport.call_timeout = Duration::from_secs(1);
    adjust(&mut setup.manager.caches);
    Ok((Rig::start(setup).await?, faults))
}

/// A run of a changed object.
async fn runs(rig: &Rig, cluster: &str, value: &str) -> Result<()> {
    let request = request(cluster, "seed-0");
    let before = rig.keeper.count(&request);
    rig.put(cluster, "seed-0", value)?;
    wait(&format!("a run in {cluster}"), || {
        Seen::of(rig.keeper.count(&request), |runs| *runs > before)
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_found_dead_and_only_its_cluster_waits() -> Result<()> {
    let (rig, faults) = pair(|caches| {
        caches.watch_timeout = Duration::from_secs(1);
        caches.multiplexed_watch_timeout = Duration::from_secs(1);
    })
    .await?;
    // The connection stays open, and what is asked next is not answered either.
    faults.add(Rule::new(EventFault::Silence).cluster("alpha"));
    faults.add(Rule::new(RequestFault::Silence).cluster("alpha"));
    let began = Instant::now();
    rig.put("alpha", "seed-0", "unheard")?;
    runs(&rig, "beta", "heard").await?;
    let status = rig.reaches("alpha", ClusterState::Degraded).await?;
    assert!(!status.reason.is_empty());
    assert!(began.elapsed() < Duration::from_secs(20));
    runs(&rig, "beta", "heard again").await?;
    faults.clear();
    rig.ready("alpha").await?;
    rig.finish().await
}

#[tokio::test]
async fn a_silent_watch_is_found_within_a_minute_by_default() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = Rig::start(Setup::of(&["alpha"]).hook(faults.clone())).await?;
    faults.add(Rule::new(EventFault::Silence));
    faults.add(Rule::new(RequestFault::Silence));
    // The clock jumps to the next deadline whenever all tasks wait.
    tokio::time::pause();
    rig.put("alpha", "seed-0", "unheard")?;
    let minute = Duration::from_secs(60);
    eventually(minute, "alpha to be degraded", || async {
        Ok(Seen::of(rig.status("alpha")?, |status| {
            status.state.as_str() == "Degraded"
        }))
    })
    .await?;
    tokio::time::resume();
    faults.clear();
    rig.ready("alpha").await?;
    rig.finish().await
}

/// The version of an object in the cache of a cluster.
async fn cached(rig: &Rig, cluster: &str, object: &str) -> Result<u64> {
    let client = rig
        .engaged(cluster)
        .context("not engaged")?
        .client(Grant::all());
    let key = ObjectKey::namespaced("default", object);
    let json = client
        .get(&config_map(), &key, &GetOptions::default())
        .await?;
    let object: Value = serde_json::from_slice(&json.context("no such object")?)?;
    let version = object["metadata"]["resourceVersion"].as_str();
    Ok(version.context("no version")?.parse()?)
}

#[tokio::test]
async fn a_replica_that_lags_never_takes_a_reader_back_in_time() -> Result<()> {
    let (rig, faults) = pair(|_| {}).await?;
    for n in 0..20 {
        rig.put("alpha", "seed-0", &n.to_string())?;
    }
    runs(&rig, "alpha", "seen").await?;
    let mut newest = cached(&rig, "alpha", "seed-0").await?;
    // The version is too old for the watch, and what is listed then is older still.
    let gone = RequestFault::Status {
        code: 410,
        retry_after: None,
    };
    let watch = Rule::new(gone).cluster("alpha").verb(Verb::Watch).times(1);
    faults.add(watch);
    let stale = faults.add(
        Rule::new(RequestFault::Stale { changes: 10 })
            .cluster("alpha")
            .resource("configmaps"),
    );
    rig.simulated("alpha").cut_watches();
    wait("a list by the replica", || {
        Seen::of(faults.struck(stale), |n| *n >= 2)
    })
    .await?;
    let until = Instant::now() + Duration::from_secs(2);
    let mut n = 0;
    while Instant::now() < until {
        n += 1;
        rig.put("alpha", "seed-0", &format!("unseen {n}"))?;
        let now = cached(&rig, "alpha", "seed-0").await?;
        assert!(now >= newest, "version {now} after {newest}");
        newest = now;
        runs(&rig, "beta", &format!("seen {n}")).await?;
    }
    faults.clear();
    rig.simulated("alpha").cut_watches();
    rig.finish().await
}

#[tokio::test]
async fn an_event_that_is_never_sent_is_made_good_within_the_time_between_comparisons() -> Result<()>
{
    let every = Duration::from_secs(1);
    let (rig, faults) = pair(|caches| caches.compare_every = every).await?;
    let drop_events = Rule::new(EventFault::Drop).cluster("alpha");
    let dropped = faults.add(drop_events);
    rig.put("alpha", "seed-0", "changed unseen")?;
    rig.put("alpha", "made", "unseen")?;
    rig.delete("alpha", "seed-1")?;
    wait("the events to be dropped", || {
        Seen::of(faults.struck(dropped), |n| *n >= 3)
    })
    .await?;
    faults.remove(dropped);
    let began = Instant::now();
    wait("the child of an object without an event", || {
        Seen::of(rig.stored("alpha", "made-out"), Option::is_some)
    })
    .await?;
    // Half as much again at most, and the comparison itself, which asks twice.
    assert!(began.elapsed() < every * 10, "{:?}", began.elapsed());
    rig.finish().await
}

#[tokio::test]
async fn an_object_that_was_told_under_a_forged_uid_is_put_right_by_a_comparison() -> Result<()> {
    let (rig, faults) = pair(|caches| caches.compare_every = Duration::from_secs(1)).await?;
    let forge = Rule::new(EventFault::Damaged(Damage::SameUid)).cluster("alpha");
    let forged = faults.add(forge.resource("configmaps").times(1));
    rig.put("alpha", "made", "under a forged uid")?;
    wait("the event to be forged", || {
        Seen::of(faults.struck(forged), |n| *n >= 1)
    })
    .await?;
    wait("the comparison to find it", || {
        let status = rig.status("alpha").map(|status| status.stores);
        let repairs = status.map_or(0, |stores| stores.iter().map(|store| store.repairs).sum());
        Seen::of(repairs, |repairs: &u64| *repairs >= 1)
    })
    .await?;
    // Its child ends with the true owner.
    rig.finish().await
}

#[tokio::test]
async fn a_server_that_lost_its_data_is_believed_in_the_end() -> Result<()> {
    let (rig, _) = pair(|caches| {
        caches.stale_for = Duration::from_secs(1);
        caches.compare_every = Duration::from_secs(2);
    })
    .await?;
    let backup = rig.simulated("alpha").backup();
    for n in 0..30 {
        rig.put("alpha", "seed-0", &format!("to be lost {n}"))?;
    }
    runs(&rig, "alpha", "to be lost").await?;
    rig.simulated("alpha").roll_back(&backup);
    runs(&rig, "beta", "not lost").await?;
    rig.finish().await
}
