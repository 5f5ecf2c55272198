//! What caches cost: resident memory per cached 5 KB pod and per idle cluster. Entry point: `main`.
//!
//! ```text
//! cargo bench --bench cache               both workloads, a minute or two
//! cargo bench --bench cache -- objects    one of them
//! ```
//!
//! A cached object comes with its key, its head and an entry in one index. kube-rs's `Store<DynamicObject>` holds the same pods, without
//! managedFields too and without an index, which it does not have, in a process of its own beside it. The server is a process of its own
//! as well, so that all that grows is the cache. Several clusters of the same size are engaged one after the other: the middle one counts.

mod figures;
mod rig;
mod table;
mod workload;

use anyhow::{Context as _, Result, bail, ensure};
use figures::{median, spread};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_client::core::{ApiResource, DynamicObject};
use kube_client::{Api, Client, Config};
use kube_runtime::WatchStreamExt;
use kube_runtime::reflector::{self, Store};
use kube_runtime::watcher::{self, watcher};
use rig::{ServerProcess, config_map, resident, run};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::verdict;
use windlass_fleet::source::Index;
use windlass_fleet::{Action, Controller, ControllerName, GroupVersionKind, Manager};
use windlass_harness::eventually::Seen;
use windlass_harness::fleet::RunningManager;
use workload::{Workload, tell};

/// The caches of the first cluster pay for what is needed once, such as buffers; those of the others are measured.
const WARM: usize = 5_000;
/// Clusters of pods, of which the middle one counts.
const ROUNDS: [&str; 3] = ["pods-0", "pods-1", "pods-2"];
const PODS: usize = 10_000;
/// Idle clusters that are engaged at once, and how often: the first of them pay for what is needed once.
const CLUSTERS: usize = 200;
const BATCHES: usize = 3;
/// A cached object may take so many times its JSON without managedFields.
const OBJECT: f64 = 1.15;
/// An idle cluster with one empty watched kind may take so much.
const CLUSTER_KIB: f64 = 100.0;

const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "objects",
        title: "a cached pod of 5 KB; middle of 3 clusters with 10,000 each",
        heads: &[
            "subject                       ",
            "index",
            "JSON B",
            "resident B",
            "x JSON (min-max)",
            "bar      ",
        ],
        runs: &[&["windlass"], &["kube-rs"]],
    },
    Workload {
        name: "clusters",
        title: "an idle cluster with one empty watched kind; middle of 3 times 200",
        heads: &[
            "resident KiB (min-max)",
            "ready s for 200",
            "bar           ",
        ],
        runs: &[&[]],
    },
];

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

fn watching(kind: GroupVersionKind, index: Option<Index>) -> Result<Controller> {
    let mut controller = Controller::builder(ControllerName::new("watching")?).for_kind(kind);
    if let Some(index) = index {
        controller = controller.index(index);
    }
    Ok(
        controller.build(Arc::new(|_: windlass_fleet::Context| async {
            Ok(Action::Done)
        }))?,
    )
}

/// What the clusters of the server hold.
fn pods(cluster: &str) -> Vec<Value> {
    match cluster {
        "warm" => (0..WARM).map(pod).collect(),
        cluster if ROUNDS.contains(&cluster) => (0..PODS).map(pod).collect(),
        _ => Vec::new(),
    }
}

fn main() -> Result<()> {
    if rig::serve_if_asked(pods)? {
        return Ok(());
    }
    match workload::asked(&WORKLOADS)? {
        Some(asked) => run(measure(&asked)),
        None => Ok(()),
    }
}

/// Measures in this process, and reports the rows on standard output.
async fn measure(run: &[String]) -> Result<()> {
    let run: Vec<&str> = run.iter().map(String::as_str).collect();
    tell(match run.as_slice() {
        ["objects", "windlass"] => objects().await?,
        ["objects", "kube-rs"] => peer().await?,
        ["clusters"] => clusters().await?,
        other => bail!("nothing to measure in {other:?}"),
    })
}

/// What clusters of pods took, one after the other.
#[derive(Default)]
struct Grown {
    /// Resident bytes of an object.
    bytes: Vec<f64>,
    /// How many times its JSON that is.
    times: Vec<f64>,
    json: f64,
}

impl Grown {
    /// A cluster more, whose objects have so many bytes of JSON on average; `before` was resident without it.
    fn add(&mut self, before: usize, json: f64) -> Result<()> {
        let bytes = resident()?.saturating_sub(before) as f64 / PODS as f64;
        self.bytes.push(bytes);
        self.times.push(bytes / json);
        self.json = json;
        Ok(())
    }

