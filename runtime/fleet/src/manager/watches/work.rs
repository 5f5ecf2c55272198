//! The task of a watch, which lives while there is work. Entry point: [`Work::wake`].
//!
//! **Invariant: no wake is lost.** A wake is noted under the lock under which a task ends, so it reaches the task or starts the next one.

use parking_lot::Mutex;
use std::pin::pin;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The task of a watch.
#[derive(Default)]
pub(super) struct Work {
    task: Mutex<State>,
    /// Has a permit once the task has been woken, until it looks for work.
    woken: Notify,
}

#[derive(Default)]
enum State {
    /// There is no task.
    #[default]
    Rest,
    Busy(AbortHandle),
    /// The watch has ended, and no task starts any more.
    Ended,
}

impl Work {
    /// Has the task look for work. Starts one if the watch is at rest.
    pub(super) fn wake(&self, start: impl FnOnce() -> AbortHandle) {
        let mut task = self.task.lock();
        match &*task {
            State::Rest => *task = State::Busy(start()),
            State::Busy(_) => self.woken.notify_one(),
            State::Ended => {}
        }
    }

    /// Waits until the task has been woken. Dropping the future loses no wake.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Ends the task's work, unless it has been woken again. If this returns `true`, the task must end.
    #[must_use]
    pub(super) fn rest(&self) -> bool {
        let mut task = self.task.lock();
        if pin!(self.woken.notified()).enable() {
            return false;
        }
        if !matches!(*task, State::Ended) {
            *task = State::Rest;
        }
        true
    }

    /// Ends the watch: aborts the task, and starts none any more.
    pub(super) fn end(&self) {
        let ended = std::mem::replace(&mut *self.task.lock(), State::Ended);
        if let State::Busy(task) = ended {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Work;
    use std::cell::Cell;

    #[tokio::test]
    async fn a_watch_at_rest_is_started_by_a_wake_and_a_busy_one_is_woken() {
        let (work, started) = (Work::default(), Cell::new(0));
        let start = || {
            started.set(started.get() + 1);
            tokio::spawn(std::future::pending::<()>()).abort_handle()
        };
        work.wake(start);
        assert_eq!(started.get(), 1);
        work.wake(start);
        assert!(!work.rest(), "it was woken meanwhile");
        assert!(work.rest(), "that wake has been looked at");
        work.wake(start);
        assert_eq!(started.get(), 2);
        work.wake(start);
        work.woken().await;
        assert!(work.rest(), "the task has looked for work since");
    }

    #[tokio::test]
    async fn the_task_of_a_watch_that_ends_is_aborted_and_none_follows() {
        let work = Work::default();
        let task = tokio::spawn(std::future::pending::<()>());
        work.wake(|| task.abort_handle());
        work.end();
        work.wake(|| unreachable!("the watch has ended"));
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
    }
}
