//! Limits how many calls begin per second: a token bucket without I/O. Entry point: [`Bucket::take`].

use std::time::{Duration, Instant};

/// A rate of calls, or of anything else that is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Calls per second in the long run. More than zero.
    pub per_second: f64,
    /// Calls that may begin at once after a pause. At least one.
    pub burst: u32,
}

/// A token bucket. Calls that wait have taken their tokens in advance.
#[derive(Debug)]
pub struct Bucket {
    limit: RateLimit,
    /// Below zero while calls wait.
    tokens: f64,
    /// The time for which `tokens` holds.
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub fn new(limit: RateLimit, now: Instant) -> Self {
        let burst = limit.burst.max(1);
        Self {
            limit: RateLimit { burst, ..limit },
            tokens: f64::from(burst),
            at: now,
        }
    }

    /// Takes a token for one call and returns how long the call must wait. `None`, and nothing is taken, if that is longer than
    /// `patience`.
    pub fn take(&mut self, now: Instant, patience: Duration) -> Option<Duration> {
        self.take_many(1, now, patience)
    }

    /// As [`Self::take`], for `count` tokens. More tokens than a burst are never given.
    pub fn take_many(&mut self, count: u32, now: Instant, patience: Duration) -> Option<Duration> {
        let rate = self.limit.per_second.max(f64::MIN_POSITIVE);
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * rate;
        self.tokens = (self.tokens + earned).min(f64::from(self.limit.burst));
        self.at = self.at.max(now);
        if count > self.limit.burst {
            return None;
        }
        let missing = (f64::from(count) - self.tokens).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / rate).unwrap_or(Duration::MAX);
        if wait > patience {
            return None;
        }
        self.tokens -= f64::from(count);
        Some(wait)
    }

    /// Changes the limit. Calls that wait go on waiting.
    pub fn set_limit(&mut self, limit: RateLimit) {
        let burst = limit.burst.max(1);
        self.limit = RateLimit { burst, ..limit };
    }

    /// Gives back the token of a call that does not begin.
    pub fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(f64::from(self.limit.burst));
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
    fn a_call_that_cannot_wait_takes_no_token() {
        let (mut bucket, now) = bucket(1.0, 1);
        assert_eq!(bucket.take(now, Duration::ZERO), Some(Duration::ZERO));
        for _ in 0..100 {
            assert_eq!(bucket.take(now, Duration::from_millis(500)), None);
        }
        assert_eq!(bucket.take(now, PATIENT), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_token_that_is_given_back_can_be_taken_again() {
        let (mut bucket, now) = bucket(1.0, 2);
        assert_eq!(bucket.take(now, PATIENT), Some(Duration::ZERO));
        bucket.give_back();
        bucket.give_back();
        let free = (0..5).filter(|_| bucket.take(now, Duration::ZERO).is_some());
        assert_eq!(free.count(), 2);
    }

    #[test]
    fn several_tokens_are_taken_together_or_not_at_all() {
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
    fn a_rate_of_zero_does_not_divide_by_zero() {
        let (mut bucket, now) = bucket(0.0, 0);
        assert_eq!(bucket.take(now, PATIENT), Some(Duration::ZERO));
        assert_eq!(bucket.take(now, PATIENT), None);
    }
}
