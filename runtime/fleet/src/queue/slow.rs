//! Clusters that do not answer leave half of a tenant's slots to those that do. Entry point: [`Pair`].
//!
//! A cluster becomes slow for a tenant when one of the tenant's runs there is [`SLOW`] old. It stays slow until a run there ends in
//! less and none is as old: a cluster that does not answer is slow between two runs, too. A tenant begins runs in slow clusters only
//! while it has fewer in all of them than half of its slots: their lanes lead through its gate for slow clusters.
//!
//! It takes a second to find that out, in which clusters that have just fallen silent could take every slot there is. So while a tenant
//! uses half of its slots or more, a cluster with a run under way gets a further one only within [`LATELY`] after one has ended there.
//! Otherwise its keys wait before the tenant's upper gate.
//!
//! A run is never taken back. What a tenant began in clusters before they were found to be slow goes on and counts: beside the half, one
//! run in each, and more where one had just ended. Many more clusters than slots that fall silent at once can take all of
//! them for as long as their runs may last.

use super::Queue;
use super::gate::GateId;
use super::registry::Classes;
use super::slab::Id;

/// A cluster is slow when one of its runs is so old, in nanoseconds.
pub(super) const SLOW: u64 = 1_000_000_000;

/// For so long after a run has ended its cluster is known to answer, in nanoseconds. Keys that wait for that begin at once.
pub(super) const LATELY: u64 = 100_000_000;

/// A pair's place among all pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PairId(u32);

impl Id for PairId {
    fn new(place: u32) -> Self {
        Self(place)
    }

    fn place(self) -> usize {
        self.0 as usize
    }
}

/// The gates of a tenant before the second half of its slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Halves {
    /// Of slow clusters. Its limit is half of the slots, and it counts the runs in slow clusters.
    pub(super) slow: GateId,
    /// Of clusters that have not answered lately. Its limit is the same, and it counts all of the tenant's runs. A lane that waits here
    /// is woken when a run in its cluster ends, or when there is room and nothing else may run.
    pub(super) upper: GateId,
}

/// A tenant's part of a cluster.
#[derive(Debug)]
pub(super) struct Pair {
    /// The tenant's.
    pub(super) gates: Halves,
    /// The lanes of the tenant's controllers in the cluster.
    pub(super) lanes: Vec<u32>,
    /// Runs of these lanes. They count at the gate of slow clusters while, and only while, the pair is slow.
    pub(super) running: u32,
    /// When the last of them ended, if that was not with its cluster.
    ended: Option<u64>,
    /// Of these runs, those that are [`SLOW`] old. If there is one, the pair is slow.
    pub(super) old: u32,
    pub(super) slow: bool,
}

/// What the end of a run says of its cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// It was counted as old.
    pub(super) old: bool,
    /// Its cluster had been removed: that it took long is no news of the cluster's successor.
    pub(super) gone: bool,
}

impl Pair {
    pub(super) fn new(gates: Halves) -> Self {
        Self {
            gates,
            lanes: Vec::new(),
            running: 0,
            ended: None,
            old: 0,
            slow: false,
        }
    }

    /// Whether it has a run under way, and none has ended lately.
    pub(super) fn is_unanswered(&self, now: u64) -> bool {
        let is_lately = |ended: u64| now < ended.saturating_add(LATELY);
        self.running > 0 && !self.ended.is_some_and(is_lately)
    }
}

impl Queue {
    /// Notes the runs that have become old. Whatever depends on time does so first.
    pub(super) fn find_old(&mut self, now: u64) {
        while let Some(lane) = self.runs.next_old(now) {
            let pair = self.classes.lanes[lane as usize].pair;
            self.classes.pairs[pair].old += 1;
            self.classes.set_slow(pair, true);
        }
    }
}

impl Classes {
    /// Counts a run that begins.
    pub(super) fn begin_in(&mut self, pair: PairId) {
        let of = &mut self.pairs[pair];
        of.running += 1;
        let Halves { upper, .. } = of.gates;
        self.gates[upper].running += 1;
        self.note_slack(upper);
    }

    /// Counts a run no more that has ended.
    pub(super) fn end_in(&mut self, pair: PairId, now: u64, run: Ended) {
        let of = &mut self.pairs[pair];
        of.running -= 1;
        if !run.gone {
            of.ended = Some(now);
        }
        of.old -= u32::from(run.old);
        let Halves { upper, .. } = of.gates;
        let in_time = !run.old || run.gone;
        if in_time && of.old == 0 {
            self.set_slow(pair, false);
        }
        self.gates[upper].running -= 1;
        if !self.gates[upper].parked.is_empty() {
            let lanes = self.pairs[pair].lanes.clone();
            lanes
                .into_iter()
                .for_each(|lane| self.leave_gate(lane, upper));
        }
        self.note_slack(upper);
    }

    /// Forgets how a cluster has answered, and that it was slow, unless it still is.
    pub(super) fn forgive(&mut self, cluster: u32) {
        let pairs: Vec<PairId> = self.clusters[cluster as usize]
            .pairs
            .values()
            .copied()
            .collect();
        for pair in pairs {
            self.pairs[pair].ended = None;
            self.set_slow(pair, self.pairs[pair].old > 0);
        }
    }

    /// Has a pair's lanes lead through the gate for slow clusters, or not. Linear in these lanes, which are at most one for each of
    /// the tenant's controllers; it takes a run of a second to come here.
    fn set_slow(&mut self, pair: PairId, slow: bool) {
        let of = &mut self.pairs[pair];
        if of.slow == slow {
            return;
        }
        of.slow = slow;
        let (gate, running, lanes) = (of.gates.slow, of.running, of.lanes.clone());
        let active = lanes.iter().filter(|lane| self.is_active(**lane)).count() as u32;
        let through = &mut self.gates[gate];
        if slow {
            through.running += running;
            through.active += active;
        } else {
            through.running -= running;
            through.active -= active;
            lanes
                .into_iter()
                .for_each(|lane| self.leave_gate(lane, gate));
        }
        self.settle_gate(gate);
    }

    /// Whether a lane stands in the turns.
    fn is_active(&self, lane: u32) -> bool {
        let lane = &self.lanes[lane as usize];
        lane.share.waiting > 0 && !lane.share.barred && lane.parked.is_none()
    }
}
