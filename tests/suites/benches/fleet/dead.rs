//! Dead clusters: three in ten stop answering, or refuse everything, while the others work. Entry point: [`measure`].

use super::answer::Answering;
use super::simulated::{Layout, Order, Simulated};
use super::subject::{settled, watching};
use super::trouble::Trouble;
use crate::figures::spread;
use crate::rig::Manager;
use crate::table::verdict;
use crate::until::until;
use crate::workload::Workload;
use anyhow::{Context as _, Result};
use std::ops::Range;
use std::time::{Duration, Instant};

const CLUSTERS: usize = 20;
const DEAD: Range<usize> = 0..6;
const OBJECTS: usize = 50;
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
    title: "20 clusters, 6 of them in trouble with 50 keys each to write; 300 updates/s in the others, due to written, ms; middle of 3 rounds",
    heads: &[
        "trouble",
        "runs at once",
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
    // A controller's default, and as many as a manager runs by default.
    runs: &[
        &["silent", "4"],
        &["silent", "64"],
        &["403", "64"],
        &["503", "64"],
    ],
};

pub(crate) async fn measure(trouble: &str, concurrency: &str) -> Result<Vec<String>> {
    let how = match trouble {
        "silent" => Trouble::Silent,
        code => Trouble::Status(code.parse().context("a status")?),
    };
    let server = Simulated::start(Layout::new(CLUSTERS, OBJECTS)).await?;
    let answering = Answering::new();
    let controller = watching("subject", None, concurrency.parse()?)?;
    let controller = controller.build(answering.reconciler())?;
    let manager = Manager::engage(
        windlass_fleet::Manager::builder().controller(controller),
        server.specs()?,
    )
    .await?;
    settled(&manager).await?;
    let mut bench = Bench {
        server,
        manager,
        answering,
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
        trouble.to_owned(),
        concurrency.to_owned(),
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
    manager: Manager,
    answering: std::sync::Arc<Answering>,
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
        let requests = requests / began.elapsed().as_secs_f64() / DEAD.len() as f64;
        let mended = Instant::now();
        self.disturb(Trouble::None).await?;
        self.watching().await?;
        self.manager.ready(CLUSTERS).await?;
        settled(&self.manager).await?;
        Ok(Round {
            well,
            ill,
            requests,
            back: mended.elapsed().as_secs_f64(),
        })
    }

    /// Clusters that fall ill have work at that moment, and lose their watches.
    async fn disturb(&mut self, trouble: Trouble) -> Result<()> {
        let clusters = DEAD;
        self.server
            .order(&Order::Disturb { clusters, trouble })
            .await?;
        if trouble == Trouble::None {
            return Ok(());
        }
        // What changes while the watches break is not known before they are back: this work is.
        let (set, rounds, clusters) = ("o".into(), 1, DEAD);
        let work = Order::Burst {
            set,
            rounds,
            clusters,
        };
        self.server.order(&work).await?;
        let cut = Order::Cut {
            clusters: DEAD,
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
            while self.server.order(&Order::Tell).await?.watching < CLUSTERS {
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
            clusters: DEAD.end..CLUSTERS,
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
