//! Whose turn it is. Entry point: [`Classes::pick`].
//!
//! Start-time fair queueing on three levels: of tenants, of a tenant's controllers, and of a controller's lanes the one that has been
//! charged least slot time is next, tenants by weight. A lane stands in its controller's heap while it has ready keys and is not
//! parked, a controller in its tenant's while such a lane is there and its own limit allows, a tenant in the outermost one likewise:
//! the walk from the top to a lane never goes wrong but at gates, and at lanes that have all they may.

use super::class::Share;
use super::gate::{GateId, Rank};
use super::heap::{Heap, Places, Standing};
use super::registry::Classes;
use super::slow::Ended;

impl Classes {
    /// The lane whose turn it is, if any may have it now.
    pub(super) fn pick(&mut self, now: u64) -> Option<u32> {
        if self.running >= self.limits.global {
            return None;
        }
        loop {
            match self.next() {
                Some(lane) if self.has_all_it_may(lane) => self.stall(lane),
                Some(lane) => match self.full_gate(lane, now) {
                    Some(gate) => self.park(lane, gate),
                    None => return Some(lane),
                },
                // All that were woken are held up elsewhere: others may have better luck. Ends, as a lane is parked before full gates
                // only and woken from open ones only.
                None => self.wake(*self.slack.first()?),
            }
        }
    }

    /// The lane whose turn it is, if none of its gates is full.
    fn next(&self) -> Option<u32> {
        let tenant = self.order.first()?.id();
        let controller = self.tenants[tenant as usize].controllers.first()?.id();
        let lane = self.controllers[controller as usize].lanes.first()?.id();
        Some(lane)
    }

    fn full_gate(&self, lane: u32, now: u64) -> Option<GateId> {
        let pair = &self.pairs[self.lanes[lane as usize].pair];
        let upper = pair.is_unanswered(now).then_some(pair.gates.upper);
        let mut gates = self.gates_of(lane).chain(upper);
        gates.find(|gate| self.gates[*gate].room() == 0)
    }

    /// The gates that a lane leads through: that of its cluster, and if that is slow, its tenant's for such clusters.
    fn gates_of(&self, lane: u32) -> impl Iterator<Item = GateId> + use<> {
        let lane = &self.lanes[lane as usize];
        let pair = &self.pairs[lane.pair];
        let cluster = self.clusters[lane.cluster as usize].gate;
        [Some(cluster), pair.slow.then_some(pair.gates.slow)]
            .into_iter()
            .flatten()
    }

    /// Whether a lane has as many runs as its controller may have in one cluster, or is held.
    fn has_all_it_may(&self, lane: u32) -> bool {
        let lane = &self.lanes[lane as usize];
        let most = self.controllers[lane.controller as usize].lane_slots;
        lane.share.running >= most || self.is_held(lane)
    }

    /// Takes such a lane out of the turns.
    fn stall(&mut self, lane: u32) {
        self.deactivate(lane);
        self.lanes[lane as usize].share.barred = true;
        self.settle_gates(lane);
    }

    /// Lets a lane take turns again if it has no longer all that it may.
    pub(super) fn unstall(&mut self, lane: u32) {
        if !self.lanes[lane as usize].share.barred || self.has_all_it_may(lane) {
            return;
        }
        self.lanes[lane as usize].share.barred = false;
        if self.lanes[lane as usize].share.waiting > 0 {
            self.rejoin(lane);
        }
    }

    /// Has a lane take turns again that something held up.
    fn rejoin(&mut self, lane: u32) {
        let turn = self.lane_turn(self.lanes[lane as usize].controller as usize);
        self.lanes[lane as usize].share.rejoin(turn);
        self.activate(lane);
    }

    /// A lane has a ready key and had none.
    pub(super) fn ready(&mut self, lane: u32, best: i32, now: u64) {
        let controller = self.lanes[lane as usize].controller as usize;
        let tenant = self.controllers[controller].tenant as usize;
        let turn = self.lane_turn(controller);
        let ready = &mut self.lanes[lane as usize];
        ready.best = best;
        ready.share.begin_waiting(now, turn);
        self.controllers[controller]
            .share
            .begin_waiting(now, self.tenants[tenant].turn);
        self.tenants[tenant].share.begin_waiting(now, self.turn);
        if !self.lanes[lane as usize].share.barred {
            self.activate(lane);
        }
    }

    /// The highest priority of a lane's ready keys has changed.
    pub(super) fn best_changed(&mut self, lane: u32, best: i32) {
        if self.lanes[lane as usize].best != best {
            self.lanes[lane as usize].best = best;
            self.reorder_lane(lane);
        }
    }

