//! Time that a capped tenant may use. Entry point: [`Bucket`].

use std::time::{Duration, Instant};

/// What a cap is kept over: a tenant may use its part of this at once after a pause, as under Linux' control groups.
pub(super) const PERIOD: Duration = Duration::from_millis(100);
/// Longest time after which a pause for a cap is looked at again.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Time that a capped tenant may use, in nanoseconds of a processor.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Thousandths of a processor.
    cap: u32,
    /// Below zero when the last slices were longer than what was left.
    left: i128,
    /// When `left` was right.
    at: Instant,
}

impl Bucket {
    pub(super) fn full(cap: u32, now: Instant) -> Self {
        let mut bucket = Self {
            cap,
            left: 0,
            at: now,
        };
        bucket.left = bucket.most();
        bucket
    }

    /// Thousandths of a processor.
    pub(super) fn cap(&self) -> u32 {
        self.cap
    }

    fn earns(&self, time: Duration) -> i128 {
        i128::try_from(time.as_nanos()).unwrap_or(i128::MAX / 1_000_000) * i128::from(self.cap)
            / 1000
    }

    fn most(&self) -> i128 {
        self.earns(PERIOD).max(1)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        self.left = (self.left + self.earns(passed)).min(self.most());
        self.at = self.at.max(now);
    }

    pub(super) fn has_some(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.left > 0
    }

    pub(super) fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.left >= self.most()
    }

    /// Takes what was used, whether it was there or not.
    pub(super) fn take(&mut self, used: Duration, now: Instant) {
        self.refill(now);
        self.left -= i128::try_from(used.as_nanos()).unwrap_or(i128::MAX / 2);
    }

    /// When there will be some in it, if nothing is taken meanwhile.
    pub(super) fn due(&self) -> Instant {
        let missing = u128::try_from(1 - self.left).unwrap_or(0);
        let time = (missing * 1000).div_ceil(u128::from(self.cap.max(1)));
        let time = u64::try_from(time).map_or(LONGEST_PAUSE, Duration::from_nanos);
        self.at + time.min(LONGEST_PAUSE)
    }
}
