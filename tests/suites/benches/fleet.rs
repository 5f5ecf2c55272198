//! The engine under load: start, throughput, latency, neighbours, dead clusters, broken watches. Entry point: `main`.
//!
//! ```text
//! cargo bench --bench fleet                 every workload, some minutes
//! cargo bench --bench fleet -- load dead    some of them
//! ```
//!
//! Clusters are simulated by a process of its own, which also makes the load, and every row of a table is measured in a process of
//! its own, so that memory and CPU time are those of the engine alone. kube-rs's `Controller` does the same work beside it where it
//! has a like. Wherever there is a bar it is about a ratio within one run: a machine that others use changes both sides.

mod latency;
mod rig;
mod until;
mod usage;

mod fleet {
    pub(crate) mod answer;
    pub(crate) mod cut;
    pub(crate) mod dead;
    pub(crate) mod load;
    pub(crate) mod neighbour;
    pub(crate) mod peer;
    pub(crate) mod replay;
    pub(crate) mod served;
    pub(crate) mod simulated;
    pub(crate) mod start;
    pub(crate) mod subject;
    pub(crate) mod table;
    pub(crate) mod trouble;
}

use anyhow::{Context as _, Result, bail, ensure};
use fleet::table::Table;
use fleet::{cut, dead, load, neighbour, replay, served, start};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const MEASURE: &str = "--measure";

/// A table: what is measured, and the arguments of each process that measures some rows of it.
struct Workload {
    name: &'static str,
    title: &'static str,
    heads: &'static [&'static str],
    runs: &'static [&'static [&'static str]],
}

const WORKLOADS: [Workload; 6] = [
    start::WORKLOAD,
    replay::WORKLOAD,
    load::WORKLOAD,
    neighbour::WORKLOAD,
    dead::WORKLOAD,
    cut::WORKLOAD,
];

fn main() -> Result<()> {
    if served::serve_if_asked()? {
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
        ["start", clusters, objects, tls @ ..] => {
            let tls = tls == ["tls"];
            tell(start::measure(clusters.parse()?, objects.parse()?, tls).await?)
        }
        ["replay", who] => tell(replay::measure(who).await?),
        ["load"] => load::measure(&tell).await,
        ["neighbour", who, noise] => tell(neighbour::measure(who, noise).await?),
        ["dead", trouble, runs] => tell(dead::measure(trouble, runs).await?),
        ["cut", how] => tell(cut::measure(how).await?),
        other => bail!("nothing to measure in {other:?}"),
    }
}
