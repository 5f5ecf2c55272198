//! Throughput: a flood of events that is there at once, and a reconciler that reads its object and finds nothing to do. Entry
//! point: [`measure`].

use super::peer::{self, Peers, Work};
use super::simulated::{Layout, Order, Simulated, Told, now};
use super::subject::{Sent, read, settled, synced, watching};
use crate::figures::spread;
use crate::rig;
use crate::usage::Usage;
use crate::workload::Workload;
use anyhow::{Result, bail};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use windlass_fleet::{Action, Context, Failure};

const CLUSTERS: usize = 10;
const OBJECTS: usize = 1_000;
/// Keys of a cluster that run at once: kube-rs bounds each cluster's, Windlass the sum.
const SLOTS: usize = 6;
/// Updates of each object in a flood.
const ROUNDS: usize = 10;
const RUNS: usize = 5;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "replay",
    title: "10 clusters x 1000 objects, 100,000 updates at once, each key read and nothing done; median (min-max) of 5",
    heads: &[
        "subject ",
        "events/s              ",
        "reconciles/s          ",
        "reconciles",
        "CPU us/event",
        "CPU us/reconcile",
    ],
    runs: &[&["windlass"], &["kube-rs"]],
};

/// What one flood showed.
pub(crate) struct Flood {
    events: usize,
    reconciles: usize,
    seconds: f64,
    cpu: f64,
}

pub(crate) async fn measure(who: &str) -> Result<Vec<String>> {
    let server = Simulated::start(Layout::new(CLUSTERS, OBJECTS)).await?;
    let floods = match who {
        "windlass" => windlass(server).await?,
        "kube-rs" => kube(server).await?,
        other => bail!("no subject {other:?}"),
    };
    let shown = |of: fn(&Flood) -> f64| {
        let (middle, least, most) = spread(&floods.iter().map(of).collect::<Vec<_>>());
        format!("{middle:.0} ({least:.0}-{most:.0})")
    };
    let middle = |of: fn(&Flood) -> f64| spread(&floods.iter().map(of).collect::<Vec<_>>()).0;
    Ok(vec![
        who.to_owned(),
        shown(|flood| flood.events as f64 / flood.seconds),
        shown(|flood| flood.reconciles as f64 / flood.seconds),
        format!("{:.0}", middle(|flood| flood.reconciles as f64)),
        format!(
            "{:.1}",
            middle(|flood| flood.cpu * 1e6 / flood.events as f64)
        ),
        format!(
            "{:.1}",
            middle(|flood| flood.cpu * 1e6 / flood.reconciles as f64)
        ),
    ])
}

async fn windlass(mut server: Simulated) -> Result<Vec<Flood>> {
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let reconcile = move |context: Context| {
        counter.fetch_add(1, Ordering::Relaxed);
        async move {
            let (_, object) = read(&context).await?;
            if let Some(object) = object {
                std::hint::black_box(Sent::of(&object)?.at());
            }
            Ok::<_, Failure>(Action::Done)
        }
    };
    let controller = watching("subject", None, SLOTS * CLUSTERS)?.build(Arc::new(reconcile))?;
    let manager = rig::engage(
        windlass_fleet::Manager::builder().controller(controller),
        server.specs()?,
    )
    .await?;
    settled(&manager).await?;
    let mut floods = Vec::new();
    for _ in 0..RUNS {
        ran.store(0, Ordering::Relaxed);
        let (told, flood) = Flood::begin(&mut server).await?;
        synced(&manager, &told.versions).await?;
        settled(&manager).await?;
        floods.push(flood.end(ran.load(Ordering::Relaxed))?);
    }
    manager.stop().await?;
    Ok(floods)
}

async fn kube(mut server: Simulated) -> Result<Vec<Flood>> {
    let nothing: Work = Arc::new(|_| Box::pin(async { peer::Action::await_change() }));
    let peers = Peers::start(&server, CLUSTERS, SLOTS, nothing)?;
    peers.all_seen(CLUSTERS * OBJECTS).await?;
    let mut floods = Vec::new();
    for _ in 0..RUNS {
        peers.expect(now());
        let (_, flood) = Flood::begin(&mut server).await?;
        peers.all_seen(CLUSTERS * OBJECTS).await?;
        floods.push(flood.end(peers.ran())?);
    }
    Ok(floods)
}

/// A flood that has been let go.
struct Running {
    events: usize,
    began: Instant,
    before: Usage,
}

impl Flood {
    async fn begin(server: &mut Simulated) -> Result<(Told, Running)> {
        let order = Order::Burst {
            set: "o".into(),
            rounds: ROUNDS,
            clusters: 0..CLUSTERS,
        };
        let before = Usage::own()?;
        let told = server.order(&order).await?;
        let running = Running {
            events: told.updates,
            began: Instant::now(),
            before,
        };
        Ok((told, running))
    }
}

impl Running {
    fn end(self, reconciles: usize) -> Result<Flood> {
        Ok(Flood {
            events: self.events,
            reconciles,
            seconds: self.began.elapsed().as_secs_f64(),
            cpu: (Usage::own()?.cpu - self.before.cpu).as_secs_f64(),
        })
    }
}
