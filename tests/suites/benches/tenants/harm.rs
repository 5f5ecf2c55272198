//! A guest that works steadily beside one of another tenant that does its worst. Entry point: [`measure`].

use super::stage::{Loose, NO_NPM, Setup, Stage, Watched, component, rust};
use crate::fleet::simulated::{Layout, Order, Simulated};
use crate::fleet::subject::{settled, watching};
use crate::fleet::table::verdict;
use crate::graft::growing_table;
use crate::rig::Manager;
use crate::until::until;
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_fleet::grant::Rule;
use windlass_fleet::{Grant, TenantName};
use windlass_sandbox::{Limits, Revision};

const HOT: usize = 100;
const QUIET: usize = 200;
/// Runs of each at once.
const CONCURRENCY: usize = 16;
/// Updates of quiet objects per second.
const RATE: f64 = 200.0;
const SECONDS: f64 = 8.0;
/// The steady guest may take so many times as long as without its neighbour.
const BAR: f64 = 2.0;
/// Part of the neighbour's calls that have to end as they should, for the row to be about what it says.
const MOST: f64 = 0.95;
/// Between two revisions that the neighbour is given.
const EVERY: Duration = Duration::from_millis(200);

pub(crate) const WORKLOAD: Workload = Workload {
    name: "harm",
    title: "a guest with 200 updates/s beside one that does its worst for 100 keys, 16 at once; due to reconciled, ms",
    heads: &[
        "the other       ",
        "ends in  ",
        "alone p50",
        "   p99",
        "beside p50",
        "   p99",
        "p99 ratio",
        "done/s alone",
        "beside",
        "failed",
        "its calls/s",
        "bar       ",
    ],
    runs: &[
        &["loop"],
        &["memory"],
        &["table"],
        &["recursion"],
        &["panic"],
        &["log"],
        &["requeue"],
        &["denied"],
        &["reads"],
        &["requests"],
        &["forge"],
        &["leak"],
        &["huge"],
        &["js-loop"],
        &["js-memory"],
        &["bad-component"],
        &["replaced"],
    ],
};

/// A neighbour that does its worst.
struct Worst {
    guest: &'static str,
    config: &'static str,
    /// What its calls end in: a failure's reason, or `done`; or that they were `denied` something.
    ends: &'static str,
    grant: Grant,
    disturbance: Disturbance,
}

/// What is done to the neighbour besides.
#[derive(Clone, Copy)]
enum Disturbance {
    Nothing,
    /// Components that do not load are loaded for it.
    BadComponents,
    /// It is replaced while its calls run.
    Replaced,
}

/// What a guest needs to be loaded that watches ConfigMaps.
fn watching_only() -> Rule {
    let all = |values: &[&str]| values.iter().map(|value| (*value).into()).collect();
    Rule {
        api_groups: all(&[""]),
        resources: all(&["configmaps"]),
        verbs: all(&["list", "watch"]),
        namespaces: all(&["*"]),
        ..Rule::default()
    }
}

/// Steps that are denied, of each kind.
const FORBIDDEN: &str = r#"{"steps": [
    {"do": "get", "kind": ["v1", "Secret"], "key": ["kube-system", "a"]},
    {"do": "list", "kind": ["v1", "Secret"]},
    {"do": "delete", "kind": ["v1", "ConfigMap"], "key": ["default", "a"]},
    {"do": "create", "kind": ["rbac.authorization.k8s.io/v1", "ClusterRole"],
     "object": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}}}
]}"#;

