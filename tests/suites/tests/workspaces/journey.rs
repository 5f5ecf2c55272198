//! From workspaces to a compute cluster and back. Entry points: the tests.

use crate::ground::{Ground, on_both};
use crate::keeper::{config_map, widget_kind};
use crate::shop::{MAPS, Shop, WIDGETS};
use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_fleet::api::{ApplyOptions, DeleteOptions, GetOptions, PatchType, WriteOptions};
use windlass_fleet::cluster::Client;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::source::{Enqueue, MapContext, MapError, Mapper, Watch};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind,
    ObjectKey, Request,
};
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::fleet::RunningManager;
use windlass_harness::testenv::kcp::Workspace;

/// The cluster that does the work. Here it is a workspace too, which is as good as any API server.
const COMPUTE: &str = "compute";
const FINALIZER: &str = "things.example.com/projected";
/// Annotations of a projection: where it comes from.
const FROM: [&str; 2] = ["from-cluster", "from-name"];

on_both! {
    widgets_go_down_to_a_compute_cluster_their_phase_comes_up_and_deletions_follow,
}

async fn widgets_go_down_to_a_compute_cluster_their_phase_comes_up_and_deletions_follow(
    ground: &Ground,
) -> Result<()> {
    let shop = Shop::open(ground, "journey").await?;
    let compute = shop.stranger("compute").await?;
    let (a, b) = (shop.consumer("a").await?, shop.consumer("b").await?);
    let manager = shop
        .manager()?
        .provider(shop.workspaces(|_| ()))
        .controller(projector()?);
    let manager = RunningManager::start(manager)?;
    let labels = BTreeMap::from([("role".to_owned(), COMPUTE.to_owned())]);
    manager.provider.put(ClusterSpec {
        labels: labels.into(),
        ..ClusterSpec::new(ClusterName::new(COMPUTE)?, ground.config(&compute.path)?)
    });

    shop.put(&a, "same", "red").await?;
    shop.put(&b, "same", "blue").await?;
    for (consumer, colour) in [(&a, "red"), (&b, "blue")] {
        let path = down(&compute, consumer);
        ground
            .client
            .until("the projection", &path, |map| {
                map["data"]["colour"] == colour
            })
            .await?;
        // The compute cluster gets on with it.
        let phase = json!({"data": {"phase": format!("running {colour}")}});
        let patched = ground.client.patch(&path, "merge-patch", &phase).await?;
        patched.ok()?;
        up(ground, consumer, &format!("running {colour}")).await?;
    }
    // What somebody changes down there is put right.
    let path = down(&compute, &a);
    let drift = json!({"data": {"colour": "drifted"}});
    ground
        .client
        .patch(&path, "merge-patch", &drift)
        .await?
        .ok()?;
    ground
        .client
        .until("the drift to be repaired", &path, |map| {
            map["data"]["colour"] == "red"
        })
        .await?;

    let widget = a.at(&format!("{WIDGETS}/same"));
    ground.client.delete(&widget).await?.ok()?;
    for gone in [&widget, &path] {
        eventually(DEADLINE, &format!("{gone} to go"), || async {
            let answer = ground.client.get(gone).await?;
            Ok(Seen::of(answer, |answer| answer.code == 404))
        })
        .await?;
    }
    let stays = ground.client.get(&down(&compute, &b)).await?.ok()?;
    assert_eq!(stays["data"]["colour"], "blue");
    manager.stop().await
}

/// The path of the projection of the widget `same` of a workspace.
fn down(compute: &Workspace, consumer: &Workspace) -> String {
    compute.at(&format!("{MAPS}/{}-same", consumer.cluster))
}

/// Waits until the widget `same` of a workspace has a phase.
async fn up(ground: &Ground, consumer: &Workspace, phase: &str) -> Result<()> {
    let path = consumer.at(&format!("{WIDGETS}/same"));
    ground
        .client
        .until("the phase", &path, |widget| {
            widget["status"]["phase"] == phase
        })
        .await
        .map(drop)
}

