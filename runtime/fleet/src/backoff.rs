//! Growing delays between attempts. Entry point: [`Backoff`].

use fastrand::Rng;
use std::time::Duration;

/// Delays that double from `base` to `cap`. Each is drawn at random from the upper half of its step, so that callers that failed at the
/// same time do not retry at the same time.
///
/// It only counts attempts: the caller waits, and calls `reset` when it has made progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    attempt: u32,
}

impl Backoff {
    /// Starts with delays of up to `base`, which grow to at most `cap`.
    #[must_use]
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            attempt: 0,
        }
    }

    /// The delay before the next attempt; the one after it is up to twice as long.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> Duration {
        let delay = self.delay(self.attempt, rng);
        self.attempt = self.attempt.saturating_add(1);
        delay
    }

    /// Failed attempts since the last reset.
    #[must_use]
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Starts over with the shortest delay.
    pub(crate) fn reset(&mut self) {
        self.attempt = 0;
    }

    /// A delay after `attempt` earlier failures: between half and all of `base`·2^`attempt`, and never over `cap`.
    #[must_use]
    pub(crate) fn delay(&self, attempt: u32, rng: &mut Rng) -> Duration {
        let step = 2u32
            .checked_pow(attempt)
            .and_then(|factor| self.base.checked_mul(factor))
            .map_or(self.cap, |step| step.min(self.cap));
        let half = step / 2;
        half + (step - half).mul_f64(rng.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn delays_double_up_to_the_cap() {
        let mut rng = Rng::with_seed(1);
        let mut backoff = Backoff::new(5 * MILLI, 1000 * MILLI);
        for step in [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            let delay = backoff.next(&mut rng);
            assert!(
                delay >= step * MILLI / 2 && delay <= step * MILLI,
                "{delay:?} of {step} ms"
            );
        }
        assert_eq!(backoff.attempt(), 10);
        backoff.reset();
        assert!(backoff.next(&mut rng) <= 5 * MILLI);
    }

    #[test]
    fn many_attempts_stay_at_the_cap() {
        let mut rng = Rng::with_seed(1);
        let backoff = Backoff::new(Duration::from_secs(3600), Duration::MAX);
        assert!(backoff.delay(u32::MAX, &mut rng) >= Duration::MAX / 2);
        assert!(Backoff::new(5 * MILLI, 30 * MILLI).delay(u32::MAX, &mut rng) <= 30 * MILLI);
    }

    #[test]
    fn delays_are_spread() {
        let mut rng = Rng::with_seed(1);
        let backoff = Backoff::new(100 * MILLI, 100 * MILLI);
        let mut delays: Vec<Duration> = (0..1000).map(|_| backoff.delay(0, &mut rng)).collect();
        delays.sort();
        assert!(delays[100] < 60 * MILLI && delays[900] > 90 * MILLI);
    }
}
