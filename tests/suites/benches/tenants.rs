//! Guests of several tenants: the way through the sandbox's border, misbehaving and noisy neighbours, what they cost the host,
//! memory, reload under load, compilation. Entry point: `main`.
//!
//! ```text
//! cargo bench --bench tenants                   every workload, some minutes
//! cargo bench --bench tenants -- harm reload    some of them
//! ```
//!
//! Clusters are simulated by a process of its own, and every row of a table is measured in a process of its own. Bars are about ratios
//! within one run. What needs a guest in JavaScript is left out, and said to be, where there is no npm to build it.

mod compiler;
#[allow(dead_code, reason = "tests use more of it")]
#[path = "../tests/sandbox/mutate.rs"]
mod mutate;
mod figures;
mod latency;
mod rig;
mod table;
mod turns;
mod until;
mod usage;
mod workload;

#[allow(dead_code, reason = "each bench uses the parts it needs")]
#[path = "fleet"]
mod fleet {
    pub(crate) mod noise;
    pub(crate) mod served;
    pub(crate) mod simulated;
    pub(crate) mod subject;
    pub(crate) mod trouble;
}

mod tenants {
    pub(crate) mod boundary;
    pub(crate) mod compiling;
    pub(crate) mod harm;
    pub(crate) mod host;
    pub(crate) mod memory;
    pub(crate) mod neighbour;
    pub(crate) mod process;
    pub(crate) mod program;
    pub(crate) mod reload;
    pub(crate) mod stage;
    pub(crate) mod worst;
}

use anyhow::{Result, bail};
use fleet::served;
use tenants::{boundary, compiling, harm, host, memory, neighbour, process, reload};
use workload::{Workload, tell};

const WORKLOADS: [Workload; 8] = [
    boundary::WORKLOAD,
    harm::WORKLOAD,
    neighbour::WORKLOAD,
    host::WORKLOAD,
    memory::WORKLOAD,
    process::WORKLOAD,
    reload::WORKLOAD,
    compiling::WORKLOAD,
];

fn main() -> Result<()> {
    if served::serve_if_asked()? || compiler::compile_if_asked() {
        return Ok(());
    }
    match workload::asked(&WORKLOADS)? {
        Some(run) => rig::run(measure(&run)),
        None => Ok(()),
    }
}

/// Measures in this process, and tells the rows on standard output.
async fn measure(run: &[String]) -> Result<()> {
    let run: Vec<&str> = run.iter().map(String::as_str).collect();
    match run.as_slice() {
        ["boundary"] => boundary::measure().await,
        ["harm", guest] => harm::measure(guest).await,
        ["neighbour", hot_reads] => tell(neighbour::measure(hot_reads).await?),
        ["host"] => host::measure().await,
        ["memory"] => memory::measure().await,
        ["process"] => process::measure().await,
        ["reload"] => reload::measure().await,
        ["compiling", guest] => compiling::measure(guest).await,
        other => bail!("nothing to measure in {other:?}"),
    }
}