    /// A row, with a verdict where there is a bar.
    fn row(&self, subject: &str, index: &str, bar: Option<f64>) -> Vec<String> {
        let (times, least, most) = spread(&self.times);
        let mut row = vec![
            subject.to_owned(),
            index.to_owned(),
            format!("{:.0}", self.json),
            format!("{:.0}", spread(&self.bytes).0),
            format!("{times:.2} ({least:.2}-{most:.2})"),
        ];
        row.extend(bar.map(|bar| verdict(&bar.to_string(), times <= bar)));
        row
    }
}

/// The clusters of the workload, served.
fn serve() -> Result<ServerProcess> {
    let clusters: Vec<&str> = std::iter::once("warm").chain(ROUNDS).collect();
    ServerProcess::start(&clusters)
}

/// As [`objects`], in kube-rs's store.
async fn peer() -> Result<Vec<String>> {
    let server = serve()?;
    let mut held = vec![Reflected::start(&server, "warm").await?];
    let mut grown = Grown::default();
    for cluster in ROUNDS {
        let before = resident()?;
        let pods = Reflected::start(&server, cluster).await?;
        let after = resident()?;
        let mut json = 0;
        for pod in pods.store.state() {
            json += serde_json::to_string(&*pod)?.len();
        }
        // What the texts took meanwhile is none of the store's.
        let texts = resident()?.saturating_sub(after);
        grown.add(before + texts, json as f64 / PODS as f64)?;
        held.push(pods);
    }
    Ok(grown.row("kube-rs's Store<DynamicObject>", "none", None))
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
async fn settled(manager: &RunningManager) -> Result<()> {
    let deadline = Duration::from_secs(120);
    windlass_harness::eventually(deadline, "an idle queue", || {
        let status = manager.handle.controllers().remove(0);
        async move { Ok(Seen::of(status.ready + status.running, |busy| *busy == 0)) }
    })
    .await
    .map(drop)
}

async fn objects() -> Result<Vec<String>> {
    let server = serve()?;
    let kind = GroupVersionKind::new("", "v1", "Pod");
    let index = Index {
        kind: kind.clone(),
        name: "node".to_owned(),
        path: "spec.nodeName".parse()?,
        namespace_path: None,
    };
    let controller = watching(kind, Some(index))?;
    let manager = rig::start(
        Manager::builder().controller(controller),
        &server,
        &["warm"],
    )
    .await?;
    settled(&manager).await?;
    let mut grown = Grown::default();
    for (n, cluster) in ROUNDS.into_iter().enumerate() {
        let before = resident()?;
        manager.provider.put(server.spec(cluster)?);
        // Beside the warm one.
        manager.ready_clusters(n + 2).await?;
        settled(&manager).await?;
        let clusters = manager.handle.clusters();
        let status = clusters.iter().find(|status| status.name == cluster);
        let status = status.context("the cluster is engaged")?;
        ensure!(status.objects == PODS, "{} objects", status.objects);
        grown.add(before, status.bytes as f64 / PODS as f64)?;
    }
    manager.stop().await?;
    Ok(grown.row("windlass", "one", Some(OBJECT)))
}

async fn clusters() -> Result<Vec<String>> {
    let names: Vec<String> = (0..CLUSTERS * BATCHES).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = ServerProcess::start(&names)?;
    let controller = watching(config_map(), None)?;
    let manager = rig::start(Manager::builder().controller(controller), &server, &[]).await?;
    let (mut kib, mut seconds) = (Vec::new(), Vec::new());
    for (n, batch) in names.chunks(CLUSTERS).enumerate() {
        let (before, began) = (resident()?, Instant::now());
        for cluster in batch {
            manager.provider.put(server.spec(cluster)?);
        }
        manager.ready_clusters((n + 1) * CLUSTERS).await?;
        seconds.push(began.elapsed().as_secs_f64());
        kib.push(resident()?.saturating_sub(before) as f64 / CLUSTERS as f64 / 1024.0);
    }
    manager.stop().await?;
    let (each, least, most) = spread(&kib);
    Ok(vec![
        format!("{each:.1} ({least:.1}-{most:.1})"),
        format!("{:.2}", median(&seconds)),
        verdict("100 KiB", each <= CLUSTER_KIB),
    ])
}
