//! What sources and indexes make of what API servers do, on two simulated clusters and on two real ones. Entry points: the tests; each
//! plays scenes on a [`Stage`].

use super::fixture::{Log, builder, bytes, client, config_map, get, key, logged, object};
use anyhow::{Context as _, Result};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_fleet::api::{
    DeleteOptions, Json, ListOptions, PatchType, Projection, ReadMode, WriteOptions,
};
use windlass_fleet::cluster::{Cluster, KubeconfigPolicy};
use windlass_fleet::manager::Builder;
use windlass_fleet::predicate::Predicate;
use windlass_fleet::source::{Enqueue, Index, MapContext, MapError, Mapper, Watch};
use windlass_fleet::{Action, Failure, Grant, GroupVersionKind, ObjectKey, Request};
use windlass_harness::eventually::{DEADLINE, Seen, wait};
use windlass_harness::fleet::{TestFleet, request};
use windlass_harness::testenv::{Environment, Spec};

/// Two clusters, `alpha` and `beta`.
enum Stage {
    Simulated,
    Real(Environment),
}

/// A manager over both clusters, with a hand in each.
struct Scene {
    fleet: TestFleet,
    alpha: Arc<Cluster>,
    beta: Arc<Cluster>,
}

impl Stage {
    /// Starts a manager, and engages the clusters once it runs.
    async fn scene(&self, build: impl FnOnce(Builder) -> Builder) -> Result<Scene> {
        let (fleet, alpha, beta) = match self {
            Self::Simulated => {
                let fleet = TestFleet::start(&["alpha", "beta"], build).await?;
                let (alpha, beta) = (fleet.engage("alpha").await?, fleet.engage("beta").await?);
                (fleet, alpha, beta)
            }
            Self::Real(environment) => {
                let fleet = TestFleet::start(&[], build).await?;
                for cluster in ["alpha", "beta"] {
                    let text = environment.server(cluster).kubeconfig();
                    fleet.add_from(cluster, &text, &KubeconfigPolicy::file())?;
                }
                let (alpha, beta) = (fleet.ready("alpha").await?, fleet.ready("beta").await?);
                (fleet, alpha, beta)
            }
        };
        Ok(Scene { fleet, alpha, beta })
    }
}

async fn create(cluster: &Arc<Cluster>, kind: &GroupVersionKind, object: &Value) -> Result<Value> {
    let made = client(cluster)
        .create(kind, bytes(object), &WriteOptions::default())
        .await?;
    Ok(serde_json::from_slice(&made)?)
}

async fn merge(
    cluster: &Arc<Cluster>,
    kind: &GroupVersionKind,
    key: &ObjectKey,
    patch: &Value,
) -> Result<()> {
    let options = WriteOptions::default();
    client(cluster)
        .patch(kind, key, PatchType::Merge, bytes(patch), &options)
        .await?;
    Ok(())
}

fn secrets() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Secret")
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}})
}

// --- indexes ---

/// By name of the run's object: how many an index finds in the whole cluster and in the object's namespace.
type Found = Arc<Mutex<BTreeMap<String, (usize, usize)>>>;

