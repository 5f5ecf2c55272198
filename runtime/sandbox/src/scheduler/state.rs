//! Which slices run, and which are stuck: the scheduler without its threads. Entry points: [`State::begin`], [`State::end`] and
//! [`State::tick`].

use super::run_queue::{Owner, RunQueue, Slice};
use super::{Account, TICK, TaskState};
use async_task::Runnable;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Ticks after which a slice is stuck. It should have ended at the first one.
pub(super) const STUCK: u32 = 3;

pub(super) type Task = Runnable<Arc<Account>>;

/// The run queue and the workers' slices.
#[derive(Debug)]
pub(super) struct State {
    queue: RunQueue<Ready>,
    /// By worker.
    slices: Vec<Option<UnderWay>>,
    /// Slices under way that are not stuck. At most `width`.
    running: usize,
    width: usize,
    /// From one tick to the next.
    tick: Duration,
    /// Workers that sleep, the one that fell asleep last at the end.
    pub(super) idle: Vec<usize>,
    /// Workers that were woken and have not looked for a task yet: no other worker is woken for that task.
    pub(super) waking: usize,
    /// Slices so far.
    begun: u64,
    /// No task is taken in any more.
    pub(super) closed: bool,
    /// No alarm is set for the ticker: no slice is under way.
    pub(super) ticker_sleeps: bool,
}

#[derive(Debug)]
struct Ready {
    task: Task,
    since: Instant,
}

/// A slice that has begun and not ended.
#[derive(Debug)]
struct UnderWay {
    slice: Slice,
    account: Arc<Account>,
    began: Instant,
    /// Ticks that its guest was given to yield at, up to [`STUCK`].
    ticks: u32,
    /// When the first tick came.
    first_tick: Option<Instant>,
    /// When the next tick is due: a tick after the last one, however late that was, so that the guest has time to yield.
    next_tick: Instant,
}

/// What a tick has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ticked {
    /// A guest is to yield.
    pub(super) expired: bool,
    /// Workers that were found stuck.
    pub(super) stuck: usize,
    /// When a slice under way will be a tick older. `None`: none is under way.
    pub(super) next: Option<Instant>,
}

impl State {
    pub(super) fn new(width: usize, workers: usize, tick: Duration) -> Self {
        Self {
            queue: RunQueue::new(TICK),
            slices: (0..workers).map(|_| None).collect(),
            running: 0,
            width,
            tick,
            idle: Vec::with_capacity(workers),
            waking: 0,
            begun: 0,
            closed: false,
            ticker_sleeps: true,
        }
    }

    /// Whether one more slice may run.
    pub(super) fn has_free(&self) -> bool {
        self.running < self.width
    }

    /// Whether a sleeping worker is needed: for a task, or to wait until a tenant's cap lets its tasks run.
    pub(super) fn needs_worker(&self) -> bool {
        let wanted = self.queue.has_ready() || self.queue.next_release().is_some();
        wanted && self.running + self.waking < self.width
    }

    /// Whether no slice is under way.
    pub(super) fn is_still(&self) -> bool {
        self.slices.iter().all(Option::is_none)
    }

    /// From the beginning of a slice to its first tick.
    pub(super) fn tick_length(&self) -> Duration {
        self.tick
    }

    /// How many slices have begun, while tasks wait for theirs.
    pub(super) fn backlog(&self) -> Option<u64> {
        self.queue.has_ready().then_some(self.begun)
    }

    /// Takes in a task that is ready to run.
    pub(super) fn push(&mut self, task: Task, now: Instant) {
        let account = task.metadata().clone();
        let tenant = &account.guest.tenant;
        let owner = Owner {
            tenant: tenant.name(),
            weight: tenant.weight(),
            cap: tenant.processors(),
            first: account.loading,
        };
        let ready = Ready { task, since: now };
        *account.state.lock() = TaskState::Ready(self.queue.push(&owner, ready, now));
    }

    /// Takes a task out again that has not begun its slice.
    pub(super) fn remove(&mut self, account: &Account, now: Instant) -> Option<Task> {
        let ticket = account.ticket()?;
        *account.state.lock() = TaskState::Waiting;
        let tenant = account.guest.tenant.name();
        let ready = self.queue.remove(tenant, ticket, now)?;
        Some(ready.task)
    }

    /// Takes all tasks out that have not begun their slices.
    pub(super) fn drain(&mut self) -> Vec<Task> {
        let ready = self.queue.drain().into_iter();
        ready.map(|ready| ready.task).collect()
    }

    /// Begins the slice of the task that is next, if there is one and it may run now.
    pub(super) fn begin(&mut self, worker: usize, now: Instant) -> Option<Task> {
        if !self.has_free() {
            return None;
        }
        let (Ready { task, since }, slice) = self.queue.pop(now)?;
        let account = task.metadata().clone();
        *account.state.lock() = TaskState::Running(worker);
        account.time.is_over.store(false, Ordering::Release);
        let waited = now.saturating_duration_since(since);
        account.guest.usage().waited_for(waited);
        self.running += 1;
        self.begun += 1;
        self.slices[worker] = Some(UnderWay {
            slice,
            account,
            began: now,
            ticks: 0,
            first_tick: None,
            next_tick: now + self.tick,
        });
        Some(task)
    }

    /// Ends a worker's slice. `computed` is the processor time that the worker had meanwhile, `None` where the system does not tell.
    pub(super) fn end(&mut self, worker: usize, now: Instant, computed: Option<Duration>) {
        let Some(ended) = self.slices[worker].take() else {
            return;
        };
        let used = now.saturating_duration_since(ended.began);
        if ended.is_stuck() {
            // If the system gave the processor to others meanwhile, or the ticker was late, that is not the guest's doing.
            let before = ended.first_tick.map_or(used, |tick| tick - ended.began);
            let beyond = computed.unwrap_or(used).saturating_sub(before);
            ended.account.count_if_stuck(beyond);
        } else {
            self.running -= 1;
        }
        ended.account.leave_worker(worker);
        ended.account.charge(used);
        self.queue.end(ended.slice, used, now);
    }

    /// Ends the slices that are a tick old, and lets other workers go on in place of those that are stuck. These get further ticks: a guest that
    /// had no processor while its first ones passed has not seen them.
    pub(super) fn tick(&mut self, now: Instant) -> Ticked {
        let mut ticked = Ticked::default();
        for under_way in self.slices.iter_mut().flatten() {
            if now >= under_way.next_tick {
                under_way.first_tick.get_or_insert(now);
                under_way.next_tick = now + self.tick;
                under_way
                    .account
                    .time
                    .is_over
                    .store(true, Ordering::Release);
                ticked.expired = true;
                if under_way.is_found_stuck() {
                    self.queue.hold(&mut under_way.slice, now);
                    self.running -= 1;
                    ticked.stuck += 1;
                }
            }
            let next = under_way.next_tick;
            ticked.next = Some(
                ticked
                    .next
                    .map_or(next, |earlier: Instant| earlier.min(next)),
            );
        }
        ticked
    }

    /// How long a worker without a task may sleep. `None`: until a task is pushed or a slice ends.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.queue.next_release().filter(|_| self.has_free())
    }
}

impl UnderWay {
    /// Counts a tick. Whether it is the one by which the slice is stuck.
    fn is_found_stuck(&mut self) -> bool {
        let was_stuck = self.is_stuck();
        self.ticks = (self.ticks + 1).min(STUCK);
        self.is_stuck() && !was_stuck
    }

    fn is_stuck(&self) -> bool {
        self.ticks >= STUCK
    }
}
