//! A native reconciler on `windlass-fleet`: gives every ConfigMap labelled `example.windlass.dev/watch` a companion that counts its
//! keys, in every context of the kubeconfig that kubectl reads. Entry point: `main`.
//!
//! ```text
//! KUBECONFIG=… cargo run -p windlass-fleet --example labeller
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_fleet::k8s_openapi::api::core::v1::ConfigMap;
use windlass_fleet::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_fleet::kube_core::Resource;
use windlass_fleet::{Action, Context, Controller, Manager, Result, kubectl};

async fn reconcile(context: Context) -> Result<Action> {
    let cluster = context.typed_client();
    let Some(source) = cluster.get::<ConfigMap>(&context.request.key).await? else {
        return Ok(Action::Done);
    };
    let keys = source.data.as_ref().map_or(0, BTreeMap::len);
    let metadata = ObjectMeta {
        name: Some(format!("{}-count", context.request.key.name)),
        namespace: source.metadata.namespace.clone(),
        owner_references: source.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let companion = ConfigMap {
        metadata,
        data: Some(BTreeMap::from([("keys".into(), keys.to_string())])),
        ..ConfigMap::default()
    };
    cluster.ensure(&companion).await?;
    println!("{} has {keys} keys", context.request);
    Ok(Action::Done)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let labeller = Controller::of::<ConfigMap>("labeller")
        .labels("example.windlass.dev/watch")
        .owns::<ConfigMap>()
        .build(reconcile)?;
    Manager::builder()
        .provider(Arc::new(kubectl::every_context()))
        .controller(labeller)
        .build()?
        .run_until_signal()
        .await?;
    Ok(())
}
