//! What a source of clusters costs: time until its clusters are ready, CPU at rest, memory of each further cluster. Entry point: `main`.
//!
//! ```text
//! cargo bench --bench providers               every source, some minutes
//! ```
//!
//! The hub and all clusters are simulated by a process of their own. Each row is measured in a process of its own: a manager with one
//! controller of ConfigMaps, of which there are none. The same clusters from files are the measure of the others.

mod figures;
mod rig;
mod table;
mod until;
mod usage;
mod workload;

mod providers {
    pub(crate) mod served;
    pub(crate) mod sources;
}

use anyhow::{Context as _, Result, bail};
use providers::served::{self, Served};
use providers::sources::{self, Source};
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::verdict;
use usage::{Usage, kib, mib};
use windlass_fleet::cluster::{ClusterConfig, ClusterState};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::{Action, ClusterName, Context, Controller, ControllerName, Manager};
use windlass_harness::fleet::RunningManager;
use workload::{Workload, tell};

/// The first clusters pay for what is needed once.
pub(crate) const WARM: usize = 100;
pub(crate) const CLUSTERS: usize = 1000;
/// A source may take so much of a core while nothing changes.
const REST_PERCENT: f64 = 1.0;
/// A further namespace may take so much.
const NAMESPACE_KIB: f64 = 5.0;
/// A further cluster of an object may take so much more than one of a file: the object, and what is derived from it.
const OBJECT_KIB: f64 = 20.0;
/// How long CPU time at rest is counted.
const REST: Duration = Duration::from_secs(20);

const WORKLOADS: [Workload; 1] = [Workload {
    name: "sources",
    title: "1,000 clusters of a source, one empty kind watched; those after the first 100 are measured",
    heads: &[
        "source          ",
        "engaged s",
        "resident MiB",
        "KiB/further cluster",
        "watches",
        "CPU at rest %",
        "bars                                ",
    ],
    runs: &[&[]],
}];

fn main() -> Result<()> {
    if served::serve_if_asked()? {
        return Ok(());
    }
    match workload::asked(&WORKLOADS)? {
        Some(run) => rig::run(measure(&run)),
        None => Ok(()),
    }
}

/// Measures in this process, or has a process for each source measure it and compares them.
async fn measure(run: &[String]) -> Result<()> {
    let run: Vec<&str> = run.iter().map(String::as_str).collect();
    match run.as_slice() {
        ["sources"] => compare(),
        ["sources", source] => {
            let figures = of_source(Source::named(source)?).await?;
            println!("{}", serde_json::to_string(&figures)?);
            Ok(())
        }
        other => bail!("nothing to measure in {other:?}"),
    }
}

/// What a source of clusters takes.
#[derive(serde::Serialize, serde::Deserialize)]
struct Figures {
    engaged: f64,
    resident: usize,
    /// Bytes of a further cluster.
    further: f64,
    /// Watches that are open at the hub and in all clusters.
    watches: usize,
    /// Percent of a core.
    rest: f64,
}

fn compare() -> Result<()> {
    let mut of_files = None;
    for source in sources::ALL {
        let output = std::process::Command::new(std::env::current_exe()?)
            .args(["--measure", "sources", source.as_str()])
            .stderr(std::process::Stdio::inherit())
            .output()?;
        let figures: Figures = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("measure {}", source.as_str()))?;
        let further = kib(figures.further);
        let files = *of_files.get_or_insert(further);
        tell(vec![
            source.as_str().to_owned(),
            format!("{:.2}", figures.engaged),
            format!("{:.1}", mib(figures.resident)),
            format!("{further:.1} ({:+.1})", further - files),
            figures.watches.to_string(),
            format!("{:.2}", figures.rest),
            bars(source, &figures, files),
        ])?;
    }
    Ok(())
}

fn bars(source: Source, figures: &Figures, files: f64) -> String {
    let further = kib(figures.further);
    let memory = match source {
        Source::Files => None,
        Source::Namespaces => Some(verdict(
            &format!("{NAMESPACE_KIB} KiB"),
            further <= NAMESPACE_KIB,
        )),
        Source::Secrets | Source::Profiles => Some(verdict(
            &format!("files + {OBJECT_KIB} KiB"),
            further <= files + OBJECT_KIB,
        )),
    };
    let rest = verdict(&format!("{REST_PERCENT} %"), figures.rest <= REST_PERCENT);
    memory
        .into_iter()
        .chain([rest])
        .collect::<Vec<_>>()
        .join(", ")
}

fn controller() -> Result<Controller> {
    let noop = |_: Context| async { Ok(Action::Done) };
    let controller = Controller::builder(ControllerName::new("watching")?);
    Ok(controller
        .for_kind(rig::config_map())
        .build(Arc::new(noop))?)
}

async fn of_source(source: Source) -> Result<Figures> {
    let mut served = Served::start(source)?;
    let folder = tempfile::tempdir()?;
    let local = ClusterSpec::new(
        ClusterName::local(),
        ClusterConfig::from_url(&served.url("hub"))?,
    );
    if source == Source::Files {
        served.write_kubeconfig(folder.path(), WARM)?;
    }
    let manager = RunningManager::start(
        Manager::builder()
            .local(local)
            .provider(source.provider(folder.path())?)
            .controller(controller()?),
    )?;
    ready(&manager, WARM).await?;
    settle().await;
    let before = Usage::own()?;
    let began = Instant::now();
    if source == Source::Files {
        served.write_kubeconfig(folder.path(), CLUSTERS)?;
    } else {
        served.more()?;
    }
    ready(&manager, CLUSTERS).await?;
    let engaged = began.elapsed();
    settle().await;
    let after = Usage::own()?;
    let watches = served.watches()?;
    let idle = Usage::own()?.cpu;
    // Not a wait: the time at rest is what is measured.
    tokio::time::sleep(REST).await;
    let rest = Usage::own()?.cpu.saturating_sub(idle);
    manager.stop().await?;
    Ok(Figures {
        engaged: engaged.as_secs_f64(),
        resident: after.resident,
        further: after.resident.saturating_sub(before.resident) as f64 / (CLUSTERS - WARM) as f64,
        watches,
        rest: 100.0 * rest.as_secs_f64() / REST.as_secs_f64(),
    })
}

/// Waits until so many clusters beside the local one are ready.
async fn ready(manager: &RunningManager, count: usize) -> Result<()> {
    until::until("ready clusters", || {
        let clusters = manager.handle.fleet().clusters();
        let local = ClusterName::local();
        let ready = clusters
            .iter()
            .filter(|cluster| cluster.name() != &local && cluster.state() == ClusterState::Ready);
        ready.count() >= count
    })
    .await
}

async fn settle() {
    // Not a wait: what was allocated and freed settles meanwhile.
    tokio::time::sleep(Duration::from_secs(2)).await;
}
