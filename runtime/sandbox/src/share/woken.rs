//! Whether a future asked to be polled again while it was polled. Entry point: [`Woken`].

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// Wakes another, and notes that it did.
#[derive(Debug, Default)]
pub(super) struct Woken {
    noted: AtomicBool,
    /// Who is woken.
    task: Mutex<Option<Waker>>,
}

impl Woken {
    /// Begins a poll: nothing is noted yet, and the task that polls is woken from here on.
    pub(super) fn begin(&self, task: &Waker) {
        let mut known = self.task.lock();
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
        self.noted.store(false, Ordering::Relaxed);
    }

    /// Whether the task was woken since the poll began. One that is woken from elsewhere meanwhile may be missed: it is woken all the
    /// same.
    pub(super) fn was(&self) -> bool {
        self.noted.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.noted.store(true, Ordering::Relaxed);
        let task = self.task.lock().clone();
        task.into_iter().for_each(Waker::wake);
    }
}
