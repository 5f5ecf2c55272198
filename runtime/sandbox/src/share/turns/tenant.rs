//! What one tenant has used, and where it stands. Entry point: [`Tenant`].

use super::Ticket;
use super::bucket::Bucket;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Virtual time of a nanosecond at weight 1, so that division by a weight keeps its digits.
const SCALE: u128 = 1000;

/// Its line, its turns and what it paid for them.
#[derive(Debug)]
pub(super) struct Tenant<W> {
    pub(super) weight: u32,
    pub(super) virtual_time: u128,
    pub(super) bucket: Option<Bucket>,
    /// Turns begun and not ended.
    pub(super) given: usize,
    /// Of these, how many are overtaken.
    pub(super) overtaken: usize,
    pub(super) line: BTreeMap<Ticket, W>,
    pub(super) stand: Stand,
}

/// Where a tenant stands among those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// Nobody of it waits.
    Nowhere,
    /// In `Turns::ready`, by its virtual time and the number of its first ticket.
    Ready(u128, u64),
    /// In `Turns::paused`.
    Paused(Instant),
    /// A turn of it is overtaken.
    Held,
}

impl<W> Tenant<W> {
    pub(super) fn new(now: Instant, cap: Option<u32>) -> Self {
        Self {
            weight: 1,
            virtual_time: 0,
            bucket: cap.map(|cap| Bucket::full(cap, now)),
            given: 0,
            overtaken: 0,
            line: BTreeMap::new(),
            stand: Stand::Nowhere,
        }
    }

    pub(super) fn wants_nothing(&self) -> bool {
        self.given == 0 && self.line.is_empty()
    }

    pub(super) fn set_cap(&mut self, cap: Option<u32>, now: Instant) {
        if self.bucket.as_ref().map(Bucket::cap) != cap {
            self.bucket = cap.map(|cap| Bucket::full(cap, now));
        }
    }

    /// Whether it may begin a turn now.
    pub(super) fn may(&mut self, now: Instant) -> bool {
        self.overtaken == 0 && self.may_by_cap(now)
    }

    fn may_by_cap(&mut self, now: Instant) -> bool {
        self.bucket
            .as_mut()
            .is_none_or(|bucket| bucket.has_some(now))
    }

    fn cost(&self, used: Duration) -> u128 {
        used.as_nanos() * SCALE / u128::from(self.weight)
    }

    /// Begins a turn, and charges it as a whole quantum for the time being. Returns the virtual time that it begins at.
    pub(super) fn start(&mut self, floor: u128, quantum: Duration) -> u128 {
        let start = self.virtual_time.max(floor);
        self.virtual_time = start + self.cost(quantum);
        self.given += 1;
        start
    }

    /// Ends a turn, and charges what it was.
    pub(super) fn stop(&mut self, used: Duration, quantum: Duration, now: Instant) {
        self.given -= 1;
        self.virtual_time = self.virtual_time.saturating_sub(self.cost(quantum));
        self.pay(used, now);
    }

    pub(super) fn pay(&mut self, used: Duration, now: Instant) {
        self.virtual_time += self.cost(used);
        if let Some(bucket) = &mut self.bucket {
            bucket.take(used, now);
        }
    }
}
