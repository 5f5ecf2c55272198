//! Memory of idle workspaces, which a process of its own serves. Entry points: [`measure`] and [`serve_if_asked`].

use crate::table::verdict;
use crate::until::until;
use crate::usage::{Usage, kib, mib};
use crate::workload::tell;
use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::Server;
use windlass_fleet::cluster::{ClusterConfig, ClusterState};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::kcp::{Kcp, KcpOptions, Workspaces};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, GroupVersionKind, Manager,
};
use windlass_harness::fleet::RunningManager;

pub(crate) const HEADS: [&str; 7] = [
    "engaged s",
    "resident MiB",
    "KiB/further workspace",
    "watches of widgets",
    "connections",
    "CPU at rest %",
    "bar          ",
];

/// The first workspaces pay for what is needed once.
const WARM: usize = 1_000;
const WORKSPACES: usize = 10_000;
const SHARDS: usize = 2;
/// A further workspace may take so much.
const KIB: f64 = 5.0;
/// How long CPU time at rest is counted.
const REST: Duration = Duration::from_secs(20);
const SERVE: &str = "--serve-workspaces";
const EXPORTER: &str = "root:exporter";

pub(crate) async fn measure() -> Result<()> {
    let mut served = Served::start()?;
    let local = ClusterConfig::from_url(&format!("{}/clusters/{EXPORTER}", served.url))?;
    let noop = |_: Context| async { Ok(Action::Done) };
    let controller = Controller::builder(ControllerName::new("watching")?)
        .for_kind(GroupVersionKind::new("things.example.com", "v1", "Widget"))
        .build(Arc::new(noop))?;
    let options = KcpOptions::new(Workspaces::EndpointSlice("widgets".into()));
    let manager = RunningManager::start(
        Manager::builder()
            .local(ClusterSpec::new(ClusterName::local(), local))
            .provider(Arc::new(Kcp::new("workspaces", options)))
            .controller(controller),
    )?;
    ready(&manager, WARM).await?;
    settle().await;
    let before = Usage::own()?;
    let began = Instant::now();
    served.order("more")?;
    ready(&manager, WORKSPACES).await?;
    let engaged = began.elapsed();
    settle().await;
    let after = Usage::own()?;
    let watches = served.order("watches")?;
    let idle = Usage::own()?.cpu;
    // Not a wait: the time at rest is what is measured.
    tokio::time::sleep(REST).await;
    let rest = Usage::own()?.cpu.saturating_sub(idle);
    manager.stop().await?;
    let further = after.resident.saturating_sub(before.resident) as f64;
    let further = kib(further / (WORKSPACES - WARM) as f64);
    tell(vec![
        format!("{:.2}", engaged.as_secs_f64()),
        format!("{:.1}", mib(after.resident)),
        format!("{further:.1}"),
        watches,
        after.sockets.to_string(),
        format!("{:.2}", 100.0 * rest.as_secs_f64() / REST.as_secs_f64()),
        verdict(&format!("{KIB} KiB"), further <= KIB),
    ])
}

/// Waits until so many clusters beside the local one are ready.
async fn ready(manager: &RunningManager, count: usize) -> Result<()> {
    until("ready workspaces", || {
        let clusters = manager.handle.fleet().clusters();
        let ready = clusters
            .iter()
            .filter(|cluster| !cluster.name().is_local() && cluster.state() == ClusterState::Ready);
        ready.count() >= count
    })
    .await
}

async fn settle() {
    // Not a wait: what was allocated and freed settles meanwhile.
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// A server process; it ends with this value.
struct Served {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    url: String,
}

impl Served {
    fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().context("no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut served = Self {
            child,
            orders,
            answers,
            url: String::new(),
        };
        served.url = served.answer()?;
        Ok(served)
    }

    fn order(&mut self, order: &str) -> Result<String> {
        writeln!(self.orders, "{order}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where this process was started as the server: serves until its standard input ends.
pub(crate) fn serve_if_asked() -> Result<bool> {
    if std::env::args().nth(1).as_deref() != Some(SERVE) {
        return Ok(false);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    // A workspace that is made starts tasks.
    let _inside = runtime.enter();
    let server = Server::builder().kcp_shards(SHARDS).bind("127.0.0.1:0");
    let server = runtime.block_on(server)?;
    server.add_workspace(EXPORTER)?;
    for object in export() {
        put(&server, EXPORTER, object)?;
    }
    add(&server, 0..WARM)?;
    say(format!("http://{}", server.address()))?;
    for order in std::io::stdin().lines() {
        match order?.as_str() {
            "more" => {
                add(&server, WARM..WORKSPACES)?;
                say("done")?;
            }
            _ => say(watches(&server))?,
        }
    }
    Ok(true)
}

fn say(answer: impl std::fmt::Display) -> Result<()> {
    println!("{answer}");
    Ok(std::io::stdout().flush()?)
}

/// Open watches of all workspaces at once.
fn watches(server: &Server) -> usize {
    let shards = (0..SHARDS).filter_map(|shard| server.shard(shard));
    shards.map(|shard| shard.watchers()).sum()
}

fn add(server: &Server, which: Range<usize>) -> Result<()> {
    for n in which {
        let path = format!("root:c{n:05}");
        server.add_workspace_on(&path, n % SHARDS)?;
        put(server, &path, binding())?;
    }
    Ok(())
}

fn put(server: &Server, path: &str, object: Value) -> Result<()> {
    let workspace = server.workspace(path).context("no such workspace")?;
    let put = workspace.apply(object);
    put.map(drop)
        .map_err(|error| anyhow!("the simulated server refused: {error:?}"))
}

fn export() -> [Value; 2] {
    [
        json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
            "metadata": {"name": "v1.widgets.things.example.com"},
            "spec": {"group": "things.example.com", "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}]}}),
        json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "widgets"},
            "spec": {"resources": [{"group": "things.example.com", "name": "widgets",
                "schema": "v1.widgets.things.example.com", "storage": {"crd": {}}}]}}),
    ]
}

fn binding() -> Value {
    json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "widgets"},
        "spec": {"reference": {"export": {"path": EXPORTER, "name": "widgets"}}}})
}
