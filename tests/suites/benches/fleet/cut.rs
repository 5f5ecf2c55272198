//! A failover of every API server at once: all watches break. Entry point: [`measure`].

use super::simulated::{Layout, Order, Simulated, now};
use super::subject::{Sent, controller, read, settled};
use crate::figures::spread;
use crate::rig;
use crate::until::until;
use crate::usage::{Usage, mib};
use crate::workload::Workload;
use anyhow::{Result, bail};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::{Action, ClusterName, Context, Failure};

const CLUSTERS: usize = 20;
const OBJECTS: usize = 1_000;
const ROUNDS: usize = 3;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "cut",
    title: "20 clusters x 1000 objects: every watch cut at once, and an object changed behind it; middle of 3 rounds",
    heads: &[
        "what the servers remember",
        "all fresh s",
        "last fresh s",
        "lists",
        "listed MiB",
        "watches",
        "settled MiB",
        "peak MiB",
        "reconciles",
    ],
    runs: &[&["everything"], &["nothing"]],
};

/// What was seen of each cluster's marker.
#[derive(Default)]
struct Markers {
    seen: Mutex<HashMap<ClusterName, (u64, u64)>>,
    runs: std::sync::atomic::AtomicUsize,
}

pub(crate) async fn measure(remembered: &str) -> Result<Vec<String>> {
    let compact = match remembered {
        "everything" => false,
        "nothing" => true,
        other => bail!("no such memory {other:?}"),
    };
    let layout = Layout {
        clusters: CLUSTERS,
        sets: vec![("o".into(), OBJECTS), ("marker".into(), 1)],
        filler: 500,
        tls: false,
    };
    let mut server = Simulated::start(layout).await?;
    let markers = Arc::new(Markers::default());
    let controller = controller(Arc::new(reconciler(&markers)))?;
    let manager = rig::engage(
        windlass_fleet::Manager::builder().controller(controller),
        server.specs()?,
    )
    .await?;
    settled(&manager).await?;
    // Not a wait: what the start has allocated and freed settles meanwhile.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let settled_at = Usage::own()?.resident;
    Usage::forget_peak()?;
    let (mut middle, mut last) = (Vec::new(), Vec::new());
    let before = server.order(&Order::Tell).await?;
    markers.runs.store(0, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..ROUNDS {
        let times = round(&mut server, &markers, compact).await?;
        let (at, _, most) = spread(&times);
        middle.push(at);
        last.push(most);
        settled(&manager).await?;
    }
    let after = server.order(&Order::Tell).await?;
    let peak = Usage::own()?.peak;
    let each = |of: u64| format!("{:.0}", of as f64 / ROUNDS as f64);
    let listed = (after.listed_bytes.saturating_sub(before.listed_bytes)) as usize / ROUNDS;
    let runs = markers.runs.load(std::sync::atomic::Ordering::Relaxed);
    manager.stop().await?;
    Ok(vec![
        remembered.to_owned(),
        format!("{:.2}", spread(&middle).0),
        format!("{:.2}", spread(&last).0),
        each(after.lists - before.lists),
        format!("{:.1}", mib(listed)),
        each(after.watches - before.watches),
        format!("{:.1}", mib(settled_at)),
        format!("{:.1}", mib(peak)),
        each(runs as u64),
    ])
}

/// Cuts, changes a marker in every cluster, and returns the seconds until each was seen.
async fn round(server: &mut Simulated, markers: &Markers, compact: bool) -> Result<Vec<f64>> {
    let began = now();
    let cut = Order::Cut {
        clusters: 0..CLUSTERS,
        change: "marker".into(),
        compact,
    };
    server.order(&cut).await?;
    let times = || {
        let seen = markers.seen.lock();
        let fresh = seen.values().filter(|(sent, _)| *sent >= began);
        fresh
            .map(|(_, at)| (at - began) as f64 / 1e9)
            .collect::<Vec<_>>()
    };
    until("a fresh marker of every cluster", || {
        times().len() == CLUSTERS
    })
    .await?;
    Ok(times())
}

fn reconciler(markers: &Arc<Markers>) -> impl windlass_fleet::Reconciler {
    let markers = markers.clone();
    move |context: Context| {
        let markers = markers.clone();
        async move {
            markers
                .runs
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if !context.request.key.name.starts_with("marker") {
                return Ok(Action::Done);
            }
            let (_, object) = read(&context).await?;
            if let Some(object) = object {
                let (sent, at) = (Sent::of(&object)?.at(), now());
                let cluster = context.request.cluster.clone();
                let mut seen = markers.seen.lock();
                let known = seen.get(&cluster).map(|(sent, _)| *sent);
                if known != Some(sent) {
                    seen.insert(cluster, (sent, at));
                }
            }
            Ok::<_, Failure>(Action::Done)
        }
    }
}
