//! How much of something may begin per second, calls of a cluster above all: a token bucket without I/O. Entry point:
//! [`Bucket::take`].

use std::time::{Duration, Instant};

/// A rate of calls, or of whatever else is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Calls per second in the long run; more than zero.
    pub per_second: f64,
    /// Calls that may begin at once after a pause; at least one.
    pub burst: u32,
}

/// Calls that may begin now, and debts of those that wait.
#[derive(Debug)]
pub struct Bucket {
    limit: RateLimit,
    /// Below zero while calls wait for what they took in advance.
    left: f64,
    /// When `left` was right.
    at: Instant,
}

impl Bucket {
    /// A full one.
    #[must_use]
    pub fn new(limit: RateLimit, now: Instant) -> Self {
        let burst = limit.burst.max(1);
        Self {
            limit: RateLimit { burst, ..limit },
            left: f64::from(burst),
            at: now,
        }
    }

    /// Takes the turn of one call: how long it has to wait, or `None`, and then nothing is taken, if that is longer than
    /// `patience`.
    pub fn take(&mut self, now: Instant, patience: Duration) -> Option<Duration> {
        self.take_many(1, now, patience)
    }

    /// As [`Self::take`], of so many at once. What is more than a burst never fits.
    pub fn take_many(&mut self, count: u32, now: Instant, patience: Duration) -> Option<Duration> {
        let rate = self.limit.per_second.max(f64::MIN_POSITIVE);
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * rate;
        self.left = (self.left + earned).min(f64::from(self.limit.burst));
        self.at = self.at.max(now);
        if count > self.limit.burst {
            return None;
        }
        let missing = (f64::from(count) - self.left).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / rate).unwrap_or(Duration::MAX);
        if wait > patience {
            return None;
        }
        self.left -= f64::from(count);
        Some(wait)
    }

    /// Gives back the turn of a call that does not begin.
    pub fn give_back(&mut self) {
        self.left = (self.left + 1.0).min(f64::from(self.limit.burst));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENT: Duration = Duration::from_secs(3600);

    fn bucket(per_second: f64, burst: u32) -> (Bucket, Instant) {
        let now = Instant::now();
        (Bucket::new(RateLimit { per_second, burst }, now), now)
    }

    #[test]
    fn a_burst_begins_at_once_and_the_rest_at_the_rate() {
        let (mut bucket, now) = bucket(10.0, 2);
        let waits: Vec<_> = (0..4)
            .filter_map(|_| bucket.take(now, PATIENT))
            .map(|wait| wait.as_millis())
            .collect();
        assert_eq!(waits, [0, 0, 100, 200]);
    }

    #[test]
    fn a_pause_earns_no_more_than_a_burst() {
        let (mut bucket, now) = bucket(1.0, 3);
        let later = now + Duration::from_secs(1000);
        let free = (0..5).filter(|_| bucket.take(later, Duration::ZERO).is_some());
        assert_eq!(free.count(), 3);
    }

    #[test]
    fn who_cannot_wait_takes_no_turn_from_who_can() {
        let (mut bucket, now) = bucket(1.0, 1);
        assert_eq!(bucket.take(now, Duration::ZERO), Some(Duration::ZERO));
        for _ in 0..100 {
            assert_eq!(bucket.take(now, Duration::from_millis(500)), None);
        }
        assert_eq!(bucket.take(now, PATIENT), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_turn_that_is_given_back_is_another_ones_and_never_more_than_a_burst() {
        let (mut bucket, now) = bucket(1.0, 2);
        assert_eq!(bucket.take(now, PATIENT), Some(Duration::ZERO));
        bucket.give_back();
        bucket.give_back();
        let free = (0..5).filter(|_| bucket.take(now, Duration::ZERO).is_some());
        assert_eq!(free.count(), 2);
    }

    #[test]
    fn several_are_taken_together_or_not_at_all() {
        let (mut bucket, now) = bucket(10.0, 10);
        assert_eq!(
            bucket.take_many(8, now, Duration::ZERO),
            Some(Duration::ZERO)
        );
        assert_eq!(bucket.take_many(8, now, Duration::ZERO), None);
        assert_eq!(
            bucket.take_many(8, now, PATIENT),
            Some(Duration::from_millis(600))
        );
        assert_eq!(bucket.take_many(11, now, PATIENT), None);
    }

    #[test]
    fn a_rate_of_nothing_never_divides_by_it() {
        let (mut bucket, now) = bucket(0.0, 0);
        assert_eq!(bucket.take(now, PATIENT), Some(Duration::ZERO));
        assert_eq!(bucket.take(now, PATIENT), None);
    }
}
