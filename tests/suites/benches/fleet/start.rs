//! Cold start: how long until everything is cached and looked at once, and what that takes. Entry point: [`measure`].

use super::simulated::{Layout, Simulated};
use super::subject::{controller, settled};
use crate::rig;
use crate::table::verdict;
use crate::usage::{Usage, kib, mib};
use crate::workload::Workload;
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_fleet::{Action, Context};

/// An idle cluster with one empty watched kind may cost so much.
const BAR_KIB: f64 = 100.0;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "start",
    title: "cold start of so many clusters with so many objects of 1 KB each, one kind watched, all at one server",
    heads: &[
        "clusters",
        "TLS",
        "objects each",
        "ready s",
        "peak MiB",
        "settled MiB",
        "KiB/cluster",
        "B/object",
        "x JSON",
        "connections",
        "threads",
        "bar               ",
    ],
    runs: &[
        &["1", "0"],
        &["10", "0"],
        &["100", "0"],
        &["1000", "0"],
        &["1000", "0", "tls"],
        &["1", "1000"],
        &["10", "1000"],
        &["100", "100"],
        &["100", "1000"],
        &["1000", "100"],
    ],
};

pub(crate) async fn measure(clusters: usize, objects: usize, tls: bool) -> Result<Vec<String>> {
    let mut layout = Layout::new(clusters, objects);
    layout.tls = tls;
    let server = Simulated::start(layout).await?;
    let specs = server.specs()?;
    let noop = |_: Context| async { Ok(Action::Done) };
    let before = Usage::own()?;
    let started = Instant::now();
    let manager = rig::engage(
        windlass_fleet::Manager::builder().controller(controller(Arc::new(noop))?),
        specs,
    )
    .await?;
    settled(&manager).await?;
    let took = started.elapsed();
    // Not a wait: what the start has allocated and freed settles meanwhile.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = Usage::own()?;
    let grown = after.resident.saturating_sub(before.resident) as f64;
    let json: usize = manager.handle.clusters().iter().map(|c| c.bytes).sum();
    let held = clusters * objects;
    let cluster = kib(grown / clusters as f64);
    let (per_cluster, bar) = match (objects, clusters) {
        // With fewer clusters what the process needs once is most of it.
        (0, 1000..) => (
            format!("{cluster:.1}"),
            verdict("100 KiB", cluster <= BAR_KIB),
        ),
        (0, _) => (format!("{cluster:.1}"), String::new()),
        _ => (String::new(), String::new()),
    };
    let of_objects = |text: String| if held == 0 { String::new() } else { text };
    manager.stop().await?;
    Ok(vec![
        clusters.to_string(),
        if tls { "yes" } else { "no" }.to_owned(),
        objects.to_string(),
        format!("{:.2}", took.as_secs_f64()),
        format!("{:.1}", mib(after.peak)),
        format!("{:.1}", mib(after.resident)),
        per_cluster,
        of_objects(format!("{:.0}", grown / held as f64)),
        of_objects(format!("{:.2}", grown / json as f64)),
        after.sockets.to_string(),
        after.threads.to_string(),
        bar,
    ])
}
