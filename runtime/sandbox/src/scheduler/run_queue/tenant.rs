//! What one tenant has used, and its position in the queue. Entry point: [`Tenant`].

use super::Ticket;
use super::bucket::Bucket;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Virtual time of a nanosecond at weight 1, so that division by a weight keeps its digits.
const SCALE: u128 = 1000;

/// A tenant's tasks and what it paid for those that ran.
#[derive(Debug)]
pub(super) struct Tenant<T> {
    pub(super) weight: u32,
    pub(super) virtual_time: u128,
    bucket: Option<Bucket>,
    /// Slices that have not ended.
    slices: usize,
    /// Of `slices`, those that are stuck.
    pub(super) stuck: usize,
    pub(super) line: BTreeMap<Ticket, T>,
    /// The position that the queue has put it in.
    pub(super) position: Position,
}

/// A tenant's position in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// It has no task to run, or a slice of it is stuck.
    Absent,
    /// In `RunQueue::ready`, by its virtual time and the number of its first ticket.
    Ready(u128, u64),
    /// In `RunQueue::paused`.
    Paused(Instant),
}

impl<T> Tenant<T> {
    pub(super) fn new(now: Instant, cap: Option<u32>) -> Self {
        Self {
            weight: 1,
            virtual_time: 0,
            bucket: cap.map(|cap| Bucket::full(cap, now)),
            slices: 0,
            stuck: 0,
            line: BTreeMap::new(),
            position: Position::Absent,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.slices == 0 && self.line.is_empty()
    }

    /// Whether it has used time that it is still to make up for.
    pub(super) fn is_in_debt(&mut self, virtual_clock: u128, now: Instant) -> bool {
        let bucket = self.bucket.as_mut();
        self.virtual_time > virtual_clock || bucket.is_some_and(|bucket| !bucket.is_full(now))
    }

    pub(super) fn set_cap(&mut self, cap: Option<u32>, now: Instant) {
        if self.bucket.as_ref().map(Bucket::cap) != cap {
            self.bucket = cap.map(|cap| Bucket::full(cap, now));
        }
    }

    /// The position that it should have now.
    pub(super) fn new_position(&mut self, virtual_clock: u128, now: Instant) -> Position {
        let Some((first, _)) = self.line.first_key_value() else {
            return Position::Absent;
        };
        if self.stuck > 0 {
            return Position::Absent;
        }
        let Some(bucket) = &mut self.bucket else {
            return Position::Ready(self.virtual_time, first.number);
        };
        if !bucket.has_some(now) {
            return Position::Paused(bucket.due());
        }
        // A pause for a cap earns nothing beside the others: its virtual time is at least that of the clock.
        Position::Ready(self.virtual_time.max(virtual_clock), first.number)
    }

    fn cost(&self, used: Duration) -> u128 {
        used.as_nanos() * SCALE / u128::from(self.weight)
    }

    /// Begins a slice and charges a slice of full length for the time being. Returns the virtual time that it begins at.
    pub(super) fn start(&mut self, virtual_clock: u128, slice_length: Duration) -> u128 {
        let start = self.virtual_time.max(virtual_clock);
        self.virtual_time = start + self.cost(slice_length);
        self.slices += 1;
        start
    }

    /// Ends a slice and charges what it used in place of the full length.
    pub(super) fn stop(&mut self, used: Duration, slice_length: Duration, now: Instant) {
        self.slices -= 1;
        self.virtual_time =
            self.virtual_time.saturating_sub(self.cost(slice_length)) + self.cost(used);
        if let Some(bucket) = &mut self.bucket {
            bucket.take(used, now);
        }
    }
}
