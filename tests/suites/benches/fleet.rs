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

mod figures;
mod latency;
mod rig;
mod table;
mod until;
mod usage;
mod workload;

mod fleet {
    pub(crate) mod answer;
    pub(crate) mod cut;
    pub(crate) mod dead;
    pub(crate) mod load;
    pub(crate) mod neighbour;
    pub(crate) mod noise;
    pub(crate) mod peer;
    pub(crate) mod replay;
    pub(crate) mod served;
    pub(crate) mod simulated;
    pub(crate) mod start;
    pub(crate) mod subject;
    pub(crate) mod trouble;
}

use anyhow::{Result, bail};
use fleet::{cut, dead, load, neighbour, replay, served, start};
use workload::{Workload, tell};

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
    match workload::asked(&WORKLOADS)? {
        Some(run) => rig::run(measure(&run)),
        None => Ok(()),
    }
}

/// Measures in this process, and tells the rows on standard output.
async fn measure(run: &[String]) -> Result<()> {
    let run: Vec<&str> = run.iter().map(String::as_str).collect();
    match run.as_slice() {
        ["start", clusters, objects, tls @ ..] => {
            let tls = tls == ["tls"];
            tell(start::measure(clusters.parse()?, objects.parse()?, tls).await?)
        }
        ["replay", who] => tell(replay::measure(who).await?),
        ["load"] => load::measure().await,
        ["neighbour", who, hot_run] => tell(neighbour::measure(who, hot_run).await?),
        ["dead", clusters, trouble] => tell(dead::measure(clusters, trouble).await?),
        ["cut", how] => tell(cut::measure(how).await?),
        other => bail!("nothing to measure in {other:?}"),
    }
}
