//! A guest that works steadily beside one of another tenant that does its worst. Entry point: [`measure`].

use super::stage::{Loose, Setup, Stage, Watched, component};
use super::worst::{Disturbance, Worst, spoilt};
use crate::figures::spread;
use crate::fleet::simulated::{Layout, Order, Simulated};
use crate::fleet::subject::{settled, watching};
use crate::rig;
use crate::table::verdict;
use crate::until::until;
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_fleet::TenantName;
use windlass_harness::fleet::RunningManager;
use windlass_sandbox::Revision;

const HOT: usize = 100;
const QUIET: usize = 200;
/// Runs of each at once.
const CONCURRENCY: usize = 16;
/// Updates of quiet objects per second.
const RATE: f64 = 200.0;
/// Of one phase.
const SECONDS: f64 = 3.0;
/// Phases without the neighbour and beside it, in turns: what else a machine does falls on both. The middle of each is told, and the
/// worst beside it.
const ROUNDS: usize = 5;
/// At p99 the steady guest may take so many times as long as without its neighbour, if the neighbour can be interrupted.
const BAR: f64 = 2.0;
/// Neighbours that do what cannot be interrupted.
const UNINTERRUPTED: [&str; 10] = [
    "memory",
    "table",
    "fill",
    "sparse",
    "texts",
    "unwinding",
    "huge",
    "js-memory",
    "bad-component",
    "replaced",
];
/// Beside those the steady guest may take so much longer at p99, in milliseconds.
const BEYOND: f64 = 5.0;
/// Part of the neighbour's calls that have to end as they should, for the row to be about what it says.
const MOST: f64 = 0.95;
/// Between two revisions that the neighbour is given, or two components that do not load.
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
        "worst",
        "p99 ratio",
        "done/s alone",
        "beside",
        "failed",
        "its calls/s",
        "stuck",
        "bar       ",
    ],
    runs: &[
        &["loop"],
        &["memory"],
        &["table"],
        &["fill"],
        &["sparse"],
        &["texts"],
        &["unwinding"],
        &["recursion"],
        &["panic"],
        &["log"],
        &["requeue"],
        &["writes"],
        &["denied"],
        &["foreign"],
        &["reads"],
        &["batches"],
        &["lists"],
        &["search"],
        &["requests"],
        &["forge"],
        &["leak"],
        &["huge"],
        &["page"],
        &["js-loop"],
        &["js-memory"],
        &["bad-component"],
        &["replaced"],
    ],
};

pub(crate) async fn measure(name: &str) -> Result<()> {
    let worst = Worst::of(name)?;
    let stage = Stage::new()?;
    let revision = worst.load(&stage, name).await?;
    let disturbing = Disturbing::prepare(worst.disturbance, &stage).await?;
    let layout = Layout {
        clusters: worst.clusters,
        sets: vec![
            ("hot".into(), HOT),
            ("quiet".into(), QUIET),
            ("many".into(), worst.many),
        ],
        filler: 500,
        tls: false,
    };
    let server = Simulated::start(layout).await?;
    let steady = stage.load(component("echo")).await?;
    let steady = Watched::new(stage.guest(steady, Setup::default()).await?);
    let setup = Setup {
        tenant: "noisy",
        config: worst.config,
        limits: worst.limits.clone(),
        ..Setup::default()
    };
    let harmful = stage.granted(worst.grant.clone(), revision, setup).await?;
    let harmful = Loose::new(harmful);
    let quiet = watching("steady", Some("set=quiet"), CONCURRENCY)?
        .tenant(TenantName::new("bench")?)
        .build(steady.clone())?;
    let hot = watching("noisy", Some("set=hot"), CONCURRENCY)?
        .tenant(TenantName::new("noisy")?)
        .build(harmful.clone())?;
    let builder = windlass_fleet::Manager::builder()
        .controller(quiet)
        .controller(hot);
    let manager = rig::engage(builder, server.specs()?).await?;
    settled(&manager).await?;
    let mut scene = Scene {
        server,
        stage,
        manager,
        steady,
        harmful,
        first: worst.first.max(CONCURRENCY),
        disturbing,
    };
    let (mut alone, mut beside) = (Phases::default(), Phases::default());
    for round in 0..ROUNDS {
        alone.add(scene.steady_alone().await?);
        beside.add(scene.steady_beside(round).await?);
    }
    tell(scene.row(name, &worst, &alone, &beside))?;
    // The neighbour never ends: the manager ends with the process.
    drop(scene);
    Ok(())
}

/// All that takes part.
struct Scene {
    server: Simulated,
    stage: Stage,
    manager: RunningManager,
    steady: Arc<Watched>,
    harmful: Arc<Loose>,
    /// Calls of the neighbour after which it is at it.
    first: usize,
    disturbing: Disturbing,
}

/// How the steady guest did, phase by phase.
#[derive(Default)]
struct Phases {
    /// Milliseconds.
    middle: Vec<f64>,
    /// Milliseconds.
    tail: Vec<f64>,
    /// Updates that were reconciled.
    done: usize,
    /// Of the neighbour, while updates came.
    calls: usize,
}

/// How it did in one phase.
struct Phase {
    middle: f64,
    tail: f64,
    done: usize,
    calls: usize,
}

impl Phases {
    fn add(&mut self, phase: Phase) {
        self.middle.push(phase.middle);
        self.tail.push(phase.tail);
        self.done += phase.done;
        self.calls += phase.calls;
    }

