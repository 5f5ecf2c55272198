//! What caches promise: never back in time, resumed watches, one re-list on 410, own writes at once.

use super::faults::{Faults, refusal};
use super::fixture::{
    Log, bytes, caches, client, config_map, controller_with, get, key, object, recording,
};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{RequestVerdict, Verb};
use windlass_fleet::api::{
    ApiCode, ApplyOptions, DeleteOptions, GetOptions, ListOptions, PatchType, ReadMode,
    WriteOptions,
};
use windlass_fleet::cluster::CacheOptions;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::{Action, Context, Failure, Grant, GroupVersionKind};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

#[tokio::test]
async fn a_cut_watch_resumes_without_a_list_and_without_a_loss() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("before", json!({})))?;
    log.ran(&request("alpha", "before"), 1).await?;
    let (lists, watches) = fleet.asked("alpha", "configmaps");
    fleet.simulated("alpha").cut_watches();
    fleet.apply("alpha", object("meanwhile", json!({})))?;
    log.ran(&request("alpha", "meanwhile"), 1).await?;
    let (lists_after, watches_after) = fleet.asked("alpha", "configmaps");
    assert_eq!(lists_after, lists);
    assert!(watches_after > watches);
    assert_eq!(log.count(&request("alpha", "before")), 1);
    fleet.stop().await
}

#[tokio::test]
async fn a_running_cache_follows_changed_options_from_its_next_watch_on() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    let cluster = fleet.engage("alpha").await?;
    fleet.handle.set_caches(CacheOptions {
        max_bytes: 1,
        ..CacheOptions::default()
    });
    fleet.simulated("alpha").cut_watches();
    fleet.apply("alpha", object("a", json!({})))?;
    wait("the cache to be too large", || {
        let stores = cluster.status().stores;
        Seen::of(format!("{stores:?}"), |text| {
            text.contains("the 1 bytes that a cache may hold")
        })
    })
    .await?;
    fleet.handle.set_caches(CacheOptions::default());
    log.ran(&request("alpha", "a"), 1).await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_410_lists_once_and_synthesises_deletes() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", object("stays", json!({})))?;
    fleet.apply("alpha", object("goes", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "goes"), 1).await?;
    log.ran(&request("alpha", "stays"), 1).await?;
    let (lists, _) = fleet.asked("alpha", "configmaps");
    fleet.simulated("alpha").down(true);
    fleet.simulated("alpha").cut_watches();
    fleet
        .simulated("alpha")
        .delete("v1", "ConfigMap", "default", "goes")
        .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    fleet.apply("alpha", object("comes", json!({})))?;
    fleet.simulated("alpha").compact();
    fleet.simulated("alpha").down(false);
    log.ran(&request("alpha", "comes"), 1).await?;
    log.ran(&request("alpha", "goes"), 2).await?;
    assert_eq!(
        fleet.asked("alpha", "configmaps").0,
        lists + 1,
        "one list, no more"
    );
    assert_eq!(
        get(&client(&cluster), "goes", ReadMode::Cached).await?,
        None
    );
    super::keys::wait_idle(&fleet).await?;
    assert_eq!(
        log.count(&request("alpha", "stays")),
        1,
        "what did not change is no event"
    );
    fleet.stop().await
}

#[tokio::test]
async fn own_writes_and_deletes_are_seen_by_the_next_cached_read() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    let cluster = fleet.engage("alpha").await?;
    let client = client(&cluster);
    for round in 0..50 {
        let value = round.to_string();
        client
            .apply(
                &config_map(),
                bytes(&object("own", json!({"round": value}))),
                &ApplyOptions::default(),
            )
            .await?;
        let read = get(&client, "own", ReadMode::Cached)
            .await?
            .expect("just applied");
        assert_eq!(
            read["data"]["round"], value,
            "a cached read went back in time"
        );
        client
            .delete(&config_map(), &key("own"), &DeleteOptions::default())
            .await?;
        assert_eq!(
            get(&client, "own", ReadMode::Cached).await?,
            None,
            "a deleted object came back"
        );
    }
    fleet.stop().await
}

