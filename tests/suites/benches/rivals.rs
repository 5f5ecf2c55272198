//! The same work on real API servers by Windlass, as a library with a native reconciler and as the shipped program with a guest, and by its
//! rivals: kube-rs, and Go's multicluster-runtime. Entry point: `main`.
//!
//! ```text
//! tests/testenv/build mcr                                  what is measured of Go
//! cargo bench --bench rivals               all subjects, twenty minutes
//! cargo bench --bench rivals -- program    one of them, and the rivals beside it
//! ```
//!
//! Three kube-apiservers hold 1000 ConfigMaps of 2 KB each, labelled `bench=in`. For each of them the subject keeps a ConfigMap
//! `<name>-out` that echoes its value and is owned by it. It reads from its cache, creates an echo that is missing, sends a merge patch of the
//! one field where an echo is wrong, and writes nothing where it is right; so do all subjects. A changed echo brings its owner back, so that
//! one update is two reconciles. Updates come at random times (open loop); a latency runs from when an update was due to the watch event of
//! its echo. Servers, driver and subject share the machine, each in processes of its own; subjects take turns, and the middle of their rounds
//! is shown.
//!
//! Every subject runs at most 16 keys of a server at once, and Go 16 of all servers, as its one pool of workers has no bound for each.
//! `program` is the binary that `WINDLASS_BIN` names, or else that of this workspace, built before anything is measured. It is `windlass run`
//! with documents as users write them; its connections include the socket of its admin endpoints.
//!
//! A cold start ends when the driver has seen every echo; the program compiles its guest in that time. A restart finds every echo right, and
//! ends when the subject has looked at all sources. The other processes print that; the program shows it in its admin endpoints, which are
//! asked every 20 ms.
//!
//! The bars beside kube-rs: CPU time of an update at most the same natively, and 1.3 times with a guest; p50, p99 and cold start less. Beside
//! Go: all of that less, and memory too.

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
    pub(crate) mod program;
    pub(crate) mod servers;
    pub(crate) mod subject;
    pub(crate) mod work;
}

use anyhow::{Result, ensure};
use rivals::driver::Driver;
use rivals::measure::{HEADS, ROUNDS, Rates, floor, rounds, rows};
use rivals::servers::work_on;
use rivals::subject::{KINDS, RIVALS, prepare, run_if_asked};
use table::Table;
use windlass_harness::testenv::{Environment, Spec};

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
    let kinds = asked()?;
    prepare(&kinds)?;
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

/// The subjects that the command line asks for, and the rivals; all if it asks for none.
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
        |kind: &&str| RIVALS.contains(kind) || asked.is_empty() || asked.iter().any(|a| a == kind);
    Ok(KINDS.into_iter().filter(is_asked).collect())
}
