//! Dead clusters: three in ten stop answering, refuse everything, or are 100 ms away, while the others work. Entry point: [`measure`].

use super::answer::Answering;
use super::simulated::{Layout, Order, Simulated, name};
use super::subject::{settled, with_defaults};
use super::trouble::Trouble;
use crate::figures::spread;
use crate::rig;
use crate::table::verdict;
use crate::until::until;
use crate::workload::Workload;
use anyhow::{Context as _, Result};
use std::ops::Range;
use std::time::{Duration, Instant};
use windlass_harness::fleet::RunningManager;

/// Objects in all clusters together.
const OBJECTS: usize = 10_000;
/// Updates per second in the healthy clusters.
const RATE: f64 = 300.0;
const SECONDS: f64 = 5.0;
const ROUNDS: usize = 3;
/// How long the last answers may take before they count as missing.
const LAST: Duration = Duration::from_millis(500);
/// Longest wait for the clusters to be well again.
const PATIENCE: Duration = Duration::from_secs(120);
/// How much longer healthy clusters may wait.
const BAR: f64 = 1.1;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "dead",
    title: "clusters of which 3 in 10 get in trouble with a key to write for each object (10,000 in all); 300 updates/s in the others, due to written, ms; middle of 3 rounds",
    heads: &[
        "clusters",
        "trouble",
        "all well p50",
        "   p99",
        "in trouble p50",
        "   p99",
        "p99 ratio (min-max)",
        "unanswered",
        "requests/s to a dead one",
        "all well again s",
        "bar       ",
    ],
    runs: &[
        &["1000", "silent"],
        &["20", "silent"],
        &["20", "far"],
        &["20", "403"],
        &["20", "503"],
    ],
};

pub(crate) async fn measure(clusters: &str, trouble: &str) -> Result<Vec<String>> {
    let clusters: usize = clusters.parse()?;
    let how = match trouble {
        "silent" => Trouble::Silent,
        "far" => Trouble::Far,
        code => Trouble::Status(code.parse().context("a status")?),
    };
    let server = Simulated::start(Layout::new(clusters, OBJECTS / clusters)).await?;
    let dead = 0..clusters * 3 / 10;
    // Those that are far answer too, late.
    let answering = Answering::except(dead.clone().map(name).collect());
    let controller = with_defaults()?.build(answering.reconciler())?;
    let manager = rig::engage(
        windlass_fleet::Manager::builder().controller(controller),
        server.specs()?,
    )
    .await?;
    settled(&manager).await?;
    let mut bench = Bench {
        server,
        manager,
        answering,
        clusters,
        dead,
    };
    bench.healthy().await?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(bench.round(how).await?);
    }
    let middle = |of: fn(&Round) -> f64| spread(&rounds.iter().map(of).collect::<Vec<_>>()).0;
    let ratios: Vec<f64> = rounds.iter().map(|r| r.ill.p99 / r.well.p99).collect();
    let (ratio, least, most) = spread(&ratios);
    let unanswered: usize = rounds.iter().map(|r| r.ill.unanswered).sum();
    bench.manager.stop().await?;
    Ok(vec![
        clusters.to_string(),
        trouble.to_owned(),
        format!("{:.2}", middle(|r| r.well.p50)),
        format!("{:.2}", middle(|r| r.well.p99)),
        format!("{:.2}", middle(|r| r.ill.p50)),
        format!("{:.2}", middle(|r| r.ill.p99)),
        format!("{ratio:.2} ({least:.2}-{most:.2})"),
        unanswered.to_string(),
        format!("{:.2}", middle(|r| r.requests)),
        format!("{:.1}", middle(|r| r.back)),
        verdict("1.10", ratio <= BAR && unanswered == 0),
    ])
}

struct Bench {
    server: Simulated,
    manager: RunningManager,
    answering: std::sync::Arc<Answering>,
    clusters: usize,
    dead: Range<usize>,
}

/// Times of the healthy clusters.
struct Healthy {
    p50: f64,
    p99: f64,
    unanswered: usize,
}

struct Round {
    well: Healthy,
    ill: Healthy,
    /// Per second and dead cluster.
    requests: f64,
    /// Seconds until the dead ones were watched and ready again and nothing was left to do.
    back: f64,
}

impl Bench {
    async fn round(&mut self, how: Trouble) -> Result<Round> {
        let well = self.healthy().await?;
        let before = self.server.order(&Order::Tell).await?.disturbed_requests;
        let began = Instant::now();
        self.disturb(how).await?;
        let ill = self.healthy().await?;
        let told = self.server.order(&Order::Tell).await?;
        let requests = (told.disturbed_requests - before) as f64;
        let requests = requests / began.elapsed().as_secs_f64() / self.dead.len() as f64;
        let repaired = Instant::now();
        self.disturb(Trouble::None).await?;
        self.watching().await?;
        self.manager.ready_clusters(self.clusters).await?;
        settled(&self.manager).await?;
        Ok(Round {
            well,
            ill,
            requests,
            back: repaired.elapsed().as_secs_f64(),
        })
    }

    /// Clusters that fall ill have work at that moment, and lose their watches.
    async fn disturb(&mut self, trouble: Trouble) -> Result<()> {
        let clusters = self.dead.clone();
        self.server
            .order(&Order::Disturb { clusters, trouble })
            .await?;
        if trouble == Trouble::None {
            return Ok(());
        }
        // What changes while the watches break is not known before they are back: this work is.
        let (set, rounds, clusters) = ("o".into(), 1, self.dead.clone());
        let work = Order::Burst {
            set,
            rounds,
            clusters,
        };
        self.server.order(&work).await?;
        let cut = Order::Cut {
            clusters: self.dead.clone(),
            change: "o".into(),
            compact: false,
        };
        self.server.order(&cut).await?;
        Ok(())
    }

    /// Waits until every cluster is watched.
    async fn watching(&mut self) -> Result<()> {
        let looks = async {
            let mut look = tokio::time::interval(Duration::from_millis(20));
            while self.server.order(&Order::Tell).await?.watching < self.clusters {
                look.tick().await;
            }
            Ok(())
        };
        let watched = tokio::time::timeout(PATIENCE, looks).await;
        watched.context("the clusters are not watched again")?
    }

    async fn healthy(&mut self) -> Result<Healthy> {
        self.answering.clear();
        let order = Order::Load {
            set: "o".into(),
            clusters: self.dead.end..self.clusters,
            rate: RATE,
            seconds: SECONDS,
        };
        let told = self.server.order(&order).await?;
        let written = &self.answering.written;
        // The last ones are on their way, unless they are stuck.
        let last = until("every answer", || written.count() >= told.updates);
        let _ = tokio::time::timeout(LAST, last).await;
        Ok(Healthy {
            p50: written.at(0.5),
            p99: written.at(0.99),
            unanswered: told.updates.saturating_sub(written.count()),
        })
    }
}
