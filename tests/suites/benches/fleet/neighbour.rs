//! A noisy neighbour: one tenant with 10,000 keys that are always due, 99 tenants with a key that changes once a second. Entry
//! point: [`measure`].

use super::peer::{self, Peers, Work};
use super::simulated::{Layout, Order, Simulated, now};
use super::subject::{Sent, read, watching};
use super::table::verdict;
use crate::latency::Latency;
use crate::rig::Manager;
use crate::until::until;
use crate::workload::Workload;
use anyhow::{Result, bail};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use windlass_fleet::{Action, Context, Controller, Failure, TenantName};

const HOT: usize = 10_000;
const QUIET: usize = 99;
/// Runs of the noisy tenant at once; with kube-rs, of all keys.
const CONCURRENCY: usize = 16;
/// A hot key asks to run again after this: ten times as often as it can.
const AGAIN: Duration = Duration::from_millis(100);
/// What a hot run takes.
const WORK: Duration = Duration::from_millis(1);
const SECONDS: f64 = 20.0;
/// Quiet tenants may wait so many times as long as without the noise.
const BAR: f64 = 2.0;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "neighbour",
    title: "1 tenant with 10,000 keys always due (1 ms a run, 16 at once), 99 tenants with 1 update/s; quiet: due to started, ms",
    heads: &[
        "subject ",
        "a hot run",
        "quiet alone p50",
        "  p99",
        "with noise p50",
        "   p99",
        "p99 ratio",
        "quiet lost",
        "hot runs/s",
        "hot keys never run",
        "bar        ",
    ],
    runs: &[
        &["windlass", "waits"],
        &["kube-rs", "waits"],
        &["windlass", "computes"],
        &["kube-rs", "computes"],
    ],
};

/// What the reconcilers of both sides share.
struct Noise {
    on: AtomicBool,
    computes: bool,
    runs: AtomicUsize,
    ran: Mutex<HashSet<String>>,
    quiet: Latency,
}

impl Noise {
    /// A run of a hot key. Returns whether it is to run again.
    async fn hot(&self, name: &str) -> bool {
        if !self.on.load(Ordering::Relaxed) {
            return false;
        }
        if self.computes {
            let began = Instant::now();
            while began.elapsed() < WORK {
                std::hint::spin_loop();
            }
        } else {
            // Not a wait: it is the work.
            tokio::time::sleep(WORK).await;
        }
        self.runs.fetch_add(1, Ordering::Relaxed);
        let mut ran = self.ran.lock();
        if !ran.contains(name) {
            ran.insert(name.to_owned());
        }
        true
    }

    fn quiet(&self, sent: u64) {
        if sent > 0 {
            self.quiet
                .record(Duration::from_nanos(now().saturating_sub(sent)));
        }
    }
}

pub(crate) async fn measure(who: &str, hot_run: &str) -> Result<Vec<String>> {
    let layout = Layout {
        clusters: 1,
        sets: vec![("hot".into(), HOT), ("quiet".into(), QUIET)],
        filler: 500,
        tls: false,
    };
    let mut server = Simulated::start(layout).await?;
    let noise = Arc::new(Noise {
        on: AtomicBool::new(false),
        computes: hot_run == "computes",
        runs: AtomicUsize::new(0),
        ran: Mutex::default(),
        quiet: Latency::default(),
    });
    let row = match who {
        "windlass" => {
            let mut builder = windlass_fleet::Manager::builder().controller(hot(&noise)?);
            for n in 0..QUIET {
                builder = builder.controller(quiet(&noise, n)?);
            }
            let manager = Manager::engage(builder, server.specs()?).await?;
            super::subject::settled(&manager).await?;
            let row = phases(&mut server, &noise).await?;
            // What is hot runs for ever: the manager ends with the process.
            drop(manager);
            row
        }
        "kube-rs" => {
            let peers = Peers::start(&server, 1, CONCURRENCY, all(&noise))?;
            peers.all_seen(HOT + QUIET).await?;
            phases(&mut server, &noise).await?
        }
        other => bail!("no subject {other:?}"),
    };
    let mut cells = vec![who.to_owned(), hot_run.to_owned()];
    cells.extend(row);
    // The bar is ours.
    if who != "windlass" {
        cells.pop();
    }
    Ok(cells)
}

