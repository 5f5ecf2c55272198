//! How caches are filled and kept true: streamed lists and their fallback, progress without events, lost history, lost events.

use super::faults::{Faults, refusal, status};
use super::fixture::{Log, builder_of, caches, client, get, object, recording};
use super::keys::wait_idle;
use anyhow::Result;
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_apiserver::{FrameVerdict, RequestVerdict, Server, Verb};
use windlass_fleet::GroupVersionKind;
use windlass_fleet::api::{ListOptions, ReadMode};
use windlass_fleet::cluster::{CacheOptions, Cluster};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

/// Calls that ask the cluster `alpha` for ConfigMaps as a stream.
fn streams(fleet: &TestFleet, resource: &str) -> usize {
    let calls = fleet.simulated("alpha").requests();
    let streams = |call: &&Arc<windlass_apiserver::Call>| {
        call.resource == resource && call.verb == Verb::Watch && call.asks_for_all()
    };
    calls.iter().filter(streams).count()
}

/// Pages that the cluster `alpha` has been asked for.
fn pages(fleet: &TestFleet, resource: &str) -> usize {
    let calls = fleet.simulated("alpha").requests();
    let pages = |call: &&Arc<windlass_apiserver::Call>| {
        call.resource == resource && call.verb == Verb::List && call.asks_for_all()
    };
    calls.iter().filter(pages).count()
}

async fn watched(fleet: &TestFleet) -> Result<()> {
    wait("an open watch", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 1)
    })
    .await
    .map(drop)
}

/// Makes the one watch resume where there is no history any more.
fn lose_history(fleet: &TestFleet) -> Result<()> {
    fleet.simulated("alpha").down(true);
    fleet.simulated("alpha").cut_watches();
    // Something must have happened since.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "news", "namespace": "default"}});
    fleet.apply("alpha", secret)?;
    fleet.simulated("alpha").compact();
    fleet.simulated("alpha").down(false);
    Ok(())
}

fn objects(cluster: &Cluster) -> usize {
    cluster.status().objects
}

#[tokio::test]
async fn a_cache_is_filled_by_a_stream_that_goes_on_as_its_watch() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", object("before", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "before"), 1).await?;
    fleet.apply("alpha", object("after", json!({})))?;
    log.ran(&request("alpha", "after"), 1).await?;
    assert_eq!(
        fleet.asked("alpha", "configmaps"),
        (1, 0),
        "one call in all"
    );
    assert_eq!(pages(&fleet, "configmaps"), 0);
    fleet.stop().await
}