#[tokio::test]
async fn a_cached_object_has_no_managed_fields_and_knows_its_kind() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    let cluster = fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({"x": "1"})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    let cached = get(&client(&cluster), "a", ReadMode::Cached)
        .await?
        .expect("cached");
    assert_eq!(
        (&cached["kind"], &cached["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    assert!(cached["metadata"]["managedFields"].is_null());
    let live = get(&client(&cluster), "a", ReadMode::Live)
        .await?
        .expect("live");
    assert!(live["metadata"]["managedFields"].is_array());
    fleet.stop().await
}

#[tokio::test]
async fn a_kind_that_nobody_watches_is_cached_on_the_first_read() -> Result<()> {
    let fleet = TestFleet::start(&["alpha"], |b| b).await?;
    let cluster = fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({"x": "1"})))?;
    let client = client(&cluster);
    assert!(get(&client, "a", ReadMode::Cached).await?.is_some());
    assert_eq!(fleet.asked("alpha", "configmaps").0, 1);
    wait("a watch", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 1)
    })
    .await?;
    assert!(get(&client, "absent", ReadMode::Cached).await?.is_none());
    let page = client
        .list(
            &config_map(),
            &ListOptions {
                namespace: Some("default".into()),
                ..Default::default()
            },
        )
        .await?;
    assert!(
        page.items
            .iter()
            .any(|item| item.windows(5).any(|w| w == b"\"x\":\""))
    );
    assert_eq!(
        fleet.asked("alpha", "configmaps").0,
        1,
        "further reads need no list"
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_cached_read_of_a_kind_that_is_not_served_says_so() -> Result<()> {
    let fleet = TestFleet::start(&["alpha"], |b| b).await?;
    let cluster = fleet.engage("alpha").await?;
    let kind = GroupVersionKind::new("example.com", "v1", "Widget");
    let error = client(&cluster)
        .list(&kind, &ListOptions::default())
        .await
        .expect_err("no such kind");
    assert_eq!(error.code, ApiCode::UnknownKind);
    assert!(
        error.message.contains("install its CRD"),
        "{}",
        error.message
    );
    fleet.stop().await
}

#[tokio::test]
async fn two_controllers_of_one_kind_share_one_watch() -> Result<()> {
    let log = Arc::new(Log::default());
    let second = {
        let log = log.clone();
        let reconcile = move |context: Context| {
            log.enter(&context.request);
            log.leave(&context.request);
            async { Ok(Action::Done) }
        };
        windlass_fleet::Controller::builder(windlass_fleet::ControllerName::new("second")?)
            .for_kind(config_map())
            .build(Arc::new(reconcile))?
    };
    let fleet = TestFleet::start(&["alpha"], |b| {
        b.controller(recording(&log)).controller(second)
    })
    .await?;
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 2).await?;
    assert_eq!(fleet.simulated("alpha").watchers(), 1);
    assert_eq!(fleet.asked("alpha", "configmaps").0, 1);
    fleet.stop().await
}

#[tokio::test]
async fn a_patch_that_the_watch_confirms_later_is_one_event() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(recording(&log))).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    let patch = bytes(&json!({"data": {"x": "1"}}));
    client(&cluster)
        .patch(
            &config_map(),
            &key("a"),
            PatchType::Merge,
            patch,
            &WriteOptions::default(),
        )
        .await?;
    log.ran(&request("alpha", "a"), 2).await?;
    super::keys::wait_idle(&fleet).await?;
    assert_eq!(log.count(&request("alpha", "a")), 2);
    fleet.stop().await
}

fn of_core(kind: &str) -> GroupVersionKind {
    GroupVersionKind::new("", "v1", kind)
}

#[tokio::test]
async fn a_cached_read_of_a_cache_that_cannot_be_filled_fails_at_once_with_the_reason() -> Result<()>
{
    let faults = Arc::new(Faults::default());
    faults.on_request(|call| match (&*call.resource, call.verb) {
        ("secrets", Verb::List | Verb::Watch) => Some(refusal(500, "Broken")),
        ("services", Verb::List | Verb::Watch) => Some(refusal(503, "Away")),
        ("pods", Verb::List | Verb::Watch) => Some(refusal(429, "Busy")),
        _ => None,
    });
    let small = caches(CacheOptions {
        max_bytes: 50,
        ..CacheOptions::default()
    });
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| b.options(small)).await?;
    let cluster = fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let client = client(&cluster);
    for (kind, code, reason) in [
        ("Secret", ApiCode::Unavailable, "Broken"),
        ("Service", ApiCode::Unavailable, "Away"),
        ("Pod", ApiCode::Throttled, "Busy"),
        ("ConfigMap", ApiCode::Unavailable, "exceed the 50 bytes"),
    ] {
        let (kind, began) = (of_core(kind), Instant::now());
        let listed = client.list(&kind, &ListOptions::default()).await;
        let read = client.get(&kind, &key("a"), &GetOptions::default()).await;
        for error in [listed.map(drop).err(), read.map(drop).err()] {
            let error = error.expect("its cache cannot be filled");
            assert_eq!(error.code, code, "{error}");
            let named = format!("the cache of {kind} cannot be filled: ");
            assert!(error.message.starts_with(&named), "{error}");
            assert!(error.message.contains(reason), "{error}");
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{kind}");
    }
    faults.heal();
    wait("a filled cache", || {
        let stores = cluster.status().stores;
        Seen::of(stores, |stores| stores.iter().any(|store| store.synced))
    })
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_run_that_waits_for_a_first_list_in_vain_says_so_and_blames_the_server() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    faults.on_request(|call| (call.resource == "secrets").then_some(RequestVerdict::Silence));
    let options = ControllerOptions {
        timeout: Duration::from_secs(1),
        ..ControllerOptions::default()
    };
    let work = |context: Context| async move {
        let client = context.client(&Arc::new(Grant::all()));
        let listed = client
            .list(&of_core("Secret"), &ListOptions::default())
            .await;
        // As a guest's error, which says nothing of whose fault it is.
        listed.map_err(|error| Failure::retry(error.to_string()))?;
        Ok(Action::Done)
    };
    let waiting = controller_with(&log, options, work);
    let fleet = TestFleet::start_with(faults, &["alpha"], |b| b.controller(waiting)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ended(1).await?;
    let status = wait("a failure", || {
        Seen::of(fleet.handle.controllers(), |all| {
            all.iter().any(|one| one.last_error.is_some())
        })
    })
    .await?
    .remove(0);
    let error = status.last_error.unwrap_or_default();
    assert!(error.contains("the first list of v1/Secret"), "{error}");
    assert_eq!(status.last_blame, Some("api"), "{error}");
    fleet.stop().await
}
