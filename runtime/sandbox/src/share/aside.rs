//! Threads that guests compute on, and those that the system has put behind them. Entry point: [`Aside::look`].

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time of a processor after which a thread lets those come first that wait for it.
const LONG: Duration = Duration::from_micros(500);
/// How long it lets them. A timer that is over before the thread has left its processor lets nobody come first: one of 5 µs often is.
const REST: Duration = Duration::from_micros(20);
/// Timer slack, in nanoseconds; the default of 50 µs would be a tenth of [`LONG`].
#[cfg(target_os = "linux")]
const SLACK: Option<std::num::NonZeroU64> = std::num::NonZeroU64::new(1000);

thread_local! {
    static BUSY: Cell<Option<Busy>> = const { Cell::new(None) };
}

/// Since when a thread has computed without a rest.
#[derive(Debug, Clone, Copy)]
struct Busy {
    /// When it was looked at last.
    at: Instant,
    /// Time of a processor that it had had then. `None`: that was not asked for, which takes longer than to rest for nothing.
    had: Option<Duration>,
}

/// A thread that guests compute on, as it is now.
pub(crate) struct Aside;

impl Aside {
    /// Makes the rests of the thread that calls it short.
    pub(crate) fn begin() {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::thread::set_current_timer_slack(SLACK) {
            tracing::debug!(%error, "guests' threads rest for longer than they have to");
        }
    }

    /// Lets threads of watches, transport and leases come first when this one has computed for long.
    ///
    /// Linux may have a thread that is woken wait on the processor of the one that woke it while another processor is idle (on a virtual
    /// machine it takes idle ones for busy), and does not interrupt what computes there before its slice of some milliseconds is over,
    /// whatever its priority. The thread rests for some microseconds then, and does not yield: who yields stands back behind all other
    /// programs for milliseconds.
    ///
    /// Returns whether it did, and time has passed.
    pub(super) fn look(now: Instant) -> bool {
        let Some(busy) = BUSY.get() else {
            let had = None;
            BUSY.set(Some(Busy { at: now, had }));
            return false;
        };
        if now - busy.at < LONG {
            return false;
        }
        let Some(had) = processor_time() else {
            return false;
        };
        let computed = busy.had.map(|before| had.saturating_sub(before));
        if computed.is_some_and(|computed| computed < LONG) {
            return false; // it waited itself meanwhile, for other programs
        }
        std::thread::sleep(REST);
        let had = Some(had);
        BUSY.set(Some(Busy { at: now, had }));
        true
    }

    /// The thread waits for something to do.
    pub(crate) fn rest() {
        BUSY.set(None);
    }
}

/// Time of a processor that this thread has had.
#[cfg(target_os = "linux")]
fn processor_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).ok()
}

/// None, so that the thread never rests: what it rests for is Linux' doing.
#[cfg(not(target_os = "linux"))]
fn processor_time() -> Option<Duration> {
    None
}
