//! The threads that guests run on, apart from those of watches, transport, leases and admin, so that busy guests never delay
//! these. Entry point: [`GuestRuntime`].

use crate::share::Aside;
use tokio::runtime::{Builder, Handle, Runtime};

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

/// A tokio runtime for guests alone. Hand its [`handle`](Self::handle) to the manager as its reconcile runtime.
///
/// Dropped, it abandons what still runs; it may be dropped anywhere, also inside another runtime.
#[derive(Debug)]
pub struct GuestRuntime {
    /// Present until dropped.
    runtime: Option<Runtime>,
}

impl GuestRuntime {
    /// Starts the threads; `None`: one for each processor but one, at least one, as [`crate::Options::processors`] has calls compute.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(threads: Option<usize>) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.unwrap_or_else(all_but_one).max(1))
            .thread_name("windlass-guest")
            .on_thread_start(|| {
                stand_back(Standing::Guest);
                Aside::begin();
            })
            .on_thread_park(Aside::rest)
            // A guest computes for a millisecond between two looks: by the defaults a new call would wait for dozens of them.
            .global_queue_interval(1)
            .event_interval(4)
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
        })
    }

    /// Where guests' calls are to be spawned.
    ///
    /// # Panics
    /// Never: the runtime is there until `self` is dropped.
    #[must_use]
    #[expect(clippy::expect_used, reason = "taken only by drop")]
    pub fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("there until dropped").handle()
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

impl Drop for GuestRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
