//! Times, gathered from many tasks and told as percentiles. Entry point: [`Latency::record`].

#![allow(dead_code, reason = "each bench uses the parts it needs")]

use crate::figures::percentile;
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
        let times = self.0.lock().clone();
        let millis: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        percentile(&millis, share)
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}
