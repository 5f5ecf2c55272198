//! A clock that runs while the machine sleeps and that nobody can set. Entry point: [`Clock::now`].

use std::time::Instant;

/// The clock for leases. The wall clock jumps, and the usual monotonic clock stops while the machine is suspended. So on Linux this is
/// `CLOCK_BOOTTIME`, elsewhere the usual monotonic clock.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    /// A time of the usual clock, plus what the boot clock has advanced since.
    Machine(boot::Since),
    #[cfg(test)]
    Hand(Hand),
}

impl Clock {
    /// The machine's clock.
    pub(crate) fn machine() -> Self {
        Self(Source::Machine(boot::Since::now()))
    }

    /// The time. Only differences are meaningful.
    pub(crate) fn now(&self) -> Instant {
        match &self.0 {
            Source::Machine(since) => since.time(),
            #[cfg(test)]
            Source::Hand(hand) => hand.now(),
        }
    }
}

#[cfg(target_os = "linux")]
mod boot {
    use rustix::time::{ClockId, clock_gettime};
    use std::time::{Duration, Instant};

    #[derive(Debug, Clone)]
    pub(crate) struct Since {
        anchor: Instant,
        boot: Duration,
    }

    impl Since {
        pub(crate) fn now() -> Self {
            Self {
                anchor: Instant::now(),
                boot: uptime(),
            }
        }

        pub(crate) fn time(&self) -> Instant {
            self.anchor + uptime().saturating_sub(self.boot)
        }
    }

    /// Time since the machine was booted, sleep included.
    fn uptime() -> Duration {
        let time = clock_gettime(ClockId::Boottime);
        let part = |part: i64| u64::try_from(part).unwrap_or_default();
        Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
    }
}

#[cfg(not(target_os = "linux"))]
mod boot {
    use std::time::Instant;

    #[derive(Debug, Clone)]
    pub(crate) struct Since;

    impl Since {
        pub(crate) fn now() -> Self {
            Self
        }

        pub(crate) fn time(&self) -> Instant {
            Instant::now()
        }
    }
}

/// A clock that a test moves by hand.
#[cfg(test)]
#[derive(Debug, Clone)]
pub(crate) struct Hand(std::sync::Arc<parking_lot::Mutex<Instant>>);

#[cfg(test)]
impl Hand {
    pub(crate) fn new() -> Self {
        Self(std::sync::Arc::new(parking_lot::Mutex::new(Instant::now())))
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock(Source::Hand(self.clone()))
    }

    pub(crate) fn now(&self) -> Instant {
        *self.0.lock()
    }

    pub(crate) fn advance(&self, by: std::time::Duration) {
        *self.0.lock() += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_machines_clock_goes_with_the_usual_one_while_the_machine_is_awake() {
        let clock = Clock::machine();
        let (usual, ours) = (Instant::now(), clock.now());
        while clock.now() < ours + Duration::from_millis(20) {
            assert!(usual.elapsed() < Duration::from_secs(5), "it stands still");
            std::thread::yield_now();
        }
        let (usual, ours) = (usual.elapsed(), clock.now() - ours);
        assert!(ours.abs_diff(usual) < Duration::from_secs(5));
    }
}
