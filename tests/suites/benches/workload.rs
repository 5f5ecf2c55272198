//! Workloads: tables of which every row is measured in a process of its own. Entry point: [`asked`].

use crate::table::Table;
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const MEASURE: &str = "--measure";

/// A table: what is measured, and the arguments of each process that measures some rows of it.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) heads: &'static [&'static str],
    pub(crate) runs: &'static [&'static [&'static str]],
}

/// Shows the workloads that the command line names, all by default. In a process that is to measure one: which, and its arguments.
pub(crate) fn asked(workloads: &[Workload]) -> Result<Option<Vec<String>>> {
    // cargo says `--bench` to every bench.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    if let Some((first, run)) = args.split_first()
        && first == MEASURE
    {
        return Ok(Some(run.to_vec()));
    }
    let names: Vec<&str> = workloads.iter().map(|workload| workload.name).collect();
    for name in &args {
        ensure!(
            names.contains(&name.as_str()),
            "no workload {name:?}: there are {}",
            names.join(", ")
        );
    }
    println!("{} cores", std::thread::available_parallelism()?);
    for workload in workloads {
        if args.is_empty() || args.iter().any(|name| name == workload.name) {
            workload.show()?;
        }
    }
    Ok(None)
}

/// Tells a row to the process that shows the table.
pub(crate) fn tell(row: Vec<String>) -> Result<()> {
    println!("{}", serde_json::to_string(&row)?);
    Ok(())
}

impl Workload {
    /// Prints the table, a process for each run.
    fn show(&self) -> Result<()> {
        let title = format!("{}: {}", self.name, self.title);
        let table = Table::begin(&title, self.heads);
        for run in self.runs {
            let mut child = Command::new(std::env::current_exe()?)
                .args([MEASURE, self.name])
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
                self.name,
                run.join(" ")
            );
        }
        Ok(())
    }
}
