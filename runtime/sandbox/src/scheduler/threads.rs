//! The threads of the scheduler: workers, which poll tasks, and the ticker, which ends slices. Entry point: [`start`].

use super::Account;
use super::alarm::Alarm;
use super::state::{State, Task};
use crate::scheduler::priority::{Priority, lower_priority, processor_time};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use wasmtime::Engine;

/// What the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    engine: Engine,
    state: Mutex<State>,
    /// By worker: there may be a task for it.
    work: Vec<Condvar>,
    /// The ticker is to look at the slices. Set while one is under way.
    alarm: Alarm,
}

/// Starts the workers and the ticker. They end once it is [closed](Shared::close).
///
/// # Errors
/// When the system gives no threads.
pub(super) fn start(shared: &Arc<Shared>, workers: usize) -> std::io::Result<()> {
    for worker in 0..workers {
        let shared = shared.clone();
        spawn("windlass-guest", move || {
            lower_priority(Priority::Guest);
            shared.work(worker);
        })?;
    }
    let shared = shared.clone();
    spawn("windlass-ticker", move || shared.tick())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map(drop)
}

impl Shared {
    /// # Errors
    /// When the system gives no timer.
    pub(super) fn new(
        engine: Engine,
        width: usize,
        workers: usize,
        slice: Duration,
    ) -> std::io::Result<Self> {
        Ok(Self {
            engine,
            state: Mutex::new(State::new(width, workers, slice)),
            work: (0..workers).map(|_| Condvar::new()).collect(),
            alarm: Alarm::new()?,
        })
    }

    /// Takes in a task that is ready to run. Dropped once the scheduler is closed.
    pub(super) fn push(&self, task: Task) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return drop(task);
        }
        state.push(task, Instant::now());
        self.wake_worker(&mut state);
    }

    /// Drops a task that has not begun its slice. One that is polled just now is dropped by its worker if its owner has given it up.
    pub(super) fn remove(&self, account: &Account) {
        if account.ticket().is_none() {
            return;
        }
        let removed = self.state.lock().remove(account, Instant::now());
        drop(removed); // not under the lock: a call is dropped with its task
    }

    pub(super) fn backlog(&self) -> Option<u64> {
        self.state.lock().backlog()
    }

    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let left = state.drain();
        drop(state);
        for worker in &self.work {
            worker.notify_one();
        }
        self.alarm.set(Duration::ZERO);
        drop(left);
    }

    #[cfg(test)]
    pub(super) fn ticker_sleeps(&self) -> bool {
        self.state.lock().ticker_sleeps
    }

    fn work(&self, worker: usize) {
        // Between two slices a worker computes next to nothing: one reading ends a slice and begins the next one.
        let mut before = processor_time();
        let mut state = self.state.lock();
        while !state.closed {
            let Some(task) = state.begin(worker, Instant::now()) else {
                self.wait_for_work(worker, &mut state);
                continue;
            };
            if std::mem::take(&mut state.ticker_sleeps) {
                self.alarm.set(state.tick_length());
            }
            self.wake_worker(&mut state); // several tasks may have waited for a stuck slice or a cap
            MutexGuard::unlocked(&mut state, || poll(task));
            let after = processor_time();
            let computed = after
                .zip(before)
                .map(|(after, before)| after.saturating_sub(before));
            before = after;
            state.end(worker, Instant::now(), computed);
        }
    }

    fn wait_for_work(&self, worker: usize, state: &mut MutexGuard<'_, State>) {
        if !state.ticker_sleeps && state.is_still() {
            self.alarm.clear();
            state.ticker_sleeps = true;
        }
        state.idle.push(worker);
        match state.next_release() {
            Some(at) => drop(self.work[worker].wait_until(state, at)),
            None => self.work[worker].wait(state),
        }
        match state.idle.iter().position(|idle| *idle == worker) {
            Some(at) => drop(state.idle.remove(at)),
            None => state.waking -= 1,
        }
    }

    /// Wakes a worker if one is needed: the one that fell asleep last, which has the warmest caches.
    fn wake_worker(&self, state: &mut State) {
        if state.needs_worker()
            && let Some(worker) = state.idle.pop()
        {
            state.waking += 1;
            self.work[worker].notify_one();
        }
    }

    fn tick(&self) {
        loop {
            self.alarm.wait();
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            let now = Instant::now();
            let ticked = state.tick(now);
            if ticked.expired {
                self.engine.increment_epoch();
            }
            for _ in 0..ticked.stuck {
                self.wake_worker(&mut state); // in place of the stuck one
            }
            match ticked.next {
                Some(at) => self.alarm.set(at.saturating_duration_since(now)),
                None => state.ticker_sleeps = true,
            }
        }
    }
}

/// Polls a task once, in the runtime of its spawner. A panic of the call goes to its owner.
pub(super) fn poll(task: Task) {
    let account = task.metadata().clone();
    let _runtime = account.runtime.enter();
    if catch_unwind(AssertUnwindSafe(|| task.run())).is_err() {
        tracing::error!(tenant = %account.guest.tenant.name(), reconciler = %account.guest.name, "a call panicked while it was dropped");
    }
}
