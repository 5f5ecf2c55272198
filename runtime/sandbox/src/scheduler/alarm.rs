//! What wakes the ticker. Entry point: [`Alarm::new`].
//!
//! Most slices end before their first tick. On Linux no thread wakes up when the alarm is set for such a slice, and cleared again.

use std::io;
use std::time::Duration;

pub(super) use timer::Alarm;

#[cfg(target_os = "linux")]
mod timer {
    use super::{Duration, io};
    use rustix::fd::OwnedFd;
    use rustix::io::{Errno, read};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    /// Any thread sets it, one waits for it.
    #[derive(Debug)]
    pub(in super::super) struct Alarm(OwnedFd);

    impl Alarm {
        /// # Errors
        /// When this process may have no further descriptor.
        pub(in super::super) fn new() -> io::Result<Self> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
            Ok(Self(timer))
        }

        /// Goes off after this time, whatever was set before.
        pub(in super::super) fn set(&self, after: Duration) {
            self.arm(after.max(Duration::from_nanos(1))); // zero clears
        }

        /// Does not go off any more.
        pub(in super::super) fn clear(&self) {
            self.arm(Duration::ZERO);
        }

        fn arm(&self, after: Duration) {
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec::try_from(after).unwrap_or_default(),
            };
            if let Err(error) = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once) {
                tracing::error!(%error, "guests are not interrupted: a timer of the system cannot be set");
            }
        }

        /// Waits until it goes off.
        pub(in super::super) fn wait(&self) {
            let mut times = [0; size_of::<u64>()];
            while read(&self.0, &mut times) == Err(Errno::INTR) {}
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod timer {
    use super::{Duration, io};
    use parking_lot::{Condvar, Mutex};
    use std::time::Instant;

    /// Any thread sets it, one waits for it.
    #[derive(Debug, Default)]
    pub(in super::super) struct Alarm {
        at: Mutex<Option<Instant>>,
        changed: Condvar,
    }

    impl Alarm {
        pub(in super::super) fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        /// Goes off after this time, whatever was set before.
        pub(in super::super) fn set(&self, after: Duration) {
            *self.at.lock() = Instant::now().checked_add(after);
            self.changed.notify_one();
        }

        /// Does not go off any more.
        pub(in super::super) fn clear(&self) {
            *self.at.lock() = None;
        }

        /// Waits until it goes off.
        pub(in super::super) fn wait(&self) {
            let mut at = self.at.lock();
            while at.is_none_or(|at| at > Instant::now()) {
                match *at {
                    Some(until) => drop(self.changed.wait_until(&mut at, until)),
                    None => self.changed.wait(&mut at),
                }
            }
            *at = None;
        }
    }
}