#[tokio::test]
async fn a_server_that_streams_no_lists_is_asked_for_pages_and_not_again() -> Result<()> {
    let log = Arc::new(Log::default());
    let server = Server::builder().paged_lists_only();
    let fleet = TestFleet::start_on(server, &["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", object("before", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "before"), 1).await?;
    watched(&fleet).await?;
    assert_eq!(
        (streams(&fleet, "configmaps"), pages(&fleet, "configmaps")),
        (1, 1)
    );
    lose_history(&fleet)?;
    fleet.apply("alpha", object("after", json!({})))?;
    log.ran(&request("alpha", "after"), 1).await?;
    assert_eq!(
        (streams(&fleet, "configmaps"), pages(&fleet, "configmaps")),
        (1, 2)
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_server_that_takes_a_streamed_list_for_a_watch_is_asked_for_pages() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    // As servers do that do not know the parameter: what there is, then bookmarks of the ordinary kind.
    faults.on_frame(|_, frame| {
        let plain = frame.replace("k8s.io/initial-events-end", "example.com/other");
        (plain != frame).then(|| FrameVerdict::Replace(Bytes::from(plain)))
    });
    let fleet =
        TestFleet::start_with(faults, &["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", object("before", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "before"), 1).await?;
    assert_eq!(
        (streams(&fleet, "configmaps"), pages(&fleet, "configmaps")),
        (1, 1)
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_stream_that_stalls_before_its_end_without_a_word_is_given_up_for_pages() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    faults.on_frame(|call, frame| {
        let silent = call.asks_for_all() && frame.contains("second");
        silent.then_some(FrameVerdict::Silence)
    });
    let patient = caches(CacheOptions {
        stream_pause: Duration::from_millis(200),
        ..CacheOptions::default()
    });
    let fleet = TestFleet::start_with(faults, &["alpha"], |b| {
        b.options(patient).controller(recording(&log))
    })
    .await?;
    for name in ["first", "second"] {
        fleet.apply("alpha", object(name, json!({})))?;
    }
    fleet.engage("alpha").await?;
    for name in ["first", "second"] {
        log.ran(&request("alpha", name), 1).await?;
    }
    assert_eq!(
        (streams(&fleet, "configmaps"), pages(&fleet, "configmaps")),
        (1, 1)
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_busy_stream_without_an_end_is_given_up_in_time_and_no_other_is_tried() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    // As a proxy that filters objects without a name.
    faults.on_frame(|_, frame| frame.contains("BOOKMARK").then_some(FrameVerdict::Drop));
    let options = caches(CacheOptions {
        stream_limit: Duration::from_millis(500),
        ..CacheOptions::default()
    });
    let fleet = TestFleet::start_with(faults, &["alpha"], |b| {
        b.options(options).controller(recording(&log))
    })
    .await?;
    let server = fleet.simulated("alpha");
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    let busy = tokio::spawn(async move {
        for change in 0.. {
            pace.tick().await;
            let changed = server.apply(object("busy", json!({"change": change.to_string()})));
            changed.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        }
        anyhow::Ok(())
    });
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "busy"), 1).await?;
    let both = |resource: &str| (streams(&fleet, resource), pages(&fleet, resource));
    assert_eq!(both("configmaps"), (1, 1));
    let deployments = GroupVersionKind::new("apps", "v1", "Deployment");
    let client = client(&cluster);
    client.list(&deployments, &ListOptions::default()).await?;
    assert_eq!(both("deployments"), (0, 1));
    busy.abort();
    lose_history(&fleet)?;
    fleet.apply("alpha", object("after", json!({})))?;
    log.ran(&request("alpha", "after"), 1).await?;
    assert_eq!(both("configmaps"), (1, 2));
    fleet.stop().await
}

/// Caches that are filled page by page, two objects at a time.
fn pairs() -> windlass_fleet::manager::ManagerOptions {
    caches(CacheOptions {
        streaming_lists: false,
        page: 2,
        ..CacheOptions::default()
    })
}

#[tokio::test]
async fn a_list_whose_version_expires_between_two_pages_begins_anew_and_is_of_one_moment()
-> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| {
        b.options(pairs()).controller(recording(&log))
    })
    .await?;
    for name in ["a", "b", "c", "d"] {
        fleet.apply("alpha", object(name, json!({})))?;
    }
    let (server, compacted) = (fleet.simulated("alpha"), AtomicBool::new(false));
    faults.on_request(move |call| {
        let goes_on = call.resource == "configmaps" && call.query.contains("continue=");
        if goes_on && !compacted.swap(true, Ordering::SeqCst) {
            // What has been listed already is gone, and so is the version that it was listed at.
            let deleted = server.delete("v1", "ConfigMap", "default", "a");
            assert!(deleted.is_ok(), "{deleted:?}");
            server.compact();
        }
        None
    });
    let cluster = fleet.engage("alpha").await?;
    for name in ["b", "c", "d"] {
        log.ran(&request("alpha", name), 1).await?;
    }
    assert_eq!(log.count(&request("alpha", "a")), 0);
    let held = get(&client(&cluster), "a", ReadMode::Cached).await?;
    assert!(held.is_none(), "{held:?}");
    fleet.stop().await
}

#[tokio::test]
async fn a_list_whose_pages_always_expire_comes_to_its_end_in_ever_fewer_steps() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    faults.on_request(|call| {
        let goes_on = call.resource == "configmaps" && call.query.contains("continue=");
        goes_on.then(|| refusal(410, "Expired"))
    });
    let fleet = TestFleet::start_with(faults, &["alpha"], |b| {
        b.options(pairs()).controller(recording(&log))
    })
    .await?;
    for at in 0..20 {
        fleet.apply("alpha", object(&format!("o{at}"), json!({})))?;
    }
    fleet.engage("alpha").await?;
    for at in 0..20 {
        log.ran(&request("alpha", &format!("o{at}")), 1).await?;
    }
    // Two, then eight, each with a page that is refused, then all.
    assert_eq!(pages(&fleet, "configmaps"), 5);
    fleet.stop().await
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_end_leaves_the_cache_as_it_was() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| {
        b.controller(recording(&log))
    })
    .await?;
    for name in ["a", "b", "c"] {
        fleet.apply("alpha", object(name, json!({})))?;
    }
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "c"), 1).await?;
    watched(&fleet).await?;
    faults.on_request(|call| {
        let page = call.verb == Verb::List && call.asks_for_all();
        page.then(|| refusal(503, "NoPages"))
    });
    faults.on_frame(|call, frame| {
        (call.asks_for_all() && frame.contains("\"name\":\"b\"")).then_some(FrameVerdict::Cut)
    });
    fleet
        .simulated("alpha")
        .delete("v1", "ConfigMap", "default", "c")
        .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    log.ran(&request("alpha", "c"), 2).await?;
    let held = objects(&cluster);
    fleet.simulated("alpha").down(true);
    fleet.simulated("alpha").cut_watches();
    fleet
        .simulated("alpha")
        .delete("v1", "ConfigMap", "default", "a")
        .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    lose_history(&fleet)?;
    wait("two broken streams", || {
        Seen::of(streams(&fleet, "configmaps"), |n| *n >= 3)
    })
    .await?;
    assert_eq!(objects(&cluster), held, "half a list is no list");
    faults.heal();
    log.ran(&request("alpha", "a"), 2).await?;
    wait("the deletion", || {
        Seen::of(objects(&cluster), |n| *n == held - 1)
    })
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn an_object_twice_in_a_list_is_told_in_the_status_and_waited_out() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    // Another name, the same uid.
    faults.on_frame(|call, frame| {
        let uid = frame
            .split("\"uid\":\"")
            .nth(1)?
            .split('"')
            .next()?
            .to_owned();
        let same = frame.replace(&uid, "00000000-0000-0000-0000-000000000000");
        call.asks_for_all()
            .then(|| FrameVerdict::Replace(Bytes::from(same)))
    });
    let secrets =
        builder_of("secrets", "Secret").build(Arc::new(|_: windlass_fleet::Context| async {
            Ok(windlass_fleet::Action::Done)
        }))?;
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| {
        b.controller(recording(&log)).controller(secrets)
    })
    .await?;
    for name in ["a", "b"] {
        fleet.apply("alpha", object(name, json!({})))?;
    }
    let engaged = fleet.provider.clone();
    engaged.put(fleet.spec("alpha")?);
    let cluster = wait("the cluster", || {
        match fleet
            .handle
            .fleet()
            .cluster(&windlass_harness::fleet::name("alpha"))
        {
            Some(cluster) => Seen::Yes(cluster),
            None => Seen::NotYet("none".into()),
        }
    })
    .await?;
    wait("the reason in the status", || {
        Seen::of(cluster.status().reason, |reason| {
            reason.contains("two objects of one uid")
        })
    })
    .await?;
    wait("the other kind to be in step", || {
        Seen::of(cluster.status().stores, |stores| {
            stores.iter().any(|s| s.kind.contains("Secret") && s.synced)
        })
    })
    .await?;
    assert_eq!(log.total(), 0);
    faults.heal();
    log.ran(&request("alpha", "b"), 1).await?;
    fleet.ready("alpha").await?;
    fleet.stop().await
}

