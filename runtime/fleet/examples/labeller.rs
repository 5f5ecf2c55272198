//! A native reconciler on `windlass-fleet`: gives every ConfigMap labelled `example.windlass.dev/watch` a companion that counts its
//! keys, in every context of a kubeconfig. Entry point: `main`.
//!
//! ```text
//! cargo run -p windlass-fleet --example labeller -- KUBECONFIG
//! ```

use anyhow::Context as _;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::api::{ApplyOptions, GetOptions};
use windlass_fleet::cluster::{ClusterConfig, Provenance, contexts};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind,
    Manager,
};

fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

async fn reconcile(context: Context) -> Result<Action, Failure> {
    let client = context.client(&Arc::new(Grant::all()));
    let Some(object) = client
        .get(&config_map(), &context.request.key, &GetOptions::default())
        .await?
    else {
        return Ok(Action::Done);
    };
    let source: Value =
        serde_json::from_slice(&object).map_err(|e| Failure::terminal(e.to_string()))?;
    let keys = source["data"].as_object().map_or(0, serde_json::Map::len);
    let companion = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("{}-count", context.request.key.name), "namespace": context.request.key.namespace,
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "controller": true,
                "name": source["metadata"]["name"], "uid": source["metadata"]["uid"]}],
        },
        "data": {"keys": keys.to_string()},
    });
    client
        .apply(
            &config_map(),
            companion.to_string().into(),
            &ApplyOptions {
                force: true,
                ..ApplyOptions::default()
            },
        )
        .await?;
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
    for context in contexts(&yaml)? {
        let config =
            ClusterConfig::from_kubeconfig_text(&yaml, Some(&context), None, Provenance::File)?;
        clusters.put(ClusterSpec::new(ClusterName::new(&context)?, config));
    }

    let mut watch = Watch::new(config_map(), Enqueue::Primary);
    watch.label_selector = Some("example.windlass.dev/watch".parse()?);
    let controller = Controller::builder(ControllerName::new("labeller")?)
        .watch(watch)
        .owns(config_map())
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
