//! How much all calls of a guest together may log. Entry point: [`LogRate`].

use parking_lot::Mutex;
use std::time::{Duration, Instant};
use windlass_fleet::cluster::{Bucket, RateLimit};

/// How often it is told that lines are dropped: a line for each would be what the rate is to prevent.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Bytes of log that the calls of one guest may write per second.
#[derive(Debug)]
pub(crate) struct LogRate(Mutex<State>);

#[derive(Debug)]
struct State {
    bucket: Bucket,
    /// Lines dropped since that was told.
    dropped: u64,
    told: Option<Instant>,
}

impl LogRate {
    pub(crate) fn new(rate: RateLimit, now: Instant) -> Self {
        Self(Mutex::new(State {
            bucket: Bucket::new(rate, now),
            dropped: 0,
            told: None,
        }))
    }

    /// Whether a line of so many bytes may be written; if not, it is counted.
    pub(super) fn allows(&self, bytes: usize, now: Instant) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut state = self.0.lock();
        let allowed = state.bucket.take_many(bytes, now, Duration::ZERO).is_some();
        state.dropped += u64::from(!allowed);
        allowed
    }

    /// Lines that were dropped, when it is time to tell.
    pub(super) fn to_tell(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let due = state.told.is_none_or(|told| now >= told + TELL_EVERY);
        if state.dropped == 0 || !due {
            return None;
        }
        state.told = Some(now);
        Some(std::mem::take(&mut state.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_rate_is_dropped_and_told_now_and_then() {
        let now = Instant::now();
        let limit = RateLimit {
            per_second: 100.0,
            burst: 100,
        };
        let rate = LogRate::new(limit, now);
        assert!(rate.allows(80, now) && !rate.allows(80, now));
        assert_eq!(rate.to_tell(now), Some(1));
        let second = now + Duration::from_secs(1);
        assert!(rate.allows(80, second) && !rate.allows(80, second));
        assert_eq!(rate.to_tell(second), None, "not so soon again");
        assert_eq!(rate.to_tell(now + TELL_EVERY), Some(1));
    }
}
