//! How events become requests: the enqueue rules, on simulated clusters.

use super::fixture::{Log, bytes, config_map, key, object};
use anyhow::{Context as _, Result};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use windlass_fleet::api::Json;
use windlass_fleet::controller::Builder;
use windlass_fleet::source::{Enqueue, Index, MapContext, MapError, Mapper, Watch};
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Grant, GroupVersionKind, Request,
};
use windlass_harness::eventually::{DEADLINE, Seen, eventually, wait};
use windlass_harness::fleet::{TestFleet, name, request};

fn secret_kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Secret")
}

fn secret(name: &str, namespace: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// ConfigMaps are primary; Secrets enqueue by a rule.
fn by(rule: Enqueue) -> Builder {
    Controller::builder(ControllerName::new("test").expect("a valid name"))
        .for_kind(config_map())
        .watch(Watch::new(secret_kind(), rule))
}

fn logging(builder: Builder, log: &Arc<Log>) -> Controller {
    let log = log.clone();
    let reconcile = move |context: Context| {
        log.enter(&context.request);
        log.leave(&context.request);
        async { Ok(Action::Done) }
    };
    builder
        .build(Arc::new(reconcile))
        .expect("a valid controller")
}

fn delete(fleet: &TestFleet, kind: &str, namespace: &str, name: &str) -> Result<()> {
    fleet
        .simulated("alpha")
        .delete("v1", kind, namespace, name)
        .map(drop)
        .map_err(|e| anyhow::anyhow!("{e:?}"))
}

#[tokio::test]
async fn by_index_enqueues_every_primary_object_that_refers_to_the_object() -> Result<()> {
    let log = Arc::new(Log::default());
    let index = Index {
        kind: config_map(),
        name: "secret".into(),
        path: "data.secret".parse()?,
        namespace_path: None,
    };
    let controller = logging(by(Enqueue::ByIndex("secret".into())).index(index), &log);
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    fleet.apply("alpha", namespace("elsewhere"))?;
    for (name, refers) in [("one", "s"), ("two", "s"), ("three", "t")] {
        fleet.apply("alpha", object(name, json!({"secret": refers})))?;
    }
    fleet.engage("alpha").await?;
    super::keys::wait_idle(&fleet).await?;
    assert_eq!(log.total(), 3);
    fleet.apply("alpha", secret("s", "elsewhere"))?;
    fleet.apply("alpha", secret("s", "default"))?;
    log.ran(&request("alpha", "one"), 2).await?;
    log.ran(&request("alpha", "two"), 2).await?;
    // What a primary object no longer refers to is not about it, what it refers to now is.
    fleet.apply("alpha", object("one", json!({"secret": "t"})))?;
    log.ran(&request("alpha", "one"), 3).await?;
    fleet.apply("alpha", secret("t", "default"))?;
    log.ran(&request("alpha", "one"), 4).await?;
    log.ran(&request("alpha", "three"), 2).await?;
    delete(&fleet, "Secret", "default", "s")?;
    log.ran(&request("alpha", "two"), 3).await?;
    super::keys::wait_idle(&fleet).await?;
    assert_eq!(log.total(), 4 + 2 + 3, "and nothing else");
    fleet.stop().await
}

#[tokio::test]
async fn by_index_finds_primary_objects_anywhere_that_name_a_cluster_scoped_object() -> Result<()> {
    let log = Arc::new(Log::default());
    let index = Index {
        kind: config_map(),
        name: "space".into(),
        path: "data.space".parse()?,
        namespace_path: None,
    };
    let spaces = GroupVersionKind::new("", "v1", "Namespace");
    let builder = Controller::builder(ControllerName::new("test")?)
        .for_kind(config_map())
        .watch(Watch::new(spaces, Enqueue::ByIndex("space".into())))
        .index(index);
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(logging(builder, &log))).await?;
    fleet.apply("alpha", object("a", json!({"space": "later"})))?;
    fleet.engage("alpha").await?;
    super::keys::wait_idle(&fleet).await?;
    fleet.apply("alpha", namespace("later"))?;
    log.ran(&request("alpha", "a"), 2).await?;
    fleet.stop().await
}

