//! The work as a native reconciler, and the manager that does it, natively or with the guest `echo`. Entry point: [`run`].

use crate::rivals::driver::SERVERS;
use crate::rivals::subject::{Finished, SLOTS};
use crate::until::until;
use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::cluster::{ClusterConfig, ClusterState, KubeconfigPolicy};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{Concurrency, ManagerHandle, ManagerOptions};
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, Manager, Reconciler,
    TenantName, Typed,
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
        let config = ClusterConfig::from_kubeconfig_text(
            &text,
            None,
            path.parent(),
            &KubeconfigPolicy::file(),
        )?;
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

fn controller(reconciler: Arc<dyn Reconciler>) -> Result<Controller> {
    let mut watch = Watch::new(ConfigMap::KIND, Enqueue::Primary);
    watch.label_selector = Some("bench=in".parse()?);
    let options = ControllerOptions {
        concurrency: Some(CONCURRENCY),
        concurrency_per_cluster: SLOTS.into(),
        ..ControllerOptions::default()
    };
    Ok(Controller::builder(ControllerName::new("echo")?)
        .watch(watch)
        .owns(ConfigMap::KIND)
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

/// What the guest `echo` does, natively.
async fn echo(context: Context) -> Result<Action, Failure> {
    let (cluster, key) = (context.typed_client(), &context.request.key);
    let Some(source) = cluster.get::<ConfigMap>(key).await? else {
        return Ok(Action::Done);
    };
    let wanted = text(&source, "value");
    let out = key.sibling(&format!("{}-out", key.name));
    match cluster.get::<ConfigMap>(&out).await? {
        Some(present) if text(&present, "echo") == wanted => {}
        Some(_) => {
            let change = json!({"data": {"echo": wanted}});
            cluster.patch::<ConfigMap>(&out, &change).await?;
        }
        None => {
            let metadata = ObjectMeta {
                name: Some(out.name.to_string()),
                namespace: source.metadata.namespace.clone(),
                owner_references: Some(vec![
                    ConfigMap::KIND.controller_reference(&source.metadata),
                ]),
                ..ObjectMeta::default()
            };
            let echo = ConfigMap {
                metadata,
                data: Some([("echo".to_owned(), wanted.to_owned())].into()),
                ..ConfigMap::default()
            };
            cluster.create(&echo).await?;
        }
    }
    Ok(Action::Done)
}

fn text<'a>(map: &'a ConfigMap, field: &str) -> &'a str {
    let data = map.data.as_ref();
    data.and_then(|data| data.get(field))
        .map_or("", String::as_str)
}
