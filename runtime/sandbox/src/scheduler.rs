//! Runs guests' calls on processors, fairly by tenant. Entry point: [`Scheduler::spawn`].
//!
//! Each call is a task. There is one [run queue](run_queue). A worker takes the next task, polls it once, and charges the time of
//! the poll, which is a *slice*, to the tenant. A [ticker](threads) ends a slice that is a *tick* old, a millisecond: it moves the
//! engine's epoch, the guest yields, and its task goes back into the queue.
//!
//! A slice is *stuck* if its guest has not yielded at the third tick: the guest is in an operation that cannot be interrupted, or the
//! system has given the processor to others. A spare worker goes on in its place. Further ticks follow, a millisecond apart, until it ends: its
//! guest may begin only now.
//!
//! Invariants:
//! * At most as many slices run at once as there are processors for guests; slices that are stuck do not count.
//! * A tenant with a stuck slice gets no other slice until the stuck one ends.
//! * No thread wakes up while no call computes.
//!
//! Cost: a slice takes three locks of one mutex, three readings of the clock and one of the worker's processor time. A call that finds
//! all workers asleep wakes one of them, and sets the alarm of the ticker. The worker clears it before it sleeps: a burst that ends
//! before its first tick wakes no other thread.
//!
//! Not guaranteed:
//! * The scheduler does not bound how long an operation takes that cannot be interrupted. `docs/limits.md` names the bound.
//! * There are as many spare workers as processors for guests, at least four. When all of them are stuck too, tasks wait.

pub(crate) mod priority;
mod alarm;
mod run_queue;
mod state;
mod threads;

use crate::options::TICK;
use crate::tenant::context::GuestContext;
use crate::tenant::usage::Limit;
use async_task::FallibleTask;
use run_queue::Ticket;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use threads::Shared;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::Instrument as _;
use wasmtime::Engine;

/// Fewest spare workers.
const FEWEST_SPARE: usize = 4;

/// The workers and their run queue. Dropped, it drops the tasks that wait, and its threads end.
#[derive(Debug)]
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    /// Whether each call is polled where it is spawned, and not by workers.
    in_place: bool,
}

impl Scheduler {
    /// Starts the threads, with this many processors for guests, at least one. A slice ends when it is so old.
    ///
    /// # Errors
    /// When the system gives no threads, or no timer.
    pub(crate) fn start(
        engine: &Engine,
        processors: usize,
        slice: Duration,
    ) -> std::io::Result<Self> {
        let width = processors.max(1);
        let workers = width + width.max(FEWEST_SPARE);
        let shared = Arc::new(Shared::new(engine.clone(), width, workers, slice)?);
        let scheduler = Self {
            shared: shared.clone(),
            in_place: false,
        };
        threads::start(&shared, workers)?;
        Ok(scheduler)
    }

    /// Without threads: tasks of the runtime poll the calls, and nothing ends a slice.
    ///
    /// # Errors
    /// When the system gives no timer.
    pub(crate) fn in_place(engine: &Engine) -> std::io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared::new(engine.clone(), 1, 0, TICK)?),
            in_place: true,
        })
    }

    /// How many slices have begun, while tasks wait for theirs.
    pub(crate) fn backlog(&self) -> Option<u64> {
        self.shared.backlog()
    }

    /// Begins a call of a guest, whose time adds to `time`. `loading`: before other calls of its tenant.
    ///
    /// # Panics
    /// Outside of a tokio runtime: the call's timers and I/O are those of the runtime that it is spawned from.
    pub(crate) fn spawn<F>(
        &self,
        guest: &Arc<GuestContext>,
        loading: bool,
        time: Arc<ProcessorTime>,
        call: F,
    ) -> Spawned<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let account = Arc::new(Account {
            guest: guest.clone(),
            loading,
            time,
            runtime: Handle::current(),
            state: parking_lot::Mutex::new(TaskState::Waiting),
        });
        let (shared, in_place) = (self.shared.clone(), self.in_place);
        let schedule = move |task: state::Task| {
            if in_place {
                let runtime = task.metadata().runtime.clone();
                runtime.spawn(async { threads::poll(task) });
            } else {
                shared.push(task);
            }
        };
        let call = call.in_current_span();
        let (task, handle) = async_task::Builder::new()
            .propagate_panic(true)
            .metadata(account.clone())
            .spawn(|_| call, schedule);
        task.schedule();
        Spawned {
            task: handle.fallible(),
            queued: Queued {
                shared: self.shared.clone(),
                account,
            },
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// A call that is ready, runs or waits. Dropped before its end, the call is dropped, at the end of its slice if it has one.
#[derive(Debug)]
pub(crate) struct Spawned<T> {
    /// Dropped first: a call that waits is made ready by that.
    task: FallibleTask<T, Arc<Account>>,
    queued: Queued,
}

/// A task that leaves the run queue when this is dropped.
#[derive(Debug)]
struct Queued {
    shared: Arc<Shared>,
    account: Arc<Account>,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.shared.remove(&self.account);
    }
}

