//! What a language costs: the conformance reconciler of each. Entry point: `main`.
//!
//! ```text
//! cargo bench --bench languages
//! cargo bench --bench languages -- saves    an author's path: new, types, dev, a save until the new guest is at work, test
//! ```
//!
//! Every row is measured in a process of its own, within some seconds and the time that its component takes to build and to compile. What
//! does not build is left out, and said to be. Figures of a reconcile are of one that reads an object of 1 KB from the cache, parses it and is done.

mod compiler;
mod figures;
mod rig;
mod table;
mod turns;
mod workload;

mod languages {
    pub(crate) mod saves;
}

use anyhow::{Context as _, Result, anyhow, bail};
use figures::median;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use languages::saves;
use parking_lot::Mutex;
use rig::{config_map, resident};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use turns::Turns;
use windlass_apiserver::Server;
use windlass_fleet::api::GetOptions;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, Reconciler,
    TenantName,
};
use windlass_harness::guests;
use windlass_sandbox::{
    Guest, GuestOptions, Isolation, Limits, Reuse, Revision, Sandbox, Tenant, TenantLimits,
};
use workload::{Workload, tell};

/// Loads from the cache, of which the middle counts.
const LOADS: usize = 5;
/// Calls at once, whose instances are kept: what they take in memory is shared out among them.
const KEPT: u32 = 32;

const WORKLOAD: Workload = Workload {
    name: "languages",
    title: "the conformance reconciler: from its component to a guest in ms; a reconcile in µs, middle of 101 batches; memory in KiB",
    heads: &[
        "language",
        "component KiB",
        "compiled",
        "from the cache",
        "described",
        "native µs",
        "fresh µs ",
        "reused µs",
        "linear KiB",
        "resident KiB when kept",
    ],
    runs: &[&["rust"], &["js"], &["python"], &["go"], &["c"]],
};

const SAVES: Workload = Workload {
    name: "saves",
    title: "a new project, in s: new, types of a kind, the first start of dev, from a save to the new guest at work (middle of 7), the same with the types of 19 kinds in the project, test after an edit",
    heads: &[
        "language  ",
        "new",
        "types",
        "first start",
        "save",
        "      range",
        "of it the build",
        "typed",
        "test",
        "bar            ",
    ],
    runs: &[
        &["rust"],
        &["typescript"],
        &["javascript"],
        &["python"],
        &["go"],
        &["c"],
    ],
};

fn main() -> Result<()> {
    if compiler::compile_if_asked() {
        return Ok(());
    }
    match workload::asked(&[WORKLOAD, SAVES])?.as_deref() {
        None => Ok(()),
        Some([name, language]) if name == SAVES.name => {
            rig::run(async { tell(saves::measure(language).await?) })
        }
        Some([_, language]) => rig::run(measure(language)),
        Some(other) => bail!("nothing to measure in {other:?}"),
    }
}

async fn measure(language: &str) -> Result<()> {
    let mut row = vec![language.to_owned()];
    let built = guests::build_language(language);
    if let Err(error) = &built {
        eprintln!("{language}: {error:#}");
    }
    let (Ok(()), Ok(component)) = (built, guests::conformance(language)) else {
        row.push("not built".to_owned());
        return tell(row);
    };
    let size = std::fs::metadata(&component)
        .context("the component")?
        .len();
    row.push((size / 1024).to_string());

    let cache = tempfile::tempdir()?;
    let load = async || {
        let sandbox = compiler::engine(Some(&cache.path().join("cache")))?;
        let began = Instant::now();
        let revision = sandbox.load(component.as_path()).await?;
        anyhow::Ok((millis(began), sandbox, revision))
    };
    let (compiled, mut sandbox, mut revision) = load().await?;
    let mut cached = Vec::new();
    for _ in 0..LOADS {
        let took;
        (took, sandbox, revision) = load().await?;
        cached.push(took);
    }
    row.extend([compiled, median(&cached)].map(|time| format!("{time:.1}")));
    let began = Instant::now();
    let fresh = guest(&sandbox, &revision, Isolation::Fresh).await?;
    row.push(format!("{:.1}", millis(began)));
    let kept = Isolation::Reuse(Reuse {
        calls: u32::MAX,
        age: Duration::from_secs(600),
        memory: 128 << 20,
        idle: KEPT,
    });
    let reused = guest(&sandbox, &revision, kept).await?;

    let figures = Figures::new(fresh.clone(), reused);
    run(&figures).await?;
    let taken = figures
        .taken
        .lock()
        .take()
        .context("nothing was measured")?;
    row.extend(taken.times.map(|time| format!("{time:.1}")));
    row.push((fresh.status().memory_peak / 1024).to_string());
    row.push(format!("{:.0}", taken.kept / 1024.0));
    tell(row)
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// The reconciler with every call granted.
async fn guest(sandbox: &Sandbox, revision: &Revision, isolation: Isolation) -> Result<Arc<Guest>> {
    let limits = TenantLimits {
        memory: 4 << 30,
        ..TenantLimits::default()
    };
    let options = GuestOptions {
        tenant: Tenant::new(TenantName::new("bench")?, &limits),
        name: ControllerName::new("conformance")?,
        grant: Arc::new(Grant::all()),
        http: Arc::default(),
        config: "{}".to_owned(),
        limits: Limits {
            memory: 128 << 20,
            timeout: Duration::from_secs(60),
            ..Limits::default()
        },
        isolation,
        record: None,
        secrets: Vec::new(),
    };
    Ok(Guest::new(sandbox, options, revision.clone()).await?)
}

/// Has a manager call what is measured, for an object of 1 KB and for one that asks for a live read.
async fn run(figures: &Arc<Figures>) -> Result<()> {
    let server = Server::builder()
        .cluster("alpha")
        .bind("127.0.0.1:0")
        .await?;
    let alpha = server.cluster("alpha").context("served")?;
    let named = |name: &str, labels: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": name, "labels": labels},
            "data": {"color": "red", "text": "0123456789".repeat(80)},
        })
    };
    let asking = json!({"conformance.windlass.dev/case": "retry-api"});
    for object in [named("plain", json!({})), named(WAITING, asking)] {
        alpha.create(object).map_err(|error| anyhow!("{error:?}"))?;
    }
    let options = ControllerOptions {
        timeout: Duration::from_secs(300),
        concurrency: Some(1),
        ..ControllerOptions::default()
    };
    let controller = Controller::builder(ControllerName::new("bench")?)
        .for_kind(config_map())
        .options(options)
        .build(figures.clone())?;
    let manager = windlass_fleet::Manager::builder().controller(controller);
    let config = ClusterConfig::from_url(&server.url("alpha"))?;
    let spec = ClusterSpec::new(ClusterName::new("alpha")?, config);
    let manager = rig::engage(manager, vec![spec]).await?;
    tokio::time::timeout(Duration::from_secs(300), figures.done.notified())
        .await
        .context("what is measured takes too long")?;
    manager.stop().await?;
    server.shutdown().await;
    Ok(())
}

