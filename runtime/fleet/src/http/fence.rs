//! Refuses writes of a process that may no longer be the leader. Entry point: [`Fence::enter`].
//!
//! Another process may lead once the Lease's duration has passed since the last renewal *began*. So a write may start only for a while after
//! that beginning, and its deadline ends before the Lease does ([`Reach`]).
//!
//! Invariants:
//! * The decision depends on the time of the last renewal and the clock alone, never on a timer or a task. So a process that was stopped and
//!   resumes finds the fence closed.
//! * A write is checked twice: at [`Fence::enter`], and by [`Pass::check`] when the connection takes its bytes.
//! * After [`Fence::shut`] the fence never opens again.
//!
//! Cost: a clock read and an atomic load per check.
//!
//! Not guaranteed: a request that has left the process may be delayed by the network beyond the Lease. Nobody can recall it.

use crate::api::{ApiCode, ApiError};
use crate::clock::Clock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A write was not sent: another process may be the leader by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this process may have lost its lease: the write was not sent")]
pub(crate) struct Refused;

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        Self::host(ApiCode::Cancelled, refused.to_string())
    }
}

/// How long a process may write after its last renewal began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Writes start and send their bytes before this.
    pub(crate) send: Duration,
    /// Every write has ended before this, with an answer or by its deadline.
    pub(crate) land: Duration,
}

/// Lets writes through while a renewal is recent. Closed until the first renewal.
pub(crate) struct Fence {
    clock: Clock,
    epoch: Instant,
    reach: Reach,
    /// Nanoseconds from `epoch` to the beginning of the last successful renewal, plus one. 0: no renewal yet. [`SHUT`]: shut.
    renewed: AtomicU64,
    /// Writes that have entered and not ended.
    in_flight: TaskTracker,
}

/// The value of `renewed` once the fence is shut.
const SHUT: u64 = u64::MAX;

impl Fence {
    pub(crate) fn new(clock: Clock, reach: Reach) -> Arc<Self> {
        Arc::new(Self {
            epoch: clock.now(),
            clock,
            reach,
            renewed: AtomicU64::new(0),
            in_flight: TaskTracker::new(),
        })
    }

    /// Records a renewal by a call that began at `start`. Does nothing if the fence is shut.
    pub(crate) fn renewed(&self, start: Instant) {
        let since = start.saturating_duration_since(self.epoch).as_nanos();
        let since = u64::try_from(since).unwrap_or(SHUT - 2).min(SHUT - 2) + 1;
        // The maximum, so that neither a late answer nor a renewal after `shut` changes anything.
        self.renewed.fetch_max(since, Ordering::AcqRel);
    }

    /// Refuses all further writes, for ever.
    pub(crate) fn shut(&self) {
        self.renewed.store(SHUT, Ordering::Release);
        self.in_flight.close();
    }

    /// Waits until every write in flight has ended. Each has a deadline. Call [`Fence::shut`] first.
    pub(crate) async fn emptied(&self) {
        self.in_flight.wait().await;
    }

    /// Lets a write start.
    ///
    /// # Errors
    /// [`Refused`]: the last renewal is too long ago, or there was none.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Pass, Refused> {
        // Counted before the check, so that `emptied` after `shut` misses no write.
        let in_flight = self.in_flight.token();
        let begun = self.open_since()?;
        Ok(Pass {
            fence: self.clone(),
            until: begun + self.reach.land,
            _in_flight: in_flight,
        })
    }

    /// The beginning of the renewal that keeps the fence open now.
    fn open_since(&self) -> Result<Instant, Refused> {
        let begun = match self.renewed.load(Ordering::Acquire) {
            0 | SHUT => return Err(Refused),
            since => self.epoch + Duration::from_nanos(since - 1),
        };
        if self.clock.now() < begun + self.reach.send {
            Ok(begun)
        } else {
            Err(Refused)
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence")
            .field("open", &self.open_since().is_ok())
            .finish_non_exhaustive()
    }
}

/// Permission to send one write, held until the write has ended.
#[derive(Debug, Clone)]
pub(crate) struct Pass {
    fence: Arc<Fence>,
    /// When the write must have ended.
    until: Instant,
    _in_flight: TaskTrackerToken,
}

impl Pass {
    /// The time that is left for the write.
    pub(crate) fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(self.fence.clock.now())
    }

    /// Whether the write may still be sent. Called when its bytes go out.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.time_left().is_zero() {
            return Err(Refused);
        }
        self.fence.open_since().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hand;

    const SECOND: Duration = Duration::from_secs(1);
    const REACH: Reach = Reach {
        send: Duration::from_secs(10),
        land: Duration::from_secs(14),
    };

    fn fence() -> (Hand, Arc<Fence>) {
        let hand = Hand::new();
        (hand.clone(), Fence::new(hand.clock(), REACH))
    }

    #[test]
    fn nothing_passes_before_the_first_renewal() {
        let (_, fence) = fence();
        assert_eq!(fence.enter().err(), Some(Refused));
    }

    #[test]
    fn a_write_passes_while_the_renewal_is_fresh_and_must_land_before_the_lease_ends() {
        let (hand, fence) = fence();
        let start = hand.now();
        hand.advance(SECOND);
        fence.renewed(start);
        let pass = fence.enter().unwrap();
        assert_eq!(pass.time_left(), 13 * SECOND, "counted from the start");
        hand.advance(8 * SECOND);
        assert!(pass.check().is_ok() && fence.enter().is_ok());
        hand.advance(SECOND);
        assert!(pass.check().is_err() && fence.enter().is_err());
    }

    #[test]
    fn a_write_that_slept_through_its_lease_is_refused_even_when_the_lease_was_renewed_since() {
        let (hand, fence) = fence();
        fence.renewed(hand.now());
        let pass = fence.enter().unwrap();
        hand.advance(60 * SECOND);
        fence.renewed(hand.now());
        assert!(fence.enter().is_ok());
        assert_eq!(pass.check(), Err(Refused));
    }

    #[test]
    fn a_late_answer_moves_nothing_back() {
        let (hand, fence) = fence();
        let early = hand.now();
        hand.advance(5 * SECOND);
        fence.renewed(hand.now());
        fence.renewed(early);
        hand.advance(7 * SECOND);
        assert!(fence.enter().is_ok());
    }

    #[tokio::test]
    async fn once_shut_it_stays_shut_and_waits_for_writes_in_flight() {
        let (hand, fence) = fence();
        fence.renewed(hand.now());
        let pass = fence.enter().unwrap();
        fence.shut();
        fence.renewed(hand.now() + SECOND);
        assert!(fence.enter().is_err() && pass.check().is_err());
        let emptied = fence.emptied();
        tokio::pin!(emptied);
        assert!(futures::poll!(&mut emptied).is_pending());
        drop(pass);
        emptied.await;
    }
}
