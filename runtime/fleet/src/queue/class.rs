//! The classes that share the slots: tenants, controllers and flows; and clusters. Entry point: [`Class`].
//!
//! A flow is a controller's keys of one cluster.

use super::ControllerId;
use super::gate::Rank;
use super::key::{Lists, SHARE, State};
use super::options::{ClusterMode, QueueOptions, TenantOptions};
use super::slab::{ClusterId, ControllerIndex, FlowId, GateId, Id, TenantClusterId, TenantId};
use super::slow::TenantGates;
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::outcome::Blame;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Nanoseconds of slot time in a unit of virtual time: 64 bits of it last for 9,000 years of slot time.
const VIRTUAL_UNIT: u64 = 16;

/// The average, in nanoseconds, of a class of which no run has ended.
pub(super) const FIRST_AVERAGE: u64 = 1_000_000;

/// Least that a run is charged, in nanoseconds: virtual time must advance however short runs are.
const LEAST_CHARGE: u64 = 1_000;

/// A run moves the average by one part in so many of its distance: one outlier hardly counts, and eleven runs forget half of the past.
const AVERAGE_OVER: u64 = 8;

/// A class keeps its place in the schedule until its virtual time is off by more than an average run divided by this. The error does
/// not add up, because the virtual time itself is exact.
const TOLERANCE: u64 = 8;

/// How far behind its siblings a class that a limit held up may come back, in average runs.
const CREDIT: u64 = 4;

/// The scheduled children of a class; the first is next.
pub(super) type Schedule<I> = BTreeSet<(Order, I)>;

/// What a schedule is ordered by: the higher priority first, then the lower virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    priority: Reverse<i32>,
    pub(super) vtime: u64,
}

/// What fair queueing keeps of a tenant, a controller or a flow.
#[derive(Debug)]
pub(super) struct Class {
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
    /// Its flows with ready keys; a flow counts itself.
    pub(super) ready_flows: u32,
    /// It is not scheduled, whatever is ready: a controller or a flow that is held, or a flow that has as many runs as its controller may
    /// have in one cluster.
    pub(super) blocked: bool,
    /// Where it stands in its parent's schedule, if it does.
    pub(super) scheduled: Option<Order>,
}

impl Class {
    pub(super) fn new(weight: u32, average: u64, vtime: u64) -> Self {
        Self {
            vtime,
            weight: weight.max(1),
            average,
            running: 0,
            ready_flows: 0,
            idle_since: 0,
            blocked: false,
            scheduled: None,
        }
    }

    fn virtual_time(&self, slot_time: u64) -> u64 {
        (slot_time / VIRTUAL_UNIT / u64::from(self.weight)).max(1)
    }

    /// What the next run is charged.
    pub(super) fn next_charge(&self) -> u64 {
        self.average.max(LEAST_CHARGE)
    }

    /// Charges a run that begins.
    pub(super) fn charge(&mut self, slot_time: u64) {
        self.running += 1;
        self.vtime += self.virtual_time(slot_time);
    }

    /// Corrects the charge of a run that has ended.
    pub(super) fn correct(&mut self, now: u64, charged: u64, slot_time: u64) {
        self.running -= 1;
        self.vtime = (self.vtime + self.virtual_time(slot_time.max(LEAST_CHARGE)))
            .saturating_sub(self.virtual_time(charged));
        let step = slot_time.max(LEAST_CHARGE).abs_diff(self.average) / AVERAGE_OVER;
        self.average = if slot_time >= self.average {
            self.average + step
        } else {
            self.average - step
        };
        self.note_idle(now);
    }

    /// Its parent's clock once a run of it begins that is charged so much; so many siblings have ready keys, itself included.
    ///
    /// The clock moves on even if the class is not ahead of it. Else classes that come back from pauses again and again, and whose debt
    /// is forgiven each time, would all come back at the same clock, before a sibling with a debt that has waited meanwhile. It moves half
    /// as far as the average of the siblings, so that it falls back behind them while none of them pauses. It moves by 1 at least: of
    /// those without debt the first to come is the first to go.
    pub(super) fn clock_after(&self, virtual_clock: u64, charged: u64, siblings: u32) -> u64 {
        if self.vtime > virtual_clock {
            return self.vtime;
        }
        virtual_clock + (self.virtual_time(charged) / (2 * u64::from(siblings.max(1)))).max(1)
    }

    /// One more of its flows has ready keys. `virtual_clock` is its parent's.
    ///
    /// A class that was idle comes back without credit, and its debt is forgiven as fast as one slot would work it off.
    pub(super) fn add_ready_flow(&mut self, now: u64, virtual_clock: u64) {
        self.ready_flows += 1;
        if self.ready_flows == 1 {
            let forgiven = if self.running == 0 {
                self.virtual_time(now.saturating_sub(self.idle_since))
            } else {
                0
            };
            self.vtime = self.vtime.saturating_sub(forgiven).max(virtual_clock);
        }
    }