/// An index that was declared before any cluster was engaged finds exactly its matches in each, in all namespaces or in one; declared
/// twice it is one.
async fn an_index_finds_its_matches_alone(stage: &Stage) -> Result<()> {
    let (log, found) = (Arc::new(Log::default()), Found::default());
    let index = Index {
        kind: config_map(),
        name: "target".into(),
        path: "data.target".parse()?,
        namespace_path: None,
    };
    let told = found.clone();
    let indexed = builder().index(index.clone()).index(index);
    let controller = logged(indexed, &log, move |context| {
        let told = told.clone();
        async move {
            let client = context.client(&Arc::new(Grant::all()));
            let key = &context.request.key;
            let count = async |namespace: Option<String>| -> Result<usize, Failure> {
                let options = ListOptions {
                    index: Some(("target".into(), "there".into())),
                    namespace,
                    ..ListOptions::default()
                };
                Ok(client.list(&config_map(), &options).await?.items.len())
            };
            let namespace = key.namespace.as_deref().map(str::to_owned);
            let counts = (count(None).await?, count(namespace).await?);
            told.lock().insert(key.name.to_string(), counts);
            Ok(Action::Done)
        }
    });
    let scene = stage.scene(|b| b.controller(controller)).await?;
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    let namespaces = GroupVersionKind::new("", "v1", "Namespace");
    create(&scene.alpha, &namespaces, &other).await?;
    for (name, namespace, target) in [
        ("index-a", "default", "there"),
        ("index-b", "default", "there"),
        ("index-c", "other", "there"),
        ("index-d", "default", "elsewhere"),
    ] {
        let mut made = object(name, json!({ "target": target }));
        made["metadata"]["namespace"] = json!(namespace);
        create(&scene.alpha, &config_map(), &made).await?;
    }
    create(
        &scene.beta,
        &config_map(),
        &object("index-e", json!({"target": "there"})),
    )
    .await?;
    let asked = |cluster: &str, object: &str| {
        let wanted = request(cluster, object);
        assert_eq!(scene.fleet.handle.requeue(&wanted, None), 1);
    };
    for (cluster, object, expected) in [("alpha", "index-d", (3, 2)), ("beta", "index-e", (1, 1))] {
        wait(&format!("{expected:?} matches in {cluster}"), || {
            asked(cluster, object);
            Seen::of(found.lock().get(object).copied(), |seen| {
                *seen == Some(expected)
            })
        })
        .await?;
    }
    scene.fleet.stop().await
}

// --- owners, predicates, metadata ---

/// An object enqueues the owner that controls it, or every owner if that is asked for; its metadata is enough for that. A
/// predicate is about its own watch's kind alone.
async fn owners_hear_of_what_they_own(stage: &Stage) -> Result<()> {
    let (controlling, any) = (Arc::new(Log::default()), Arc::new(Log::default()));
    let of_secrets = |enqueue| {
        let mut watch = Watch::new(secrets(), enqueue);
        watch.projection = Projection::Metadata;
        watch.predicate = Predicate::Labels;
        watch
    };
    let done = |_| async { Ok(Action::Done) };
    let one = builder().watch(of_secrets(Enqueue::ControllerOwner));
    let all = super::fixture::builder_of("any-owner", "ConfigMap");
    let all = all.watch(of_secrets(Enqueue::AnyOwner));
    let scene = stage
        .scene(|b| {
            b.controller(logged(one, &controlling, done))
                .controller(logged(all, &any, done))
        })
        .await?;
    let mut owners = Vec::new();
    for (owner, controls) in [("owner-one", true), ("owner-two", false)] {
        let made = create(&scene.alpha, &config_map(), &object(owner, json!({}))).await?;
        let uid = &made["metadata"]["uid"];
        owners.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "controller": controls}));
        controlling.ran(&request("alpha", owner), 1).await?;
        any.ran(&request("alpha", owner), 1).await?;
    }
    let mut owned = secret("owned");
    owned["metadata"]["ownerReferences"] = json!(owners);
    create(&scene.alpha, &secrets(), &owned).await?;
    controlling.ran(&request("alpha", "owner-one"), 2).await?;
    any.ran(&request("alpha", "owner-one"), 2).await?;
    any.ran(&request("alpha", "owner-two"), 2).await?;
    // Data changes no label: its watch does not count it. Of ConfigMaps every change counts.
    let of_owned = key("owned");
    let data = json!({"data": {"x": "eA=="}});
    merge(&scene.alpha, &secrets(), &of_owned, &data).await?;
    let touched = json!({"data": {"x": "y"}});
    merge(&scene.alpha, &config_map(), &key("owner-two"), &touched).await?;
    any.ran(&request("alpha", "owner-two"), 3).await?;
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    merge(&scene.alpha, &secrets(), &of_owned, &labels).await?;
    any.ran(&request("alpha", "owner-two"), 4).await?;
    controlling.ran(&request("alpha", "owner-one"), 3).await?;
    super::keys::wait_idle(&scene.fleet).await?;
    let runs = |log: &Log, owner: &str| log.count(&request("alpha", owner));
    assert_eq!(
        (
            runs(&controlling, "owner-one"),
            runs(&controlling, "owner-two")
        ),
        (3, 2)
    );
    assert_eq!((runs(&any, "owner-one"), runs(&any, "owner-two")), (3, 4));
    scene.fleet.stop().await
}

