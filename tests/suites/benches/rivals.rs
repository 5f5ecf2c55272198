//! The same work on real API servers by Windlass, with a native reconciler and with a guest, and by kube-rs. Entry point: `main`.
//!
//! ```text
//! WINDLASS_REAL=1 cargo bench --bench rivals             all subjects, a quarter of an hour
//! WINDLASS_REAL=1 cargo bench --bench rivals -- guest    one of them, and kube-rs beside it
//! ```
//!
//! Three kube-apiservers hold 1000 ConfigMaps of 2 KB each, labelled `bench=in`. For each of them the subject keeps a ConfigMap
//! `<name>-out` that echoes its value and is owned by it; it reads from its cache, and writes nothing where the echo is right. A
//! changed echo brings its owner back, so that one update is two reconciles. Updates come at random times (open loop); a latency runs from
//! when an update was due to the watch event of its echo. Every subject runs at most 16 keys of a server at once. Servers, driver and
//! subject share the machine, each in processes of its own; subjects take turns, and the middle of their rounds is shown.
//!
//! A rival is measured in the same run or not at all: kube-rs is. Go's multicluster-runtime is not, as no program of it is built here.

mod figures;
mod latency;
mod table;
mod until;
mod usage;

mod rivals {
    pub(crate) mod driver;
    pub(crate) mod echo;
    pub(crate) mod measure;
    pub(crate) mod peer;
    pub(crate) mod servers;
    pub(crate) mod subject;
    pub(crate) mod work;
}

use anyhow::{Result, ensure};
use rivals::driver::Driver;
use rivals::measure::{HEADS, ROUNDS, Rates, floor, rounds, rows};
use rivals::servers::work_on;
use rivals::subject::{KINDS, RIVAL, run_if_asked};
use table::Table;
use windlass_harness::testenv::{self, Environment, Spec};

const SERVERS: usize = 3;
const OBJECTS: usize = 1_000;
const RATES: Rates = [50.0, 200.0];

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    if runtime.block_on(run_if_asked())? {
        return Ok(());
    }
    if !testenv::enabled("the work of rivals on real API servers") {
        return Ok(());
    }
    let kinds = asked()?;
    runtime.block_on(async {
        let specs = (0..SERVERS).map(|n| Spec::new(format!("server-{n}")));
        let environment = Environment::start(specs).await?;
        let work = work_on(&environment, OBJECTS).await?;
        let mut driver = Driver::start(&work).await?;
        let floor = floor(&mut driver, RATES).await?;
        let rounds = rounds(ROUNDS, &kinds, &work, &mut driver, RATES).await?;
        let title = format!(
            "{SERVERS} kube-apiservers x {OBJECTS} objects, {} cores, a patch to its watch event p50 {floor:.1} ms with no subject; middle of {ROUNDS} rounds",
            std::thread::available_parallelism()?,
        );
        let table = Table::begin(&title, &HEADS);
        for row in rows(&kinds, RATES, &rounds) {
            table.row(&row);
        }
        Ok(())
    })
}

/// The subjects that the command line asks for, and the rival; all if it asks for none.
fn asked() -> Result<Vec<&'static str>> {
    // cargo says `--bench` to every bench.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    for name in &asked {
        ensure!(
            KINDS.contains(&name.as_str()),
            "no subject {name:?}: there are {}",
            KINDS.join(", ")
        );
    }
    let is_asked =
        |kind: &&str| *kind == RIVAL || asked.is_empty() || asked.iter().any(|a| a == kind);
    Ok(KINDS.into_iter().filter(is_asked).collect())
}
