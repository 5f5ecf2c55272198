//! A thread, as the system sees it: what it gives way to, and what it has computed. Entry point: [`Thread`].

use std::time::Duration;

/// How much a thread stands back behind the others of this process where processors are short.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Standing {
    /// Guests': the others compute little, and what they do is waited for by every guest.
    Guest,
    /// A compiler's, which computes for seconds, for one guest.
    Compiler,
    /// Of what only those wait for who made it necessary: it has a processor while nobody else wants it.
    Last,
}

impl Standing {
    /// As `nice` counts.
    #[cfg(target_os = "linux")]
    fn nice(self) -> i32 {
        match self {
            Self::Guest => 5,
            Self::Compiler => 10,
            Self::Last => 15,
        }
    }
}

/// How many threads may compute for guests beside what has to go on meanwhile: watches, transport, leases, probes.
pub(crate) fn all_but_one() -> usize {
    (processors() - 1).max(1)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Lowers the priority of the thread that calls it. Where the system does not allow it, all threads are equal.
pub(crate) fn stand_back(standing: Standing) {
    #[cfg(target_os = "linux")]
    if let Err(error) = stand_back_on_linux(standing) {
        tracing::debug!(error = %error, ?standing, "a thread has the priority of all others");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = standing;
}

/// `nice` alone is not enough for what stays in the kernel for milliseconds: Linux lets a thread finish its slice before one that was
/// woken, unless the thread's policy is `SCHED_IDLE` (sched(7)). Such a thread may get next to nothing of a processor that guests
/// keep busy, so there has to be one that they leave.
#[cfg(target_os = "linux")]
fn stand_back_on_linux(standing: Standing) -> rustix::io::Result<()> {
    use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
    if matches!(standing, Standing::Last) && processors() > all_but_one() {
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        let thread = thread_priority::thread_native_id();
        match thread_priority::set_thread_priority_and_policy(thread, ThreadPriority::Min, idle) {
            Ok(()) => return Ok(()),
            Err(error) => tracing::debug!(%error, "no thread runs only when processors are idle"),
        }
    }
    rustix::process::setpriority_process(None, standing.nice())
}

/// A thread of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thread {
    #[cfg(target_os = "linux")]
    id: i32,
}

impl Thread {
    /// The one that calls it.
    pub(crate) fn current() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            id: rustix::thread::gettid().as_raw_nonzero().get(),
        }
    }

    /// Time of a processor that it has had. `None`: it is gone, or the system does not tell.
    #[cfg(target_os = "linux")]
    pub(crate) fn processor_time(self) -> Option<Duration> {
        /// What the number of a thread's clock of processor time ends with, in Linux.
        const CLOCK: i32 = 0b110;
        let clock = nix::time::ClockId::from_raw(!self.id << 3 | CLOCK);
        nix::time::clock_gettime(clock).ok().map(Duration::from)
    }

    /// Time of a processor that it has had. `None`: it is gone, or the system does not tell.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn processor_time(self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;

    /// A thread that does something until it is told to end, and how to tell it.
    fn thread(work: fn()) -> (Thread, mpsc::Sender<()>) {
        let (tell, told) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        std::thread::spawn(move || {
            tell.send(Thread::current()).unwrap();
            while ends.try_recv() == Err(mpsc::TryRecvError::Empty) {
                work();
            }
        });
        (told.recv().unwrap(), end)
    }

    #[test]
    fn what_another_thread_has_computed_can_be_told() {
        const MUCH: Duration = Duration::from_millis(20);
        if !cfg!(target_os = "linux") {
            return;
        }
        let (computes, _end) = thread(std::hint::spin_loop);
        let (waits, _end) = thread(|| std::thread::park_timeout(MUCH));
        let began = Instant::now();
        while computes.processor_time().unwrap() < MUCH {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        assert!(waits.processor_time().unwrap() < MUCH);
    }
}
