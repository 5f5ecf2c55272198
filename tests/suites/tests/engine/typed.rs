//! Native reconcilers in typed code, and every call of the typed client.

use super::clients::rule;
use super::fixture::{Log, builder_of, key, logged, object};
use anyhow::Result;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_apiserver::Server;
use windlass_fleet::api::ListOptions;
use windlass_fleet::kube_core::Resource;
use windlass_fleet::{
    Action, ApiCode, ApiError, Context, Controller, Failure, Grant, GroupVersionKind, Manager,
    Typed, TypedClient,
};
use windlass_harness::alone::ran_alone;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

/// A ConfigMap, as an author's own type.
#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    metadata: ObjectMeta,
    data: Data,
}

#[derive(Debug, Serialize, Deserialize)]
struct Data {
    color: String,
}

impl Typed for Settings {
    fn gvk() -> GroupVersionKind {
        GroupVersionKind::new("", "v1", "ConfigMap")
    }
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        ..ObjectMeta::default()
    }
}

fn settings(name: &str, color: &str) -> Settings {
    Settings {
        metadata: metadata(name),
        data: Data {
            color: color.into(),
        },
    }
}

async fn alpha() -> Result<(TestFleet, TypedClient)> {
    let fleet = TestFleet::start(&["alpha"], |b| b).await?;
    let client = fleet.engage("alpha").await?.client(Grant::all()).typed();
    Ok((fleet, client))
}

fn code<T: std::fmt::Debug>(result: Result<T, ApiError>) -> ApiCode {
    result.expect_err("it fails").code
}

/// Keeps a copy of each ConfigMap with the label `copy=yes`.
async fn copy(context: Context) -> Result<Action, Failure> {
    let cluster = context.typed_client();
    let Some(original) = cluster.get::<ConfigMap>(&context.request.key).await? else {
        return Ok(Action::Done);
    };
    let copy = ConfigMap {
        metadata: ObjectMeta {
            owner_references: original.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..metadata(&format!("{}-copy", context.request.key.name))
        },
        data: original.data,
        ..ConfigMap::default()
    };
    cluster.force_apply(&copy).await?;
    Ok(Action::Done)
}

#[tokio::test]
async fn a_typed_reconciler_keeps_what_it_owns_in_step() -> Result<()> {
    let copier = Controller::of::<ConfigMap>("copier")
        .labels("copy=yes")
        .owns::<ConfigMap>()
        .build(copy)?;
    let fleet = windlass_testing::TestFleet::start(&["alpha"], [copier]).await?;
    let client = fleet.client("alpha")?;
    let copied = async || -> Result<Option<String>> {
        fleet.idle().await?;
        let copy = client.get_live::<Settings>(&key("a-copy")).await?;
        Ok(copy.map(|copy| copy.data.color))
    };
    for color in ["blue", "red"] {
        let mut original = object("a", json!({"color": color}));
        original["metadata"]["labels"] = json!({"copy": "yes"});
        fleet.put("alpha", &original)?;
        assert_eq!(copied().await?.as_deref(), Some(color));
    }
    assert!(client.delete::<ConfigMap>(&key("a-copy")).await?);
    assert_eq!(copied().await?.as_deref(), Some("red"));
    assert!(client.delete::<ConfigMap>(&key("a")).await?);
    assert_eq!(copied().await?, None);
    Ok(fleet.stop().await?)
}

/// In a process of its own, which has the kubeconfig in its environment and gets the signal.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_of_a_kubeconfig_reconciles_until_a_signal() -> Result<()> {
    let server = Server::builder().cluster("alpha");
    let server = server.bind("127.0.0.1:0").await?;
    let alpha = server.cluster("alpha").expect("the cluster");
    alpha.apply(object("a", json!({}))).expect("an object");
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), server.kubeconfig())?;
    let path = file.path().to_string_lossy().into_owned();
    let test = "typed::a_manager_of_a_kubeconfig_reconciles_until_a_signal";
    let alone = move || ran_alone(test, &[("KUBECONFIG", &*path)]);
    if tokio::task::spawn_blocking(alone).await?? {
        return Ok(());
    }
    let stop = |context: Context| async move {
        if &*context.request.key.name == "a" {
            let process = std::process::id().to_string();
            let mut kill = tokio::process::Command::new("kill");
            kill.args(["-TERM", &process]).status().await?;
        }
        Ok(Action::Done)
    };
    let stopper = Controller::of::<ConfigMap>("stopper").build(stop)?;
    let manager = Manager::from_kubeconfig()?.controller(stopper).build()?;
    Ok(manager.run_until_signal().await?)
}