#[tokio::test]
async fn an_object_without_a_version_stops_its_kind_until_it_has_one() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| {
        b.controller(recording(&log))
    })
    .await?;
    let cluster = fleet.engage("alpha").await?;
    faults.on_frame(|_, frame| {
        let without = frame.replace("\"resourceVersion\"", "\"noVersion\"");
        frame
            .contains("\"name\":\"bad\"")
            .then(|| FrameVerdict::Replace(Bytes::from(without)))
    });
    fleet.apply("alpha", object("bad", json!({})))?;
    wait("the reason in the status", || {
        Seen::of(cluster.status().reason, |reason| {
            reason.contains("without metadata.resourceVersion")
        })
    })
    .await?;
    assert_eq!(log.count(&request("alpha", "bad")), 0);
    faults.heal();
    log.ran(&request("alpha", "bad"), 1).await?;
    fleet.ready("alpha").await?;
    assert_eq!(
        fleet.asked("alpha", "configmaps").0,
        1,
        "resumed, not listed anew"
    );
    fleet.stop().await
}

#[tokio::test]
async fn bookmarks_alone_carry_a_watch_past_a_compaction() -> Result<()> {
    let log = Arc::new(Log::default());
    let short = caches(CacheOptions {
        watch_timeout: Duration::from_secs(4),
        compare_every: Duration::ZERO,
        ..CacheOptions::default()
    });
    let fleet =
        TestFleet::start(&["alpha"], |b| b.options(short).controller(recording(&log))).await?;
    fleet.apply("alpha", object("quiet", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "quiet"), 1).await?;
    let version = |cluster: &Cluster| {
        let stores = cluster.status().stores;
        stores[0].version.parse::<u64>().expect("a number")
    };
    let before = version(&cluster);
    for n in 0..100 {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s{n}"), "namespace": "default"}});
        fleet.apply("alpha", secret)?;
    }
    wait("a bookmark", || {
        Seen::of(version(&cluster), |now| *now >= before + 100)
    })
    .await?;
    fleet.simulated("alpha").compact();
    fleet.simulated("alpha").cut_watches();
    let watches = fleet.asked("alpha", "configmaps").1;
    wait("two watches more", || {
        Seen::of(fleet.asked("alpha", "configmaps").1, |n| *n >= watches + 2)
    })
    .await?;
    assert_eq!(
        fleet.asked("alpha", "configmaps").0,
        1,
        "nothing was listed anew"
    );
    fleet.stop().await
}

