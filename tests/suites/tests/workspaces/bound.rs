//! Workspaces that have bound an export. Entry points: the tests.

use crate::ground::{Ground, on_both};
use crate::keeper::{config_map, widget_kind};
use crate::shop::{BINDINGS, MAPS, Shop, widget};
use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_fleet::api::{
    ApiCode, DeleteOptions, Event, EventType, GetOptions, Json, ListOptions, PatchType, ReadMode,
    WriteOptions,
};
use windlass_fleet::cluster::Client;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::kcp::WorkspaceNames;
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind,
    ObjectKey,
};
use windlass_harness::eventually::{DEADLINE, Seen, eventually, wait};
use windlass_harness::fleet::RunningManager;
use windlass_harness::testenv::kcp::Workspace;

on_both! {
    a_workspace_that_binds_the_export_is_a_cluster_with_its_own_objects,
    every_verb_works_and_stays_in_the_workspace,
    an_index_finds_what_is_in_the_workspace_and_the_fleet_has_the_others,
    each_workspace_gets_its_own_event_and_no_other,
    a_claim_that_is_rejected_is_named_where_it_is_missing,
    a_workspace_is_found_by_path_and_by_logical_cluster,
    a_client_by_path_reaches_the_root_and_a_new_workspace,
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn json(value: &Value) -> Json {
    value.to_string().into()
}

async fn colours(client: &Client, options: &ListOptions) -> Result<Vec<Value>> {
    let page = client.list(&widget_kind(), options).await?;
    let colour = |json: &Json| -> Result<Value> {
        let object: Value = serde_json::from_slice(json)?;
        Ok(object["spec"]["colour"].clone())
    };
    page.items.iter().map(colour).collect()
}

async fn a_workspace_that_binds_the_export_is_a_cluster_with_its_own_objects(
    ground: &Ground,
) -> Result<()> {
    let shop = Shop::open(ground, "bound").await?;
    let play = shop.play()?;
    let (a, b) = (shop.consumer("a").await?, shop.consumer("b").await?);
    shop.stranger("unbound").await?;
    play.engaged(&[&a, &b]).await?;
    for (consumer, own, colour) in [(&a, "only-a", "red"), (&b, "only-b", "blue")] {
        shop.put(consumer, "same", colour).await?;
        shop.put(consumer, own, colour).await?;
        shop.kept(consumer, "same", colour).await?;
        shop.kept(consumer, own, colour).await?;
    }
    for (consumer, colour) in [(&a, "red"), (&b, "blue")] {
        let client = play.client(consumer).await?;
        for mode in [ReadMode::Cached, ReadMode::Live] {
            for namespace in [None, Some("default".to_owned())] {
                let options = ListOptions {
                    mode,
                    namespace,
                    ..ListOptions::default()
                };
                assert_eq!(colours(&client, &options).await?, [colour, colour]);
            }
        }
    }
    // No event of one workspace made a request in the other.
    assert_eq!(play.keeper.clusters_of("only-a").join(" "), a.cluster);
    assert_eq!(play.keeper.clusters_of("only-b").join(" "), b.cluster);
    let cluster = play.ready(&a.cluster).await?;
    assert_eq!(cluster.properties().get("path"), Some(&*a.path));
    assert_eq!(cluster.properties().get("binding"), Some("things"));
    let binding = a.at(&format!("{BINDINGS}/things"));
    let label = json!({"metadata": {"labels": {"tier": "gold"}}});
    let labelled = ground.client.patch(&binding, "merge-patch", &label).await?;
    labelled.ok()?;
    wait("the label of the binding", || {
        let tier = cluster.labels().get("binding/tier").map(str::to_owned);
        Seen::of(tier, |tier| tier.as_deref() == Some("gold"))
    })
    .await?;
    let watches = ground.watches("widgets");
    ensure!(
        watches.is_none_or(|watches| watches == 1),
        "one for all: {watches:?}"
    );
    play.settles().await?;
    play.end().await
}

async fn every_verb_works_and_stays_in_the_workspace(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "verbs-in").await?;
    let (a, b) = (shop.consumer("a").await?, shop.consumer("b").await?);
    let play = shop.play()?;
    play.engaged(&[&a, &b]).await?;
    shop.put(&b, "mine", "blue").await?;
    let (client, other) = (play.client(&a).await?, play.client(&b).await?);
    let (kind, options) = (widget_kind(), WriteOptions::default());
    let made = json(&widget("mine", "red"));
    client.create(&kind, made, &options).await?;
    let read = async |client: &Client, mode| -> Result<Option<Value>> {
        let options = GetOptions {
            mode,
            ..GetOptions::default()
        };
        let found = client.get(&kind, &key("mine"), &options).await?;
        let parse = |json: Json| serde_json::from_slice(&json);
        Ok(found.map(parse).transpose()?)
    };
    let colour = async |client: &Client, mode| -> Result<Value> {
        let found = read(client, mode).await?;
        Ok(found.context("it is there")?["spec"]["colour"].clone())
    };
    assert_eq!(colour(&client, ReadMode::Cached).await?, "red");
    let patch = json(&json!({"spec": {"colour": "green"}}));
    client
        .patch(&kind, &key("mine"), PatchType::Merge, patch, &options)
        .await?;
    assert_eq!(colour(&client, ReadMode::Cached).await?, "green");
    let mut status = read(&client, ReadMode::Live)
        .await?
        .context("it is there")?;
    status["status"] = json!({"phase": "Done"});
    let of_status = WriteOptions {
        subresource: Some("status".into()),
        ..WriteOptions::default()
    };
    client.update(&kind, json(&status), &of_status).await?;
    let seen = read(&client, ReadMode::Cached).await?;
    assert_eq!(seen.context("it is there")?["status"]["phase"], "Done");
    assert_eq!(colour(&other, ReadMode::Live).await?, "blue");
    client
        .delete(&kind, &key("mine"), &DeleteOptions::default())
        .await?;
    assert!(read(&client, ReadMode::Cached).await?.is_none());
    assert_eq!(colour(&other, ReadMode::Live).await?, "blue");
    play.end().await
}

