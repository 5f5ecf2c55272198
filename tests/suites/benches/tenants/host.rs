//! What the program's own work is delayed by guests that compute without end: probes, the lease, watches. Entry point: [`measure`].

use super::stage::rust;
use crate::fleet::table::verdict;
use crate::latency::{Latency, spread};
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use windlass_apiserver::{Call, Cluster, Hook, RequestVerdict, Server, Verb};
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;
use windlass_harness::program::Program;

/// Phases without busy guests and with them, in turns; of each figure the middle is told.
const ROUNDS: usize = 5;
const PHASE: Duration = Duration::from_secs(4);
/// Between two probes.
const EVERY: Duration = Duration::from_millis(10);
/// Between two renewals of the lease.
const RENEWAL: Duration = Duration::from_millis(100);
/// Keys whose runs never end: more than there are threads for guests.
const LOOPS: usize = 16;
/// What busy guests may add to the p99, in milliseconds. It is less than the turn that a guest may compute for before another has one,
/// and far less than a guest computes that is not interrupted: nothing waits for either.
const BAR: f64 = 5.0;
const SOON: Duration = Duration::from_secs(60);

pub(crate) const WORKLOAD: Workload = Workload {
    name: "host",
    title: "the program's own work beside 16 calls of guests that compute without end, ms",
    heads: &[
        "what                       ",
        "alone p50",
        "   p99",
        "beside p50",
        "   p99",
        "worst",
        "p99 beyond",
        "bar        ",
    ],
    runs: &[&[]],
};

/// What is measured in each phase.
const ROWS: [&str; 3] = [
    "a probe of /livez",
    "a change until it is cached",
    "a renewal after its time",
];

/// When a lease was renewed.
#[derive(Default)]
struct Renewals(Mutex<Vec<Instant>>);

impl Hook for Renewals {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        if call.resource == "leases" && call.verb == Verb::Update {
            self.0.lock().push(Instant::now());
        }
        RequestVerdict::Proceed
    }
}

/// A program that leads, and the clusters that it works on.
struct Scene {
    folder: TempDir,
    address: String,
    renewals: Arc<Renewals>,
    /// What is changed here is cached, and nothing loops on it.
    beta: Cluster,
    changes: usize,
    _program: Program,
    _server: Server,
}

/// Figures of one phase, by row.
type Phase = [Latency; ROWS.len()];

pub(crate) async fn measure() -> Result<()> {
    let mut scene = Scene::start().await?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        scene.loops(false).await?;
        alone.push(scene.phase().await?);
        scene.loops(true).await?;
        beside.push(scene.phase().await?);
    }
    for (at, what) in ROWS.iter().enumerate() {
        let of = |phases: &[Phase], share| {
            let each: Vec<f64> = phases.iter().map(|phase| phase[at].at(share)).collect();
            spread(&each)
        };
        let tails = [of(&alone, 0.99).0, of(&beside, 0.99).0];
        let beyond = tails[1] - tails[0];
        tell(vec![
            (*what).to_owned(),
            format!("{:.2}", of(&alone, 0.5).0),
            format!("{:.2}", tails[0]),
            format!("{:.2}", of(&beside, 0.5).0),
            format!("{:.2}", tails[1]),
            format!("{:.2}", of(&beside, 1.0).2),
            format!("{beyond:.2}"),
            verdict("5 ms", beyond <= BAR),
        ])?;
    }
    Ok(())
}

/// The documents: a manager that leads, a reconciler that has a cache of beta, and one that loops in alpha if that is asked for.
fn documents(loops: bool) -> Result<String> {
    let reconciler = |name: &str, guest: &str, cluster: &str, config: &str| -> Result<String> {
        let rules = r#"[{apiGroups: [""], resources: [configmaps], verbs: [list, watch], namespaces: ["*"]}]"#;
        let guest = rust(guest)?;
        Ok(format!(
            "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: {name}}}\nspec:\n  tenant: bench\n  \
             guest: {{path: {guest:?}}}\n  clusters: {{names: [\"*{cluster}\"]}}\n  config: {config}\n  rules: {rules}\n"
        ))
    };
    let retry = RENEWAL.as_millis();
    let mut all = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec:\n  \
         local: {{kubeconfig: ./hub.kubeconfig, context: hub}}\n  drainTimeout: 1s\n  \
         leaderElection: {{enabled: true, namespace: default, name: bench, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: {retry}ms}}\n\
         ---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: fleet}}\nspec:\n  \
         kubeconfigFiles: {{paths: [./fleet.kubeconfig]}}\n\
         ---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: bench}}\n"
    );
    all += &reconciler("caches", "reader", "beta", "{gets: 0, lists: 0}")?;
    if loops {
        all += &reconciler("loops", "test-loop", "alpha", "{}")?;
    }
    Ok(all)
}

