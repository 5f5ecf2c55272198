//! How long a Lease lasts and how it is renewed. Entry point: [`Timing::check`].

use crate::http::fence::Reach;
use fastrand::Rng;
use std::time::Duration;

/// Shortest retry period. A useful one is far longer.
const MIN_RETRY: Duration = Duration::from_millis(50);

/// How long a Lease lasts and how it is renewed. Defaults are those of controller-runtime.
///
/// A leader starts no write later than `renew_deadline` after its last renewal began. Each write has a deadline of its own: 10 s, or less if
/// the Lease ends sooner. Another process leads `lease_duration` after that beginning at the earliest. So with every timing that
/// [`Timing::check`] accepts, no write is in flight then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long other candidates observe no change before they take the Lease. Default: 15 s.
    pub lease_duration: Duration,
    /// How long a leader goes on without a renewal. At most three quarters of `lease_duration`. Default: 10 s.
    pub renew_deadline: Duration,
    /// Time between two calls about the Lease; up to a fifth is added at random. With that fifth, less than `renew_deadline`. Default: 2 s.
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Why a timing cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The retry period is too short.
    #[error("the retry period {0:?} is too short: make it at least 50 ms")]
    TooShort(Duration),
    /// No retry fits into the renew deadline.
    #[error(
        "a renew deadline of {renew:?} leaves no time for a retry after {retry:?}: make it more than 1.2 times the retry period"
    )]
    NoRetry {
        /// The deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
    /// No write fits between the renew deadline and the end of the Lease.
    #[error(
        "a renew deadline of {renew:?} leaves writes in flight no time before the lease ends after {lease:?}: make it at most three quarters of the lease duration"
    )]
    NoRoomForWrites {
        /// The deadline.
        renew: Duration,
        /// The duration.
        lease: Duration,
    },
}

impl Timing {
    /// Checks that these times keep the promise of [`Timing`].
    ///
    /// # Errors
    /// [`TimingError`].
    pub fn check(&self) -> Result<(), TimingError> {
        if self.retry_period < MIN_RETRY {
            return Err(TimingError::TooShort(self.retry_period));
        }
        if self.renew_deadline <= self.retry_period + self.retry_period / 5 {
            return Err(TimingError::NoRetry {
                renew: self.renew_deadline,
                retry: self.retry_period,
            });
        }
        if self.renew_deadline > self.lease_duration / 4 * 3 {
            return Err(TimingError::NoRoomForWrites {
                renew: self.renew_deadline,
                lease: self.lease_duration,
            });
        }
        Ok(())
    }

    /// How long writes may start and last. A twentieth of the Lease is a margin for clocks of different speed.
    pub(crate) fn reach(&self) -> Reach {
        Reach {
            send: self.renew_deadline,
            land: self.lease_duration - self.lease_duration / 20,
        }
    }

    /// Timeout of one call about the Lease. Two calls fit into the renew deadline.
    pub(crate) fn call(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// Time until the next call, at random so that candidates do not act together.
    pub(crate) fn pause(&self, rng: &mut Rng) -> Duration {
        self.retry_period + (self.retry_period / 5).mul_f64(rng.f64())
    }

    /// The duration in whole seconds, as the Lease has it, rounded up.
    pub(crate) fn seconds(&self) -> i32 {
        let seconds = self.lease_duration.as_millis().div_ceil(1000);
        i32::try_from(seconds).unwrap_or(i32::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(lease: u64, renew: u64, retry: u64) -> Timing {
        Timing {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(renew),
            retry_period: Duration::from_millis(retry),
        }
    }

    #[test]
    fn the_defaults_keep_the_promise() {
        let timing = Timing::default();
        assert_eq!(timing.check(), Ok(()));
        assert!(timing.reach().send < timing.reach().land);
        assert!(timing.reach().land < timing.lease_duration);
        assert_eq!(timing.seconds(), 15);
    }

    #[test]
    fn every_timing_that_is_accepted_leaves_writes_time_before_the_lease_ends() {
        for (lease, renew, retry) in [(15_000, 11_250, 2000), (1000, 750, 100), (400, 300, 50)] {
            let timing = timing(lease, renew, retry);
            assert_eq!(timing.check(), Ok(()));
            assert!(timing.reach().land - timing.reach().send >= timing.lease_duration / 6);
            assert!(Duration::from_secs(timing.seconds() as u64) >= timing.lease_duration);
        }
    }

    #[test]
    fn a_timing_that_cannot_keep_the_promise_is_refused() {
        use TimingError::{NoRetry, NoRoomForWrites, TooShort};
        assert!(matches!(
            timing(15_000, 10_000, 0).check(),
            Err(TooShort(_))
        ));
        assert!(matches!(
            timing(15_000, 2_400, 2_000).check(),
            Err(NoRetry { .. })
        ));
        assert!(matches!(
            timing(15_000, 12_000, 2_000).check(),
            Err(NoRoomForWrites { .. })
        ));
        assert!(matches!(
            timing(10_000, 15_000, 2_000).check(),
            Err(NoRoomForWrites { .. })
        ));
    }
}