/// What a call did when its time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// It was ready to run, and other calls ran.
    Ready,
    /// It waited for something that the host does for it.
    Waiting,
}

impl<T> Spawned<T> {
    /// The call's result, or what the call did at its deadline. A call that runs then is waited for until its slice ends.
    ///
    /// # Panics
    /// When the call panicked.
    pub(crate) async fn until(mut self, deadline: Instant) -> Result<T, Unfinished> {
        let mut ended = pin!(async {
            match (&mut self.task).await {
                Some(result) => result,
                // The scheduler has ended, and its calls with it.
                None => std::future::pending().await,
            }
        });
        let mut until = deadline;
        loop {
            if let Ok(result) = tokio::time::timeout_at(until, &mut ended).await {
                return Ok(result);
            }
            match *self.queued.account.state.lock() {
                TaskState::Ready(_) => return Err(Unfinished::Ready),
                TaskState::Waiting => return Err(Unfinished::Waiting),
                TaskState::Running(_) => until = Instant::now() + TICK,
            }
        }
    }
}

/// What is known of a task.
#[derive(Debug)]
struct Account {
    guest: Arc<GuestContext>,
    loading: bool,
    time: Arc<ProcessorTime>,
    runtime: Handle,
    /// Changes only while the scheduler's state is locked.
    state: parking_lot::Mutex<TaskState>,
}

/// Where a task is.
#[derive(Debug, Clone, Copy)]
enum TaskState {
    /// In the run queue.
    Ready(Ticket),
    /// This worker polls it.
    Running(usize),
    /// It is to be woken, or has ended.
    Waiting,
}

impl Account {
    /// The task's place in the run queue, if it has one.
    fn ticket(&self) -> Option<Ticket> {
        match *self.state.lock() {
            TaskState::Ready(ticket) => Some(ticket),
            TaskState::Running(_) | TaskState::Waiting => None,
        }
    }

    /// Its slice has ended. A task that was woken meanwhile is ready already, or another worker polls it.
    fn leave_worker(&self, worker: usize) {
        let mut state = self.state.lock();
        if matches!(*state, TaskState::Running(at) if at == worker) {
            *state = TaskState::Waiting;
        }
    }

    /// Counts a stuck slice if its guest computed for so long beyond its first tick.
    fn count_if_stuck(&self, computed: Duration) {
        if computed >= TICK * (state::STUCK - 1) {
            self.guest.hit(Limit::Slice);
            tracing::debug!(tenant = %self.guest.tenant.name(), reconciler = %self.guest.name, ?computed, "a slice could not be ended in time");
        }
    }

    /// Counts a slice.
    fn charge(&self, used: Duration) {
        self.time.add(used);
        self.guest.tenant.computed(used);
        self.guest.usage().computed_for(used);
    }
}

/// The processor time of one call.
#[derive(Debug, Default)]
pub(crate) struct ProcessorTime {
    nanoseconds: AtomicU64,
    /// Whether the slice under way is to end. Set by the ticker before it moves the epoch, taken back when a slice begins.
    is_over: AtomicBool,
}

impl ProcessorTime {
    /// What the call has computed up to its last slice. A slice is billed at most one tick: the rest was preemption or an operation
    /// that cannot be interrupted.
    pub(crate) fn used(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// Counts a slice.
    pub(crate) fn add(&self, slice: Duration) {
        let billed = crate::tenant::usage::nanoseconds(slice.min(TICK));
        self.nanoseconds.fetch_add(billed, Ordering::Relaxed);
    }

    /// Whether the guest is to yield now.
    pub(crate) fn is_slice_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