    fn per_second(&self) -> f64 {
        self.done as f64 / (SECONDS * self.tail.len() as f64)
    }
}

impl Scene {
    async fn steady_alone(&mut self) -> Result<Phase> {
        self.harmful.on.store(false, Ordering::Relaxed);
        settled(&self.manager).await?;
        self.phase().await
    }

    async fn steady_beside(&mut self, round: usize) -> Result<Phase> {
        let before = self.harmful.calls();
        self.harmful.on.store(true, Ordering::Relaxed);
        let wake = Order::Burst {
            set: "hot".into(),
            rounds: 1,
            clusters: 0..1,
        };
        self.server.order(&wake).await?;
        until("the neighbour to be at it", || {
            self.harmful.calls() >= before + self.first
        })
        .await?;
        let disturbing = self.disturbing.clone();
        let disturbing = disturbing.go_on(round, self.stage.clone(), self.harmful.clone());
        tokio::select! {
            ended = disturbing => Err(ended.err().context("what is done to the neighbour ended")?),
            phase = self.phase() => phase,
        }
    }

    async fn phase(&mut self) -> Result<Phase> {
        self.steady.clear();
        let load = Order::Load {
            set: "quiet".into(),
            clusters: 0..1,
            rate: RATE,
            seconds: SECONDS,
        };
        let before = self.harmful.calls();
        let told = self.server.order(&load).await?;
        let calls = self.harmful.calls() - before;
        let done = &self.steady.done;
        let all = until("every update to be reconciled", || {
            done.count() >= told.updates
        });
        let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
        Ok(Phase {
            middle: done.at(0.5),
            tail: done.at(0.99),
            done: done.count(),
            calls,
        })
    }

    fn row(&self, name: &str, worst: &Worst, alone: &Phases, beside: &Phases) -> Vec<String> {
        let calls = beside.calls;
        let status = self.harmful.guest.status();
        let stuck = status.limit_hits.get("slice").copied().unwrap_or_default();
        let (mostly, part) = self.harmful.ended_mostly();
        // The guests that are denied something answer what came of it as an error, each call once and more.
        let denied = status.denials >= self.harmful.calls() as u64;
        let ends = match mostly {
            "error" if denied => "denied",
            other => other,
        };
        let failed = self.steady.failed.load(Ordering::Relaxed);
        let of = |values: &[f64]| spread(values).0;
        let ratio = of(&beside.tail) / of(&alone.tail);
        let kept = beside.per_second() >= 0.99 * alone.per_second();
        let as_meant = calls > 0 && ends == worst.ends && part >= MOST;
        vec![
            name.to_owned(),
            ends.to_owned(),
            format!("{:.2}", of(&alone.middle)),
            format!("{:.2}", of(&alone.tail)),
            format!("{:.2}", of(&beside.middle)),
            format!("{:.2}", of(&beside.tail)),
            format!("{:.2}", spread(&beside.tail).2),
            format!("{ratio:.2}"),
            format!("{:.0}", alone.per_second()),
            format!("{:.0}", beside.per_second()),
            failed.to_string(),
            format!("{:.0}", calls as f64 / (SECONDS * ROUNDS as f64)),
            stuck.to_string(),
            if as_meant {
                judge(name, of(&alone.tail), of(&beside.tail), kept && failed == 0)
            } else {
                format!(
                    "NOT MEANT: {} expected, {:.0} % so",
                    worst.ends,
                    part * 100.0
                )
            },
        ]
    }
}

/// The verdict on p99s in milliseconds; `kept` is whether the steady guest did all of its work.
fn judge(name: &str, alone: f64, beside: f64, kept: bool) -> String {
    if UNINTERRUPTED.contains(&name) {
        return verdict("+5 ms", kept && beside - alone <= BEYOND);
    }
    verdict("2.0", kept && beside <= BAR * alone)
}

/// What is done to the neighbour, with all that it takes.
#[derive(Clone)]
enum Disturbing {
    Nothing,
    /// A good component, of which ones are made that do not load.
    BadComponents(Vec<u8>),
    /// What it is replaced by.
    Replaced([Revision; 2]),
}

impl Disturbing {
    async fn prepare(what: Disturbance, stage: &Stage) -> Result<Self> {
        Ok(match what {
            Disturbance::Nothing => Self::Nothing,
            Disturbance::BadComponents => Self::BadComponents(std::fs::read(component("hello"))?),
            Disturbance::Replaced => {
                let file = component("test-loop");
                Self::Replaced([
                    stage.disguised(file.clone(), b'1').await?,
                    stage.disguised(file, b'2').await?,
                ])
            }
        })
    }

    /// Goes on until it is dropped.
    async fn go_on(self, round: usize, stage: Stage, harmful: Arc<Loose>) -> Result<()> {
        let mut every = tokio::time::interval(EVERY);
        // Others than in any round before.
        for at in round * 1000.. {
            every.tick().await;
            match &self {
                Self::Nothing => std::future::pending().await,
                Self::BadComponents(good) => {
                    let refused = stage.made("bad", spoilt(good, at)).await;
                    anyhow::ensure!(refused.is_err(), "a bad component loads");
                }
                Self::Replaced(revisions) => {
                    let revision = revisions[at % revisions.len()].clone();
                    harmful.guest.swap(revision).await?;
                }
            }
        }
        Ok(())
    }
}
