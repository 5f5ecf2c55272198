//! Latency under load: updates at a steady rate, each answered with a write. Entry point: [`measure`].

use super::simulated::{Layout, Order, Simulated};
use super::subject::{controller, settled, synced};
use crate::figures::median;
use crate::fleet::answer::Answering;
use crate::rig;
use crate::until::until;
use crate::workload::{Workload, tell};
use anyhow::Result;
use std::time::Instant;
use windlass_harness::fleet::RunningManager;

const CLUSTERS: usize = 10;
const OBJECTS: usize = 1_000;
/// Shares of the most that it can do.
const SHARES: [f64; 3] = [0.2, 0.5, 0.8];
const SECONDS: f64 = 10.0;
/// Floods, of which the middle counts.
const ROUNDS: usize = 3;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "load",
    title: "10 clusters x 1000 objects, updates at random times, each answered by a patch of its object; from the time an update was due, ms",
    heads: &[
        "load          ",
        "updates/s",
        "started p50",
        "  p99",
        "  p99.9",
        "written p50",
        "  p99",
        "  p99.9",
        "unanswered",
        "CPU us/update",
    ],
    runs: &[&[]],
};

pub(crate) async fn measure() -> Result<()> {
    let mut server = Simulated::start(Layout::new(CLUSTERS, OBJECTS)).await?;
    let answering = Answering::new();
    let controller = controller(answering.reconciler())?;
    let manager = rig::engage(
        windlass_fleet::Manager::builder().controller(controller),
        server.specs()?,
    )
    .await?;
    settled(&manager).await?;
    let most = most(&mut server, &manager, &answering).await?;
    tell(vec!["flood".into(), format!("{most:.0}")])?;
    // Under a flood the server has made all updates before; from here on it makes them meanwhile, on the same cores.
    let most = sustained(&mut server, &manager, &answering, most).await?;
    tell(vec!["sustained".into(), format!("{most:.0}")])?;
    for share in SHARES {
        answering.clear();
        let before = crate::usage::Usage::own()?;
        let order = Order::Load {
            set: "o".into(),
            clusters: 0..CLUSTERS,
            rate: most * share,
            seconds: SECONDS,
        };
        let told = server.order(&order).await?;
        synced(&manager, &told.versions).await?;
        settled(&manager).await?;
        let cpu = crate::usage::Usage::own()?.cpu - before.cpu;
        let mut row = vec![
            format!("{:.0} % of it", share * 100.0),
            format!("{:.0}", told.updates as f64 / SECONDS),
        ];
        for times in [&answering.started, &answering.written] {
            row.extend([0.5, 0.99, 0.999].map(|share| format!("{:.2}", times.at(share))));
        }
        // An update that came while its object's last one was being answered was answered with it.
        let answered = answering.written.count();
        row.push((told.updates.saturating_sub(answered)).to_string());
        row.push(format!(
            "{:.0}",
            cpu.as_secs_f64() * 1e6 / told.updates as f64
        ));
        tell(row)?;
    }
    manager.stop().await
}

/// Updates per second that are answered while more are made than can be.
async fn sustained(
    server: &mut Simulated,
    manager: &RunningManager,
    answering: &Answering,
    rate: f64,
) -> Result<f64> {
    answering.clear();
    let seconds = SECONDS / 2.0;
    let order = Order::Load {
        set: "o".into(),
        clusters: 0..CLUSTERS,
        rate,
        seconds,
    };
    let began = Instant::now();
    server.order(&order).await?;
    let answered = answering.written.count() as f64 / began.elapsed().as_secs_f64();
    settled(manager).await?;
    Ok(answered)
}

/// Updates per second that are answered when all are there at once.
async fn most(
    server: &mut Simulated,
    manager: &RunningManager,
    answering: &Answering,
) -> Result<f64> {
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        answering.clear();
        let order = Order::Burst {
            set: "o".into(),
            rounds: 1,
            clusters: 0..CLUSTERS,
        };
        let told = server.order(&order).await?;
        let began = Instant::now();
        until("an answer to every update", || {
            answering.written.count() >= told.updates
        })
        .await?;
        rates.push(told.updates as f64 / began.elapsed().as_secs_f64());
        settled(manager).await?;
    }
    Ok(median(&rates))
}
