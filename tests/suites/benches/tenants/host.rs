//! What the program's own work is delayed by guests that compute without end: probes, the lease, watches. Entry point: [`measure`].

use super::program::{Running, SOON, reconciler};
use super::stage::component;
use crate::figures::median;
use crate::latency::Latency;
use crate::table::verdict;
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use windlass_apiserver::{Call, Cluster, Hook, RequestVerdict, Server, Verb};
use windlass_harness::http::Http;

/// Phases without busy guests and with them, in turns; of each figure the middle is told.
const ROUNDS: usize = 5;
const PHASE: Duration = Duration::from_secs(4);
/// Between two probes.
const EVERY: Duration = Duration::from_millis(10);
/// Least time between two renewals of the lease, and most: what there is between is chance, with busy guests and without.
const RENEWAL: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(120)];
/// Calls that do not end while it is measured: more than there are threads for guests, on machines of up to
/// sixteen processors.
const LOOPS: usize = 16;
/// What busy guests may add to the p99, in milliseconds: less than it takes until each of them has had a turn, for which nothing of
/// this waits.
const BAR: f64 = 5.0;
/// What they may add to the longest time of a phase, in milliseconds: where few are late, the p99 does not show it. A machine with other
/// things to do adds half of that now and then.
const WORST: f64 = 20.0;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "host",
    title: "the program's own work beside 16 calls of guests that compute without end, ms",
    heads: &[
        "what                       ",
        "alone p50",
        "   p99",
        "worst",
        "beside p50",
        "   p99",
        "worst",
        "p99 beyond",
        "worst beyond",
        "bar             ",
    ],
    runs: &[&[]],
};

/// What is measured in each phase.
const ROWS: [&str; 3] = [
    "a probe of /livez",
    "a change until it is cached",
    "a renewal after its latest time",
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

/// A program that leads, and the clusters that it works on. They are simulated in the process that measures: what that is delayed by counts
/// as well.
struct Scene {
    running: Running,
    renewals: Arc<Renewals>,
    /// What is changed here is cached, and nothing loops on it.
    beta: Cluster,
    changes: usize,
    /// Guests compute.
    looping: bool,
    _servers: [Server; 2],
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
            median(&each)
        };
        let figures =
            [&alone, &beside].map(|phases| [0.5, 0.99, 1.0].map(|share| of(phases, share)));
        let [_, tail, worst] = [0, 1, 2].map(|at| figures[1][at] - figures[0][at]);
        let mut row = vec![(*what).to_owned()];
        row.extend(figures.concat().iter().map(|time| format!("{time:.2}")));
        row.extend([tail, worst].map(|beyond| format!("{beyond:.2}")));
        row.push(verdict("5 ms, 20 ms", tail <= BAR && worst <= WORST));
        tell(row)?;
    }
    Ok(())
}

/// The documents: a manager that leads, a reconciler that has a cache of beta, and one that loops in alpha if that is asked for.
fn documents(loops: bool) -> Result<String> {
    let retry = RENEWAL[0].as_millis();
    let verbs = "list, watch";
    let mut all = format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec:\n  \
         local: {{kubeconfig: ./hub.kubeconfig, context: hub}}\n  drainTimeout: 1s\n  \
         leaderElection: {{enabled: true, namespace: default, name: bench, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: {retry}ms}}\n"
    );
    let config = "config: {gets: 0, lists: 0}";
    all += &reconciler("caches", &component("reader"), "beta", verbs, config);
    if loops {
        let limits = format!("limits: {{concurrencyPerCluster: {LOOPS}, timeout: 60s}}");
        all += &reconciler("loops", &component("test-loop"), "alpha", verbs, &limits);
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
        let hub = Server::builder().hook(renewals.clone()).cluster("hub");
        let hub = hub.bind("127.0.0.1:0").await?;
        fs::write(folder.path().join("hub.kubeconfig"), hub.kubeconfig())?;
        let (alpha, beta) = (server.cluster("alpha"), server.cluster("beta"));
        for at in 0..LOOPS {
            create(alpha.as_ref().context("alpha")?, &format!("loop-{at}"))?;
        }
        let running = Running::start(folder, &server, &documents(false)?).await?;
        let scene = Self {
            running,
            renewals,
            beta: beta.context("beta")?,
            changes: 0,
            looping: false,
            _servers: [server, hub],
        };
        let ready = |beta: &Value| beta["state"] == "Ready";
        scene.running.sees("clusters", "beta", ready).await?;
        Ok(scene)
    }

    /// Has guests loop, or no longer: what ran is over then.
    async fn loops(&mut self, on: bool) -> Result<()> {
        let mark = self.running.program.line_count();
        self.running.configure(&documents(on)?)?;
        if on {
            let so = |loops: &Value| {
                loops["running"] == LOOPS && loops["usage"]["cpuSeconds"].as_f64() > Some(0.5)
            };
            self.running.sees("reconcilers", "loops", so).await?;
        } else if self.looping {
            let program = &mut self.running.program;
            let removed = program.line_with_from(mark, "reconciler removed", SOON);
            removed.await?;
        }
        self.looping = on;
        Ok(())
    }

    async fn phase(&mut self) -> Result<Phase> {
        let phase = Phase::default();
        let [probes, changes, renewals] = &phase;
        self.renewals.0.lock().clear();
        let http = self.running.http.clone();
        let (probed, changed) = tokio::join!(probe(&http, probes), self.change_on(changes));
        probed.and(changed)?;
        let mut renewed = self.renewals.0.lock().clone();
        // One that does not come is late as well.
        renewed.push(Instant::now().max(*renewed.last().context("a renewal")? + RENEWAL[1]));
        for two in renewed.windows(2) {
            renewals.record((two[1] - two[0]).saturating_sub(RENEWAL[1]));
        }
        Ok(phase)
    }

    /// Makes one object after the other.
    async fn change_on(&mut self, took: &Latency) -> Result<()> {
        let began = Instant::now();
        let mut every = tokio::time::interval(EVERY);
        while began.elapsed() < PHASE {
            every.tick().await;
            took.record(self.change().await?);
        }
        Ok(())
    }

    /// The time until a new object is in the program's cache, measured by repeated requests to the program.
    async fn change(&mut self) -> Result<Duration> {
        let cached = async || {
            let beta = self.running.item("clusters", "beta").await?;
            Ok::<_, anyhow::Error>(beta["objects"].as_u64())
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

/// Probes when it is time for it, from when on the answer is waited for: one that is late delays those that follow it.
async fn probe(http: &Http, took: &Latency) -> Result<()> {
    let began = Instant::now();
    let mut every = tokio::time::interval(EVERY);
    while began.elapsed() < PHASE {
        let due = every.tick().await;
        let (status, told) = http.get("/livez").await?;
        ensure!(status == 200, "{told}");
        took.record(due.elapsed());
    }
    Ok(())
}

fn create(cluster: &Cluster, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}});
    let created = cluster.create(object);
    created
        .map(drop)
        .map_err(|error| anyhow::anyhow!("{error:?}"))
}
