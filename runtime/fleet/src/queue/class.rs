//! The classes that share the slots: tenants, controllers, lanes; and clusters. Entry point: [`Share`].
//!
//! A lane is a controller's keys of one cluster.

use super::gate::{GateId, Rank};
use super::heap::{Heap, Standing};
use super::key::State;
use super::options::{ClusterState, ControllerOptions, TenantOptions};
use super::slow::{Halves, PairId};
use crate::name::{ClusterName, ControllerName, TenantName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nanoseconds of slot time in a unit of virtual time. 64 bits of it last for 9,000 years of slot time.
const TICK: u64 = 16;

/// The average, in nanoseconds, of a class of which no run has ended.
pub(super) const FIRST_AVERAGE: u64 = 1_000_000;

/// Least that a run is charged, in nanoseconds: turns must move on however short runs are.
const LEAST_CHARGE: u64 = 1_000;

/// How far behind its siblings a class that was held up by a limit may come back, in average runs.
const CREDIT: u64 = 4;

/// A class's part in the turns of its parent.
#[derive(Debug)]
pub(super) struct Share {
    /// Slot time charged so far, divided by the weight. The class with the least is next.
    pub(super) vtime: u64,
    /// Moving average of the slot time of a run, in nanoseconds.
    pub(super) average: u64,
    /// Since when it has had neither ready nor running keys, in the queue's nanoseconds.
    idle_since: u64,
    /// At least 1.
    pub(super) weight: u32,
    /// Runs that have not ended.
    pub(super) running: u32,
    /// Lanes with ready keys in this class.
    pub(super) waiting: u32,
    /// It takes no turns whatever waits: a controller or a lane that is held, a lane that has as many runs as its controller may have in
    /// one cluster.
    pub(super) barred: bool,
}

impl Share {
    pub(super) fn new(weight: u32, average: u64, vtime: u64) -> Self {
        Self {
            vtime,
            weight: weight.max(1),
            average,
            running: 0,
            waiting: 0,
            idle_since: 0,
            barred: false,
        }
    }

    fn ticks(&self, slot_time: u64) -> u64 {
        (slot_time / TICK / u64::from(self.weight)).max(1)
    }

    /// Charges a run that begins.
    pub(super) fn charge(&mut self, slot_time: u64) {
        self.running += 1;
        self.vtime += self.ticks(slot_time);
    }

    /// Whether a class may stay under a key in its parent's heap: off by less than a fraction of a run, it is not worth moving. The
    /// error does not add up, as the virtual time itself is exact.
    pub(super) fn may_stay_under(&self, key: u64) -> bool {
        self.vtime.abs_diff(key) <= self.ticks(self.average / 8)
    }

    /// Corrects the charge of a run that has ended.
    pub(super) fn correct(&mut self, now: u64, charged: u64, slot_time: u64) {
        self.running -= 1;
        self.vtime = (self.vtime + self.ticks(slot_time.max(LEAST_CHARGE)))
            .saturating_sub(self.ticks(charged));
        let gap = slot_time.max(LEAST_CHARGE).abs_diff(self.average) / 8;
        self.average = if slot_time >= self.average {
            self.average + gap
        } else {
            self.average - gap
        };
        self.rest(now);
    }

    /// One more of its lanes has ready keys. `turn` is the virtual time of those that take turns with it.
    ///
    /// A class that was idle comes back without credit, and its debt is forgiven as fast as one slot would work it off.
    pub(super) fn begin_waiting(&mut self, now: u64, turn: u64) {
        self.waiting += 1;
        if self.waiting == 1 {
            let forgiven = if self.running == 0 {
                self.ticks(now.saturating_sub(self.idle_since))
            } else {
                0
            };
            self.vtime = self.vtime.saturating_sub(forgiven).max(turn);
        }
    }

    /// One of its lanes has no more ready keys.
    pub(super) fn end_waiting(&mut self, now: u64) {
        self.waiting -= 1;
        self.rest(now);
    }

    fn rest(&mut self, now: u64) {
        if self.running == 0 && self.waiting == 0 {
            self.idle_since = now;
        }
    }

    /// It was held up by a limit and takes turns again: the credit that it has gathered meanwhile is bounded.
    pub(super) fn rejoin(&mut self, turn: u64) {
        let credit = self.ticks(CREDIT * self.average);
        self.vtime = self.vtime.max(turn.saturating_sub(credit));
    }

    /// Whether nothing is left of its past that its siblings would have to make up for.
    pub(super) fn is_settled(&self, now: u64, turn: u64) -> bool {
        self.running == 0
            && self.waiting == 0
            && self
                .vtime
                .saturating_sub(self.ticks(now.saturating_sub(self.idle_since)))
                <= turn
    }

    /// What the next run is charged.
    pub(super) fn next_charge(&self) -> u64 {
        self.average.max(LEAST_CHARGE)
    }
}

/// An owner of controllers.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) share: Share,
    pub(super) controllers: Heap,
    /// The virtual time of its controllers: that of the one whose turn came last.
    pub(super) turn: u64,
    /// Most runs at once; at least 1.
    pub(super) slots: u32,
    /// Their limits are half of its slots.
    pub(super) gates: Halves,
    /// Its controllers, those included that only wait for their last run to end.
    pub(super) owned: u32,
    pub(super) name: TenantName,
    pub(super) options: TenantOptions,
}