    /// One of its flows has no more ready keys.
    pub(super) fn remove_ready_flow(&mut self, now: u64) {
        self.ready_flows -= 1;
        self.note_idle(now);
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.ready_flows == 0
    }

    fn note_idle(&mut self, now: u64) {
        if self.is_idle() {
            self.idle_since = now;
        }
    }

    /// Bounds the credit that a class has gathered while a limit held it up, or while it was passed over for its priority.
    pub(super) fn rejoin(&mut self, virtual_clock: u64) {
        let credit = self.virtual_time(CREDIT * self.average);
        self.vtime = self.vtime.max(virtual_clock.saturating_sub(credit));
    }

    /// Whether it is idle and has no debt left: a new class in its place is treated alike.
    pub(super) fn is_forgettable(&self, now: u64, virtual_clock: u64) -> bool {
        let forgiven = self.virtual_time(now.saturating_sub(self.idle_since));
        self.is_idle() && self.vtime.saturating_sub(forgiven) <= virtual_clock
    }

    /// Puts the class into its parent's schedule, or moves it there.
    pub(super) fn schedule<I: Ord + Copy>(
        &mut self,
        id: I,
        priority: i32,
        schedule: &mut Schedule<I>,
    ) {
        let priority = Reverse(priority);
        let tolerance = self.virtual_time(self.average / TOLERANCE);
        let stays = |order: Order| {
            order.priority == priority && self.vtime.abs_diff(order.vtime) <= tolerance
        };
        if self.scheduled.is_some_and(stays) {
            return;
        }
        let order = Order {
            priority,
            vtime: self.vtime,
        };
        self.unschedule(id, schedule);
        self.scheduled = Some(order);
        schedule.insert((order, id));
    }

    /// Takes the class out of its parent's schedule, if it is there.
    pub(super) fn unschedule<I: Ord + Copy>(&mut self, id: I, schedule: &mut Schedule<I>) {
        if let Some(order) = self.scheduled.take() {
            schedule.remove(&(order, id));
        }
    }

    /// Puts the class into its parent's schedule, moves it there, or takes it out. `virtual_clock` is the parent's.
    pub(super) fn reschedule<I: Ord + Copy>(
        &mut self,
        id: I,
        runnable: bool,
        virtual_clock: u64,
        schedule: &mut Schedule<I>,
    ) {
        if !runnable {
            return self.unschedule(id, schedule);
        }
        if self.scheduled.is_none() {
            self.rejoin(virtual_clock);
        }
        self.schedule(id, 0, schedule);
    }
}

/// An owner of controllers.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) class: Class,
    pub(super) schedule: Schedule<ControllerIndex>,
    /// Where new and idle controllers begin: not before one that was picked, and later with every run.
    pub(super) virtual_clock: u64,
    /// Its controllers with ready keys.
    pub(super) ready_controllers: u32,
    /// Most runs at once; at least 1.
    pub(super) slots: u32,
    /// Their limits are half of its slots.
    pub(super) gates: TenantGates,
    /// Its controllers, those included that only wait for their last run to end.
    pub(super) controllers: u32,
    pub(super) name: TenantName,
    pub(super) options: TenantOptions,
}

/// How many keys are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Ready to run; those of clusters that are not ready included.
    pub ready: usize,
    /// Of the ready keys, those with a priority below 0.
    pub ready_low: usize,
    /// Running.
    pub running: usize,
    /// Waiting for a time that was asked for.
    pub delayed: usize,
    /// Waiting after a failure.
    pub backoff: usize,
    /// Hot: enqueued, and waiting because they have run too often lately.
    pub throttled: usize,
    /// Held by a pause.
    pub paused: usize,
    /// Failed for good, and waiting for an event.
    pub terminal: usize,
}

impl Counts {
    /// Keys that [`Limits::keys_per_controller`](super::Limits::keys_per_controller) counts: all but the terminal ones.
    #[must_use]
    pub fn limited(&self) -> usize {
        self.ready + self.running + self.delayed + self.backoff + self.throttled + self.paused
    }

