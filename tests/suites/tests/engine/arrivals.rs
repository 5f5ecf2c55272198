//! Kinds that come, change and go while they are watched: on a simulated cluster and on a real one.

use super::fixture::{Log, backs_off, object, patient};
use anyhow::Result;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::api::{DeleteOptions, GetOptions, PatchType, ReadMode, WriteOptions};
use windlass_fleet::cluster::{Cluster, KubeconfigPolicy};
use windlass_fleet::{
    Action, Client, Context, Controller, ControllerName, Grant, GroupVersionKind, ObjectKey,
    Request,
};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

fn widget_kind(version: &str) -> GroupVersionKind {
    GroupVersionKind::new("example.com", version, "Widget")
}

fn definitions() -> GroupVersionKind {
    GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

/// The definition of widgets, serving these versions.
fn definition(served: &[&str]) -> Value {
    let versions: Vec<Value> = ["v1", "v2"]
        .iter()
        .map(|version| {
            json!({"name": version, "served": served.contains(version), "storage": *version == "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        })
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": versions}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn watching_widgets(log: &Arc<Log>) -> Result<Controller> {
    let log = log.clone();
    let reconcile = move |context: Context| {
        log.enter(&context.request);
        log.leave(&context.request);
        async { Ok(Action::Done) }
    };
    let builder = Controller::builder(ControllerName::new("widgets")?).for_kind(widget_kind("v1"));
    Ok(builder.build(Arc::new(reconcile))?)
}

fn text(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// The versions that are served, set.
async fn serve(client: &Client, served: &[&str]) -> Result<()> {
    let patch = json!({"spec": {"versions": definition(served)["spec"]["versions"]}});
    let crd = ObjectKey::cluster_scoped("widgets.example.com");
    client
        .patch(
            &definitions(),
            &crd,
            PatchType::Merge,
            text(&patch),
            &WriteOptions::default(),
        )
        .await?;
    Ok(())
}

/// Creates a widget as soon as its kind is served.
async fn create(client: &Client, name: &str) -> Result<()> {
    let kind = widget_kind("v1");
    windlass_harness::eventually(
        windlass_harness::eventually::DEADLINE,
        "a created widget",
        || async {
            let options = WriteOptions::default();
            Ok(
                match client.create(&kind, text(&widget(name)), &options).await {
                    Ok(_) => Seen::Yes(()),
                    Err(error) => Seen::NotYet(error.to_string()),
                },
            )
        },
    )
    .await
}

async fn store_is(cluster: &Cluster, what: &str, wanted: bool) -> Result<()> {
    wait(what, || {
        let stores = cluster.status().stores;
        let there = stores
            .iter()
            .any(|s| s.kind.contains("Widget") && s.watching);
        Seen::of((there, stores), |(there, _)| *there == wanted)
    })
    .await
    .map(drop)
}

/// A kind's whole life as its watch sees it.
async fn live_and_die(cluster: &Arc<Cluster>, log: &Log) -> Result<()> {
    let client = cluster.client(Grant::all());
    let ran = |object: &str| Request::new(cluster.name().clone(), key(object));
    client
        .create(
            &definitions(),
            text(&definition(&["v1"])),
            &WriteOptions::default(),
        )
        .await?;
    create(&client, "first").await?;
    log.ran(&ran("first"), 1).await?;
    store_is(cluster, "a watch of widgets", true).await?;

    serve(&client, &["v1", "v2"]).await?;
    create(&client, "second").await?;
    log.ran(&ran("second"), 1).await?;

    // The version that is watched goes: for its watch so do the objects.
    serve(&client, &["v2"]).await?;
    store_is(cluster, "no watch of widgets", false).await?;
    log.ran(&ran("second"), 2).await?;
    let cached = GetOptions {
        mode: ReadMode::Cached,
        ..GetOptions::default()
    };
    let read = client
        .get(&widget_kind("v1"), &key("second"), &cached)
        .await;
    assert!(
        read.is_err(),
        "a kind that is not served has no cached objects"
    );

    serve(&client, &["v1", "v2"]).await?;
    log.ran(&ran("second"), 3).await?;
    store_is(cluster, "a watch of widgets again", true).await?;

    let crd = ObjectKey::cluster_scoped("widgets.example.com");
    client
        .delete(&definitions(), &crd, &DeleteOptions::default())
        .await?;
    log.ran(&ran("second"), 4).await?;
    store_is(cluster, "no watch of widgets any more", false).await
}

#[tokio::test]
async fn a_watch_waits_for_its_kind_starts_restarts_and_stops_with_it() -> Result<()> {
    let log = Arc::new(Log::default());
    let widgets = watching_widgets(&log)?;
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(widgets)).await?;
    let cluster = fleet.engage("alpha").await?;
    let began = std::time::Instant::now();
    live_and_die(&cluster, &log).await?;
    // What changes is told: nothing of this waits for the time at which a kind is looked for anyway.
    assert!(began.elapsed() < std::time::Duration::from_secs(25));
    fleet.stop().await
}

#[tokio::test]
async fn keys_that_lacked_a_kind_run_when_it_comes() -> Result<()> {
    let log = Arc::new(Log::default());
    let widgets = watching_widgets(&Arc::default())?;
    let needs_widgets = patient(&log, |context: Context| async move {
        let client = context.client(&Arc::new(Grant::all()));
        let options = GetOptions::default();
        client
            .get(&widget_kind("v1"), &key("first"), &options)
            .await?;
        Ok(Action::Done)
    });
    let fleet = TestFleet::start(&["alpha"], |b| {
        b.controller(widgets).controller(needs_widgets)
    })
    .await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    backs_off(&fleet).await?;
    fleet.apply("alpha", definition(&["v1"]))?;
    log.ran(&request("alpha", "a"), 2).await?;
    fleet.stop().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_watch_follows_the_life_of_its_kind_on_a_real_server() -> Result<()> {
    use windlass_harness::testenv::{Environment, Spec};
    let environment = Environment::start([Spec::new("real")]).await?;
    let log = Arc::new(Log::default());
    let widgets = watching_widgets(&log)?;
    let fleet = TestFleet::start(&[], |b| b.controller(widgets)).await?;
    let kubeconfig = environment.server("real").kubeconfig();
    fleet.add_from("real", &kubeconfig, &KubeconfigPolicy::file())?;
    let cluster = fleet.ready("real").await?;
    live_and_die(&cluster, &log).await?;
    fleet.stop().await
}
