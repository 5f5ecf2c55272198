//! What an update costs, stage by stage, beside kube-rs: the table in `LEDGER.md`. Entry point: [`write`].
//!
//! The work is that of the bench `rivals`, on one cluster of the server in memory, over TLS: a source changes, and its echo is to follow.
//! A subject is a process under callgrind. It gets N updates, another one 2N: the difference is that of N, without start and end.

use super::callgrind::Callgrind;
use super::profile::{self, COLUMNS, Cost};
use super::stages::{STAGES, stage};
use super::subject::{GUEST, NATIVE, arguments};
use crate::rivals::subject::KUBE_RS;
use crate::rivals::work::{Given, SLOTS};
use crate::until::until;
use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use windlass_apiserver::{Cluster, Server};

const SUBJECTS: [&str; 3] = [GUEST, NATIVE, KUBE_RS];
const UPDATES: u32 = 400;
/// Sources, which change in turn.
const SOURCES: u32 = 100;
/// Bytes of text in each, as in the bench `rivals`.
const FILLER: usize = 1_800;
/// From one update to the next, at least: that of 50 updates a second.
const PACE: Duration = Duration::from_millis(20);
/// Paces in which the last runs of a subject end: nobody sees from outside that they have.
const LAST: u32 = 100;

/// What functions cost, by their stages and names.
type Costs = HashMap<(&'static str, String), Cost>;

/// Counts all subjects, and writes the table. Each function's part is in files below `target/ledger`.
pub(crate) async fn write(callgrind: &Callgrind) -> Result<()> {
    let mut tables = Vec::new();
    for subject in SUBJECTS {
        let costs = update(callgrind, subject).await?;
        functions(subject, &costs)?;
        tables.push(by_stage(&costs));
    }
    let text = page(&callgrind.with()?, &tables)?;
    println!("{text}");
    std::fs::write(page_path(), text).context("write the ledger")
}

/// What one update costs.
async fn update(callgrind: &Callgrind, subject: &str) -> Result<Costs> {
    if subject == GUEST {
        // Compiles the guest, unless an earlier run did.
        count(callgrind, subject, 0).await?;
    }
    let once = count(callgrind, subject, UPDATES).await?;
    let mut costs = count(callgrind, subject, 2 * UPDATES).await?;
    for (function, cost) in once {
        let of_both = costs.entry(function).or_default();
        of_both
            .iter_mut()
            .zip(cost)
            .for_each(|(of, once)| *of -= once);
    }
    costs
        .values_mut()
        .flatten()
        .for_each(|number| *number /= f64::from(UPDATES));
    Ok(costs)
}

/// What a process costs from its start to its end, with so many updates.
async fn count(callgrind: &Callgrind, subject: &str, updates: u32) -> Result<Costs> {
    let server = Server::builder().cluster("alpha").tls();
    let server = server.bind("127.0.0.1:0").await?;
    let alpha = server.cluster("alpha").context("served")?;
    for n in 0..SOURCES {
        alpha.create(source(n)).map_err(|e| anyhow!("{e:?}"))?;
    }
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("alpha.kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig())?;
    let given = Given {
        kubeconfigs: vec![kubeconfig],
        provider: None,
        objects: SOURCES as usize,
        slots: SLOTS,
    };
    let process = callgrind.profile(&arguments(subject, &given)?, folder.path())?;
    until("all echoes", || {
        (0..SOURCES).all(|n| echo(&alpha, n).is_some())
    })
    .await?;
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for n in 0..updates {
        pace.tick().await;
        let (of, value) = (n % SOURCES, format!("{:08}", n + 1));
        let change = json!({"data": {"value": value}});
        alpha
            .merge("v1", "ConfigMap", "default", &name(of), &change)
            .map_err(|e| anyhow!("{e:?}"))?;
        until("an echo", || echo(&alpha, of).as_deref() == Some(&*value)).await?;
    }
    for _ in 0..LAST {
        pace.tick().await;
    }
    let written = process.terminated().await.context(subject.to_owned())?;
    server.shutdown().await;
    let mut costs = Costs::new();
    profile::read(&written, |function, cost| {
        let name = function.chain.first().copied().unwrap_or_default();
        let name = if function.is_guest {
            "compiled code"
        } else {
            name
        };
        let sum = costs.entry((stage(function), name.to_owned())).or_default();
        sum.iter_mut()
            .zip(cost)
            .for_each(|(sum, cost)| *sum += cost);
    })?;
    Ok(costs)
}

fn name(n: u32) -> String {
    format!("object-{n:03}")
}

fn source(n: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(n), "namespace": "default",
        "labels": {"bench": "in"}}, "data": {"text": "x".repeat(FILLER), "value": "00000000"}})
}

/// What the echo of a source says now.
fn echo(cluster: &Cluster, n: u32) -> Option<String> {
    let name = format!("{}-out", name(n));
    let echo = cluster.get("v1", "ConfigMap", "default", &name).ok()??;
    echo["data"]["echo"].as_str().map(str::to_owned)
}

fn by_stage(costs: &Costs) -> HashMap<&'static str, Cost> {
    let mut stages = HashMap::<_, Cost>::new();
    for ((stage, _), cost) in costs {
        let sum = stages.entry(*stage).or_default();
        sum.iter_mut()
            .zip(cost)
            .for_each(|(sum, cost)| *sum += cost);
    }
    stages
}

/// Writes what each function costs, the dearest first.
fn functions(subject: &str, costs: &Costs) -> Result<()> {
    let folder = repository().join("target/ledger");
    std::fs::create_dir_all(&folder)?;
    let mut costs: Vec<_> = costs.iter().collect();
    costs.sort_by(|(_, one), (_, other)| other[0].total_cmp(&one[0]));
    let mut text = format!("{}  stage: function\n", COLUMNS.join("  "));
    for ((stage, function), cost) in costs {
        let numbers = cost.map(|number| format!("{number:10.2}")).join("  ");
        writeln!(text, "{numbers}  {stage}: {function}")?;
    }
    std::fs::write(folder.join(format!("{subject}.txt")), text).context("write the functions")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/counts/LEDGER.md")
}

/// The table as a page.
fn page(with: &str, tables: &[HashMap<&'static str, Cost>]) -> Result<String> {
    let mut text = format!("{}\n\n{with}.\n", include_str!("ledger.txt").trim());
    for (subject, stages) in SUBJECTS.iter().zip(tables) {
        writeln!(text, "\n| {subject} | {} |", COLUMNS.join(" | "))?;
        writeln!(text, "|---|{}", "--:|".repeat(COLUMNS.len()))?;
        let mut all = Cost::default();
        for stage in STAGES {
            if let Some(cost) = stages.get(stage).filter(|cost| cost[0] >= 0.5) {
                writeln!(text, "| {stage} | {} |", cells(cost))?;
                all.iter_mut()
                    .zip(cost)
                    .for_each(|(all, cost)| *all += cost);
            }
        }
        writeln!(text, "| **all** | {} |", cells(&all))?;
    }
    Ok(text)
}

fn cells(cost: &Cost) -> String {
    // The difference of two counts may be a little less than nothing.
    let [instructions, others @ ..] = cost.map(|number| number.max(0.0));
    let others = others.map(|number| format!("{number:.1}"));
    format!("{instructions:.0} | {}", others.join(" | "))
}