    /// Whether nothing is ready, running, in backoff or throttled. A delayed key does not count, because it may ask to be run again for
    /// ever, nor does a paused one.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ready + self.running + self.backoff + self.throttled == 0
    }

    pub(super) fn add(&mut self, state: State, priority: i32) {
        *self.of(state) += 1;
        self.ready_low += usize::from(is_low(state, priority));
    }

    pub(super) fn remove(&mut self, state: State, priority: i32) {
        *self.of(state) -= 1;
        self.ready_low -= usize::from(is_low(state, priority));
    }

    fn of(&mut self, state: State) -> &mut usize {
        match state {
            State::Ready => &mut self.ready,
            State::Delayed => &mut self.delayed,
            State::Backoff => &mut self.backoff,
            State::Throttled => &mut self.throttled,
            State::Paused => &mut self.paused,
            State::Running => &mut self.running,
            State::Terminal => &mut self.terminal,
        }
    }
}

fn is_low(state: State, priority: i32) -> bool {
    state == State::Ready && priority < 0
}

/// What has happened to a controller's keys since it was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Requests added and accepted, merged ones included.
    pub adds: u64,
    /// Requests refused because the controller had too many keys.
    pub refused: u64,
    /// Runs that ended in a retry.
    pub retries: u64,
    /// Runs that ended terminally.
    pub terminal: u64,
    /// Runs that were delayed because their key was hot: see [`HotKeyLimit`](super::HotKeyLimit).
    pub throttled: u64,
    /// Failures, and terminal keys, that are not kept because there are too many.
    pub forgotten: u64,
}

/// The keys of one reconciler.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) class: Class,
    pub(super) schedule: Schedule<FlowId>,
    /// Where new and idle flows begin: not before one that was picked, and later with every run.
    pub(super) virtual_clock: u64,
    /// Runs in a row that went to a flow of higher priority than the flow whose turn it was. Less than [`SHARE`].
    pub(super) passed_over: u8,
    pub(super) counts: Counts,
    pub(super) tenant: TenantId,
    pub(super) id: ControllerId,
    /// Most runs at once; at least 1.
    pub(super) slots: u32,
    /// Most runs at once of each of its flows; at least 1.
    pub(super) flow_slots: u32,
    /// False once it has been removed; it may still wait for its last run to end.
    pub(super) alive: bool,
    /// A request has been refused since there was room.
    pub(super) refused: bool,
    pub(super) options: QueueOptions,
    pub(super) totals: Totals,
    pub(super) name: ControllerName,
    /// Keys whose last failure is kept.
    pub(super) failures: usize,
    /// The text of the failure that was kept last: many keys fail alike and share it.
    pub(super) last_message: Option<Arc<str>>,
    /// The party at fault in that failure.
    pub(super) last_blame: Option<Blame>,
}

impl Controller {
    /// The flow that runs next: the first, unless the flow whose turn it is has been passed over too often.
    pub(super) fn next_flow(&self) -> Option<FlowId> {
        if self.passed_over + 1 >= SHARE {
            return self.flow_by_turn();
        }
        self.schedule.first().map(|(_, flow)| *flow)
    }

    /// The flow whose turn it is whatever the priorities: the one with the least virtual time. Linear in priorities.
    fn flow_by_turn(&self) -> Option<FlowId> {
        let last = self.schedule.last()?.0.priority;
        let (mut order, mut flow) = *self.schedule.first()?;
        let mut priority = order.priority;
        // Within a priority the first has the least.
        while priority < last {
            let below = Order {
                priority: Reverse(priority.0.saturating_sub(1)),
                vtime: 0,
            };
            let (next, of) = *self.schedule.range((below, FlowId::new(0))..).next()?;
            priority = next.priority;
            if next.vtime <= order.vtime {
                (order, flow) = (next, of);
            }
        }
        Some(flow)
    }

    /// Notes that a flow is about to begin a run.
    pub(super) fn count_turn(&mut self, flow: FlowId) {
        self.passed_over = if self.flow_by_turn() == Some(flow) {
            0
        } else {
            (self.passed_over + 1).min(SHARE - 1)
        };
    }
}

/// One controller's keys of one cluster.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) class: Class,
    pub(super) controller: ControllerIndex,
    pub(super) cluster: ClusterId,
    pub(super) tenant_cluster: TenantClusterId,
    /// The highest priority of its ready keys; meaningless while there are none.
    pub(super) best: i32,
    /// Keys in any state.
    pub(super) keys: u32,
    /// Its keys that do not run.
    pub(super) lists: Lists,
    /// The gate where it is parked, and its rank there.
    pub(super) parked: Option<(GateId, Rank)>,
}

/// One cluster, as far as keys name it.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) name: ClusterName,
    pub(super) state: ClusterMode,
    pub(super) gate: GateId,
    pub(super) flows: Vec<FlowId>,
    /// Its parts by tenant, of tenants that had a key there.
    pub(super) tenants: BTreeMap<TenantId, TenantClusterId>,
    /// It has been removed and stays only until the last of its runs has ended.
    pub(super) leaving: bool,
}
