//! When waiting keys become due. Entry point: [`Timers`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A key's alarm. It counts if the key at that place waits until just then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alarm {
    /// In the queue's nanoseconds.
    pub(super) due: u64,
    pub(super) key: u32,
}

/// Alarms by due time. Calling one off only counts: it is thrown out when it comes up, or when such ones are the majority.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Alarm>>,
    /// How many of the heap still count.
    live: usize,
}

impl Timers {
    /// Sets an alarm.
    pub(super) fn set(&mut self, alarm: Alarm) {
        self.heap.push(Reverse(alarm));
        self.live += 1;
    }

    /// Calls one alarm off; `counts` tells of each whether it still counts.
    pub(super) fn call_off(&mut self, counts: impl Fn(&Alarm) -> bool) {
        self.live -= 1;
        if self.heap.len() > 2 * self.live + 1024 {
            self.heap.retain(|Reverse(alarm)| counts(alarm));
        }
    }

    /// The first alarm that counts.
    pub(super) fn first(&mut self, counts: impl Fn(&Alarm) -> bool) -> Option<Alarm> {
        while let Some(Reverse(alarm)) = self.heap.peek() {
            if counts(alarm) {
                return Some(*alarm);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes out the alarm that [`Timers::first`] has returned.
    pub(super) fn pop(&mut self) {
        if self.heap.pop().is_some() {
            self.live -= 1;
        }
    }
}