    /// A lane's last ready key is gone.
    pub(super) fn emptied(&mut self, lane: u32, now: u64) {
        let emptied = &mut self.lanes[lane as usize];
        let controller = emptied.controller;
        let tenant = self.controllers[controller as usize].tenant;
        emptied.share.end_waiting(now);
        self.controllers[controller as usize].share.end_waiting(now);
        self.tenants[tenant as usize].share.end_waiting(now);
        match self.lanes[lane as usize].parked.take() {
            Some((gate, rank)) => {
                self.gates[gate].parked.remove(&(rank, lane));
                self.note_slack(gate);
            }
            None if self.lanes[lane as usize].share.barred => {}
            None => self.deactivate(lane),
        }
        self.settle_gates(lane);
    }

    /// One of a lane's keys begins to run; `best` is the highest priority of those that stay ready. Returns the slot time charged.
    pub(super) fn start(&mut self, lane: u32, best: Option<i32>, now: u64) -> u64 {
        let controller = self.lanes[lane as usize].controller;
        let tenant = self.controllers[controller as usize].tenant;
        let share = &mut self.lanes[lane as usize].share;
        let charged = share.next_charge();
        let starting = &mut self.controllers[controller as usize];
        starting.turn = starting.turn.max(share.vtime);
        share.charge(charged);
        let owner = &mut self.tenants[tenant as usize];
        owner.turn = owner.turn.max(starting.share.vtime);
        starting.share.charge(charged);
        self.turn = self.turn.max(owner.share.vtime);
        owner.share.charge(charged);

        self.running += 1;
        for gate in self.gates_of(lane) {
            self.gates[gate].running += 1;
        }
        self.begin_in(self.lanes[lane as usize].pair);
        match best {
            Some(best) => self.lanes[lane as usize].best = best,
            None => self.emptied(lane, now),
        }
        self.reorder_lane(lane);
        self.settle_controller(controller);
        self.settle_gates(lane);
        charged
    }

    /// A run of a lane's key has ended.
    pub(super) fn finish(&mut self, lane: u32, charged: u64, slot_time: u64, now: u64, how: Ended) {
        let controller = self.lanes[lane as usize].controller;
        let tenant = self.controllers[controller as usize].tenant;
        self.lanes[lane as usize]
            .share
            .correct(now, charged, slot_time);
        self.controllers[controller as usize]
            .share
            .correct(now, charged, slot_time);
        self.tenants[tenant as usize]
            .share
            .correct(now, charged, slot_time);
        self.running -= 1;
        self.unstall(lane);
        self.reorder_lane(lane);
        self.settle_controller(controller);
        for gate in self.gates_of(lane) {
            self.gates[gate].running -= 1;
            self.settle_gate(gate);
        }
        self.end_in(self.lanes[lane as usize].pair, now, how);
    }

    /// The virtual time that a lane joins its siblings at: with several priorities the one whose turn came last may be far ahead.
    pub(super) fn lane_turn(&self, controller: usize) -> u64 {
        let controller = &self.controllers[controller];
        controller
            .lanes
            .first()
            .map_or(controller.turn, |first| controller.turn.min(first.vtime()))
    }

    pub(super) fn activate(&mut self, lane: u32) {
        for gate in self.gates_of(lane) {
            self.gates[gate].active += 1;
        }
        let active = &self.lanes[lane as usize];
        let (controller, standing) = (active.controller, active.standing(lane));
        self.controllers[controller as usize]
            .lanes
            .push(standing, &mut self.lane_places);
        self.settle_controller(controller);
    }

    pub(super) fn deactivate(&mut self, lane: u32) {
        for gate in self.gates_of(lane) {
            self.gates[gate].active -= 1;
        }
        let controller = self.lanes[lane as usize].controller;
        self.controllers[controller as usize]
            .lanes
            .remove(lane, &mut self.lane_places);
        self.settle_controller(controller);
    }

    fn reorder_lane(&mut self, id: u32) {
        let lane = &self.lanes[id as usize];
        let turns = &mut self.controllers[lane.controller as usize].lanes;
        let Some(earlier) = turns.standing(id, &self.lane_places) else {
            return;
        };
        if earlier.priority() != lane.best || !lane.share.may_stay_under(earlier.vtime()) {
            turns.change(lane.standing(id), &mut self.lane_places);
        }
    }

