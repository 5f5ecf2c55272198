//! Guests of several tenants: the way through the sandbox's border, misbehaving neighbours, memory, reload under load, compilation.
//! Entry point: `main`.
//!
//! ```text
//! cargo bench --bench tenants                   every workload, some minutes
//! cargo bench --bench tenants -- harm reload    some of them
//! ```
//!
//! Clusters are simulated by a process of its own, and every row of a table is measured in a process of its own. Bars are about ratios
//! within one run. What needs a guest in JavaScript is left out, and said to be, where there is no npm to build it.

mod latency;
mod rig;
mod until;
mod usage;

#[allow(dead_code, reason = "each bench uses the parts it needs")]
#[path = "fleet"]
mod fleet {
    pub(crate) mod served;
    pub(crate) mod simulated;
    pub(crate) mod subject;
    pub(crate) mod table;
    pub(crate) mod trouble;
}

mod tenants {
    pub(crate) mod boundary;
    pub(crate) mod compiling;
    pub(crate) mod harm;
    pub(crate) mod memory;
    pub(crate) mod reload;
    pub(crate) mod stage;
}

use anyhow::{Context as _, Result, bail, ensure};
use fleet::served;
use fleet::table::Table;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tenants::{boundary, compiling, harm, memory, reload};

const MEASURE: &str = "--measure";

/// A table: what is measured, and the arguments of each process that measures some rows of it.
struct Workload {
    name: &'static str,
    title: &'static str,
    heads: &'static [&'static str],
    runs: &'static [&'static [&'static str]],
}

const WORKLOADS: [Workload; 5] = [
    boundary::WORKLOAD,
    harm::WORKLOAD,
    memory::WORKLOAD,
    reload::WORKLOAD,
    compiling::WORKLOAD,
];

fn main() -> Result<()> {
    if served::serve_if_asked()? || compiling::compile_if_asked() {
        return Ok(());
    }
    // cargo says `--bench` to every bench.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    if let Some((first, run)) = args.split_first()
        && first == MEASURE
    {
        return rig::run(measure(run));
    }
    for name in &args {
        ensure!(
            WORKLOADS.iter().any(|workload| workload.name == *name),
            "no workload {name:?}: there are {}",
            WORKLOADS.map(|workload| workload.name).join(", ")
        );
    }
    println!("{} cores", std::thread::available_parallelism()?);
    for workload in &WORKLOADS {
        if args.is_empty() || args.iter().any(|name| name == workload.name) {
            show(workload)?;
        }
    }
    Ok(())
}

/// Prints a table, a process for each run.
fn show(workload: &Workload) -> Result<()> {
    let title = format!("{}: {}", workload.name, workload.title);
    let table = Table::begin(&title, workload.heads);
    for run in workload.runs {
        let mut child = Command::new(std::env::current_exe()?)
            .args([MEASURE, workload.name])
            .args(*run)
            .stdout(Stdio::piped())
            .spawn()?;
        let rows = child.stdout.take().context("no stdout")?;
        for row in BufReader::new(rows).lines() {
            let cells: Vec<String> = serde_json::from_str(&row?)?;
            table.row(&cells);
        }
        ensure!(
            child.wait()?.success(),
            "{} {} failed",
            workload.name,
            run.join(" ")
        );
    }
    Ok(())
}

/// Measures in this process, and tells the rows on standard output.
async fn measure(run: &[String]) -> Result<()> {
    let run: Vec<&str> = run.iter().map(String::as_str).collect();
    let tell = |row: Vec<String>| -> Result<()> {
        println!("{}", serde_json::to_string(&row)?);
        Ok(())
    };
    match run.as_slice() {
        ["boundary"] => boundary::measure(&tell).await,
        ["harm", guest] => harm::measure(guest, &tell).await,
        ["memory"] => memory::measure(&tell).await,
        ["reload"] => reload::measure(&tell).await,
        ["compiling", guest] => compiling::measure(guest, &tell).await,
        other => bail!("nothing to measure in {other:?}"),
    }
}