// --- mapping ---

/// Sends every Secret of alpha to a ConfigMap of its name in beta.
struct ToBeta;

impl Mapper for ToBeta {
    fn map(
        &self,
        context: MapContext,
        _: GroupVersionKind,
        objects: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        let requests = objects.iter().filter_map(|object| {
            let object: Value = serde_json::from_slice(object).ok()?;
            let mapped = object["metadata"]["name"].as_str()?;
            let wanted =
                context.cluster.name().as_str() == "alpha" && mapped.starts_with("mapped-");
            wanted.then(|| request("beta", mapped))
        });
        let requests: Vec<Request> = requests.collect();
        Box::pin(async { Ok(requests) })
    }
}

/// A mapped event of one cluster enqueues a request of another, which keeps that cluster: its client reaches it and no other.
async fn a_mapped_event_reaches_another_cluster(stage: &Stage) -> Result<()> {
    let log = Arc::new(Log::default());
    let mapped = builder().watch(Watch::new(secrets(), Enqueue::Mapped(Arc::new(ToBeta))));
    let controller = logged(mapped, &log, |context| async move {
        if !context.request.key.name.starts_with("mapped-") {
            return Ok(Action::Done);
        }
        let client = context.client(&Arc::new(Grant::all()));
        let copy = object(&context.request.key.name, json!({"from": "alpha"}));
        match client
            .create(&config_map(), bytes(&copy), &WriteOptions::default())
            .await
        {
            Err(error) if error.code != windlass_fleet::ApiCode::AlreadyExists => Err(error.into()),
            _ => Ok(Action::Done),
        }
    });
    let scene = stage.scene(|b| b.controller(controller)).await?;
    create(&scene.alpha, &secrets(), &secret("mapped-s")).await?;
    log.ran(&request("beta", "mapped-s"), 1).await?;
    let of_copy = key("mapped-s");
    windlass_harness::eventually(DEADLINE, "the copy in beta", || async {
        let copy = get(&client(&scene.beta), "mapped-s", ReadMode::Live).await?;
        Ok(Seen::of(copy.is_some(), |there| *there))
    })
    .await?;
    super::keys::wait_idle(&scene.fleet).await?;
    let before = log.count(&request("beta", "mapped-s"));
    client(&scene.alpha)
        .delete(&secrets(), &of_copy, &DeleteOptions::default())
        .await?;
    log.ran(&request("beta", "mapped-s"), before + 1).await?;
    assert_eq!(log.count(&request("alpha", "mapped-s")), 0);
    scene.fleet.stop().await
}

// --- the tests ---

#[tokio::test]
async fn an_index_declared_before_any_cluster_finds_its_matches_alone() -> Result<()> {
    an_index_finds_its_matches_alone(&Stage::Simulated).await
}

#[tokio::test]
async fn owners_hear_of_what_they_own_by_its_metadata_and_as_predicates_let_them() -> Result<()> {
    owners_hear_of_what_they_own(&Stage::Simulated).await
}

#[tokio::test]
async fn a_mapped_event_of_one_cluster_enqueues_a_request_of_another() -> Result<()> {
    a_mapped_event_reaches_another_cluster(&Stage::Simulated).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn on_real_servers_indexes_owners_and_mapped_events_are_what_they_are_simulated() -> Result<()>
{
    let environment = Environment::start([Spec::new("alpha"), Spec::new("beta")]).await?;
    let stage = Stage::Real(environment);
    an_index_finds_its_matches_alone(&stage)
        .await
        .context("indexes")?;
    owners_hear_of_what_they_own(&stage)
        .await
        .context("owners")?;
    a_mapped_event_reaches_another_cluster(&stage)
        .await
        .context("mapped events")
}
