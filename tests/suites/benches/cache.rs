//! What caches cost: resident memory per cached 5 KB pod and per idle cluster. Entry point: `main`.
//!
//! kube-rs's `Store<DynamicObject>` holds the same pods, without managedFields too, in a process of its own beside it.
//!
//! Bars: a cached object at most 1.15 times its JSON without managedFields; an idle cluster with one empty watched kind at most
//! 100 KiB. The server is a process of its own, so that all that grows here is the cache.

mod rig;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_client::core::{ApiResource, DynamicObject};
use kube_client::{Api, Client, Config};
use kube_runtime::WatchStreamExt;
use kube_runtime::reflector::{self, Store};
use kube_runtime::watcher::{self, watcher};
use rig::{Manager as Running, ServerProcess, config_map, resident, run};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::{Action, Context, Controller, ControllerName, GroupVersionKind, Manager};
use windlass_harness::eventually::Seen;

/// The caches of the first cluster pay for what is needed once, such as buffers; those of the second are measured.
const WARM: usize = 5_000;
const PODS: usize = 20_000;
const CLUSTERS: usize = 200;

/// A pod of about 5 KB.
fn pod(n: usize) -> Value {
    let container = |c: usize| {
        json!({"name": format!("container-{c}"), "image": format!("registry.example.com/team/service-{c}:v1.{n}"),
            "env": (0..12).map(|e| json!({"name": format!("SETTING_{e}"), "value": format!("value-{n}-{e}-0123456789")})).collect::<Vec<_>>(),
            "ports": [{"name": "http", "containerPort": 8080 + c, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": (0..4).map(|v| json!({"name": format!("volume-{v}"), "mountPath": format!("/var/lib/data-{v}")})).collect::<Vec<_>>()})
    };
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{n}"), "namespace": "default",
            "labels": {"app": format!("app-{}", n % 50), "tier": "backend", "pod-template-hash": format!("{n:08x}")},
            "annotations": {"example.com/checksum": "0".repeat(64), "example.com/note": "n".repeat(200)}},
        "spec": {"serviceAccountName": "default", "nodeName": format!("node-{}", n % 100), "containers": (0..3).map(container).collect::<Vec<_>>(),
            "volumes": (0..4).map(|v| json!({"name": format!("volume-{v}"), "configMap": {"name": format!("config-{v}")}})).collect::<Vec<_>>()}})
}

fn watching(kind: GroupVersionKind) -> Result<Controller> {
    let controller = Controller::builder(ControllerName::new("watching")?).for_kind(kind);
    Ok(controller.build(Arc::new(|_: Context| async { Ok(Action::Done) }))?)
}

/// What the clusters of the server hold.
fn pods(cluster: &str) -> Vec<Value> {
    match cluster {
        "warm" => (0..WARM).map(pod).collect(),
        "pods" => (0..PODS).map(pod).collect(),
        _ => Vec::new(),
    }
}

/// Has this program measure kube-rs's store.
const PEER: &str = "--peer";

fn main() -> Result<()> {
    if rig::serve_if_asked(pods)? {
        return Ok(());
    }
    if std::env::args().nth(1).is_some_and(|arg| arg == PEER) {
        return run(peer());
    }
    run(async {
        objects().await?;
        std::process::Command::new(std::env::current_exe()?)
            .arg(PEER)
            .status()?;
        clusters().await
    })
}

/// As [`objects`], in kube-rs's store.
async fn peer() -> Result<()> {
    let server = ServerProcess::start(&["warm", "pods"])?;
    let _warm = Reflected::start(&server, "warm").await?;
    let before = resident()?;
    let pods = Reflected::start(&server, "pods").await?;
    let grown = resident()?.saturating_sub(before);
    let held = pods.store.state();
    let mut json = 0;
    for pod in &held {
        json += serde_json::to_string(&**pod)?.len();
    }
    let (objects, json) = (held.len(), json as f64 / held.len() as f64);
    let each = grown as f64 / objects as f64;
    println!(
        "  kube-rs's Store<DynamicObject>           JSON {json:7.0} B   resident {each:7.0} B   {:.2} times",
        each / json
    );
    Ok(())
}

/// A store of kube-rs that a watch feeds.
struct Reflected {
    store: Store<DynamicObject>,
    /// Ends with this value.
    _watch: tokio::task::JoinSet<()>,
}

impl Reflected {
    /// Returns once the first list is in.
    async fn start(server: &ServerProcess, cluster: &str) -> Result<Self> {
        let client = Client::try_from(Config::new(server.url(cluster).parse()?))?;
        let kind = ApiResource::erase::<Pod>(&());
        let api = Api::<DynamicObject>::all_with(client, &kind);
        let writer = reflector::store::Writer::new(kind);
        let store = writer.as_reader();
        let events = watcher(api, watcher::Config::default())
            .modify(|pod| pod.metadata.managed_fields = None)
            .reflect(writer);
        let mut watch = tokio::task::JoinSet::new();
        watch.spawn(events.for_each(|_| std::future::ready(())));
        store.wait_until_ready().await?;
        Ok(Self {
            store,
            _watch: watch,
        })
    }
}

/// Waits until nothing is left to do.
async fn settled(manager: &Running) -> Result<()> {
    let deadline = std::time::Duration::from_secs(120);
    windlass_harness::eventually(deadline, "an idle queue", || {
        let status = manager.handle.controllers().remove(0);
        async move { Ok(Seen::of(status.ready + status.running, |busy| *busy == 0)) }
    })
    .await
    .map(drop)
}

async fn objects() -> Result<()> {
    let server = ServerProcess::start(&["warm", "pods"])?;
    let kind = GroupVersionKind::new("", "v1", "Pod");
    let manager = Running::start(
        Manager::builder().controller(watching(kind)?),
        &server,
        &["warm"],
    )
    .await?;
    settled(&manager).await?;
    let before = resident()?;
    manager.provider.put(server.spec("pods")?);
    manager.ready(2).await?;
    settled(&manager).await?;
    let grown = resident()?.saturating_sub(before);
    let status = &manager.handle.clusters()[0];
    let (objects, json) = (status.objects, status.bytes as f64 / status.objects as f64);
    let each = grown as f64 / objects as f64;
    let times = each / json;
    println!(
        "cached object, {objects} pods            JSON {json:7.0} B   resident {each:7.0} B   {times:.2} times   (bar: 1.15)"
    );
    manager.stop().await
}

async fn clusters() -> Result<()> {
    let names: Vec<String> = (0..CLUSTERS).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = ServerProcess::start(&names)?;
    let before = resident()?;
    let started = std::time::Instant::now();
    let manager = Running::start(
        Manager::builder().controller(watching(config_map())?),
        &server,
        &names,
    )
    .await?;
    let took = started.elapsed();
    let each = resident()?.saturating_sub(before) as f64 / CLUSTERS as f64 / 1024.0;
    println!(
        "idle cluster, {CLUSTERS} with one kind        resident {each:7.1} KiB each   ready in {:.2} s   (bar: 100 KiB)",
        took.as_secs_f64()
    );
    manager.stop().await
}
