//! What one of several processes may use of a limit that is meant for all of them together. Entry points: [`Portion`] and [`LivePortion`].
//!
//! Processes that share a fleet hold shards of it, and a process has the same portion of such a limit. So the portions of all processes together are
//! not more than the limit, but that each process may always use the least that does anything: one run, one call of a burst.

use crate::rate_limit::RateLimit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A part of a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    part: u32,
    whole: u32,
}

impl Default for Portion {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Portion {
    /// All of it.
    pub const WHOLE: Self = Self { part: 1, whole: 1 };

    /// So many shards of so many. None count as one: a process that holds none is about to, or uses nothing.
    #[must_use]
    pub fn new(part: u32, whole: u32) -> Self {
        let whole = whole.max(1);
        let part = part.clamp(1, whole);
        Self { part, whole }
    }

    /// Of a number of things that are used at once. At least one.
    #[must_use]
    pub fn of(self, limit: usize) -> usize {
        let part = limit as u128 * u128::from(self.part) / u128::from(self.whole);
        // Not more than the limit.
        (part as usize).max(1)
    }

    /// Of a rate.
    #[must_use]
    pub fn of_rate(self, limit: RateLimit) -> RateLimit {
        let fraction = f64::from(self.part) / f64::from(self.whole);
        RateLimit {
            per_second: limit.per_second * fraction,
            burst: self.of(limit.burst as usize) as u32,
        }
    }
}

/// The portion of this process, as it is now. Clones are of the same.
#[derive(Debug, Clone)]
pub struct LivePortion(Arc<AtomicU64>);

impl Default for LivePortion {
    /// All of it.
    fn default() -> Self {
        let portion = Self(Arc::default());
        portion.set(Portion::WHOLE);
        portion
    }
}

impl LivePortion {
    /// What it is now.
    #[must_use]
    pub fn get(&self) -> Portion {
        let both = self.0.load(Ordering::Relaxed);
        Portion {
            part: (both >> 32) as u32,
            whole: both as u32,
        }
    }

    /// Changes it, for all clones.
    pub fn set(&self, portion: Portion) {
        let both = u64::from(portion.part) << 32 | u64::from(portion.whole);
        self.0.store(both, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_add_up_to_no_more_than_the_limit_but_each_has_one() {
        for limit in [1, 3, 10, 512] {
            let parts = [100, 100, 56].map(|part| Portion::new(part, 256).of(limit));
            assert!(parts.iter().all(|part| *part >= 1));
            assert!(
                parts.iter().sum::<usize>() <= limit.max(3),
                "{limit}: {parts:?}"
            );
        }
        assert_eq!(Portion::WHOLE.of(7), 7);
        assert_eq!(Portion::new(0, 256).of(512), 2);
        assert_eq!(Portion::new(128, 256).of(usize::MAX), usize::MAX / 2);
    }

    #[test]
    fn a_rate_is_divided_and_a_live_portion_follows() {
        let live = LivePortion::default();
        let seen = live.clone();
        let rate = RateLimit {
            per_second: 10.0,
            burst: 10,
        };
        assert_eq!(seen.get().of_rate(rate), rate);
        live.set(Portion::new(64, 256));
        let quarter = seen.get().of_rate(rate);
        assert_eq!((quarter.per_second, quarter.burst), (2.5, 2));
    }
}
