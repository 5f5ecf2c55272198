//! The work that is counted, and the process that does it. Entry points: [`Job::asked`] and [`Job::run`].

use crate::rig::{self, config_map};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use windlass_fleet::api::GetOptions;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, Manager, Reconciler,
    TenantName,
};
use windlass_harness::fleet::RunningManager;
use windlass_sandbox::{
    CacheOptions, Guest, GuestOptions, Isolation, Limits, Options, Sandbox, Tenant, TenantLimits,
};

const COUNT: &str = "--count";
/// Far longer than any work takes under callgrind.
const DEADLINE: Duration = Duration::from_secs(900);
/// Runs of the guest that reads.
const RUNS: u32 = 200;
/// Bytes of text that make an object's JSON 1 KB, and 2 KB.
pub(crate) const PLAIN: usize = 700;
pub(crate) const EVENT: usize = 1_700;

/// An object with so many bytes of text.
pub(crate) fn object(name: &str, text: usize, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default",
        "labels": {"app": "counts"}}, "data": {"text": "x".repeat(text), "value": value}})
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Runs of a native reconciler.
    Native,
    /// Runs of the hello guest.
    Guest,
    /// Reads in each of [`RUNS`] of a guest.
    Gets,
    /// Changes of objects.
    Events,
}

impl Work {
    /// The guest that does it.
    pub(crate) fn guest(self) -> Option<&'static str> {
        match self {
            Self::Guest => Some("hello"),
            Self::Gets => Some("reader"),
            Self::Native | Self::Events => None,
        }
    }

    /// How often in all the thing is done that is counted.
    pub(crate) fn units(self, times: u32) -> u32 {
        match self {
            Self::Gets => RUNS * times,
            Self::Native | Self::Guest | Self::Events => times,
        }
    }
}

/// What a counted process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) times: u32,
    /// The cluster.
    pub(crate) url: String,
    /// The component.
    pub(crate) guest: Option<PathBuf>,
    /// The folder for compiled components.
    pub(crate) compiled: PathBuf,
}

impl Job {
    /// The job that this process was started for, if any.
    pub(crate) fn asked() -> Result<Option<Self>> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        match args.as_slice() {
            [first, job] if first == COUNT => Ok(Some(serde_json::from_str(job)?)),
            _ => Ok(None),
        }
    }

    /// The arguments of a process that is to do it.
    pub(crate) fn arguments(&self) -> Result<[String; 2]> {
        Ok([COUNT.to_owned(), serde_json::to_string(self)?])
    }

    /// Does it, in this process.
    pub(crate) fn run(self) -> Result<()> {
        // One thread: which of several takes a task is up to the machine.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let work = async {
                match self.work {
                    Work::Events => self.events().await,
                    Work::Native | Work::Guest | Work::Gets => self.reconciles().await,
                }
            };
            tokio::time::timeout(DEADLINE, work)
                .await
                .with_context(|| format!("not done within {DEADLINE:?}"))?
        })
    }

    async fn start(&self, controller: Controller) -> Result<RunningManager> {
        let config = ClusterConfig::from_url(&self.url)?;
        let cluster = ClusterSpec::new(ClusterName::new("alpha")?, config);
        rig::engage(Manager::builder().controller(controller), vec![cluster]).await
    }

    /// Runs the reconciler many times within one run.
    async fn reconciles(&self) -> Result<()> {
        let subject = self.subject().await?;
        let runs = match self.work {
            Work::Gets => RUNS,
            Work::Native | Work::Guest | Work::Events => self.times,
        };
        let (done, mut outcome) = mpsc::unbounded_channel();
        let reconcile = move |context: Context| {
            let (subject, done) = (subject.clone(), done.clone());
            async move {
                let _ = done.send(repeat(&*subject, context, runs).await);
                Ok(Action::Done)
            }
        };
        let options = ControllerOptions {
            timeout: DEADLINE,
            ..ControllerOptions::default()
        };
        let controller = Controller::builder(ControllerName::new("counts")?)
            .for_kind(config_map())
            .options(options)
            .build(Arc::new(reconcile))?;
        let manager = self.start(controller).await?;
        let ran = outcome.recv().await.context("nothing ran")?;
        ran.map_err(anyhow::Error::msg)?;
        manager.stop().await
    }

    async fn subject(&self) -> Result<Arc<dyn Reconciler>> {
        let Some(component) = &self.guest else {
            let grant = Arc::new(Grant::all());
            return Ok(Arc::new(move |context| native(context, grant.clone())));
        };
        let config = match self.work {
            Work::Gets => json!({"gets": self.times, "lists": 0}),
            Work::Native | Work::Guest | Work::Events => json!({}),
        };
        guest(component, &self.compiled, 1, &config).await
    }

    /// Prints the name of each object that the queue hands out, until the standard input ends.
    async fn events(&self) -> Result<()> {
        let reconcile = |context: Context| async move {
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "{}", context.request.key.name);
            Ok(Action::Done)
        };
        let controller = Controller::builder(ControllerName::new("counts")?)
            .for_kind(config_map())
            .build(Arc::new(reconcile))?;
        let manager = self.start(controller).await?;
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
            .await??;
        manager.stop().await
    }
}

/// A guest that does not yield by the clock, in a pool of so many instances. There is a folder for what is compiled.
pub(crate) async fn guest(
    component: &Path,
    compiled: &Path,
    instances: u32,
    config: &Value,
) -> Result<Arc<dyn Reconciler>> {
    let sandbox = Sandbox::new(Options {
        instances,
        processors: Some(1),
        // The processor is many times slower under callgrind.
        describe_timeout: DEADLINE,
        // Guests that yield by the clock would yield more often on a slower machine.
        slice: DEADLINE,
        cache: Some(CacheOptions::new(compiled)),
        ..Options::default()
    })?;
    let revision = sandbox.load(component).await?;
    let options = GuestOptions {
        tenant: Tenant::new(TenantName::default(), &TenantLimits::default()),
        name: ControllerName::new("counts")?,
        grant: Arc::new(Grant::all()),
        http: Arc::default(),
        config: config.to_string(),
        limits: Limits::default(),
        isolation: Isolation::Fresh,
        record: None,
        secrets: Vec::new(),
    };
    Ok(Guest::new(&sandbox, options, revision).await?)
}

async fn repeat(subject: &dyn Reconciler, context: Context, runs: u32) -> Result<(), Failure> {
    for _ in 0..runs {
        subject.reconcile(context.clone()).await?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// What the hello guest does with an object that asks for no greeting, natively.
async fn native(context: Context, grant: Arc<Grant>) -> Result<Action, Failure> {
    let client = context.client(&grant);
    let json = client
        .get(&config_map(), &context.request.key, &GetOptions::default())
        .await?;
    let parse = |json: bytes::Bytes| {
        serde_json::from_slice::<ConfigMap>(&json).map_err(|e| Failure::terminal(e.to_string()))
    };
    let object = json.map(parse).transpose()?;
    let asks = object.is_some_and(|object| {
        std::hint::black_box(&object.data);
        object
            .metadata
            .labels
            .contains_key("hello.windlass.dev/greet")
    });
    if asks {
        return Err(Failure::terminal("nobody should ask for a greeting here"));
    }
    Ok(Action::Done)
}