/// Owned objects enqueue their controlling owner, or every owner where that is asked for. The same on real servers: `semantics`.
#[tokio::test]
async fn any_owner_enqueues_all_owners_and_controller_owner_the_controller_alone() -> Result<()> {
    let (any, controlling) = (Arc::new(Log::default()), Arc::new(Log::default()));
    let other = Controller::builder(ControllerName::new("other")?)
        .for_kind(config_map())
        .owns_kind(secret_kind());
    let fleet = TestFleet::start(&["alpha"], |b| {
        b.controller(logging(by(Enqueue::AnyOwner), &any))
            .controller(logging(other, &controlling))
    })
    .await?;
    for name in ["one", "two"] {
        fleet.apply("alpha", object(name, json!({})))?;
    }
    fleet.engage("alpha").await?;
    super::keys::wait_idle(&fleet).await?;
    let uid = |name: &str| -> Result<Value> {
        let found = fleet
            .simulated("alpha")
            .get("v1", "ConfigMap", "default", name)
            .map_err(|e| anyhow::anyhow!("{e:?}"))?;
        Ok(found.context("seeded")?["metadata"]["uid"].clone())
    };
    let owner = |kind: &str, api: &str, name: &str, uid: Value, controller: bool| json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": controller});
    let mut owned = secret("s", "default");
    owned["metadata"]["ownerReferences"] = json!([
        owner("ConfigMap", "v1", "one", uid("one")?, true),
        owner("ConfigMap", "v1", "two", uid("two")?, false),
    ]);
    fleet.apply("alpha", owned)?;
    any.ran(&request("alpha", "one"), 2).await?;
    any.ran(&request("alpha", "two"), 2).await?;
    controlling.ran(&request("alpha", "one"), 2).await?;
    // An owner that is dropped hears of it.
    let mut disowned = secret("s", "default");
    disowned["metadata"]["ownerReferences"] =
        json!([owner("ConfigMap", "v1", "two", uid("two")?, false)]);
    fleet.apply("alpha", disowned)?;
    any.ran(&request("alpha", "one"), 3).await?;
    any.ran(&request("alpha", "two"), 3).await?;
    controlling.ran(&request("alpha", "one"), 3).await?;
    super::keys::wait_idle(&fleet).await?;
    assert_eq!(controlling.count(&request("alpha", "two")), 1);
    fleet.stop().await
}

#[tokio::test]
async fn same_name_enqueues_the_primary_object_of_that_name() -> Result<()> {
    let log = Arc::new(Log::default());
    let controller = logging(by(Enqueue::SameName), &log);
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", secret("s", "default"))?;
    log.ran(&request("alpha", "s"), 1).await?;
    delete(&fleet, "Secret", "default", "s")?;
    log.ran(&request("alpha", "s"), 2).await?;
    fleet.stop().await
}

/// Sends every event of cluster alpha to an object of the same name in beta; fails at first, and panics at second.
#[derive(Default)]
struct ToBeta {
    calls: AtomicUsize,
    /// How many objects came with each event.
    sizes: parking_lot::Mutex<Vec<usize>>,
}

impl Mapper for ToBeta {
    fn map(
        &self,
        context: MapContext,
        kind: GroupVersionKind,
        objects: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        assert_eq!(kind, secret_kind());
        match self.calls.fetch_add(1, Ordering::SeqCst) {
            0 => return Box::pin(async { Err(MapError::Failed("not yet".into())) }),
            1 => panic!("not yet either"),
            _ => {}
        }
        self.sizes.lock().push(objects.len());
        let mut requests = Vec::new();
        if context.cluster.name().as_str() == "alpha"
            && let Some(object) = objects.last()
            && let Ok(object) = serde_json::from_slice::<Value>(object)
        {
            let wanted = object["metadata"]["name"].as_str().unwrap_or_default();
            requests.push(Request::new(name("beta"), key(wanted)));
        }
        Box::pin(async { Ok(requests) })
    }
}

