//! Which caches there are, for how long, and who shares them.

use super::clients::rule;
use super::faults::{Faults, refusal};
use super::fixture::{Log, caches, client, config_map, get, logged, object};
use anyhow::Result;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::Verb;
use windlass_fleet::api::{ListOptions, ReadMode};
use windlass_fleet::cluster::{CacheOptions, Cluster};
use windlass_fleet::selector::FieldSelector;
use windlass_fleet::source::{Enqueue, Index, Watch};
use windlass_fleet::{Action, Context, Controller, ControllerName, Grant, TenantName};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

fn labelled(name: &str, app: &str) -> Value {
    let mut object = object(name, json!({"app": app}));
    object["metadata"]["labels"] = json!({"app": app});
    object
}

/// A controller of ConfigMaps, all of them or those of a selector.
fn selecting(log: &Arc<Log>, name: &str, selector: Option<&str>) -> Result<Controller> {
    let log = log.clone();
    let reconcile = move |context: Context| {
        log.enter(&context.request);
        log.leave(&context.request);
        async { Ok(Action::Done) }
    };
    let mut watch = Watch::new(config_map(), Enqueue::Primary);
    watch.label_selector = selector.map(str::parse).transpose()?;
    let builder = Controller::builder(ControllerName::new(name)?).watch(watch);
    Ok(builder.build(Arc::new(reconcile))?)
}

async fn stores(cluster: &Cluster, wanted: usize) -> Result<()> {
    wait("so many caches", || {
        Seen::of(cluster.status().stores, |stores| stores.len() == wanted)
    })
    .await
    .map(drop)
}

/// Selectors of the watches that the cluster `alpha` was asked for.
fn selectors(fleet: &TestFleet) -> Vec<String> {
    let calls = fleet.simulated("alpha").requests();
    let watches = calls
        .iter()
        .filter(|call| call.resource == "configmaps" && call.verb == Verb::Watch);
    watches
        .map(|call| call.parameter("labelSelector").unwrap_or_default())
        .collect()
}

#[tokio::test]
async fn a_selection_is_cached_alone_until_somebody_needs_the_rest() -> Result<()> {
    let (some, all) = (Arc::new(Log::default()), Arc::new(Log::default()));
    let first = selecting(&some, "some", Some("app=a"))?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(first)).await?;
    for (name, app) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        fleet.apply("alpha", labelled(name, app))?;
    }
    let cluster = fleet.engage("alpha").await?;
    some.ran(&request("alpha", "a2"), 1).await?;
    assert_eq!(selectors(&fleet), ["app=a"]);
    assert_eq!(cluster.status().objects, 2);

    fleet.handle.put_controller(selecting(&all, "all", None)?)?;
    all.ran(&request("alpha", "b1"), 1).await?;
    stores(&cluster, 1).await?;
    assert_eq!(
        selectors(&fleet),
        ["app=a", ""],
        "one whole cache in its place"
    );
    let runs = some.total();
    assert_eq!(runs, 2, "the move is no event");

    // The watch goes on in the other cache, and its selection holds.
    fleet.apply("alpha", labelled("a3", "a"))?;
    fleet.apply("alpha", labelled("b2", "b"))?;
    some.ran(&request("alpha", "a3"), 1).await?;
    all.ran(&request("alpha", "b2"), 1).await?;
    fleet
        .simulated("alpha")
        .delete("v1", "ConfigMap", "default", "a1")
        .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    some.ran(&request("alpha", "a1"), 2).await?;
    assert_eq!(some.total(), runs + 2, "nothing twice and nothing of b");

    // There is no way back.
    let all = ControllerName::new("all")?;
    assert!(
        fleet
            .handle
            .remove_controller(&TenantName::default(), &all)
            .await
    );
    fleet.apply("alpha", labelled("a4", "a"))?;
    some.ran(&request("alpha", "a4"), 1).await?;
    assert_eq!(selectors(&fleet).len(), 2);
    fleet.stop().await
}

#[tokio::test]
async fn equal_selections_share_a_cache_and_different_ones_share_the_whole() -> Result<()> {
    let log = Arc::new(Log::default());
    let (one, two) = (
        selecting(&log, "one", Some("app=a"))?,
        selecting(&log, "two", Some("app=a"))?,
    );
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(one).controller(two)).await?;
    fleet.apply("alpha", labelled("a", "a"))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 2).await?;
    assert_eq!(selectors(&fleet), ["app=a"]);
    let other = Arc::new(Log::default());
    fleet.apply("alpha", labelled("b", "b"))?;
    fleet
        .handle
        .put_controller(selecting(&other, "three", Some("app=b"))?)?;
    other.ran(&request("alpha", "b"), 1).await?;
    stores(&cluster, 1).await?;
    assert_eq!(cluster.status().objects, 2);
    assert_eq!(log.total(), 2);
    fleet.stop().await
}

