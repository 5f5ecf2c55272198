//! Whole journeys over the clusters of providers. Entry points: the tests.

use crate::play::{config_map, feed};
use crate::secrets::{labelled, options, point};
use crate::stage::{EAST, HUB, SOON, Scene, WEST, delete, merge, put};
use anyhow::Result;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_client::Api;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::cluster::{ClusterConfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::kubeconfig_secrets::KubeconfigSecrets;
use windlass_fleet::source::{Enqueue, MapContext, MapError, Mapper, Watch, WatchClusters};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind,
    Manager, ObjectKey, Request,
};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::fleet::RunningManager;

/// The label of objects of the hub that every other cluster has a copy of.
const PROPAGATE: &str = "propagate";
/// The label of the copies.
const COPY: &str = "copy-of";

/// A change of a copy asks for its original on the hub.
struct ToHub;

impl Mapper for ToHub {
    fn map(
        &self,
        _: MapContext,
        _: GroupVersionKind,
        objects: Vec<bytes::Bytes>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        let requests = objects.iter().filter_map(|object| {
            let object: Value = serde_json::from_slice(object).ok()?;
            let of = |field: &str| object["metadata"][field].as_str();
            let key = ObjectKey::namespaced(of("namespace")?, of("name")?);
            Some(Request::new(ClusterName::local(), key))
        });
        let requests = requests.collect();
        Box::pin(async { Ok(requests) })
    }
}

/// Gives every cluster of the providers a copy of an object of the hub, or takes it away.
async fn push(context: Context) -> Result<Action, Failure> {
    let key = &context.request.key;
    let original = context.typed_client().get::<ConfigMap>(key).await?;
    for cluster in context.fleet().clusters() {
        if cluster.name() == &ClusterName::local() {
            continue;
        }
        let client = context
            .client_for(&cluster, &Arc::new(Grant::all()))
            .typed();
        let copy = client.get::<ConfigMap>(key).await?;
        match (&original, copy) {
            (Some(original), copy) if copy.as_ref().is_none_or(|c| c.data != original.data) => {
                let labels = original.metadata.labels.as_ref();
                let mark = labels.and_then(|labels| labels.get(PROPAGATE)).cloned();
                let wanted = ConfigMap {
                    metadata: ObjectMeta {
                        name: original.metadata.name.clone(),
                        namespace: original.metadata.namespace.clone(),
                        labels: mark.map(|mark| [(COPY.to_owned(), mark)].into()),
                        ..ObjectMeta::default()
                    },
                    data: original.data.clone(),
                    ..ConfigMap::default()
                };
                client.force_apply(&wanted).await?;
            }
            (None, Some(_)) => drop(client.delete::<ConfigMap>(key).await?),
            _ => {}
        }
    }
    Ok(Action::Done)
}

/// Keeps copies in the clusters of the providers equal to their originals in the local one.
fn pusher(mark: &str) -> Result<Controller> {
    let mut originals = Watch::new(config_map(), Enqueue::Primary);
    originals.clusters = WatchClusters::Local;
    originals.label_selector = Some(format!("{PROPAGATE}={mark}").parse()?);
    let mut copies = Watch::new(config_map(), Enqueue::Mapped(Arc::new(ToHub)));
    copies.clusters = WatchClusters::Provider;
    copies.label_selector = Some(format!("{COPY}={mark}").parse()?);
    let controller = Controller::builder(ControllerName::new("pusher")?)
        .watch(originals)
        .watch(copies);
    Ok(controller.build(Arc::new(push))?)
}

/// The local cluster of a manager.
fn local(scene: &Scene, server: &str) -> Result<ClusterSpec> {
    let text = scene.server(server).kubeconfig();
    let config = ClusterConfig::from_kubeconfig_text(&text, None, None, &KubeconfigPolicy::file())?;
    Ok(ClusterSpec::new(ClusterName::local(), config))
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn objects_of_the_hub_are_pushed_to_all_clusters_repaired_and_deleted_there() -> Result<()> {
    let scene = Scene::start("journey-push").await?;
    for server in [EAST, WEST] {
        point(&scene, server, server).await?;
    }
    let secrets = KubeconfigSecrets::new("secrets", options(&scene));
    let manager = RunningManager::start(
        Manager::builder()
            .local(local(&scene, HUB)?)
            .provider(Arc::new(secrets))
            .controller(pusher(scene.name)?),
    )?;
    for server in [EAST, WEST] {
        manager.ready(server).await?;
    }
    let original = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "plan", "namespace": scene.name, "labels": {PROPAGATE: scene.name}},
            "data": {"value": value}})
    };
    let copied = |value: Option<&'static str>| {
        let scene = &scene;
        async move {
            for server in [EAST, WEST] {
                let maps: Api<ConfigMap> =
                    Api::namespaced(scene.client(server).clone(), scene.name);
                eventually(SOON, &format!("{value:?} in {server}"), || async {
                    let copy = maps.get_opt("plan").await?;
                    let has = copy.map(|copy| copy.data.unwrap_or_default()["value"].clone());
                    Ok(Seen::of(has, |has| has.as_deref() == value))
                })
                .await?;
            }
            anyhow::Ok(())
        }
    };
    put(scene.client(HUB), &original("one")).await?;
    copied(Some("one")).await?;
    // Drift is repaired, and a deleted copy made again.
    let drifted = json!({"data": {"value": "drifted"}});
    merge(scene.client(EAST), &original(""), &drifted).await?;
    delete(scene.client(WEST), &original("")).await?;
    copied(Some("one")).await?;
    put(scene.client(HUB), &original("two")).await?;
    copied(Some("two")).await?;
    delete(scene.client(HUB), &original("")).await?;
    copied(None).await?;
    manager.stop().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn one_unchanged_reconciler_works_in_a_single_cluster_and_in_many() -> Result<()> {
    let scene = Scene::start("journey-unchanged").await?;
    let feeder = || -> Result<Controller> {
        let mut animals = Watch::new(config_map(), Enqueue::Primary);
        animals.label_selector = Some(format!("animal-of={}", scene.name).parse()?);
        let controller = Controller::builder(ControllerName::new("feeder")?).watch(animals);
        Ok(controller.build(Arc::new(feed))?)
    };
    for server in [EAST, WEST] {
        scene.animal(server, "parrot").await?;
    }
    // Without a provider it works in the local cluster.
    let bound = Manager::builder()
        .local(local(&scene, EAST)?)
        .controller(feeder()?)
        .build()?
        .bind();
    let stop = CancellationToken::new();
    let running = tokio::spawn(bound.run(stop.clone()));
    scene.fed(EAST, "parrot").await?;
    assert_eq!(scene.stomach(WEST, scene.name, "parrot").await?, None);
    stop.cancel();
    running.await??;
    // With one, in all that it provides.
    scene
        .put(labelled("elsewhere", &scene.server(WEST).kubeconfig()))
        .await?;
    let secrets = KubeconfigSecrets::new("secrets", options(&scene));
    let manager = RunningManager::start(
        Manager::builder()
            .local(local(&scene, HUB)?)
            .provider(Arc::new(secrets))
            .controller(feeder()?),
    )?;
    scene.fed(WEST, "parrot").await?;
    manager.stop().await
}