async fn phases(server: &mut Simulated, noise: &Noise) -> Result<Vec<String>> {
    let load = Order::Load {
        set: "quiet".into(),
        clusters: 0..1,
        rate: QUIET as f64,
        seconds: SECONDS,
    };
    noise.quiet.clear();
    server.order(&load).await?;
    let alone = [0.5, 0.99].map(|share| noise.quiet.at(share));
    noise.on.store(true, Ordering::Relaxed);
    let wake = Order::Burst {
        set: "hot".into(),
        rounds: 1,
        clusters: 0..1,
    };
    server.order(&wake).await?;
    // The events of so many changes at once are read in their order, whoever they are for. That is over soon; the noise stays.
    until("a first run of every hot key", || {
        noise.ran.lock().len() == HOT || noise.runs.load(Ordering::Relaxed) > 3 * HOT
    })
    .await?;
    noise.ran.lock().clear();
    noise.runs.store(0, Ordering::Relaxed);
    let began = Instant::now();
    noise.quiet.clear();
    let told = server.order(&load).await?;
    let seconds = began.elapsed().as_secs_f64();
    let with = [0.5, 0.99].map(|share| noise.quiet.at(share));
    // An update may still be on its way.
    let lost = told.updates.saturating_sub(noise.quiet.count());
    let never = HOT - noise.ran.lock().len();
    let runs = noise.runs.load(Ordering::Relaxed) as f64 / seconds;
    let ratio = with[1] / alone[1];
    Ok(vec![
        format!("{:.2}", alone[0]),
        format!("{:.2}", alone[1]),
        format!("{:.2}", with[0]),
        format!("{:.2}", with[1]),
        format!("{ratio:.2}"),
        lost.to_string(),
        format!("{runs:.0}"),
        never.to_string(),
        verdict("2.0, 0", ratio <= BAR && never == 0),
    ])
}

fn hot(noise: &Arc<Noise>) -> Result<Controller> {
    let noise = noise.clone();
    let reconcile = move |context: Context| {
        let noise = noise.clone();
        async move {
            let again = noise.hot(&context.request.key.name).await;
            Ok(if again {
                Action::RequeueAfter(AGAIN)
            } else {
                Action::Done
            })
        }
    };
    Ok(watching("hot", Some("set=hot"), CONCURRENCY)?
        .tenant(TenantName::new("noisy")?)
        .build(Arc::new(reconcile))?)
}

fn quiet(noise: &Arc<Noise>, n: usize) -> Result<Controller> {
    let noise = noise.clone();
    let reconcile = move |context: Context| {
        let noise = noise.clone();
        async move {
            let (_, object) = read(&context).await?;
            if let Some(object) = object {
                noise.quiet(Sent::of(&object)?.at());
            }
            Ok::<_, Failure>(Action::Done)
        }
    };
    let selector = format!("name=quiet-{n}");
    Ok(watching("quiet", Some(&selector), 1)?
        .tenant(TenantName::new(format!("quiet-{n}"))?)
        .build(Arc::new(reconcile))?)
}

/// Both sorts of keys in one controller: it knows no tenants.
fn all(noise: &Arc<Noise>) -> Work {
    let noise = noise.clone();
    Arc::new(move |object| {
        let noise = noise.clone();
        Box::pin(async move {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            if name.starts_with("quiet") {
                noise.quiet(peer::sent(&object));
                return peer::Action::await_change();
            }
            match noise.hot(name).await {
                true => peer::Action::requeue(AGAIN),
                false => peer::Action::await_change(),
            }
        })
    })
}