impl Worst {
    fn of(name: &str) -> Result<Self> {
        let (guest, config, ends) = match name {
            "loop" | "replaced" => ("test-loop", "{}", "timeout"),
            "memory" => ("test-memory", "{}", "memory"),
            "table" => ("test-loop", "{}", "memory"),
            "recursion" => ("test-recursion", "{}", "stack"),
            "panic" => ("test-panic", "{}", "trap"),
            "log" => ("test-log", r#"{"lines": 100000, "length": 100}"#, "done"),
            "requeue" => ("test-requeue", r#"{"after": 0}"#, "done"),
            "denied" => ("test-calls", FORBIDDEN, "denied"),
            "reads" => ("test-storm", r#"{"live": false}"#, "error"),
            "requests" => ("test-storm", r#"{"live": true}"#, "timeout"),
            "forge" => ("test-forge", "{}", "handle"),
            "leak" => ("test-leak", "{}", "handle"),
            "huge" => (
                "test-huge",
                r#"{"what": "object", "size": 6000000}"#,
                "host-call",
            ),
            "js-loop" => ("js/test-runaway", r#"{"way": "loop"}"#, "timeout"),
            "js-memory" => ("js/test-runaway", r#"{"way": "allocate"}"#, "memory"),
            "bad-component" => ("test-panic", "{}", "trap"),
            other => anyhow::bail!("nothing to measure in {other:?}"),
        };
        Ok(Self {
            guest,
            config,
            ends,
            grant: match name {
                "denied" => Grant::new([watching_only()]),
                _ => Grant::all(),
            },
            disturbance: match name {
                "bad-component" => Disturbance::BadComponents,
                "replaced" => Disturbance::Replaced,
                _ => Disturbance::Nothing,
            },
        })
    }

    async fn load(&self, stage: &Stage, name: &str) -> Result<Option<Revision>> {
        let Some(file) = component(self.guest)? else {
            return Ok(None);
        };
        let revision = match name {
            "table" => {
                let growing = growing_table(&std::fs::read(file)?)?;
                stage.made("growing-table", growing).await?
            }
            _ => stage.load(file).await?,
        };
        Ok(Some(revision))
    }
}

pub(crate) async fn measure(name: &str) -> Result<()> {
    let worst = Worst::of(name)?;
    let stage = Stage::new()?;
    let Some(revision) = worst.load(&stage, name).await? else {
        return tell(vec![name.to_owned(), NO_NPM.to_owned()]);
    };
    let layout = Layout {
        clusters: 1,
        sets: vec![("hot".into(), HOT), ("quiet".into(), QUIET)],
        filler: 500,
        tls: false,
    };
    let mut server = Simulated::start(layout).await?;
    let steady = stage.load(rust("echo")?).await?;
    let steady = Watched::new(stage.guest(steady, Setup::default()).await?);
    let setup = Setup {
        tenant: "noisy",
        config: worst.config,
        limits: Limits {
            timeout: Duration::from_secs(1),
            ..Limits::default()
        },
        ..Setup::default()
    };
    let harmful = stage.granted(worst.grant, revision, setup).await?;
    let harmful = Loose::new(harmful);
    let quiet = watching("steady", Some("set=quiet"), CONCURRENCY)?
        .tenant(TenantName::new("bench")?)
        .build(steady.clone())?;
    let hot = watching("noisy", Some("set=hot"), CONCURRENCY)?
        .tenant(TenantName::new("noisy")?)
        .build(harmful.clone())?;
    let builder = stage.manager().controller(quiet).controller(hot);
    let manager = Manager::engage(builder, server.specs()?).await?;
    settled(&manager).await?;
    let load = Order::Load {
        set: "quiet".into(),
        clusters: 0..1,
        rate: RATE,
        seconds: SECONDS,
    };
    let mut phases = Vec::new();
    for noise in [false, true] {
        if noise {
            harmful.on.store(true, Ordering::Relaxed);
            let wake = Order::Burst {
                set: "hot".into(),
                rounds: 1,
                clusters: 0..1,
            };
            server.order(&wake).await?;
            until("the neighbour to be at it", || {
                harmful.calls() >= CONCURRENCY
            })
            .await?;
        }
        steady.clear();
        harmful.clear();
        let disturbed = noise.then(|| tokio::spawn(disturb(worst.disturbance, &stage, &harmful)));
        let told = server.order(&load).await?;
        let all = until("every update to be reconciled", || {
            steady.done.count() + 5 >= told.updates
        });
        let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
        if let Some(task) = disturbed {
            task.abort();
        }
        phases.push([0.5, 0.99].map(|share| steady.done.at(share)));
        phases.push([steady.done.count() as f64 / SECONDS, 0.0]);
    }
    let calls = harmful.calls();
    let (ends, part) = match harmful.guest.status().denials {
        0 => harmful.ended_mostly(),
        _ => ("denied", 1.0),
    };
    let [alone, throughput, beside, with] = phases.as_slice() else {
        return Err(anyhow::anyhow!("two phases")).context("measured");
    };
    let failed = steady.failed.load(Ordering::Relaxed);
    let ratio = beside[1] / alone[1];
    let kept = with[0] >= 0.99 * throughput[0];
    let as_meant = calls > 0 && ends == worst.ends && part >= MOST;
    tell(vec![
        name.to_owned(),
        ends.to_owned(),
        format!("{:.2}", alone[0]),
        format!("{:.2}", alone[1]),
        format!("{:.2}", beside[0]),
        format!("{:.2}", beside[1]),
        format!("{ratio:.2}"),
        format!("{:.0}", throughput[0]),
        format!("{:.0}", with[0]),
        failed.to_string(),
        format!("{:.0}", calls as f64 / SECONDS),
        match as_meant {
            true => verdict("2.0", ratio <= BAR && kept && failed == 0),
            false => format!(
                "NOT MEANT: {} expected, {:.0} % so",
                worst.ends,
                part * 100.0
            ),
        },
    ])?;
    // The neighbour never ends: the manager ends with the process.
    drop(manager);
    Ok(())
}

/// Goes on until it is aborted.
fn disturb(
    what: Disturbance,
    stage: &Stage,
    harmful: &Arc<Loose>,
) -> impl Future<Output = Result<()>> + use<> {
    let (stage, harmful) = (stage.clone(), harmful.clone());
    async move {
        let revisions = match what {
            Disturbance::Replaced => {
                let file = rust("test-loop")?;
                vec![
                    stage.disguised(file.clone(), b'1').await?,
                    stage.disguised(file, b'2').await?,
                ]
            }
            _ => Vec::new(),
        };
        let mut every = tokio::time::interval(EVERY);
        for round in 0usize.. {
            every.tick().await;
            match what {
                Disturbance::Nothing => return Ok(()),
                Disturbance::BadComponents => {
                    let good = std::fs::read(rust("hello")?)?;
                    // Cut off anywhere: each is another component, which no cache knows.
                    let kept = good.len() / 2 + round;
                    let refused = stage.made("cut", good[..kept].to_vec()).await;
                    anyhow::ensure!(refused.is_err(), "half a component loads");
                }
                Disturbance::Replaced => {
                    let revision = &revisions[round % revisions.len()];
                    harmful.guest.swap(revision.clone()).await?;
                }
            }
        }
        Ok(())
    }
}