/// A map function across clusters: an event in one enqueues requests of another. The same on real servers: `semantics`.
#[tokio::test]
async fn a_mapper_reaches_other_clusters_and_its_failures_lose_nothing() -> Result<()> {
    let (log, mapper) = (Arc::new(Log::default()), Arc::new(ToBeta::default()));
    let controller = logging(by(Enqueue::Mapped(mapper.clone())), &log);
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(controller)).await?;
    fleet.engage("beta").await?;
    fleet.engage("alpha").await?;
    super::keys::wait_idle(&fleet).await?;
    fleet.apply("alpha", secret("s", "default"))?;
    log.ran(&request("beta", "s"), 1).await?;
    assert_eq!(mapper.calls.load(Ordering::SeqCst), 3);
    let mut changed = secret("s", "default");
    changed["metadata"]["labels"] = json!({"changed": "yes"});
    fleet.apply("alpha", changed)?;
    log.ran(&request("beta", "s"), 2).await?;
    delete(&fleet, "Secret", "default", "s")?;
    log.ran(&request("beta", "s"), 3).await?;
    assert_eq!(
        *mapper.sizes.lock(),
        [1, 2, 1],
        "an update comes with the old and the new"
    );
    assert_eq!(log.count(&request("alpha", "s")), 0);
    fleet.stop().await
}

/// Never succeeds.
struct Never;

impl Mapper for Never {
    fn map(
        &self,
        _: MapContext,
        _: GroupVersionKind,
        _: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        Box::pin(async { Err(MapError::Failed("no color".into())) })
    }
}

#[tokio::test]
async fn what_waits_for_a_mapper_that_fails_says_why() -> Result<()> {
    let controller = logging(by(Enqueue::Mapped(Arc::new(Never))), &Arc::default());
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", secret("s", "default"))?;
    let expected =
        "wait for its mapper, which failed for v1/Secret default/s: no color (cluster \"alpha\")";
    eventually(DEADLINE, expected, || async {
        let busy = fleet.handle.idle().await.busy;
        Ok(Seen::of(busy, |busy| {
            busy.iter().any(|why| why.contains(expected))
        }))
    })
    .await?;
    fleet.stop().await
}

/// Sends every Secret of any cluster to an object of the same name in beta.
struct AllToBeta;

impl Mapper for AllToBeta {
    fn map(
        &self,
        _: MapContext,
        _: GroupVersionKind,
        objects: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        let requests = objects.iter().filter_map(|object| {
            let object: Value = serde_json::from_slice(object).ok()?;
            let wanted = object["metadata"]["name"].as_str()?;
            Some(Request::new(name("beta"), key(wanted)))
        });
        let requests = Ok(requests.collect());
        Box::pin(async { requests })
    }
}

#[tokio::test]
async fn a_mapper_goes_on_when_the_cluster_it_maps_from_or_to_comes_back() -> Result<()> {
    let log = Arc::new(Log::default());
    let controller = logging(by(Enqueue::Mapped(Arc::new(AllToBeta))), &log);
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(controller)).await?;
    fleet.engage("alpha").await?;
    // There is nobody to tell of it yet.
    fleet.apply("alpha", secret("early", "default"))?;
    super::keys::wait_idle(&fleet).await?;
    fleet.engage("beta").await?;
    log.ran(&request("beta", "early"), 1).await?;
    fleet.provider.remove(&name("beta"));
    wait("beta's end", || {
        Seen::of(fleet.handle.clusters().len(), |n| *n == 1)
    })
    .await?;
    fleet.apply("alpha", secret("meanwhile", "default"))?;
    super::keys::wait_idle(&fleet).await?;
    assert_eq!(log.count(&request("beta", "meanwhile")), 0);
    fleet.engage("beta").await?;
    log.ran(&request("beta", "meanwhile"), 1).await?;
    fleet.provider.remove(&name("alpha"));
    wait("alpha's end", || {
        Seen::of(fleet.handle.clusters().len(), |n| *n == 1)
    })
    .await?;
    fleet.apply("alpha", secret("unseen", "default"))?;
    fleet.engage("alpha").await?;
    log.ran(&request("beta", "unseen"), 1).await?;
    assert_eq!(log.count(&request("alpha", "early")), 0);
    fleet.stop().await
}

