//! Workspaces that somebody fills before they are ready, and cleans up after. Entry points: the tests.

use crate::ground::{Ground, on_both};
use crate::keeper::config_map;
use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::api::{
    ApiCode, ApplyOptions, DeleteOptions, GetOptions, Json, ListOptions, PatchType, WriteOptions,
};
use windlass_fleet::cluster::Client;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::kcp::{Kcp, KcpOptions, Workspaces};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind,
    Manager, ObjectKey,
};
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::fleet::RunningManager;
use windlass_harness::testenv::kcp::Workspace;

on_both! {
    an_initializer_fills_a_workspace_and_a_terminator_cleans_up_outside,
}

const TYPES: &str = "apis/tenancy.kcp.io/v1alpha1/workspacetypes";
const TYPE: &str = "tended";

fn logical_cluster() -> GroupVersionKind {
    GroupVersionKind::new("core.kcp.io", "v1alpha1", "LogicalCluster")
}

fn namespace() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Namespace")
}

/// Does something for each workspace of a stage, then lets the workspace go on.
#[derive(Clone, Copy)]
enum Stage {
    Initializing,
    Terminating,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Initializing => "initializers",
            Self::Terminating => "terminators",
        }
    }

    fn workspaces(self) -> Workspaces {
        match self {
            Self::Initializing => Workspaces::Initializing(TYPE.into()),
            Self::Terminating => Workspaces::Terminating(TYPE.into()),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::terminal(error.to_string())
}

async fn read(
    client: &Client,
    kind: &GroupVersionKind,
    key: &ObjectKey,
) -> Result<Option<Value>, Failure> {
    let read = client.get(kind, key, &GetOptions::default()).await?;
    let parse = |json: Json| serde_json::from_slice(&json);
    read.map(parse).transpose().map_err(failed)
}

async fn apply(client: &Client, kind: &GroupVersionKind, object: Value) -> Result<(), Failure> {
    let options = ApplyOptions {
        force: true,
        ..ApplyOptions::default()
    };
    client
        .apply(kind, object.to_string().into(), &options)
        .await?;
    Ok(())
}

/// Fills a workspace, with every verb.
async fn fill(client: &Client) -> Result<(), Failure> {
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    apply(client, &namespace(), team).await?;
    let map = |data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "team"}, "data": data})
    };
    apply(client, &config_map(), map(json!({"a": "1", "b": "2"}))).await?;
    // What is left out is gone: no export stands between.
    apply(client, &config_map(), map(json!({"a": "1"}))).await?;
    let in_team = ListOptions {
        namespace: Some("team".into()),
        ..ListOptions::default()
    };
    let page = client.list(&config_map(), &in_team).await?;
    let items: Result<Vec<Value>, _> = page
        .items
        .iter()
        .map(|item| serde_json::from_slice(item))
        .collect();
    let items = items.map_err(failed)?;
    let settings = items
        .iter()
        .find(|item| item["metadata"]["name"] == "settings");
    if settings.is_none_or(|settings| settings["data"] != json!({"a": "1"})) {
        return Err(failed(format!("the settings are {settings:?}")));
    }
    let passing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "passing", "namespace": "team"}});
    let key = ObjectKey::namespaced("team", "passing");
    match client
        .create(
            &config_map(),
            passing.to_string().into(),
            &WriteOptions::default(),
        )
        .await
    {
        Err(error) if error.code != ApiCode::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    client
        .delete(&config_map(), &key, &DeleteOptions::default())
        .await?;
    let widgets = GroupVersionKind::new("things.example.com", "v1", "Widget");
    match client.get(&widgets, &key, &GetOptions::default()).await {
        Err(error) if error.code == ApiCode::UnknownKind => Ok(()),
        other => Err(failed(format!("a kind that is not there: {other:?}"))),
    }
}

/// A controller for the workspaces of one stage. `seen` gets their paths.
fn controller(stage: Stage, actor: String, seen: Arc<Mutex<Vec<String>>>) -> Result<Controller> {
    let reconcile = move |context: Context| {
        let (actor, seen) = (actor.clone(), seen.clone());
        async move {
            let client = context.client(&Arc::new(Grant::all()));
            let key = &context.request.key;
            let Some(cluster) = read(&client, &logical_cluster(), key).await? else {
                return Ok(Action::Done);
            };
            let left = cluster["status"][stage.name()].as_array().cloned();
            let mut left = left.unwrap_or_default();
            if !left.iter().any(|one| *one == json!(actor)) {
                return Ok(Action::Done);
            }
            if matches!(stage, Stage::Initializing) {
                fill(&client).await?;
            }
            let path = &cluster["metadata"]["annotations"]["kcp.io/path"];
            seen.lock()
                .push(path.as_str().unwrap_or_default().to_owned());
            left.retain(|one| *one != json!(actor));
            let patch = json!({"status": {stage.name(): left}}).to_string();
            let options = WriteOptions {
                subresource: Some("status".into()),
                ..WriteOptions::default()
            };
            client
                .patch(
                    &logical_cluster(),
                    key,
                    PatchType::Merge,
                    patch.into(),
                    &options,
                )
                .await?;
            Ok::<_, Failure>(Action::Done)
        }
    };
    let controller = Controller::builder(ControllerName::new(stage.name())?);
    Ok(controller
        .for_kind(logical_cluster())
        .build(Arc::new(reconcile))?)
}

/// A manager for one stage of the workspaces of a type.
fn manager(
    ground: &Ground,
    home: &Workspace,
    stage: Stage,
) -> Result<(RunningManager, Arc<Mutex<Vec<String>>>)> {
    let seen = Arc::default();
    let local = ClusterSpec::new(ClusterName::local(), ground.config(&home.cluster)?);
    let provider = Kcp::new("stage", KcpOptions::new(stage.workspaces()));
    let actor = format!("{}:{TYPE}", home.cluster);
    let builder = Manager::builder()
        .local(local)
        .provider(Arc::new(provider))
        .controller(controller(stage, actor, Arc::clone(&seen))?);
    Ok((RunningManager::start(builder)?, seen))
}

async fn an_initializer_fills_a_workspace_and_a_terminator_cleans_up_outside(
    ground: &Ground,
) -> Result<()> {
    let client = &ground.client;
    let home = client.workspace("root", "stages").await?;
    let spec = json!({"initializer": true, "terminator": true,
        "extend": {"with": [{"name": "universal", "path": "root"}]}});
    let object = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType",
        "metadata": {"name": TYPE}, "spec": spec});
    client.make(&home.at(TYPES), &object).await?;
    let (first, filled) = manager(ground, &home, Stage::Initializing)?;
    let (second, cleaned) = manager(ground, &home, Stage::Terminating)?;

    client
        .make_workspace("root", "staged", &home.path, TYPE)
        .await?;
    let made = client.ready("root", "staged").await?;
    ensure!(filled.lock().contains(&"root:staged".to_owned()));
    let settings = client
        .get(&made.at("api/v1/namespaces/team/configmaps/settings"))
        .await?;
    ensure!(settings.ok()?["data"] == json!({"a": "1"}));
    ensure!(cleaned.lock().is_empty(), "it is not deleted yet");

    client.end("root", "staged").await?;
    let gone = || async {
        let seen = cleaned.lock().clone();
        Ok(Seen::of(seen, |seen| {
            seen.contains(&"root:staged".to_owned())
        }))
    };
    eventually(DEADLINE, "the terminator", gone)
        .await
        .context("a workspace that is deleted")?;
    first.stop().await?;
    second.stop().await
}
