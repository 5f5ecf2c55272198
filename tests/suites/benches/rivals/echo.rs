//! The work as a native reconciler, and the manager that does it. Entry point: [`run`].

use crate::rivals::subject::Finished;
use crate::rivals::work::Given;
use crate::until::until;
use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::cluster::{ClusterConfig, ClusterState, KubeconfigPolicy};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::kube_core::Resource;
use windlass_fleet::manager::{Concurrency, ManagerHandle, ManagerOptions};
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::provider::kcp::{Kcp, KcpOptions, Workspaces};
use windlass_fleet::{Action, ClusterName, Context, Controller, Failure, Manager, Reconciler};

/// Works on the clusters until it is killed; says so when everything has been looked at.
pub(crate) async fn run(given: &Given, done: Finished) -> Result<()> {
    run_with(given, Some(done), echo).await
}

/// The same with another reconciler. Without `done` the manager is not polled, so that its polling costs nothing.
pub(crate) async fn run_with(
    given: &Given,
    done: Option<Finished>,
    reconciler: impl Reconciler,
) -> Result<()> {
    let clusters = given.kubeconfigs.len();
    let options = ManagerOptions {
        concurrency: Concurrency {
            global: usize::from(given.slots) * clusters,
            per_cluster: given.slots.into(),
            ..Concurrency::default()
        },
        ..ManagerOptions::default()
    };
    let (local, provider) = match &given.provider {
        Some(workspace) => of_workspaces(workspace)?,
        None => (None, of_files(given)?),
    };
    let mut builder = Manager::builder()
        .options(options)
        .provider(provider)
        .controller(controller(given, reconciler)?);
    if let Some(local) = local {
        builder = builder.local(local);
    }
    let bound = builder.build()?.bind();
    if let Some(done) = done {
        let handle = bound.handle();
        tokio::spawn(async move {
            match settled(&handle, clusters).await {
                Ok(()) => done.say(),
                Err(error) => eprintln!("{error:#}"),
            }
        });
    }
    bound.run(CancellationToken::new()).await?;
    Ok(())
}

fn of_files(given: &Given) -> Result<Arc<dyn Provider>> {
    let provider = Clusters::new("servers");
    for path in &given.kubeconfigs {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        provider.put(ClusterSpec::new(ClusterName::new(&name)?, config(path)?));
    }
    Ok(Arc::new(provider))
}

/// The workspaces of the export in a workspace that has the only one; that workspace is the local cluster.
fn of_workspaces(kubeconfig: &Path) -> Result<(Option<ClusterSpec>, Arc<dyn Provider>)> {
    let slice = kubeconfig.file_stem().unwrap_or_default().to_string_lossy();
    let options = KcpOptions::new(Workspaces::EndpointSlice(slice.into_owned()));
    let local = ClusterSpec::new(ClusterName::local(), config(kubeconfig)?);
    Ok((Some(local), Arc::new(Kcp::new("workspaces", options))))
}

fn config(kubeconfig: &Path) -> Result<ClusterConfig> {
    let text = std::fs::read_to_string(kubeconfig)?;
    let policy = KubeconfigPolicy::file();
    let folder = kubeconfig.parent();
    Ok(ClusterConfig::from_kubeconfig_text(
        &text, None, folder, &policy,
    )?)
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

fn controller(given: &Given, reconciler: impl Reconciler) -> Result<Controller> {
    let options = ControllerOptions {
        concurrency: Some(usize::from(given.slots) * given.kubeconfigs.len()),
        concurrency_per_cluster: given.slots.into(),
        ..ControllerOptions::default()
    };
    Ok(Controller::of::<ConfigMap>("echo")
        .labels("bench=in")
        .owns::<ConfigMap>()
        .options(options)
        .build(reconciler)?)
}

/// What the guest `echo` does, natively.
pub(crate) async fn echo(context: Context) -> Result<Action, Failure> {
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
                owner_references: source.controller_owner_ref(&()).map(|owner| vec![owner]),
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
