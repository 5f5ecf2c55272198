//! Threads that take the place of those that a guest does not give back. Entry points: [`Reserve`] and [`Seat`].

use super::Aside;
use crate::limit::nanoseconds;
use crate::thread::Thread;
use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

thread_local! {
    static HERE: RefCell<Option<Arc<Seat>>> = const { RefCell::new(None) };
}

/// The threads of a runtime that wait until another is kept busy beyond its turn, by what cannot be interrupted. As many as wait, and no
/// more, can be replaced at once.
///
/// They wait in tasks of the runtime, each of which keeps its thread, so that no more threads poll guests than are to. What the runtime has
/// put into the queue of a thread is taken from there by those that do; all but what comes next on it, which is to be nothing while a guest
/// computes.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    threads: Mutex<Threads>,
    called: Condvar,
}

#[derive(Debug, Default)]
struct Threads {
    waiting: usize,
    /// Of those that wait, how many are to go on. At most `waiting`.
    called: usize,
    /// The runtime ends.
    closed: bool,
}

impl Reserve {
    /// Keeps the thread that calls it until it is called, or the runtime ends.
    pub(crate) fn wait(&self) {
        let mut threads = self.threads.lock();
        threads.waiting += 1;
        while threads.called == 0 && !threads.closed {
            self.called.wait(&mut threads);
        }
        threads.called = threads.called.saturating_sub(1);
        threads.waiting -= 1;
        drop(threads);
        Aside::rest();
    }

    /// Has one of those that wait go on. False: none does.
    fn call(&self) -> bool {
        let mut threads = self.threads.lock();
        let is_there = threads.waiting > threads.called;
        if is_there {
            threads.called += 1;
            self.called.notify_one();
        }
        is_there
    }

    /// Whether one that was called needs not come any more.
    fn call_off(&self) -> bool {
        let mut threads = self.threads.lock();
        let has_not_come = threads.called > 0;
        threads.called -= usize::from(has_not_come);
        has_not_come || threads.closed
    }

    /// Lets all go on for good.
    pub(crate) fn close(&self) {
        self.threads.lock().closed = true;
        self.called.notify_all();
    }
}

/// A thread that guests compute on.
#[derive(Debug)]
pub(crate) struct Seat {
    thread: Thread,
    reserve: Arc<Reserve>,
    /// Time of a processor that it had had when it was looked at last, in nanoseconds. All bits: that was not told.
    had: AtomicU64,
    /// Where guests are sent that keep it from others. `None`: it is there.
    sideline: Option<Handle>,
}

impl Seat {
    /// Makes the thread that calls it one that guests compute on.
    pub(crate) fn take(reserve: Arc<Reserve>, sideline: Option<Handle>) {
        HERE.set(Some(Arc::new(Self {
            thread: Thread::current(),
            reserve,
            had: AtomicU64::new(u64::MAX),
            sideline,
        })));
    }

    /// That of the thread that calls it, if it has one.
    pub(super) fn here() -> Option<Arc<Self>> {
        HERE.with_borrow(Clone::clone)
    }

    /// Where guests are sent that keep the thread that calls it from others. `None`: they stay.
    pub(crate) fn sideline() -> Option<Handle> {
        HERE.with_borrow(|seat| seat.as_ref()?.sideline.clone())
    }

    /// Whether the thread that calls it is one that guests were sent to.
    pub(crate) fn is_on_the_sideline() -> bool {
        HERE.with_borrow(|seat| seat.as_ref().is_some_and(|it| it.sideline.is_none()))
    }

    /// Counts from now on what it computes.
    pub(super) fn look(&self) {
        let had = self.thread.processor_time().map_or(u64::MAX, nanoseconds);
        self.had.store(had, Ordering::Relaxed);
    }

    /// What it has computed since it was [looked](Self::look) at: next to nothing where it had no processor, or where the system does not
    /// tell.
    pub(super) fn computed(&self) -> Duration {
        let had = self.had.load(Ordering::Relaxed);
        let has = self.thread.processor_time().unwrap_or_default();
        has.saturating_sub(Duration::from_nanos(had))
    }

    /// Has another thread go on in its stead. False: none is left.
    pub(super) fn replace(&self) -> bool {
        self.reserve.call()
    }

    /// The thread that was replaced is back, and calls this: another one waits again.
    pub(super) fn is_back(&self) {
        if self.reserve.call_off() {
            return;
        }
        let reserve = self.reserve.clone();
        tokio::spawn(async move { reserve.wait() });
    }
}