/// Maps every Secret to the object of its name in the same cluster, as soon as it is let.
struct Gated(AtomicBool);

impl Mapper for Gated {
    fn map(
        &self,
        context: MapContext,
        _: GroupVersionKind,
        objects: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        if !self.0.load(Ordering::SeqCst) {
            return Box::pin(async { Err(MapError::Failed("not yet".into())) });
        }
        let requests = objects.iter().filter_map(|object| {
            let object: Value = serde_json::from_slice(object).ok()?;
            let wanted = object["metadata"]["name"].as_str()?;
            Some(Request::new(context.cluster.name().clone(), key(wanted)))
        });
        let requests = Ok(requests.collect());
        Box::pin(async { requests })
    }
}

/// No list tells of what is gone: a deletion that waits for code that fails outlives the replacement of that code, and of the grant.
#[tokio::test]
async fn a_deletion_that_waits_for_its_mapper_outlives_the_replacement_of_its_controller()
-> Result<()> {
    let log = Arc::new(Log::default());
    let with = |mapper: &Arc<Gated>, verbs: &[&str]| {
        let resources = ["configmaps", "secrets"];
        let grant = Grant::new([super::clients::rule(&resources, verbs, &["*"])]);
        let builder = by(Enqueue::Mapped(mapper.clone())).grant(Arc::new(grant));
        logging(builder, &log)
    };
    let first = Arc::new(Gated(AtomicBool::new(true)));
    let controller = with(&first, &["list", "watch"]);
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    fleet.apply("alpha", secret("s", "default"))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "s"), 1).await?;
    super::keys::wait_idle(&fleet).await?;
    first.0.store(false, Ordering::SeqCst);
    delete(&fleet, "Secret", "default", "s")?;
    wait("the deletion to wait", || {
        let busy = fleet.handle.clusters()[0].objects;
        Seen::of(busy, |left| *left == 0)
    })
    .await?;
    for verbs in [&["list", "watch", "get"][..], &["list", "watch"]] {
        let closed = Arc::new(Gated(AtomicBool::new(false)));
        fleet.handle.put_controller(with(&closed, verbs))?;
    }
    let open = Arc::new(Gated(AtomicBool::new(true)));
    fleet
        .handle
        .put_controller(with(&open, &["list", "watch", "get"]))?;
    log.ran(&request("alpha", "s"), 2).await?;
    fleet.stop().await
}