impl Scene {
    async fn start() -> Result<Self> {
        let folder = TempDir::new()?;
        let renewals = Arc::new(Renewals::default());
        let server = Server::builder().hook(renewals.clone());
        let server = server.cluster("alpha").cluster("beta");
        let server = server.bind("127.0.0.1:0").await?;
        fs::write(folder.path().join("fleet.kubeconfig"), server.kubeconfig())?;
        server.add_cluster("hub");
        fs::write(folder.path().join("hub.kubeconfig"), server.kubeconfig())?;
        let (alpha, beta) = (server.cluster("alpha"), server.cluster("beta"));
        for at in 0..LOOPS {
            create(alpha.as_ref().context("alpha")?, &format!("loop-{at}"))?;
        }
        fs::write(folder.path().join("windlass.yaml"), documents(false)?)?;
        let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
        let mut program = Program::start(folder.path(), args)?;
        let line = program.line_with("admin endpoints", SOON).await?;
        let line: Value = serde_json::from_str(&line)?;
        let scene = Self {
            folder,
            address: line["address"].as_str().context("an address")?.to_owned(),
            renewals,
            beta: beta.context("beta")?,
            changes: 0,
            _program: program,
            _server: server,
        };
        let ready = |beta: &Value| beta["state"] == "Ready";
        scene.sees("clusters", "beta", ready).await?;
        Ok(scene)
    }

    async fn get(&self, path: &str) -> Result<String> {
        let mut stream = tokio::net::TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
        ensure!(head.contains(" 200 "), "{path}: {answer}");
        Ok(body.to_owned())
    }

    async fn item(&self, of: &str, name: &str) -> Result<Value> {
        let all: Value = serde_json::from_str(&self.get(&format!("/api/v1/{of}")).await?)?;
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let named = |item: &Value| item["name"].as_str().is_some_and(|of| of.ends_with(name));
        Ok(items.into_iter().find(named).unwrap_or_default())
    }

    /// Waits until what the program tells of something by name is so.
    async fn sees(&self, of: &str, name: &str, so: impl Fn(&Value) -> bool) -> Result<()> {
        eventually(SOON, name, || async {
            Ok(Seen::of(self.item(of, name).await?, &so))
        })
        .await
        .map(drop)
    }

    /// Has guests loop, or no longer.
    async fn loops(&self, on: bool) -> Result<()> {
        fs::write(self.folder.path().join("windlass.yaml"), documents(on)?)?;
        let computed = |loops: &Value| loops["usage"]["cpuSeconds"].as_f64();
        let so = |loops: &Value| match on {
            true => computed(loops) > Some(0.5),
            false => loops.is_null(),
        };
        self.sees("reconcilers", "loops", so).await
    }

    async fn phase(&mut self) -> Result<Phase> {
        let phase = Phase::default();
        let [probes, changes, renewals] = &phase;
        self.renewals.0.lock().clear();
        let began = Instant::now();
        let mut every = tokio::time::interval(EVERY);
        while began.elapsed() < PHASE {
            every.tick().await;
            let probed = Instant::now();
            self.get("/livez").await?;
            probes.record(probed.elapsed());
            changes.record(self.change().await?);
        }
        for two in self.renewals.0.lock().windows(2) {
            renewals.record((two[1] - two[0]).saturating_sub(RENEWAL));
        }
        Ok(phase)
    }

    /// How long it takes until an object that is made is in the program's cache.
    async fn change(&mut self) -> Result<Duration> {
        let cached = async || {
            Ok::<_, anyhow::Error>(self.item("clusters", "beta").await?["objects"].as_u64())
        };
        let before = cached().await?;
        let made = Instant::now();
        create(&self.beta, &format!("change-{}", self.changes))?;
        while cached().await? <= before {
            ensure!(made.elapsed() < SOON, "a change is not seen");
        }
        self.changes += 1;
        Ok(made.elapsed())
    }
}

fn create(cluster: &Cluster, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}});
    let created = cluster.create(object);
    created
        .map(drop)
        .map_err(|error| anyhow::anyhow!("{error:?}"))
}
