//! When a list or watch that ended is tried again. Entry points: [`Pace::is_progress`] and [`Pace::wait`].
//!
//! Waits double with each attempt up to a maximum. Only progress resets them: an event that the store did not have, or a watch that
//! lived for a second. A list that succeeds, a watch that opens and a repeated event are no progress: a server could send them for ever.

use super::end::WatchEnd;
use crate::backoff::Backoff;
use std::time::Duration;

/// The first wait, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// A watch that lasted longer than this is progress.
const LIVED: Duration = Duration::from_secs(1);
/// After this many attempts without progress even an ordinary end is a problem.
const ORDINARY: u32 = 4;

pub(super) struct Pace {
    backoff: Backoff,
    rng: fastrand::Rng,
}

impl Pace {
    pub(super) fn new(rng: fastrand::Rng) -> Self {
        Self {
            backoff: Backoff::new(WAITS.0, WAITS.1),
            rng,
        }
    }

    /// Resets the waits.
    pub(super) fn progressed(&mut self) {
        self.backoff.reset();
    }

    /// Whether a watch that ended after this time was progress, so that the next one follows at once. If so, resets the waits.
    pub(super) fn is_progress(&mut self, end: &WatchEnd, lasted: Duration) -> bool {
        let lived = matches!(end, WatchEnd::Ended) && lasted > LIVED;
        if lived {
            self.progressed();
        }
        lived
    }

    /// How long to wait before the next attempt: the next step, or longer if the server asks for that.
    pub(super) fn wait(&mut self, end: &WatchEnd) -> Duration {
        self.backoff.next(&mut self.rng).max(end.retry_after())
    }

    /// Whether so many attempts in a row made no progress that even an ordinary end is a problem.
    pub(super) fn is_stuck(&self) -> bool {
        self.backoff.attempt() >= ORDINARY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::status;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace() -> Pace {
        Pace::new(fastrand::Rng::with_seed(1))
    }

    /// A 410, as servers send it.
    fn expired() -> WatchEnd {
        status::error(410, None, br#"{"kind":"Status","reason":"Expired"}"#).into()
    }

    /// Asserts that the next waits are in the upper halves of these steps, in milliseconds.
    fn waits(pace: &mut Pace, end: &WatchEnd, steps: &[u64]) {
        for step in steps {
            let (wait, step) = (pace.wait(end), Duration::from_millis(*step));
            assert!(
                step / 2 <= wait && wait <= step,
                "{wait:?} where up to {step:?} is due"
            );
        }
    }

    #[test]
    fn waits_double_up_to_the_maximum_while_the_version_is_always_too_old() {
        let mut pace = pace();
        let steps = [
            200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000,
        ];
        waits(&mut pace, &expired(), &steps);
    }

    #[test]
    fn waits_are_not_reset_without_progress() {
        let mut pace = pace();
        waits(&mut pace, &expired(), &[200, 400]);
        // The watch from a list's version was refused as too old, however long that took.
        assert!(!pace.is_progress(&expired(), 60 * SECOND));
        waits(&mut pace, &expired(), &[800]);
        // A watch ended as soon as it began.
        assert!(!pace.is_progress(&WatchEnd::Ended, SECOND / 2));
        waits(&mut pace, &WatchEnd::Ended, &[1_600]);
        assert!(pace.is_stuck());
        waits(&mut pace, &expired(), &[3_200]);
    }

    #[test]
    fn an_event_and_a_watch_that_lived_reset_the_waits() {
        let mut pace = pace();
        waits(&mut pace, &expired(), &[200, 400, 800, 1_600]);
        pace.progressed();
        assert!(!pace.is_stuck());
        waits(&mut pace, &expired(), &[200, 400]);
        assert!(pace.is_progress(&WatchEnd::Ended, 2 * SECOND));
        waits(&mut pace, &expired(), &[200]);
    }

    #[test]
    fn a_longer_wait_that_the_server_asks_for_counts() {
        let busy = status::error(429, Some(5 * SECOND), b"{}").into();
        assert_eq!(pace().wait(&busy), 5 * SECOND);
    }
}