    /// Puts a controller where it belongs after anything that it depends on has changed.
    pub(super) fn settle_controller(&mut self, controller: u32) {
        let settled = &mut self.controllers[controller as usize];
        let runnable = !settled.share.barred
            && !settled.lanes.is_empty()
            && settled.share.running < settled.slots;
        let tenant = settled.tenant;
        let owner = &mut self.tenants[tenant as usize];
        let places = &mut self.controller_places;
        settled.share.settle(
            controller,
            runnable,
            owner.turn,
            &mut owner.controllers,
            places,
        );
        self.settle_tenant(tenant);
    }

    /// Puts a tenant where it belongs after anything that it depends on has changed.
    pub(super) fn settle_tenant(&mut self, tenant: u32) {
        let settled = &mut self.tenants[tenant as usize];
        let runnable = !settled.controllers.is_empty() && settled.share.running < settled.slots;
        let places = &mut self.tenant_places;
        settled
            .share
            .settle(tenant, runnable, self.turn, &mut self.order, places);
    }

    /// Takes a lane out of the turns until there is room behind a gate.
    fn park(&mut self, lane: u32, gate: GateId) {
        self.deactivate(lane);
        let rank = self.rank(lane);
        self.lanes[lane as usize].parked = Some((gate, rank));
        self.gates[gate].parked.insert((rank, lane));
        // It no longer stands ready for the other gate, where another may now be wanted.
        self.settle_gates(lane);
    }

    /// Which parked lane is woken first: of tenants, then of controllers, then of lanes the one that has had least.
    fn rank(&self, lane: u32) -> Rank {
        let lane = &self.lanes[lane as usize];
        let controller = &self.controllers[lane.controller as usize];
        let tenant = &self.tenants[controller.tenant as usize];
        [tenant.share.vtime, controller.share.vtime, lane.share.vtime]
    }

    /// Wakes the first lane that is parked before a gate.
    fn wake(&mut self, gate: GateId) {
        // The order was right when they were parked. Setting it right where it shows costs a few steps; what remains wrong is mended
        // by the turns that follow.
        for _ in 0..8 {
            let mut parked = self.gates[gate].parked.iter();
            let (Some(&(rank, lane)), second) = (parked.next(), parked.next()) else {
                return;
            };
            let second = second.map_or([u64::MAX; 3], |second| second.0);
            let fresh = self.rank(lane);
            if fresh <= rank || fresh <= second {
                break;
            }
            let parked = &mut self.gates[gate].parked;
            parked.remove(&(rank, lane));
            parked.insert((fresh, lane));
            self.lanes[lane as usize].parked = Some((gate, fresh));
        }
        if let Some(&(_, lane)) = self.gates[gate].parked.first() {
            self.leave_gate(lane, gate);
            self.note_slack(gate);
        }
    }

    /// Has a lane take turns again, if it is parked before this gate.
    pub(super) fn leave_gate(&mut self, lane: u32, gate: GateId) {
        let Some((at, rank)) = self.lanes[lane as usize].parked else {
            return;
        };
        if at == gate {
            self.gates[gate].parked.remove(&(rank, lane));
            self.lanes[lane as usize].parked = None;
            self.rejoin(lane);
        }
    }

    fn settle_gates(&mut self, lane: u32) {
        for gate in self.gates_of(lane) {
            self.settle_gate(gate);
        }
    }

    /// Wakes lanes that could go through a gate after anything that it depends on has changed.
    pub(super) fn settle_gate(&mut self, gate: GateId) {
        if self.gates[gate].parked.is_empty() && self.slack.is_empty() {
            return;
        }
        while self.gates[gate].wants_more() {
            self.wake(gate);
        }
        self.note_slack(gate);
    }

    pub(super) fn note_slack(&mut self, gate: GateId) {
        if self.gates[gate].has_slack() {
            self.slack.insert(gate);
        } else if !self.slack.is_empty() {
            self.slack.remove(&gate);
        }
    }
}

impl Share {
    /// Has the class with this number stand in its parent's heap, or not. `turn` is the virtual time of those that stand there.
    fn settle(&mut self, id: u32, runnable: bool, turn: u64, heap: &mut Heap, places: &mut Places) {
        match heap.standing(id, places) {
            None if runnable => {
                self.rejoin(turn);
                heap.push(Standing::new(0, self.vtime, id), places);
            }
            Some(earlier) if runnable && self.may_stay_under(earlier.vtime()) => {}
            Some(_) if runnable => heap.change(Standing::new(0, self.vtime, id), places),
            Some(_) => heap.remove(id, places),
            None => {}
        }
    }
}