/// The object whose reconcile waits for the API server, so that many instances live at once.
const WAITING: &str = "waiting";

/// What was measured.
struct Taken {
    /// µs of a reconcile: native, fresh, reused.
    times: [f64; 3],
    /// Resident bytes of an instance that waits for another call.
    kept: f64,
}

/// Measures within the runs of two objects.
struct Figures {
    native: Arc<dyn Reconciler>,
    fresh: Arc<Guest>,
    reused: Arc<Guest>,
    times: Mutex<Option<[f64; 3]>>,
    kept: Mutex<Option<f64>>,
    taken: Mutex<Option<Taken>>,
    done: Notify,
}

impl Figures {
    fn new(fresh: Arc<Guest>, reused: Arc<Guest>) -> Arc<Self> {
        Arc::new(Self {
            native: Arc::new(read),
            fresh,
            reused,
            times: Mutex::default(),
            kept: Mutex::default(),
            taken: Mutex::default(),
            done: Notify::new(),
        })
    }

    async fn measure(&self, context: Context) -> Result<Action, Failure> {
        if &*context.request.key.name == WAITING {
            let kept = self.memory(&context).await?;
            *self.kept.lock() = Some(kept);
        } else if self.times.lock().is_none() {
            let times = self.reconciles(&context).await?;
            *self.times.lock() = Some(times);
        }
        if let (Some(times), Some(kept)) = (*self.times.lock(), *self.kept.lock()) {
            *self.taken.lock() = Some(Taken { times, kept });
            self.done.notify_one();
        }
        Ok(Action::Done)
    }

    /// µs of a reconcile by each subject; they take turns.
    async fn reconciles(&self, context: &Context) -> Result<[f64; 3], Failure> {
        let subjects: [&dyn Reconciler; 3] = [&*self.native, &*self.fresh, &*self.reused];
        Ok(Turns::take(subjects, context).await?.medians())
    }

    /// Resident bytes of each instance that waits for another call, once many have run at once.
    async fn memory(&self, context: &Context) -> Result<f64, Failure> {
        let host = |error: anyhow::Error| Failure::terminal(error.to_string());
        // What the host itself makes at the first call is no instance's.
        self.reused.reconcile(context.clone()).await?;
        let (before, idle) = (resident().map_err(host)?, self.idle());
        let calls = (0..KEPT).map(|_| self.reused.reconcile(context.clone()));
        for outcome in join_all(calls).await {
            outcome?;
        }
        let more = self.idle().saturating_sub(idle);
        if more == 0 {
            return Ok(f64::NAN);
        }
        let after = resident().map_err(host)?;
        Ok(after.saturating_sub(before) as f64 / more as f64)
    }

    fn idle(&self) -> usize {
        self.reused.status().idle_instances
    }
}

impl Reconciler for Figures {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        self.measure(context).boxed()
    }
}

/// What the guests do for an object without a case, natively.
async fn read(context: Context) -> Result<Action, Failure> {
    let client = context.client(&Arc::new(Grant::all()));
    let options = GetOptions::default();
    let found = client
        .get(&config_map(), &context.request.key, &options)
        .await?;
    if let Some(found) = found {
        let parsed: Value =
            serde_json::from_slice(&found).map_err(|error| Failure::terminal(error.to_string()))?;
        std::hint::black_box(parsed);
    }
    Ok(Action::Done)
}
