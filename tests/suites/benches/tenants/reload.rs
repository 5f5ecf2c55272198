//! A guest that is replaced again and again while it works, as the program replaces one: its code, its watches, and a look at every
//! object. Entry point: [`measure`].

use super::stage::{Setup, Stage, Watched, rust};
use crate::fleet::simulated::{Layout, Order, Simulated};
use crate::fleet::subject::{Sent, settled, synced, watching};
use crate::fleet::table::verdict;
use crate::rig::{Manager, config_map};
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use windlass_fleet::api::{ListOptions, ReadMode};
use windlass_fleet::{Controller, Grant, GroupVersionKind};

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
        "seen with a later one",
        "lost",
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
    let controllers = stage.manager().controller(controller(&steady, 0)?);
    let manager = Manager::engage(controllers, server.specs()?).await?;
    settled(&manager).await?;
    for (name, replaces) in [("left alone", false), ("replaced", true)] {
        steady.clear();
        let (stop, swaps) = (Arc::new(AtomicBool::new(!replaces)), AtomicUsize::new(0));
        let swapping = async {
            let mut every = tokio::time::interval(EVERY);
            for (n, revision) in revisions.iter().cycle().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                every.tick().await;
                let (guest, revision) = (guest.clone(), revision.clone());
                let swapped = stage.aside(async move { guest.swap(revision).await });
                swapped.await??;
                let controller = controller(&steady, n)?;
                let (tenant, name) = (controller.tenant().clone(), controller.name().clone());
                manager.handle.put_controller(controller)?;
                manager.handle.resync(&tenant, &name);
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
        let told = told?;
        synced(&manager, &told.versions).await?;
        settled(&manager).await?;
        // An update that came while the last one of its object was being looked at was seen with it.
        let merged = told.updates.saturating_sub(steady.done.count());
        let lost = lost(&manager, &steady).await?;
        let doubled = steady.doubled.load(Ordering::Relaxed);
        let failed = steady.failed.load(Ordering::Relaxed);
        tell(vec![
            name.to_owned(),
            swaps.load(Ordering::Relaxed).to_string(),
            format!("{:.2}", steady.done.at(0.5)),
            format!("{:.2}", steady.done.at(0.99)),
            format!("{gap:.1}"),
            merged.to_string(),
            lost.to_string(),
            doubled.to_string(),
            failed.to_string(),
            verdict("50 ms", gap <= BAR && lost + doubled + failed == 0),
        ])?;
    }
    manager.stop().await
}

/// The controller of every other revision watches more, so that watches begin and end.
fn controller(steady: &Arc<Watched>, revision: usize) -> Result<Controller> {
    let builder = watching("steady", Some("set=o"), 16)?;
    let builder = match revision % 2 {
        0 => builder,
        _ => builder.owns(GroupVersionKind::new("", "v1", "Secret")),
    };
    Ok(builder.build(steady.clone())?)
}

/// Objects whose last update no run has seen, by what the server says.
async fn lost(manager: &Manager, steady: &Watched) -> Result<usize> {
    let clusters = manager.handle.fleet().clusters();
    let cluster = clusters.first().context("there is a cluster")?;
    let options = ListOptions {
        mode: ReadMode::Live,
        label_selector: Some("set=o".into()),
        ..ListOptions::default()
    };
    let client = cluster.client(Grant::all());
    let page = client.list(&config_map(), &options).await?;
    anyhow::ensure!(page.items.len() == OBJECTS, "{} objects", page.items.len());
    let seen = steady.seen.lock();
    let mut lost = 0;
    for object in &page.items {
        let sent = Sent::of(object)?.at();
        let object: Value = serde_json::from_slice(object)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if sent > 0 && !seen.contains(&(name.to_owned(), sent)) {
            lost += 1;
        }
    }
    Ok(lost)
}