/// Widgets of workspaces, and ConfigMaps of the compute cluster that stand for them there.
fn projector() -> Result<Controller> {
    let mut widgets = Watch::new(widget_kind(), Enqueue::Primary);
    widgets.only.selector = Some("!role".parse()?);
    let mut projections = Watch::new(config_map(), Enqueue::Mapped(Arc::new(Origin)));
    projections.only.selector = Some("role=compute".parse()?);
    Ok(Controller::builder(ControllerName::new("projector")?)
        .watch(widgets)
        .watch(projections)
        .build(Arc::new(project))?)
}

/// A change of a projection asks for its widget.
struct Origin;

impl Mapper for Origin {
    fn map(
        &self,
        _: MapContext,
        _: GroupVersionKind,
        objects: Vec<Bytes>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        let requests = objects.iter().filter_map(|object| {
            let object: Value = serde_json::from_slice(object).ok()?;
            let [cluster, name] = FROM.map(|key| {
                let annotation = &object["metadata"]["annotations"][key];
                annotation.as_str().map(str::to_owned)
            });
            let key = ObjectKey::namespaced("default", &name?);
            Some(Request::new(ClusterName::new(&cluster?).ok()?, key))
        });
        let requests = requests.collect();
        Box::pin(async { Ok(requests) })
    }
}

async fn project(context: Context) -> Result<Action, Failure> {
    let grant = Arc::new(Grant::all());
    let compute = ClusterName::new(COMPUTE).expect("a valid name");
    let Some(compute) = context.fleet().cluster(&compute) else {
        return Err(Failure::retry("the compute cluster is not engaged"));
    };
    let (above, below) = (context.client(&grant), context.client_for(&compute, &grant));
    let key = &context.request.key;
    let Some(widget) = read(&above, &widget_kind(), key).await? else {
        return Ok(Action::Done);
    };
    let cluster = context.request.cluster.as_str();
    let projection = ObjectKey::namespaced("default", &format!("{cluster}-{}", key.name));
    let current = read(&below, &config_map(), &projection).await?;
    if widget["metadata"].get("deletionTimestamp").is_some() {
        if current.is_some() {
            let options = DeleteOptions::default();
            below.delete(&config_map(), &projection, &options).await?;
        }
        return hold(&above, key, &json!(null)).await;
    }
    if widget["metadata"]["finalizers"].is_null() {
        hold(&above, key, &json!([FINALIZER])).await?;
    }
    let colour = &widget["spec"]["colour"];
    if current.as_ref().map(|map| &map["data"]["colour"]) != Some(colour) {
        let annotations = json!({FROM[0]: cluster, FROM[1]: key.name});
        let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": projection.name, "namespace": "default", "annotations": annotations},
            "data": {"colour": colour}});
        let options = ApplyOptions {
            force: true,
            ..ApplyOptions::default()
        };
        let wanted = wanted.to_string().into();
        below.apply(&config_map(), wanted, &options).await?;
    }
    let phase = current.map(|map| map["data"]["phase"].clone());
    let phase = phase.unwrap_or_default();
    if phase.is_string() && phase != widget["status"]["phase"] {
        let options = WriteOptions {
            subresource: Some("status".into()),
            ..WriteOptions::default()
        };
        let status = json!({"status": {"phase": phase}}).to_string();
        let kind = widget_kind();
        above
            .patch(&kind, key, PatchType::Merge, status.into(), &options)
            .await?;
    }
    Ok(Action::Done)
}

/// Gives a widget these finalizers.
async fn hold(client: &Client, key: &ObjectKey, finalizers: &Value) -> Result<Action, Failure> {
    let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
    let (kind, options) = (widget_kind(), WriteOptions::default());
    client
        .patch(&kind, key, PatchType::Merge, patch.into(), &options)
        .await?;
    Ok(Action::Done)
}

async fn read(
    client: &Client,
    kind: &GroupVersionKind,
    key: &ObjectKey,
) -> Result<Option<Value>, Failure> {
    let json = client.get(kind, key, &GetOptions::default()).await?;
    let parse = |json: Bytes| serde_json::from_slice(&json).context("an object");
    json.map(parse)
        .transpose()
        .map_err(|error| Failure::terminal(error.to_string()))
}
