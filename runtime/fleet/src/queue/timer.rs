//! When waiting keys become due. Entry point: [`Timers`].

use super::slab::KeyId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cancelled alarms that may stay in the heap beside as many as are live: a small heap is not worth cleaning.
const CANCELLED: usize = 1024;

/// A key's alarm. It is live while the key waits until exactly then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alarm {
    /// In the queue's nanoseconds.
    pub(super) due: u64,
    pub(super) key: KeyId,
}

/// Alarms by due time. A cancelled alarm stays until it is the first, or until cancelled ones are the majority.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Alarm>>,
    /// How many of the heap are live.
    live: usize,
}

impl Timers {
    /// Sets an alarm.
    pub(super) fn set(&mut self, alarm: Alarm) {
        self.heap.push(Reverse(alarm));
        self.live += 1;
    }

    /// Notes that one alarm is live no more. `is_live` decides for each.
    pub(super) fn cancel_one(&mut self, is_live: impl Fn(&Alarm) -> bool) {
        self.live -= 1;
        if self.heap.len() > 2 * self.live + CANCELLED {
            self.heap.retain(|Reverse(alarm)| is_live(alarm));
        }
    }

    /// The first alarm that is live.
    pub(super) fn first(&mut self, is_live: impl Fn(&Alarm) -> bool) -> Option<Alarm> {
        while let Some(Reverse(alarm)) = self.heap.peek() {
            if is_live(alarm) {
                return Some(*alarm);
            }
            self.heap.pop();
        }
        None
    }

    /// Removes the alarm that [`Timers::first`] has returned.
    pub(super) fn pop(&mut self) {
        if self.heap.pop().is_some() {
            self.live -= 1;
        }
    }
}