#[tokio::test]
async fn every_typed_call_does_what_the_api_says() -> Result<()> {
    let (fleet, client) = alpha().await?;
    let created = client.create(&settings("a", "blue")).await?;
    assert_eq!(created.data.color, "blue");
    let again = client.create(&settings("a", "blue")).await;
    assert_eq!(code(again), ApiCode::AlreadyExists);

    let mut changed = created;
    changed.data.color = "red".into();
    client.update(&changed).await?;
    assert_eq!(code(client.update(&changed).await), ApiCode::Conflict);
    let read = client.get::<Settings>(&key("a")).await?.expect("there");
    assert_eq!(read.data.color, "red");
    assert!(client.get::<Settings>(&key("b")).await?.is_none());

    let change = json!({"data": {"size": "2"}});
    let patched = client.patch::<ConfigMap>(&key("a"), &change).await?;
    let data = BTreeMap::from([("color", "red"), ("size", "2")]);
    let data = data.into_iter().map(|(k, v)| (k.into(), v.into()));
    assert_eq!(patched.data, Some(data.collect()));
    let absent = client.patch::<ConfigMap>(&key("b"), &change).await;
    assert_eq!(code(absent), ApiCode::NotFound);

    // The update made another manager own the field.
    let green = settings("a", "green");
    assert_eq!(code(client.apply(&green).await), ApiCode::Conflict);
    let applied = client.force_apply(&green).await?;
    assert_eq!(applied.data.color, "green");
    client.apply(&settings("b", "blue")).await?;

    assert!(client.delete::<Settings>(&key("a")).await?);
    assert!(!client.delete::<Settings>(&key("a")).await?);
    fleet.stop().await
}

#[tokio::test]
async fn a_status_is_written_apart_from_the_rest() -> Result<()> {
    let (fleet, client) = alpha().await?;
    fleet.apply(
        "alpha",
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}}}}),
    )?;
    let mut web = client
        .get_live::<Deployment>(&key("web"))
        .await?
        .expect("there");
    web.status = Some(DeploymentStatus {
        replicas: Some(3),
        ..DeploymentStatus::default()
    });
    web.spec.replicas = Some(7);
    let updated = client.update_status(&web).await?;
    let replicas = |web: &Deployment| {
        let wanted = web.spec.replicas;
        (wanted, web.status.as_ref().and_then(|now| now.replicas))
    };
    assert_eq!(replicas(&updated), (Some(1), Some(3)));
    let status = json!({"replicas": 4});
    let patched = client
        .patch_status::<Deployment>(&key("web"), &status)
        .await?;
    assert_eq!(replicas(&patched), (Some(1), Some(4)));
    fleet.stop().await
}

#[tokio::test]
async fn events_are_about_the_object_of_a_type() -> Result<()> {
    let (fleet, client) = alpha().await?;
    client.create(&settings("a", "blue")).await?;
    client.event::<Settings>(&key("a"), "Painted", "it is blue");
    client.warn::<Settings>(&key("a"), "Faded", "it was red");
    let alpha = fleet.simulated("alpha");
    let shown = |event: &serde_json::Value| {
        let texts = ["type", "reason", "action", "note"].map(|name| event[name].as_str());
        assert_eq!(event["regarding"]["kind"], "ConfigMap");
        texts.map(|text| text.unwrap_or_default().to_owned())
    };
    let seen = wait("two events", || {
        let events = alpha.list("events.k8s.io/v1", "Event", "default");
        let events = events.unwrap_or_default();
        Seen::of(events.iter().map(shown).collect::<Vec<_>>(), |events| {
            events.len() == 2
        })
    });
    let mut seen = seen.await?;
    seen.sort();
    assert_eq!(
        seen,
        [
            ["Normal", "Painted", "Reconcile", "it is blue"],
            ["Warning", "Faded", "Reconcile", "it was red"]
        ]
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_typed_list_holds_every_page() -> Result<()> {
    let (fleet, client) = alpha().await?;
    for n in 0..5 {
        client.create(&settings(&format!("n{n}"), "blue")).await?;
    }
    let options = ListOptions {
        namespace: Some("default".into()),
        limit: 2,
        ..ListOptions::default()
    };
    assert_eq!(client.list::<Settings>(&options).await?.len(), 5);
    fleet.stop().await
}

#[tokio::test]
async fn an_object_that_does_not_fit_its_type_is_invalid_and_not_quoted() -> Result<()> {
    let (fleet, client) = alpha().await?;
    fleet.apply("alpha", object("a", json!({"password": "hunter2"})))?;
    let error = client.get::<Settings>(&key("a")).await.expect_err("no fit");
    assert_eq!(error.code, ApiCode::Invalid);
    assert!(error.message.contains("ConfigMap default/a does not fit"));
    assert!(!error.message.contains("hunter2"));
    fleet.stop().await
}

#[tokio::test]
async fn a_runs_typed_client_stays_within_its_controllers_grant() -> Result<()> {
    let log = Arc::new(Log::default());
    let read_only = Grant::new([rule(
        &["configmaps"],
        &["get", "list", "watch"],
        &["default"],
    )]);
    let refused: Arc<parking_lot::Mutex<Vec<ApiCode>>> = Arc::default();
    let codes = refused.clone();
    let controller = builder_of("reader", "ConfigMap").grant(Arc::new(read_only));
    let controller = logged(controller, &log, move |context: Context| {
        let codes = codes.clone();
        async move {
            let cluster = context.typed_client();
            let present = cluster.get::<ConfigMap>(&context.request.key).await?;
            assert!(present.is_some());
            let denied = cluster.delete::<ConfigMap>(&context.request.key).await;
            codes.lock().push(code(denied));
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(controller)).await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    wait("a refused delete", || {
        Seen::of(refused.lock().clone(), |codes| {
            codes.contains(&ApiCode::Denied)
        })
    })
    .await?;
    fleet.stop().await
}
