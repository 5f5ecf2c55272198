//! Priority and processor time of threads, as the operating system has them. Entry point: [`lower_priority`], which lowers a priority.

use std::time::Duration;

/// The priority of a thread beside the others of this process when processors are short.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Priority {
    /// Guests': the others compute little, and what they do is waited for by every guest.
    Guest,
    /// A compiler's, which computes for seconds, for one guest.
    Compiler,
    /// For work that only its own tenant waits for: it gets a processor while nothing else needs one.
    Last,
}

impl Priority {
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

/// How many threads the machine runs at once.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Lowers the priority of the thread that calls it. Where the system does not allow it, all threads are equal.
pub(crate) fn lower_priority(priority: Priority) {
    #[cfg(target_os = "linux")]
    if let Err(error) = lower_priority_on_linux(priority) {
        tracing::debug!(error = %error, ?priority, "a thread has the priority of all others");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = priority;
}

/// `nice` alone is not enough for what stays in the kernel for milliseconds: Linux lets a thread finish its slice before one that was
/// woken, unless the thread's policy is `SCHED_IDLE` (sched(7)). Such a thread may get next to nothing of a processor that guests
/// keep busy, so there has to be one that they leave.
#[cfg(target_os = "linux")]
fn lower_priority_on_linux(priority: Priority) -> rustix::io::Result<()> {
    use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
    if matches!(priority, Priority::Last) && processors() > all_but_one() {
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        let thread = thread_priority::thread_native_id();
        match thread_priority::set_thread_priority_and_policy(thread, ThreadPriority::Min, idle) {
            Ok(()) => return Ok(()),
            Err(error) => tracing::debug!(%error, "no thread runs only when processors are idle"),
        }
    }
    rustix::process::setpriority_process(None, priority.nice())
}

/// The processor time that the thread that calls this has had. `None`: the system does not tell.
pub(crate) fn processor_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()
    }
    #[cfg(not(target_os = "linux"))]
    None
}