#[tokio::test]
async fn a_cache_ends_with_its_last_user_and_comes_back_with_the_next() -> Result<()> {
    let log = Arc::new(Log::default());
    let (one, two) = (selecting(&log, "one", None)?, selecting(&log, "two", None)?);
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(one).controller(two)).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 2).await?;
    let remove = async |name: &str| -> Result<bool> {
        let name = ControllerName::new(name)?;
        Ok(fleet
            .handle
            .remove_controller(&TenantName::default(), &name)
            .await)
    };
    assert!(remove("one").await?);
    assert_eq!(cluster.status().stores.len(), 1);
    assert!(remove("two").await?);
    stores(&cluster, 0).await?;
    wait("no watch", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 0)
    })
    .await?;
    fleet
        .handle
        .put_controller(selecting(&log, "three", None)?)?;
    log.ran(&request("alpha", "a"), 3).await?;
    stores(&cluster, 1).await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_cache_that_only_reads_use_ends_when_it_is_not_read() -> Result<()> {
    let soon = caches(CacheOptions {
        unread_life: Duration::from_millis(800),
        ..CacheOptions::default()
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.options(soon)).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    let client = client(&cluster);
    assert!(get(&client, "a", ReadMode::Cached).await?.is_some());
    assert_eq!(cluster.status().stores.len(), 1);
    stores(&cluster, 0).await?;
    assert!(get(&client, "a", ReadMode::Cached).await?.is_some());
    assert_eq!(
        fleet.asked("alpha", "configmaps").0,
        2,
        "the next read brings it back"
    );
    fleet.stop().await
}

#[tokio::test]
async fn with_get_alone_a_cached_read_asks_the_server_and_caches_nothing() -> Result<()> {
    let fleet = TestFleet::start(&["alpha"], |b| b).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    let rule = rule(&["configmaps"], &["get"], &["*"]);
    let client = cluster.client(Grant::new([rule]));
    assert!(get(&client, "a", ReadMode::Cached).await?.is_some());
    assert!(get(&client, "absent", ReadMode::Cached).await?.is_none());
    assert_eq!(cluster.status().stores.len(), 0);
    assert_eq!(fleet.simulated("alpha").count(Verb::Get, "configmaps"), 2);
    fleet.stop().await
}

#[tokio::test]
async fn cached_lists_come_in_pages_that_neither_lose_nor_repeat() -> Result<()> {
    let fleet = TestFleet::start(&["alpha"], |b| b).await?;
    for n in 0..25 {
        fleet.apply(
            "alpha",
            labelled(&format!("n{n:02}"), if n % 2 == 0 { "even" } else { "odd" }),
        )?;
    }
    let cluster = fleet.engage("alpha").await?;
    let client = client(&cluster);
    let mut options = ListOptions {
        label_selector: Some("app=even".into()),
        limit: 4,
        ..ListOptions::default()
    };
    let mut names = Vec::new();
    loop {
        let page = client.list(&config_map(), &options).await?;
        assert!(page.items.len() <= 4);
        for item in &page.items {
            let item: Value = serde_json::from_slice(item)?;
            names.push(
                item["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        // What comes or goes between two pages does not shift the rest.
        fleet.apply("alpha", labelled("a-first", "even"))?;
        match page.continue_token {
            Some(token) => options.continue_token = Some(token),
            None => break,
        }
    }
    let expected: Vec<String> = (0..25).step_by(2).map(|n| format!("n{n:02}")).collect();
    assert_eq!(names, expected);
    assert_eq!(fleet.simulated("alpha").count(Verb::List, "configmaps"), 0);
    fleet.stop().await
}

/// Indexes that are declared before a cluster is engaged, twice, and by a controller that comes later.
#[tokio::test]
async fn an_index_holds_for_clusters_engaged_later_and_goes_with_its_controller() -> Result<()> {
    let log = Arc::new(Log::default());
    let indexed = |name: &str| -> Result<Controller> {
        let (log, grant) = (log.clone(), Arc::new(Grant::all()));
        let reconcile = move |context: Context| {
            let (log, grant) = (log.clone(), grant.clone());
            async move {
                log.enter(&context.request);
                let found = by_target(&context.client(&grant), "there").await;
                log.leave(&context.request);
                match found {
                    Ok(names) if names == ["a", "b"] => Ok(Action::Done),
                    other => Err(windlass_fleet::Failure::terminal(format!("{other:?}"))),
                }
            }
        };
        let index = Index {
            kind: config_map(),
            name: "target".into(),
            path: "data.target".parse()?,
            namespace_path: None,
        };
        let builder = Controller::builder(ControllerName::new(name)?).for_kind(config_map());
        Ok(builder
            .index(index.clone())
            .index(index)
            .build(Arc::new(reconcile))?)
    };
    let controller = indexed("first")?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    for name in ["a", "b"] {
        fleet.apply("alpha", object(name, json!({"target": "there"})))?;
    }
    fleet.apply("alpha", object("c", json!({"target": "elsewhere"})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "c"), 1).await?;
    super::keys::wait_idle(&fleet).await?;
    // Another controller with the same index is declared while the first one goes.
    fleet.handle.put_controller(indexed("second")?)?;
    let first = ControllerName::new("first")?;
    assert!(
        fleet
            .handle
            .remove_controller(&TenantName::default(), &first)
            .await
    );
    fleet.apply("alpha", object("d", json!({})))?;
    log.ran(&request("alpha", "d"), 1).await?;
    super::keys::wait_idle(&fleet).await?;
    fleet.stop().await
}

/// A controller of ConfigMaps with this grant and an index on each of these paths.
fn replaced_by(log: &Arc<Log>, grant: Grant, paths: &[&str]) -> Result<Controller> {
    let mut builder = super::fixture::builder().grant(Arc::new(grant));
    for path in paths {
        builder = builder.index(Index {
            kind: config_map(),
            name: (*path).to_owned(),
            path: path.parse()?,
            namespace_path: None,
        });
    }
    Ok(logged(builder, log, |_| async { Ok(Action::Done) }))
}

/// Waits until the only cache has indexes on these paths and no others.
async fn indexed_by(cluster: &Cluster, paths: &[&str]) -> Result<()> {
    wait("the indexes", || {
        let stores = cluster.status().stores;
        let indexes: Vec<Vec<String>> = stores.into_iter().map(|store| store.indexes).collect();
        Seen::of(indexes, |all| all.len() == 1 && all[0] == paths)
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn a_controller_replaced_with_other_indexes_has_them_filled_on_watches_that_stay()
-> Result<()> {
    let log = Arc::new(Log::default());
    let first = replaced_by(&log, Grant::all(), &["data.target"])?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(first)).await?;
    fleet.apply("alpha", object("a", json!({"target": "there"})))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    indexed_by(&cluster, &["data.target"]).await?;
    let before = fleet.asked("alpha", "configmaps");
    for paths in [&["data.target", "data.via"][..], &["data.via"], &[]] {
        let next = replaced_by(&log, Grant::all(), paths)?;
        fleet.handle.put_controller(next)?;
        indexed_by(&cluster, paths).await?;
    }
    assert_eq!(
        fleet.asked("alpha", "configmaps"),
        before,
        "the watch stayed"
    );
    assert_eq!(log.total(), 1);
    fleet.stop().await
}

#[tokio::test]
async fn a_controller_replaced_under_another_grant_keeps_its_caches_as_far_as_it_may() -> Result<()>
{
    let log = Arc::new(Log::default());
    let rule = |verbs: &[&str], namespaces: &[&str]| {
        Grant::new([rule(&["configmaps"], verbs, namespaces)])
    };
    let first = replaced_by(&log, rule(&["list", "watch"], &["*"]), &[])?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(first)).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    let before = fleet.asked("alpha", "configmaps");
    for (runs, verbs) in [(2, &["list", "watch", "get"][..]), (3, &["list", "watch"])] {
        let next = replaced_by(&log, rule(verbs, &["*"]), &[])?;
        fleet.handle.put_controller(next)?;
        // What another grant may make of an object is looked at anew.
        log.ran(&request("alpha", "a"), runs).await?;
    }
    assert_eq!(
        fleet.asked("alpha", "configmaps"),
        before,
        "nothing was asked for"
    );

    // Of a narrower one the wide cache would be more than it may need: a server may refuse it by now.
    let next = replaced_by(&log, rule(&["list", "watch"], &["default"]), &[])?;
    fleet.handle.put_controller(next)?;
    log.ran(&request("alpha", "a"), 4).await?;
    let status = cluster.status();
    let namespaces: Vec<_> = status.stores.iter().map(|store| &store.namespace).collect();
    assert_eq!(namespaces, [&Some("default".to_owned())]);
    assert_eq!(fleet.asked("alpha", "configmaps").0, before.0 + 1);
    fleet.stop().await
}

/// Names of the ConfigMaps that an index finds.
async fn by_target(
    client: &windlass_fleet::Client,
    value: &str,
) -> Result<Vec<String>, windlass_fleet::ApiError> {
    let options = ListOptions {
        index: Some(("target".into(), value.into())),
        ..ListOptions::default()
    };
    let page = client.list(&config_map(), &options).await?;
    let name = |item: &bytes::Bytes| {
        let item: Value = serde_json::from_slice(item).unwrap_or_default();
        item["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    Ok(page.items.iter().map(name).collect())
}

#[tokio::test]
async fn a_watch_of_a_namespace_moves_to_the_cache_of_all_once_somebody_needs_that() -> Result<()> {
    let (some, all) = (Arc::new(Log::default()), Arc::new(Log::default()));
    let narrow = {
        let log = some.clone();
        let reconcile = move |context: Context| {
            log.enter(&context.request);
            log.leave(&context.request);
            async { Ok(Action::Done) }
        };
        let verbs = ["get", "list", "watch"];
        let grant = Grant::new([rule(&["configmaps"], &verbs, &["default"])]);
        Controller::builder(ControllerName::new("narrow")?)
            .for_kind(config_map())
            .grant(Arc::new(grant))
            .build(Arc::new(reconcile))?
    };
    let wide = selecting(&all, "wide", None)?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(narrow)).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    some.ran(&request("alpha", "a"), 1).await?;
    fleet.handle.put_controller(wide)?;
    all.ran(&request("alpha", "a"), 1).await?;
    wait("one cache of all namespaces", || {
        Seen::of(cluster.status().stores, |stores| {
            stores.len() == 1 && stores[0].namespace.is_none()
        })
    })
    .await?;
    fleet.apply("alpha", object("b", json!({})))?;
    some.ran(&request("alpha", "b"), 1).await?;
    assert_eq!(
        some.count(&request("alpha", "a")),
        1,
        "nothing was offered anew"
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_cached_list_of_the_very_selection_that_is_cached_opens_no_other_cache() -> Result<()> {
    let log = Arc::new(Log::default());
    let some = selecting(&log, "some", Some("app=a"))?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(some)).await?;
    fleet.apply("alpha", labelled("one", "a"))?;
    fleet.apply("alpha", labelled("other", "b"))?;
    let cluster = fleet.engage("alpha").await?;
    log.ran(&request("alpha", "one"), 1).await?;
    let options = ListOptions {
        label_selector: Some("app=a".to_owned()),
        ..ListOptions::default()
    };
    let page = client(&cluster).list(&config_map(), &options).await?;
    assert_eq!(page.items.len(), 1);
    let stores = cluster.status().stores;
    assert_eq!(stores.len(), 1, "{stores:?}");
    fleet.stop().await
}

#[tokio::test]
async fn a_list_of_a_cache_that_is_behind_another_one_says_why_it_does_not_catch_up() -> Result<()>
{
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    let mut watch = Watch::new(config_map(), Enqueue::Primary);
    watch.field_selector = Some(FieldSelector::parse("metadata.name=one")?);
    let builder = Controller::builder(ControllerName::new("some")?).watch(watch);
    let controller = logged(builder, &log, |_| async { Ok(Action::Done) });
    let fleet =
        TestFleet::start_with(faults.clone(), &["alpha"], |b| b.controller(controller)).await?;
    let cluster = fleet.engage("alpha").await?;
    let client = client(&cluster);
    client.list(&config_map(), &ListOptions::default()).await?;
    stores(&cluster, 2).await?;
    let is_whole = |call: &windlass_apiserver::Call| {
        call.resource == "configmaps" && call.parameter("fieldSelector").is_none()
    };
    faults.on_request(move |call| is_whole(call).then(|| refusal(500, "Broken")));
    fleet.simulated("alpha").cut_watches();
    wait("a broken watch", || {
        let stores = cluster.status().stores;
        Seen::of(stores, |all| all.iter().any(|one| one.problem.is_some()))
    })
    .await?;
    fleet.apply("alpha", object("one", json!({})))?;
    log.ran(&request("alpha", "one"), 1).await?;
    let listed = client.list(&config_map(), &ListOptions::default()).await;
    let error = listed.map(drop).expect_err("it lacks the object");
    assert!(error.message.contains("Broken"), "{error}");
    faults.heal();
    wait("a list", || {
        Seen::of(cluster.status(), |now| now.objects >= 2)
    })
    .await?;
    client.list(&config_map(), &ListOptions::default()).await?;
    fleet.stop().await
}
