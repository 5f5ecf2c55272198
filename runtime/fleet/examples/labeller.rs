//! A native reconciler on `windlass-fleet`: gives every ConfigMap labelled `example.windlass.dev/watch` a companion that counts its
//! keys, in every context of a kubeconfig. Entry point: `main`.
//!
//! ```text
//! cargo run -p windlass-fleet --example labeller -- KUBECONFIG
//! ```

use anyhow::Context as _;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::cluster::{Kubeconfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::k8s_openapi::api::core::v1::ConfigMap;
use windlass_fleet::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Manager, Typed,
};

async fn reconcile(context: Context) -> Result<Action, Failure> {
    let cluster = context.typed_client();
    let Some(source) = cluster.get::<ConfigMap>(&context.request.key).await? else {
        return Ok(Action::Done);
    };
    let keys = source.data.as_ref().map_or(0, BTreeMap::len);
    let metadata = ObjectMeta {
        name: Some(format!("{}-count", context.request.key.name)),
        namespace: source.metadata.namespace.clone(),
        owner_references: Some(vec![ConfigMap::KIND.controller_reference(&source.metadata)]),
        ..ObjectMeta::default()
    };
    let companion = ConfigMap {
        metadata,
        data: Some(BTreeMap::from([("keys".into(), keys.to_string())])),
        ..ConfigMap::default()
    };
    cluster.force_apply(&companion).await?;
    println!("{} has {keys} keys", context.request);
    Ok(Action::Done)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let path = std::env::args()
        .nth(1)
        .context("usage: labeller KUBECONFIG")?;
    let yaml = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;

    // A provider discovers clusters; this one is told them by the program.
    let clusters = Arc::new(Clusters::new("kubeconfig"));
    let kubeconfig = Kubeconfig::parse(&yaml, Path::new(&path).parent())?;
    for context in kubeconfig.contexts(&KubeconfigPolicy::file()) {
        let name = ClusterName::new(context.name)?;
        clusters.put(ClusterSpec::new(name, context.config?));
    }

    let mut watch = Watch::new(ConfigMap::KIND, Enqueue::Primary);
    watch.label_selector = Some("example.windlass.dev/watch".parse()?);
    let controller = Controller::builder(ControllerName::new("labeller")?)
        .watch(watch)
        .owns(ConfigMap::KIND)
        .build(Arc::new(reconcile))?;

    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        on_signal.cancel();
    });
    Manager::builder()
        .provider(clusters)
        .controller(controller)
        .build()?
        .bind()
        .run(stop)
        .await?;
    Ok(())
}
