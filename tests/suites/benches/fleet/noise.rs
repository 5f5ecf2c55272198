//! A noisy tenant beside quiet ones: 10,000 keys that are always due, and 99 tenants with a key that changes once a second. Entry
//! point: [`Noise::compare`].
//!
//! Every subject runs [`SLOTS`] keys at once over all tenants, and a quiet key competes with the hot ones for each of them. Whether the
//! noise is on is the only difference between two phases, which take turns.

use super::simulated::{Layout, Order, Simulated, now};
use crate::figures::{median, spread};
use crate::latency::Latency;
use crate::table::verdict;
use crate::until::until;
use anyhow::Result;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use windlass_fleet::manager::{Concurrency, ManagerOptions};

pub(crate) const HOT: usize = 10_000;
pub(crate) const QUIET: usize = 99;
/// Keys that run at once, over all tenants.
pub(crate) const SLOTS: usize = 16;
/// A hot key asks to run again after this: ten times as often as it can.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);
/// Of a phase: about a thousand updates.
const SECONDS: f64 = 10.0;
const ROUNDS: usize = 3;
/// How long the last updates of a phase may take before they count as lost.
const LAST: Duration = Duration::from_secs(2);
/// Quiet tenants may wait so many times as long as without the noise.
const BAR: f64 = 2.0;

/// Columns of every table about noise: two that name the subject, and what [`Noise::compare`] returns.
pub(crate) const HEADS: &[&str] = &[
    "subject ",
    "a hot run",
    "quiet alone p50",
    "  p99",
    "with noise p50",
    "   p99",
    "p99 ratio (min-max)",
    "quiet lost",
    "hot runs/s",
    "hot keys never run",
    "bar                   ",
];

/// What the clusters hold: the keys of both sorts.
pub(crate) fn layout() -> Layout {
    Layout {
        clusters: 1,
        sets: vec![("hot".into(), HOT), ("quiet".into(), QUIET)],
        filler: 500,
        tls: false,
    }
}

/// As many slots for all tenants together as a rival has for all keys.
pub(crate) fn options() -> ManagerOptions {
    ManagerOptions {
        concurrency: Concurrency {
            global: SLOTS,
            ..Concurrency::default()
        },
        ..ManagerOptions::default()
    }
}

/// What hot and quiet reconcilers share.
#[derive(Default)]
pub(crate) struct Noise {
    on: AtomicBool,
    runs: AtomicUsize,
    /// Hot keys that ran since the noise was turned on or off.
    ran: Mutex<HashSet<String>>,
    /// From when an update of a quiet key was due.
    quiet: Latency,
    /// Updates from before belong to an earlier phase.
    since: AtomicU64,
}

/// The quiet tenants' times in one phase, in milliseconds.
struct Phase {
    p50: f64,
    p99: f64,
    lost: usize,
}

impl Noise {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Whether hot keys have work to do.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Counts a run of a hot key. Returns whether the key is to run again.
    pub(crate) fn ran(&self, name: &str) -> bool {
        // Under the lock, so that a key that counts after the noise is turned off is one that does not run again.
        let mut ran = self.ran.lock();
        if !ran.contains(name) {
            ran.insert(name.to_owned());
        }
        let on = self.is_on();
        if on {
            self.runs.fetch_add(1, Ordering::Relaxed);
        }
        on
    }

    /// Counts a run of a quiet key that saw the update that was due at this time.
    pub(crate) fn quiet(&self, sent: u64) {
        if sent > self.since.load(Ordering::Relaxed) {
            self.quiet
                .record(Duration::from_nanos(now().saturating_sub(sent)));
        }
    }

    /// Measures quiet tenants alone and beside the noise. Returns the cells from the third column of [`HEADS`] on.
    pub(crate) async fn compare(&self, server: &mut Simulated) -> Result<Vec<String>> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let (mut rates, mut never) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            alone.push(self.phase(server).await?);
            self.turn_on(server).await?;
            let began = Instant::now();
            beside.push(self.phase(server).await?);
            let runs = self.runs.load(Ordering::Relaxed) as f64;
            rates.push(runs / began.elapsed().as_secs_f64());
            self.all_ran().await?;
            never += HOT - self.ran.lock().len();
            self.turn_off().await?;
        }
        let ratios: Vec<f64> = beside
            .iter()
            .zip(&alone)
            .map(|(b, a)| b.p99 / a.p99)
            .collect();
        let (ratio, least, most) = spread(&ratios);
        let lost: usize = beside.iter().map(|phase| phase.lost).sum();
        let of = |phases: &[Phase], value: fn(&Phase) -> f64| {
            let values: Vec<f64> = phases.iter().map(value).collect();
            format!("{:.2}", median(&values))
        };
        Ok(vec![
            of(&alone, |phase| phase.p50),
            of(&alone, |phase| phase.p99),
            of(&beside, |phase| phase.p50),
            of(&beside, |phase| phase.p99),
            format!("{ratio:.2} ({least:.2}-{most:.2})"),
            lost.to_string(),
            format!("{:.0}", median(&rates)),
            never.to_string(),
            verdict("2.0, none lost", ratio <= BAR && lost == 0 && never == 0),
        ])
    }

    /// Has every hot key run, and run again without end.
    async fn turn_on(&self, server: &mut Simulated) -> Result<()> {
        self.count_anew(true);
        let wake = Order::Burst {
            set: "hot".into(),
            rounds: 1,
            clusters: 0..1,
        };
        server.order(&wake).await?;
        // The events of so many changes at once are read in their order, whichever tenant they are for. That is over soon; the
        // noise stays.
        self.all_ran().await?;
        self.count_anew(true);
        Ok(())
    }

    /// Waits until every hot key has run, or so many have that those are starved that have not.
    async fn all_ran(&self) -> Result<()> {
        until("a run of every hot key", || {
            self.ran.lock().len() == HOT || self.runs.load(Ordering::Relaxed) > 3 * HOT
        })
        .await
    }

    /// Waits until no hot key runs again.
    async fn turn_off(&self) -> Result<()> {
        self.count_anew(false);
        until("the last run of every hot key", || {
            self.ran.lock().len() == HOT
        })
        .await
    }

    fn count_anew(&self, on: bool) {
        let mut ran = self.ran.lock();
        self.on.store(on, Ordering::Relaxed);
        self.runs.store(0, Ordering::Relaxed);
        ran.clear();
    }

    async fn phase(&self, server: &mut Simulated) -> Result<Phase> {
        self.since.store(now(), Ordering::Relaxed);
        self.quiet.clear();
        let load = Order::Load {
            set: "quiet".into(),
            clusters: 0..1,
            rate: QUIET as f64,
            seconds: SECONDS,
        };
        let told = server.order(&load).await?;
        let last = until("every quiet update", || self.quiet.count() >= told.updates);
        let _ = tokio::time::timeout(LAST, last).await;
        Ok(Phase {
            p50: self.quiet.at(0.5),
            p99: self.quiet.at(0.99),
            lost: told.updates.saturating_sub(self.quiet.count()),
        })
    }
}
