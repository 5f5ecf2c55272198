//! Times, gathered from many tasks and told as percentiles. Entry point: [`Latency::record`].

#![allow(dead_code, reason = "each bench uses the parts it needs")]

use parking_lot::Mutex;
use std::time::Duration;

/// Times of one phase of a workload, each kept: a phase lasts seconds.
#[derive(Default)]
pub(crate) struct Latency(Mutex<Vec<Duration>>);

impl Latency {
    pub(crate) fn record(&self, time: Duration) {
        self.0.lock().push(time);
    }

    /// How many were recorded.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// The time below which a share of all lies, in milliseconds.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let mut times = self.0.lock();
        times.sort_unstable();
        let at = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        times
            .get(at)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// The middle of some values, and the smallest and largest.
pub(crate) fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |n: usize| sorted.get(n).copied().unwrap_or(f64::NAN);
    (
        at(sorted.len() / 2),
        at(0),
        at(sorted.len().saturating_sub(1)),
    )
}
