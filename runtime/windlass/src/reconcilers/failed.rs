//! A change that could not be made: what was tried, and whether and when it is tried again. Entry point: [`Failed`].

use std::time::{Duration, Instant};

/// Before the first try after one that failed for the host's own reasons; doubles with each.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait between two tries: such a fault is often mended by somebody, who does not want to wait much longer.
const LONGEST: Duration = Duration::from_secs(60);

/// What was tried and failed. It is not tried again until something changes, or until it is due.
pub(super) struct Failed<Recipe> {
    /// What was tried.
    pub(super) of: Recipe,
    /// Why it failed.
    pub(super) problem: String,
    /// The next try, and how long it was put off; none: only when something changes.
    again: Option<(Instant, Duration)>,
}

impl<Recipe: PartialEq> Failed<Recipe> {
    /// For a reason that does not pass by itself.
    pub(super) fn new(of: Recipe, problem: String) -> Self {
        Self {
            of,
            problem,
            again: None,
        }
    }

    /// For a reason that may pass: it is tried again, after a longer wait than `before` if that was the same.
    pub(super) fn again_after(self, before: Option<&Self>, now: Instant) -> Self {
        let waited = before
            .filter(|before| before.of == self.of)
            .and_then(|before| before.again);
        let wait = waited.map_or(FIRST, |(_, wait)| (2 * wait).min(LONGEST));
        Self {
            again: Some((now + wait, wait)),
            ..self
        }
    }

    /// When it is tried again, if nothing changes.
    pub(super) fn due(&self) -> Option<Instant> {
        self.again.map(|(at, _)| at)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(from: Instant, failed: &Failed<u8>) -> Option<u64> {
        failed.due().map(|at| at.duration_since(from).as_secs())
    }

    #[test]
    fn waits_grow_while_the_same_fails_and_begin_anew_with_something_else() {
        let now = Instant::now();
        let failed = |of| Failed::new(of, "no memory".to_owned());
        let mut last = failed(1).again_after(None, now);
        let mut all = vec![waits(now, &last)];
        for _ in 0..7 {
            last = failed(1).again_after(Some(&last), now);
            all.push(waits(now, &last));
        }
        assert_eq!(all, [1, 2, 4, 8, 16, 32, 60, 60].map(Some));
        let other = failed(2).again_after(Some(&last), now);
        assert_eq!(waits(now, &other), Some(1));
        assert!(!other.is_due(now) && other.is_due(now + FIRST));
    }

    #[test]
    fn what_does_not_pass_is_never_due() {
        let failed = Failed::new(1, "no component".to_owned());
        assert!(!failed.is_due(Instant::now() + LONGEST));
    }
}