/// A server that was restored from a backup under the same identity: it knows less than the cache has seen.
fn fall_back(faults: &Faults) {
    faults.on_request(|call| {
        if call.resource != "configmaps" || call.asks_for_all() && call.verb == Verb::Watch {
            return None;
        }
        if call.verb == Verb::List {
            let old = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []});
            let body = Bytes::from(old.to_string());
            return Some(RequestVerdict::Answer { code: 200, retry_after: None, body });
        }
        let mut too_large = status(504, "Timeout");
        too_large["details"] = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]});
        let body = Bytes::from(too_large.to_string());
        Some(RequestVerdict::Answer { code: 504, retry_after: None, body })
    });
    faults.on_frame(|call, frame| {
        if !call.asks_for_all() || call.resource != "configmaps" {
            return None;
        }
        if !frame.contains("initial-events-end") {
            return Some(FrameVerdict::Drop);
        }
        let end = json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}});
        Some(FrameVerdict::Replace(Bytes::from(format!("{end}\n"))))
    });
}

async fn fallen_back(
    stale_for: Duration,
) -> Result<(TestFleet, Arc<Log>, Arc<Cluster>, Arc<Faults>)> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    let options = caches(CacheOptions {
        stale_for,
        ..CacheOptions::default()
    });
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| {
        b.options(options).controller(recording(&log))
    })
    .await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    watched(&fleet).await?;
    fall_back(&faults);
    fleet.simulated("alpha").cut_watches();
    Ok((fleet, log, cluster, faults))
}

#[tokio::test]
async fn a_server_that_fell_behind_is_not_believed_at_once() -> Result<()> {
    let (fleet, log, cluster, faults) = fallen_back(Duration::from_secs(3600)).await?;
    wait("the reason in the status", || {
        Seen::of(cluster.status().reason, |reason| {
            reason.contains("older than the cache")
        })
    })
    .await?;
    assert!(
        get(&client(&cluster), "a", ReadMode::Cached)
            .await?
            .is_some()
    );
    faults.heal();
    fleet.apply("alpha", object("b", json!({})))?;
    log.ran(&request("alpha", "b"), 1).await?;
    fleet.ready("alpha").await?;
    assert_eq!(log.count(&request("alpha", "a")), 1);
    fleet.stop().await
}

#[tokio::test]
async fn a_server_that_stays_behind_is_believed_and_the_cache_rebuilt() -> Result<()> {
    let (fleet, log, cluster, _faults) = fallen_back(Duration::from_millis(500)).await?;
    log.ran(&request("alpha", "a"), 2).await?;
    wait("a rebuilt cache", || {
        Seen::of(objects(&cluster), |n| *n == 0)
    })
    .await?;
    wait("its version", || {
        Seen::of(cluster.status().stores[0].version.clone(), |v| v == "1")
    })
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn events_that_were_never_sent_are_made_good_by_the_next_comparison() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    let often = caches(CacheOptions {
        compare_every: Duration::from_millis(300),
        ..CacheOptions::default()
    });
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| {
        b.options(often).controller(recording(&log))
    })
    .await?;
    fleet.apply("alpha", object("goes", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "goes"), 1).await?;
    watched(&fleet).await?;
    faults.on_frame(|call, _| (!call.asks_for_all()).then_some(FrameVerdict::Drop));
    // The stream that filled the cache goes on as its watch: only a new one can be deaf.
    fleet.simulated("alpha").cut_watches();
    watched(&fleet).await?;
    fleet.apply("alpha", object("comes", json!({})))?;
    fleet
        .simulated("alpha")
        .delete("v1", "ConfigMap", "default", "goes")
        .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    log.ran(&request("alpha", "comes"), 1).await?;
    log.ran(&request("alpha", "goes"), 2).await?;
    assert_eq!(cluster.status().stores[0].repairs, 1);
    wait_idle(&fleet).await?;
    fleet.stop().await
}