async fn an_index_finds_what_is_in_the_workspace_and_the_fleet_has_the_others(
    ground: &Ground,
) -> Result<()> {
    let shop = Shop::open(ground, "index").await?;
    let (a, b) = (shop.consumer("a").await?, shop.consumer("b").await?);
    for (consumer, name, colour) in [
        (&a, "one", "red"),
        (&a, "two", "blue"),
        (&b, "one", "red"),
        (&b, "two", "red"),
    ] {
        shop.put(consumer, name, colour).await?;
    }
    let found: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let noted = found.clone();
    let reconcile = move |context: Context| {
        let noted = noted.clone();
        async move {
            let red = ListOptions {
                index: Some(("colour".into(), "red".into())),
                ..ListOptions::default()
            };
            // All clusters, one after the other: each answers from the cache that they share.
            for cluster in context.fleet().clusters() {
                if cluster.properties().get("logicalCluster").is_none() {
                    continue;
                }
                let client = context.client_for(&cluster, &Arc::new(Grant::all()));
                let reds = client.list(&widget_kind(), &red).await?.items.len();
                noted.lock().insert(cluster.name().to_string(), reds);
            }
            Ok::<_, Failure>(Action::Done)
        }
    };
    let controller = Controller::builder(ControllerName::new("reds")?)
        .for_kind(widget_kind())
        .index(windlass_fleet::source::Index {
            kind: widget_kind(),
            name: "colour".into(),
            path: "spec.colour".parse()?,
            namespace_path: None,
        });
    let manager = shop
        .manager()?
        .provider(shop.workspaces(|_| ()))
        .controller(controller.build(Arc::new(reconcile))?);
    let manager = RunningManager::start(manager)?;
    let wanted = BTreeMap::from([(a.cluster.clone(), 1), (b.cluster.clone(), 2)]);
    eventually(DEADLINE, "what the index finds", || async {
        Ok(Seen::of(found.lock().clone(), |found| *found == wanted))
    })
    .await?;
    shop.put(&b, "one", "blue").await?;
    shop.put(&a, "two", "red").await?;
    let wanted = BTreeMap::from([(a.cluster, 2), (b.cluster, 1)]);
    eventually(DEADLINE, "what the index finds then", || async {
        Ok(Seen::of(found.lock().clone(), |found| *found == wanted))
    })
    .await?;
    manager.stop().await
}