/// Of several watches of a kind that are replaced together each goes on with what is its own, in whatever namespaces it looks then.
#[tokio::test]
async fn deletions_that_wait_for_mappers_of_several_watches_outlive_their_replacement() -> Result<()>
{
    let log = Arc::new(Log::default());
    let with = |mapper: &Arc<Gated>, namespaces: &[&str]| -> Result<Controller> {
        let resources = ["configmaps", "secrets"];
        let grant = Grant::new([super::clients::rule(
            &resources,
            &["list", "watch"],
            namespaces,
        )]);
        let builder = Controller::builder(ControllerName::new("test")?).grant(Arc::new(grant));
        let mut watches = Vec::new();
        for part in ["a", "b"] {
            let mut watch = Watch::new(secret_kind(), Enqueue::Mapped(mapper.clone()));
            let selector = windlass_fleet::selector::LabelSelector::parse(&format!("part={part}"));
            watch.label_selector = Some(selector?);
            watches.push(watch);
        }
        let builder = watches
            .into_iter()
            .fold(builder, |builder, watch| builder.watch(watch));
        Ok(logging(builder, &log))
    };
    let first = Arc::new(Gated(AtomicBool::new(true)));
    let controller = with(&first, &["*"])?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    let all = [("a", "default"), ("b", "default"), ("b", "other")];
    let of = |(part, namespace): (&str, &str)| format!("{part}-{namespace}");
    fleet.apply("alpha", namespace("other"))?;
    for (part, namespace) in all {
        let mut labelled = secret(&of((part, namespace)), namespace);
        labelled["metadata"]["labels"] = json!({"part": part});
        fleet.apply("alpha", labelled)?;
    }
    fleet.engage("alpha").await?;
    for each in all {
        log.ran(&request("alpha", &of(each)), 1).await?;
    }
    super::keys::wait_idle(&fleet).await?;
    first.0.store(false, Ordering::SeqCst);
    for (part, namespace) in all {
        delete(&fleet, "Secret", namespace, &of((part, namespace)))?;
    }
    wait("the deletions to wait", || {
        let busy = fleet.handle.clusters()[0].objects;
        Seen::of(busy, |left| *left == 0)
    })
    .await?;
    let closed = Arc::new(Gated(AtomicBool::new(false)));
    fleet.handle.put_controller(with(&closed, &["*"])?)?;
    let open = Arc::new(Gated(AtomicBool::new(true)));
    fleet
        .handle
        .put_controller(with(&open, &["default", "other"])?)?;
    for each in all {
        log.ran(&request("alpha", &of(each)), 2).await?;
    }
    fleet.stop().await
}

#[tokio::test]
async fn an_object_that_stops_matching_counts_as_deleted() -> Result<()> {
    let log = Arc::new(Log::default());
    let mut watch = Watch::new(config_map(), Enqueue::Primary);
    watch.label_selector = Some(windlass_fleet::selector::LabelSelector::parse("on=yes")?);
    let builder = Controller::builder(ControllerName::new("test")?).watch(watch);
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(logging(builder, &log))).await?;
    let cluster = fleet.engage("alpha").await?;
    let labelled = |on: &str| {
        let mut value = object("a", json!({}));
        value["metadata"]["labels"] = json!({"on": on});
        value
    };
    fleet.apply("alpha", labelled("yes"))?;
    log.ran(&request("alpha", "a"), 1).await?;
    fleet.apply("alpha", labelled("no"))?;
    log.ran(&request("alpha", "a"), 2).await?;
    fleet.apply("alpha", labelled("never"))?;
    // An own write that takes it out of the selection and one that brings it back are seen at once.
    let client = super::fixture::client(&cluster);
    for (on, runs) in [("yes", 3), ("no", 4), ("yes", 5)] {
        let options = windlass_fleet::api::ApplyOptions {
            force: true,
            ..Default::default()
        };
        client
            .apply(&config_map(), bytes(&labelled(on)), &options)
            .await?;
        let mode = windlass_fleet::api::ReadMode::Cached;
        let read = super::fixture::get(&client, "a", mode).await?;
        assert_eq!(read.expect("it is there")["metadata"]["labels"]["on"], on);
        log.ran(&request("alpha", "a"), runs).await?;
    }
    fleet.stop().await
}

#[tokio::test]
async fn a_kind_that_is_not_served_keeps_no_other_kind_waiting() -> Result<()> {
    let log = Arc::new(Log::default());
    let widgets = GroupVersionKind::new("example.com", "v1", "Widget");
    let builder = Controller::builder(ControllerName::new("test")?)
        .for_kind(config_map())
        .watch(Watch::new(widgets, Enqueue::SameName));
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(logging(builder, &log))).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    let problems = wait("the problem", || {
        let status = fleet.handle.controllers();
        Seen::of(status[0].problems.clone(), |all| !all.is_empty())
    })
    .await?;
    assert!(problems[0].contains("install its CRD"), "{problems:?}");
    fleet.stop().await
}
