//! A process: its machine, its fences, its clock, and the part of an engine that fills caches and ends runs. Entry point: [`Process::new`].

use super::{Time, ms};
use crate::clock::Hand;
use crate::http::fence::Fence;
use crate::shard::Sharding;
use crate::shard::machine::Machine;
use crate::shard::set::ShardSet;
use fastrand::Rng;
use jiff::SignedDuration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process with its own clock, which is a little fast or slow.
pub(crate) struct Process {
    /// Counts the processes of this slot.
    pub(crate) life: u32,
    pub(crate) running: bool,
    pub(crate) sharding: Sharding,
    pub(crate) machine: Machine,
    fence: Arc<Fence>,
    /// The incarnation of the fence.
    fenced: Arc<str>,
    pub(crate) hand: Hand,
    pub(crate) begin: (Time, Instant),
    pub(crate) rate: f64,
    /// The error of its wall clock.
    pub(crate) wall: SignedDuration,
    pub(crate) stopped_until: Time,
    /// Until then its calls about Leases are lost, but not its writes.
    pub(crate) cut_off_until: Time,
    /// Longest delay of its calls, as a part of the weather's.
    pub(crate) far: f64,
    /// The call that is awaited.
    pub(crate) awaited: Option<u64>,
    /// The poll that is scheduled. Earlier ones are void.
    pub(crate) poll: u64,
    /// Writes that have entered and not landed, by shard.
    pub(crate) in_flight: Vec<u32>,
    /// The shards whose caches are full.
    warm: ShardSet,
    /// When it sent its calls of the last period.
    calls: VecDeque<Time>,
    pub(crate) called: u64,
    /// The most calls within a retry period.
    pub(crate) most: usize,
    /// Longest time that a cache needs, and that a run needs to end.
    pub(crate) slow: Duration,
}

impl Process {
    pub(crate) fn new(sharding: Sharding, life: u32, now: Time, rng: &mut Rng) -> Self {
        let hand = Hand::new();
        let machine = Machine::new(sharding.clone(), hand.now(), rng.fork());
        Self {
            life,
            running: true,
            fence: Fence::new(hand.clock(), sharding.timing.reach()),
            fenced: machine.incarnation().clone(),
            in_flight: vec![0; usize::from(sharding.shards)],
            machine,
            sharding,
            begin: (now, hand.now()),
            hand,
            rate: 1.0 + 0.02 * (rng.f64() * 2.0 - 1.0),
            wall: SignedDuration::from_secs(rng.i64(-3600..=3600)),
            stopped_until: Time::ZERO,
            cut_off_until: Time::ZERO,
            far: rng.f64().powi(3),
            awaited: None,
            poll: 0,
            warm: ShardSet::EMPTY,
            calls: VecDeque::new(),
            called: 0,
            most: 0,
            slow: ms(3000),
        }
    }

    pub(crate) fn set_clock(&mut self, now: Time) {
        let (since, instant) = self.begin;
        let local = instant + (now - since).mul_f64(self.rate);
        let behind = local.saturating_duration_since(self.hand.now());
        self.hand.advance(behind);
    }

    /// Gives each incarnation its own fence, and the fence its renewals.
    pub(crate) fn guard(&mut self) {
        if self.fenced != *self.machine.incarnation() {
            self.fence.shut();
            self.fenced = self.machine.incarnation().clone();
            self.fence = Fence::new(self.hand.clock(), self.sharding.timing.reach());
        }
        if let Some(since) = self.machine.renewed() {
            self.fence.renewed(since);
        }
    }

    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    pub(crate) fn incarnation(&self) -> &Arc<str> {
        &self.fenced
    }

    /// The shards for which it may begin a write.
    pub(crate) fn runs(&self) -> ShardSet {
        if self.running && self.fence.enter().is_ok() {
            *self.machine.holds()
        } else {
            ShardSet::EMPTY
        }
    }

    /// Fills caches and ends runs, each with a chance per tick, so that both last for random times. Returns whether
    /// there was something to do.
    pub(crate) fn work(&mut self, tick: Duration, rng: &mut Rng) -> bool {
        let chance = 3.0 * tick.as_secs_f64() / self.slow.as_secs_f64();
        let wanted = *self.machine.joins() | *self.machine.holds();
        self.warm = self.warm & self.machine.keeps();
        let cold = wanted - self.warm;
        if (cold | *self.machine.leaves()).is_empty() {
            return false;
        }
        self.warm |= cold.iter().filter(|_| rng.f64() < chance).collect();
        self.machine.warmed(&self.warm);
        let ended = |shard: &u16| self.in_flight[usize::from(*shard)] == 0 && rng.f64() < chance;
        let drained: ShardSet = self.machine.leaves().iter().filter(ended).collect();
        if !drained.is_empty() {
            self.machine.drained(&drained, self.hand.now());
        }
        true
    }

    /// Counts a call.
    pub(crate) fn count(&mut self, now: Time) {
        self.called += 1;
        self.calls.push_back(now);
        while self
            .calls
            .front()
            .is_some_and(|at| now - *at >= self.sharding.timing.retry_period)
        {
            self.calls.pop_front();
        }
        self.most = self.most.max(self.calls.len());
    }
}