async fn each_workspace_gets_its_own_event_and_no_other(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "events").await?;
    let (a, b) = (shop.consumer("a").await?, shop.consumer("b").await?);
    let play = shop.play()?;
    for consumer in [&a, &b] {
        shop.put(consumer, "noted", "red").await?;
        shop.kept(consumer, "noted", "red").await?;
        let client = play.client(consumer).await?;
        client.record_event(Event {
            kind: widget_kind(),
            key: key("noted"),
            event_type: EventType::Normal,
            reason: "Noted".into(),
            action: "Test".into(),
            note: format!("of {}", consumer.path),
        });
    }
    for consumer in [&a, &b] {
        let notes = eventually(DEADLINE, "the event", || async {
            let notes = notes(ground, consumer).await?;
            Ok(Seen::of(notes, |notes| !notes.is_empty()))
        })
        .await?;
        assert_eq!(notes, [format!("of {}", consumer.path)]);
    }
    play.end().await
}

/// The notes of the events in a workspace about its widget.
async fn notes(ground: &Ground, consumer: &Workspace) -> Result<Vec<String>> {
    let path = consumer.at("apis/events.k8s.io/v1/namespaces/default/events");
    let events = ground.client.get(&path).await?.ok()?;
    let events = events["items"].as_array().into_iter().flatten();
    let ours = events.filter(|event| event["regarding"]["name"] == "noted");
    Ok(ours
        .map(|event| event["note"].as_str().unwrap_or_default().to_owned())
        .collect())
}

async fn a_claim_that_is_rejected_is_named_where_it_is_missing(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "claims-in").await?;
    let (a, b) = (shop.stranger("a").await?, shop.consumer("b").await?);
    shop.bind_if(&a, false).await?;
    let play = shop.play()?;
    let (client, other) = (play.client(&a).await?, play.client(&b).await?);
    let read = async |client: &Client| {
        let options = GetOptions::default();
        client.get(&config_map(), &key("any"), &options).await
    };
    let refused = read(&client).await.err().context("it is refused")?;
    assert_eq!(refused.code, ApiCode::Denied);
    let named = refused.message.contains("permission claim on configmaps");
    ensure!(named, "{refused}");
    assert!(read(&other).await?.is_none());
    // Nothing is taken out of a workspace that does not want it, and the others do not wait.
    shop.put(&a, "w", "red").await?;
    shop.put(&b, "w", "red").await?;
    shop.kept(&b, "w", "red").await?;
    shop.answer_claims(&a, "Accepted").await?;
    shop.kept(&a, "w", "red").await?;
    play.end().await
}

async fn a_workspace_is_found_by_path_and_by_logical_cluster(ground: &Ground) -> Result<()> {
    let shop = Shop::open(ground, "lookup").await?;
    let a = shop.consumer("a").await?;
    for names in [WorkspaceNames::LogicalCluster, WorkspaceNames::Path] {
        let play = shop.play_with(|options| options.names = names)?;
        let name = match names {
            WorkspaceNames::LogicalCluster => &a.cluster,
            WorkspaceNames::Path => &a.path,
        };
        play.engaged_as(&[name]).await?;
        for wanted in [&a.path, &a.cluster] {
            let found = play.handle.fleet().cluster(&ClusterName::new(&**wanted)?);
            let found = found.with_context(|| format!("{wanted} is found"))?;
            assert_eq!(found.name().as_str(), name);
        }
        play.end().await?;
    }
    Ok(())
}

async fn a_client_by_path_reaches_the_root_and_a_new_workspace(ground: &Ground) -> Result<()> {
    let reconcile = |_: Context| async { Ok::<_, Failure>(Action::Done) };
    let controller = Controller::builder(ControllerName::new("reader")?).for_kind(config_map());
    let manager =
        windlass_fleet::Manager::builder().controller(controller.build(Arc::new(reconcile))?);
    let manager = RunningManager::start(manager)?;
    let add = |path: &str| -> Result<()> {
        let spec = ClusterSpec::new(ClusterName::new(path)?, ground.config(path)?);
        manager.provider.put(spec);
        Ok(())
    };
    add("root")?;
    let root = manager.ready("root").await?.client(Grant::all());
    let workspace = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
        "metadata": {"name": "by-path"}, "spec": {}});
    let kind = GroupVersionKind::new("tenancy.kcp.io", "v1alpha1", "Workspace");
    root.create(&kind, json(&workspace), &WriteOptions::default())
        .await?;
    let made = ground.client.ready("root", "by-path").await?;
    add(&made.path)?;
    let inside = manager.ready(&made.path).await?.client(Grant::all());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inside", "namespace": "default"}, "data": {}});
    inside
        .create(&config_map(), json(&map), &WriteOptions::default())
        .await?;
    let seen = ground
        .client
        .get(&made.at(&format!("{MAPS}/inside")))
        .await?;
    ensure!(seen.code == 200, "{}", seen.text);
    manager.stop().await
}
