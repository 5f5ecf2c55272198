//! When a list or watch that ended is tried again. Entry points: [`Pace::is_progress`] and [`Pace::wait`].
//!
//! Waits double with each attempt up to a cap, and begin anew only with progress: news from the server, or a watch that lived. That a
//! list succeeded, that a watch was opened, that a server told once more what was known, is none: a server may do so for ever.

use super::end::WatchEnd;
use crate::backoff::Backoff;
use std::time::Duration;

/// The first wait, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// A watch that ended in less time was no use to anybody.
const LIVED: Duration = Duration::from_secs(1);
/// How many attempts in a row may end in an ordinary way before that is trouble.
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

    /// Something has come that was not known before.
    pub(super) fn progressed(&mut self) {
        self.backoff.reset();
    }

    /// Whether the end of a watch after this time is progress, so that the next one follows at once.
    pub(super) fn is_progress(&mut self, end: &WatchEnd, lasted: Duration) -> bool {
        let lived = matches!(end, WatchEnd::Ended) && lasted > LIVED;
        if lived {
            self.progressed();
        }
        lived
    }

    /// How long to wait before the next attempt, which the server may ask to be later.
    pub(super) fn wait(&mut self, end: &WatchEnd) -> Duration {
        self.backoff.next(&mut self.rng).max(end.retry_after())
    }

    /// Whether there were so many attempts without progress that even an ordinary end is trouble.
    pub(super) fn is_stuck(&self) -> bool {
        self.backoff.attempt() >= ORDINARY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::answer;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace() -> Pace {
        Pace::new(fastrand::Rng::with_seed(1))
    }

    /// A 410, as a server says it.
    fn expired() -> WatchEnd {
        answer::error(410, None, br#"{"kind":"Status","reason":"Expired"}"#).into()
    }

    /// Asserts the steps, in milliseconds, that the next waits are drawn from the upper halves of.
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
    fn a_version_that_is_always_too_old_is_waited_for_twice_as_long_each_time_up_to_the_cap() {
        let mut pace = pace();
        let steps = [
            200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000,
        ];
        waits(&mut pace, &expired(), &steps);
    }

    #[test]
    fn what_is_no_progress_does_not_shorten_the_waits() {
        let mut pace = pace();
        waits(&mut pace, &expired(), &[200, 400]);
        // A list succeeded, and the watch from its version was told at once that it is too old, however long it took.
        assert!(!pace.is_progress(&expired(), 60 * SECOND));
        waits(&mut pace, &expired(), &[800]);
        // A watch that ended as soon as it began.
        assert!(!pace.is_progress(&WatchEnd::Ended, SECOND / 2));
        waits(&mut pace, &WatchEnd::Ended, &[1_600]);
        assert!(pace.is_stuck());
        waits(&mut pace, &expired(), &[3_200]);
    }

    #[test]
    fn news_and_a_watch_that_lived_begin_anew() {
        let mut pace = pace();
        waits(&mut pace, &expired(), &[200, 400, 800, 1_600]);
        pace.progressed();
        assert!(!pace.is_stuck());
        waits(&mut pace, &expired(), &[200, 400]);
        assert!(pace.is_progress(&WatchEnd::Ended, 2 * SECOND));
        waits(&mut pace, &expired(), &[200]);
    }

    #[test]
    fn a_server_that_asks_for_more_time_gets_it() {
        let busy = answer::error(429, Some(5 * SECOND), b"{}").into();
        assert_eq!(pace().wait(&busy), 5 * SECOND);
    }
}
