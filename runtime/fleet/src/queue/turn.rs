//! Whose turn it is. Entry point: [`Classes::pick`].
//!
//! Start-time fair queueing on three levels: of tenants, of a tenant's controllers, and of a controller's lanes the one that has been
//! charged least slot time is next, tenants by weight. A lane stands in its controller's heap while it has ready keys and is not
//! parked, a controller in its tenant's while such a lane is there and its own limit allows, a tenant in the outermost one likewise:
//! the walk from the top to a lane never goes wrong but at the gates of clusters.

use super::class::Share;
use super::gate::GateId;
use super::heap::{Heap, Places, Standing};
use super::registry::Classes;

impl Classes {
    /// The lane whose turn it is, if any may have it now.
    pub(super) fn pick(&mut self) -> Option<u32> {
        if self.running - self.aside >= self.limits.global {
            return None;
        }
        loop {
            match self.next() {
                Some(lane) if self.has_all_it_may(lane) => self.stall(lane),
                Some(lane) => match self.full_gate(lane) {
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

    fn full_gate(&self, lane: u32) -> Option<GateId> {
        self.lanes[lane as usize]
            .gates
            .into_iter()
            .find(|gate| self.gates[*gate as usize].room(self.is_closed(*gate)) == 0)
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
        let (controller, gates) = (emptied.controller, emptied.gates);
        let tenant = self.controllers[controller as usize].tenant;
        emptied.share.end_waiting(now);
        self.controllers[controller as usize].share.end_waiting(now);
        self.tenants[tenant as usize].share.end_waiting(now);
        match self.lanes[lane as usize].parked.take() {
            Some((gate, key)) => drop(self.gates[gate as usize].parked.remove(&(key, lane))),
            None if self.lanes[lane as usize].share.barred => {}
            None => self.deactivate(lane),
        }
        gates.into_iter().for_each(|gate| self.settle_gate(gate));
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
        let gates = self.lanes[lane as usize].gates;
        gates
            .into_iter()
            .for_each(|gate| self.gates[gate as usize].running += 1);
        match best {
            Some(best) => self.lanes[lane as usize].best = best,
            None => self.emptied(lane, now),
        }
        self.reorder_lane(lane);
        self.settle_controller(controller);
        gates.into_iter().for_each(|gate| self.settle_gate(gate));
        charged
    }

    /// A run of a lane's key has ended.
    pub(super) fn finish(&mut self, lane: u32, charged: u64, slot_time: u64, now: u64) {
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
        for gate in self.lanes[lane as usize].gates {
            self.gates[gate as usize].running -= 1;
            self.settle_gate(gate);
        }
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
        let active = &self.lanes[lane as usize];
        let (controller, gates, standing) =
            (active.controller, active.gates, active.standing(lane));
        gates
            .into_iter()
            .for_each(|gate| self.gates[gate as usize].active += 1);
        self.controllers[controller as usize]
            .lanes
            .push(standing, &mut self.lane_places);
        self.settle_controller(controller);
    }

    pub(super) fn deactivate(&mut self, lane: u32) {
        let active = &self.lanes[lane as usize];
        let (controller, gates) = (active.controller, active.gates);
        gates
            .into_iter()
            .for_each(|gate| self.gates[gate as usize].active -= 1);
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
            && settled.share.running - settled.aside < settled.slots;
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
        let runnable = !settled.controllers.is_empty()
            && settled.share.running - settled.aside < settled.slots;
        let places = &mut self.tenant_places;
        settled
            .share
            .settle(tenant, runnable, self.turn, &mut self.order, places);
    }

    /// Takes a lane out of the turns until there is room behind a gate.
    fn park(&mut self, lane: u32, gate: GateId) {
        self.deactivate(lane);
        let key = self.parking_order(lane, gate);
        self.lanes[lane as usize].parked = Some((gate, key));
        self.gates[gate as usize].parked.insert((key, lane));
        // It no longer stands ready for the other gate, where another may now be wanted.
        for gate in self.lanes[lane as usize].gates {
            self.settle_gate(gate);
        }
    }

    /// Who is woken first: of tenants before a cluster, of controllers before a tenant's part of one, whoever has had least.
    fn parking_order(&self, lane: u32, gate: GateId) -> u64 {
        let controller = &self.controllers[self.lanes[lane as usize].controller as usize];
        match self.gates[gate as usize].tenant {
            Some(_) => controller.share.vtime,
            None => self.tenants[controller.tenant as usize].share.vtime,
        }
    }

    /// Wakes the first lane that is parked before a gate.
    fn wake(&mut self, gate: GateId) {
        // The order was right when they were parked. Setting it right where it shows costs a few steps; what remains wrong is mended
        // by the turns that follow.
        for _ in 0..8 {
            let mut parked = self.gates[gate as usize].parked.iter();
            let (Some(&(key, lane)), second) = (parked.next(), parked.next()) else {
                return;
            };
            let second = second.map_or(u64::MAX, |second| second.0);
            let fresh = self.parking_order(lane, gate);
            if fresh <= key || fresh <= second {
                break;
            }
            let parked = &mut self.gates[gate as usize].parked;
            parked.remove(&(key, lane));
            parked.insert((fresh, lane));
            self.lanes[lane as usize].parked = Some((gate, fresh));
        }
        let Some((_, lane)) = self.gates[gate as usize].parked.pop_first() else {
            return;
        };
        let turn = self.lane_turn(self.lanes[lane as usize].controller as usize);
        let woken = &mut self.lanes[lane as usize];
        woken.parked = None;
        woken.share.rejoin(turn);
        self.activate(lane);
        self.note_slack(gate);
    }

    /// Wakes lanes that could go through a gate after anything that it depends on has changed.
    pub(super) fn settle_gate(&mut self, gate: GateId) {
        if self.gates[gate as usize].parked.is_empty() && self.slack.is_empty() {
            return;
        }
        while self.gates[gate as usize].wants_more(self.is_closed(gate)) {
            self.wake(gate);
        }
        self.note_slack(gate);
    }

    fn note_slack(&mut self, gate: GateId) {
        if self.gates[gate as usize].has_slack(self.is_closed(gate)) {
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
