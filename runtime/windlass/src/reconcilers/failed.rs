//! A change that failed, and when it is tried again. Entry point: [`Failed`].

use std::time::{Duration, Instant};

/// The wait after the first transient failure. It doubles with each.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait. An operator who repairs the host waits no longer than this.
const LONGEST: Duration = Duration::from_secs(60);

/// A failed change. It is tried again when its inputs change, or when it is due.
pub(super) struct Failed<Inputs> {
    /// The inputs of the change.
    pub(super) attempted: Inputs,
    /// Why it failed.
    pub(super) problem: String,
    /// The time of the next attempt, and the wait before it; none after a permanent failure.
    again: Option<(Instant, Duration)>,
}

impl<Inputs: PartialEq> Failed<Inputs> {
    /// A permanent failure.
    pub(super) fn new(attempted: Inputs, problem: String) -> Self {
        Self {
            attempted,
            problem,
            again: None,
        }
    }

    /// The same as a transient failure. The wait is longer than that of `before` if the inputs are the same.
    pub(super) fn again_after(self, before: Option<&Self>, now: Instant) -> Self {
        let waited = before
            .filter(|before| before.attempted == self.attempted)
            .and_then(|before| before.again);
        let wait = waited.map_or(FIRST, |(_, wait)| (2 * wait).min(LONGEST));
        Self {
            again: Some((now + wait, wait)),
            ..self
        }
    }

    /// When to try again.
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
