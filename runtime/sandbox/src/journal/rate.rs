//! The rate of log lines of all calls of a guest. Entry point: [`LogRate`].

use parking_lot::Mutex;
use std::time::{Duration, Instant};
use windlass_fleet::cluster::{Bucket, RateLimit};

/// How often dropped lines are reported. A report for each would itself be over the rate.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Bytes of log that the calls of one guest may write per second.
#[derive(Debug)]
pub(crate) struct LogRate(Mutex<State>);

#[derive(Debug)]
struct State {
    bucket: Bucket,
    /// Lines dropped since the last report.
    dropped: u64,
    reported: Option<Instant>,
}

impl LogRate {
    pub(crate) fn new(rate: RateLimit, now: Instant) -> Self {
        Self(Mutex::new(State {
            bucket: Bucket::new(rate, now),
            dropped: 0,
            reported: None,
        }))
    }

    /// Whether a line of this many bytes may be written. A line that may not is counted.
    pub(super) fn allows(&self, bytes: usize, now: Instant) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut state = self.0.lock();
        let allowed = state.bucket.take_many(bytes, now, Duration::ZERO).is_some();
        state.dropped += u64::from(!allowed);
        allowed
    }

    /// Lines dropped since the last report, if another report is due.
    pub(super) fn dropped_to_report(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let due = state
            .reported
            .is_none_or(|reported| now >= reported + REPORT_EVERY);
        if state.dropped == 0 || !due {
            return None;
        }
        state.reported = Some(now);
        Some(std::mem::take(&mut state.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_over_the_rate_are_dropped_and_reported_from_time_to_time() {
        let now = Instant::now();
        let limit = RateLimit {
            per_second: 100.0,
            burst: 100,
        };
        let rate = LogRate::new(limit, now);
        assert!(rate.allows(80, now) && !rate.allows(80, now));
        assert_eq!(rate.dropped_to_report(now), Some(1));
        let second = now + Duration::from_secs(1);
        assert!(rate.allows(80, second) && !rate.allows(80, second));
        assert_eq!(rate.dropped_to_report(second), None, "not so soon again");
        assert_eq!(rate.dropped_to_report(now + REPORT_EVERY), Some(1));
    }
}
