//! Workspaces of kcp as clusters: the work of rivals on a real kcp beside them, and what an idle workspace costs. Entry point: `main`.
//!
//! ```text
//! cargo bench --bench kcp             all of it, most of an hour
//! cargo bench --bench kcp -- few      20 workspaces with 200 objects each
//! cargo bench --bench kcp -- many     500 workspaces with 20 objects each
//! cargo bench --bench kcp -- idle                     10,000 workspaces without objects, on two shards of the server in memory
//! ```
//!
//! The work is that of the bench `rivals`, on ConfigMaps that an export claims. Windlass follows all workspaces at once through the
//! virtual workspace of the export. The rivals go through it too, with a watch of its own for each workspace. kube-rs has a controller for
//! each, and as many keys of a workspace run at once as with Windlass; multicluster-runtime has one pool for all.

mod figures;
mod latency;
mod rig;
mod table;
mod until;
mod usage;
mod workload;

mod kcp {
    pub(crate) mod idle;
    pub(crate) mod workspaces;
}

// Those of the bench `rivals`. The paths are for rustfmt, which looks for them in the folder of this bench.
mod rivals {
    #[path = "../rivals/driver.rs"]
    pub(crate) mod driver;
    #[path = "../rivals/echo.rs"]
    pub(crate) mod echo;
    #[path = "../rivals/measure.rs"]
    pub(crate) mod measure;
    #[path = "../rivals/peer.rs"]
    pub(crate) mod peer;
    #[path = "../rivals/program.rs"]
    pub(crate) mod program;
    #[path = "../rivals/subject.rs"]
    pub(crate) mod subject;
    #[path = "../rivals/work.rs"]
    pub(crate) mod work;
}

use anyhow::{Result, bail};
use rivals::driver::Driver;
use rivals::measure::{HEADS, ROUNDS, Rates, floor, rounds, rows};
use rivals::subject::{KINDS, prepare, run_if_asked};
use windlass_harness::testenv::Kcp;
use workload::{Workload, tell};

const RATES: Rates = [50.0, 100.0];

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "few",
        title: "20 workspaces x 200 objects of a real kcp; middle of the rounds",
        heads: &HEADS,
        runs: &[&[]],
    },
    Workload {
        name: "many",
        title: "500 workspaces x 20 objects of a real kcp; one round, which takes long",
        heads: &HEADS,
        runs: &[&[]],
    },
    Workload {
        name: "idle",
        title: "10,000 workspaces of the server in memory, no object; those after the first 1,000 are measured",
        heads: &kcp::idle::HEADS,
        runs: &[&[]],
    },
];

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    if runtime.block_on(run_if_asked())? || kcp::idle::serve_if_asked()? {
        return Ok(());
    }
    let Some(run) = workload::asked(&WORKLOADS)? else {
        return Ok(());
    };
    match run
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["few"] => runtime.block_on(work(20, 200, ROUNDS)),
        ["many"] => runtime.block_on(work(500, 20, 1)),
        ["idle"] => runtime.block_on(kcp::idle::measure()),
        other => bail!("nothing to measure in {other:?}"),
    }
}

async fn work(workspaces: usize, objects: usize, rounds_of_each: usize) -> Result<()> {
    prepare(&KINDS)?;
    let server = Kcp::start(&[]).await?;
    let folder = tempfile::tempdir()?;
    let work =
        kcp::workspaces::work_of(&server, folder.path(), "bench", workspaces, objects).await?;
    let mut driver = Driver::start(&work).await?;
    let floor = floor(&mut driver, RATES).await?;
    eprintln!("a patch to its watch event, with no subject: p50 {floor:.1} ms");
    let rounds = rounds(rounds_of_each, &KINDS, &work, &mut driver, RATES).await?;
    rows(&KINDS, RATES, &rounds).into_iter().try_for_each(tell)
}
