//! The work as a native reconciler, and the manager that does it, natively or with the guest `echo`. Entry point: [`run`].

use crate::rivals::driver::SERVERS;
use crate::rivals::subject::{Finished, SLOTS};
use crate::until::until;
use anyhow::Result;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::api::{GetOptions, PatchType, WriteOptions};
use windlass_fleet::cluster::{ClusterConfig, ClusterState, Provenance};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{Concurrency, ManagerHandle, ManagerOptions};
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind,
    Manager, ObjectKey, Reconciler, TenantName,
};
use windlass_sandbox::{
    Guest, GuestOptions, Isolation, Limits, Options, Sandbox, Tenant, TenantLimits,
};

/// Keys of all servers that run at once.
const CONCURRENCY: usize = SLOTS as usize * SERVERS;

/// Works on the clusters of these kubeconfigs until it is killed; says so when everything has been looked at.
pub(crate) async fn run(with_guest: bool, kubeconfigs: &[PathBuf], done: Finished) -> Result<()> {
    let reconciler: Arc<dyn Reconciler> = if with_guest {
        guest().await?
    } else {
        Arc::new(echo)
    };
    let options = ManagerOptions {
        concurrency: Concurrency {
            global: CONCURRENCY,
            per_cluster: SLOTS.into(),
            ..Concurrency::default()
        },
        ..ManagerOptions::default()
    };
    let provider = Arc::new(Clusters::new("servers"));
    for path in kubeconfigs {
        let text = std::fs::read_to_string(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let config =
            ClusterConfig::from_kubeconfig_text(&text, None, path.parent(), Provenance::File)?;
        provider.put(ClusterSpec::new(ClusterName::new(&name)?, config));
    }
    let bound = Manager::builder()
        .options(options)
        .provider(provider)
        .controller(controller(reconciler)?)
        .build()?
        .bind();
    let (handle, clusters) = (bound.handle(), kubeconfigs.len());
    tokio::spawn(async move {
        match settled(&handle, clusters).await {
            Ok(()) => done.say(),
            Err(error) => eprintln!("{error:#}"),
        }
    });
    bound.run(CancellationToken::new()).await?;
    Ok(())
}

async fn settled(manager: &ManagerHandle, clusters: usize) -> Result<()> {
    let busy = || {
        let ready = manager.clusters();
        let ready = ready.iter().filter(|c| c.state == ClusterState::Ready);
        let keys = manager.controllers();
        ready.count() < clusters || keys.iter().any(|c| c.ready + c.running + c.backoff > 0)
    };
    until("an idle queue", || !busy()).await
}

fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

fn controller(reconciler: Arc<dyn Reconciler>) -> Result<Controller> {
    let mut watch = Watch::new(config_map(), Enqueue::Primary);
    watch.label_selector = Some("bench=in".parse()?);
    let options = ControllerOptions {
        concurrency: Some(CONCURRENCY),
        concurrency_per_cluster: SLOTS.into(),
        ..ControllerOptions::default()
    };
    Ok(Controller::builder(ControllerName::new("echo")?)
        .watch(watch)
        .owns(config_map())
        .options(options)
        .build(reconciler)?)
}

async fn guest() -> Result<Arc<Guest>> {
    let sandbox = Sandbox::new(Options::default())?;
    let revision = sandbox
        .load(windlass_harness::guests::guest("echo"))
        .await?;
    let options = GuestOptions {
        tenant: Tenant::new(TenantName::default(), &TenantLimits::default()),
        name: ControllerName::new("echo")?,
        grant: Arc::new(Grant::all()),
        config: "{}".into(),
        limits: Limits::default(),
        isolation: Isolation::Fresh,
    };
    Ok(Guest::new(&sandbox, options, revision).await?)
}

#[derive(Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: Data,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    uid: String,
}

#[derive(Deserialize, Default)]
struct Data {
    #[serde(default)]
    value: String,
    #[serde(default)]
    echo: String,
}

fn parse(object: &Bytes) -> Result<ConfigMap, Failure> {
    serde_json::from_slice(object).map_err(|error| Failure::terminal(error.to_string()))
}

/// What the guest `echo` does, natively.
async fn echo(context: Context) -> Result<Action, Failure> {
    let client = context.client(&Arc::new(Grant::all()));
    let (kind, key) = (config_map(), &context.request.key);
    let Some(source) = client.get(&kind, key, &GetOptions::default()).await? else {
        return Ok(Action::Done);
    };
    let source = parse(&source)?;
    let wanted = source.data.value.as_str();
    let out = ObjectKey {
        namespace: key.namespace.clone(),
        name: format!("{}-out", source.metadata.name).into(),
    };
    let present = client.get(&kind, &out, &GetOptions::default()).await?;
    let options = WriteOptions::default();
    match present.as_ref().map(parse).transpose()? {
        Some(present) if present.data.echo == wanted => {}
        Some(_) => {
            let patch = json!({"data": {"echo": wanted}}).to_string().into();
            client
                .patch(&kind, &out, PatchType::Merge, patch, &options)
                .await?;
        }
        None => {
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": source.metadata.name, "uid": source.metadata.uid,
                "controller": true, "blockOwnerDeletion": true});
            let echo = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": &*out.name, "namespace": out.namespace, "ownerReferences": [owner]}, "data": {"echo": wanted}});
            client
                .create(&kind, echo.to_string().into(), &options)
                .await?;
        }
    }
    Ok(Action::Done)
}
