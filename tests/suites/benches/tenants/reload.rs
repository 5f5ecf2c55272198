//! A guest that is replaced again and again while it works. Entry point: [`measure`].

use super::stage::{Setup, Stage, Watched, rust};
use crate::fleet::simulated::{Layout, Order, Simulated};
use crate::fleet::subject::{settled, watching};
use crate::fleet::table::verdict;
use crate::rig::Manager;
use crate::until::until;
use crate::workload::{Workload, tell};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const OBJECTS: usize = 500;
const RATE: f64 = 1000.0;
const SECONDS: f64 = 10.0;
/// Between two replacements.
const EVERY: Duration = Duration::from_millis(200);
/// The longest time without the end of a run, in milliseconds.
const BAR: f64 = 50.0;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "reload",
    title: "a guest with 1000 updates/s, replaced five times a second; due to reconciled and longest time without the end of a run, ms",
    heads: &[
        "                ",
        "replaced",
        "   p50",
        "   p99",
        "longest gap",
        "not seen",
        "twice at once",
        "failed",
        "bar      ",
    ],
    runs: &[&[]],
};

pub(crate) async fn measure() -> Result<()> {
    let mut server = Simulated::start(Layout::new(1, OBJECTS)).await?;
    let stage = Stage::new()?;
    let revisions = [
        stage.disguised(rust("echo")?, b'1').await?,
        stage.disguised(rust("echo")?, b'2').await?,
    ];
    let guest = stage.guest(revisions[0].clone(), Setup::default()).await?;
    let steady = Watched::new(guest.clone());
    let controller = watching("steady", Some("set=o"), 16)?.build(steady.clone())?;
    let manager = Manager::engage(stage.manager().controller(controller), server.specs()?).await?;
    settled(&manager).await?;
    for (name, replaces) in [("left alone", false), ("replaced", true)] {
        steady.clear();
        let (stop, swaps) = (Arc::new(AtomicBool::new(!replaces)), AtomicUsize::new(0));
        let swapping = async {
            let mut every = tokio::time::interval(EVERY);
            for revision in revisions.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                every.tick().await;
                guest.swap(revision.clone()).await?;
                swaps.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        };
        let working = async {
            let load = Order::Load {
                set: "o".into(),
                clusters: 0..1,
                rate: RATE,
                seconds: SECONDS,
            };
            let told = server.order(&load).await;
            stop.store(true, Ordering::Relaxed);
            told
        };
        let (told, swapped) = tokio::join!(working, swapping);
        swapped?;
        let gap = steady.longest_gap();
        let updates = told?.updates;
        settled(&manager).await?;
        let last = until("every update to be seen", || steady.done.count() >= updates);
        let _ = tokio::time::timeout(Duration::from_millis(200), last).await;
        // An update that came while the last one of its object was being looked at was seen with it.
        let unseen = updates.saturating_sub(steady.done.count());
        let doubled = steady.doubled.load(Ordering::Relaxed);
        let failed = steady.failed.load(Ordering::Relaxed);
        tell(vec![
            name.to_owned(),
            swaps.load(Ordering::Relaxed).to_string(),
            format!("{:.2}", steady.done.at(0.5)),
            format!("{:.2}", steady.done.at(0.99)),
            format!("{gap:.1}"),
            unseen.to_string(),
            doubled.to_string(),
            failed.to_string(),
            verdict("50 ms", gap <= BAR && doubled + failed == 0),
        ])?;
    }
    manager.stop().await
}