/// How many keys do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Ready to run; those of clusters that are not ready included.
    pub ready: usize,
    /// Of those that are ready, the ones with a priority below 0.
    pub ready_low: usize,
    /// Running.
    pub running: usize,
    /// Waiting for a time that was asked for.
    pub delayed: usize,
    /// Waiting after a failure.
    pub backoff: usize,
    /// Asked for, and waiting because they have run too often lately.
    pub throttled: usize,
    /// Failed for good, and waiting for an event.
    pub terminal: usize,
}

impl Counts {
    /// Keys that count against a controller's share of the queue: all but the terminal ones.
    #[must_use]
    pub fn held(&self) -> usize {
        self.ready + self.running + self.delayed + self.backoff + self.throttled
    }

    /// Whether nothing is ready, running, in backoff or throttled. A delayed key does not count: it may ask to be run again for ever.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ready + self.running + self.backoff + self.throttled == 0
    }
}

/// The same, in as little room as can be.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    ready: u32,
    ready_low: u32,
    running: u32,
    delayed: u32,
    backoff: u32,
    throttled: u32,
    terminal: u32,
}

impl Tally {
    /// Counts a key as being, or no longer being, in a state.
    pub(super) fn count(&mut self, state: State, priority: i32, change: i32) {
        let count = match state {
            State::Ready => &mut self.ready,
            State::Delayed => &mut self.delayed,
            State::Backoff => &mut self.backoff,
            State::Throttled => &mut self.throttled,
            State::Running => &mut self.running,
            State::Terminal => &mut self.terminal,
        };
        *count = count.wrapping_add_signed(change);
        if state == State::Ready && priority < 0 {
            self.ready_low = self.ready_low.wrapping_add_signed(change);
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            ready: self.ready as usize,
            ready_low: self.ready_low as usize,
            running: self.running as usize,
            delayed: self.delayed as usize,
            backoff: self.backoff as usize,
            throttled: self.throttled as usize,
            terminal: self.terminal as usize,
        }
    }
}

/// What has happened to a controller's keys since it was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Requests added and taken in, merged ones included.
    pub adds: u64,
    /// Requests refused because the share was full.
    pub refused: u64,
    /// Runs that ended in a retry.
    pub retries: u64,
    /// Runs that ended terminally.
    pub terminal: u64,
    /// Runs that were put off because their key had run too often: see [`StormLimit`](super::StormLimit).
    pub storms: u64,
    /// Failures, and terminal keys, that are not kept because there are too many.
    pub forgotten: u64,
}

/// The keys of one reconciler.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) share: Share,
    pub(super) lanes: Heap,
    /// The virtual time of its lanes: that of the one whose turn came last.
    pub(super) turn: u64,
    /// Requests added and taken in, merged ones included.
    pub(super) adds: u64,
    pub(super) tally: Tally,
    pub(super) tenant: u32,
    /// Tells it from earlier ones at the same place.
    pub(super) generation: u32,
    /// Most runs at once; at least 1.
    pub(super) slots: u32,
    /// Most runs at once of each of its lanes; at least 1.
    pub(super) lane_slots: u32,
    /// A place that is free, or a controller that only waits for its last run to end, is not alive.
    pub(super) alive: bool,
    /// A request has been refused since there was room.
    pub(super) refused: bool,
    pub(super) options: ControllerOptions,
    /// But `adds`.
    pub(super) totals: Totals,
    pub(super) name: ControllerName,
    /// Keys whose last failure is kept.
    pub(super) failures: usize,
    /// The text of the failure that was kept last: many keys fail alike and share it.
    pub(super) last_message: Option<Arc<str>>,
}

/// One controller's keys of one cluster.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) share: Share,
    pub(super) controller: u32,
    pub(super) cluster: u32,
    /// Its tenant's part of its cluster.
    pub(super) pair: PairId,
    /// The highest priority of its ready keys; meaningless while there are none.
    pub(super) best: i32,
    /// Keys in any state.
    pub(super) keys: u32,
    /// What it is found by.
    pub(super) hash: u32,
    /// The gate that it waits at, and the key that it waits there under.
    pub(super) parked: Option<(GateId, Rank)>,
}

impl Lane {
    /// Lanes take turns only among those with the same, highest priority. `id` is its own.
    pub(super) fn standing(&self, id: u32) -> Standing {
        Standing::new(self.best, self.share.vtime, id)
    }
}

/// One cluster, as far as keys name it.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) name: ClusterName,
    pub(super) state: ClusterState,
    pub(super) gate: GateId,
    pub(super) lanes: Vec<u32>,
    /// Its parts by tenant, of tenants that had a key there.
    pub(super) pairs: BTreeMap<u32, PairId>,
    /// It has been removed and stays only until the last of its runs has ended.
    pub(super) leaving: bool,
}
