//! Runs that wait for an API server, and hold no slot meanwhile. Entry points: [`Queue::step_aside`] and [`Queue::step_back`].
//!
//! A slot is for work. A server that does not answer holds a run for as long as its calls may take, and a few such clusters would hold
//! every slot there is. So a run that waits gives its slot away and takes it back, limits or not, when it goes on. It still counts
//! where its own cluster is concerned: at the cluster's gates, and among the runs that its controller may have there. There are
//! as many places aside as [`super::Limits::aside`] says, of which a tenant has at most half; once a tenant has a quarter, it begins no
//! other run in a cluster of which one of its runs stands there, so that no few clusters take the rest of what is its own.

use super::gate::GateId;
use super::registry::Classes;
use super::{ControllerId, Queue, Token};
use std::time::Instant;

impl Queue {
    /// Gives a run's slot to others while it waits. False, and nothing changes, if the run has ended or stands aside, if no place
    /// aside is free for its tenant, or if its controller runs one key at a time.
    pub fn step_aside(&mut self, now: Instant, token: Token) -> bool {
        let now = self.nanos(now);
        let Some(run) = self.runs.get_mut(token) else {
            return false;
        };
        if run.aside.is_some() || !self.classes.may_step_aside(run.controller) {
            return false;
        }
        run.aside = Some(now);
        let lane = run.lane;
        self.classes.step_aside(lane);
        true
    }

    /// Ends that. False, and nothing changes, if the run has ended or does not stand aside. True: others may be able to run.
    pub fn step_back(&mut self, now: Instant, token: Token) -> bool {
        let now = self.nanos(now);
        let Some(run) = self.runs.get_mut(token) else {
            return false;
        };
        let Some(since) = run.aside.take() else {
            return false;
        };
        run.rested += now.saturating_sub(since);
        let lane = run.lane;
        self.classes.step_back(lane);
        true
    }

    /// How many runs of a controller stand aside.
    #[must_use]
    pub fn aside(&self, controller: ControllerId) -> usize {
        self.controller(controller)
            .map_or(0, |of| of.aside as usize)
    }
}

impl Classes {
    fn may_step_aside(&self, controller: u32) -> bool {
        let controller = &self.controllers[controller as usize];
        let of_tenant = self.tenants[controller.tenant as usize].aside as usize;
        self.aside < self.limits.aside && of_tenant * 2 < self.limits.aside && controller.slots > 1
    }

    /// Whether a tenant has so many places aside that it begins nothing where it waits already.
    fn is_crowded(&self, tenant: u32) -> bool {
        self.tenants[tenant as usize].aside as usize * 4 > self.limits.aside
    }

    /// Whether a gate is closed to runs because others behind it stand aside.
    pub(super) fn is_closed(&self, gate: GateId) -> bool {
        let gate = &self.gates[gate as usize];
        gate.aside > 0 && gate.tenant.is_some_and(|tenant| self.is_crowded(tenant))
    }

    fn step_aside(&mut self, lane: u32) {
        self.count_aside(lane, 1);
    }

    pub(super) fn step_back(&mut self, lane: u32) {
        self.count_aside(lane, -1);
    }

    fn count_aside(&mut self, lane: u32, change: i32) {
        let (controller, gates) = {
            let of = &self.lanes[lane as usize];
            (of.controller, of.gates)
        };
        let tenant = self.controllers[controller as usize].tenant;
        let crowded = self.is_crowded(tenant);
        self.aside = self.aside.saturating_add_signed(change as isize);
        for count in [
            &mut self.controllers[controller as usize].aside,
            &mut self.tenants[tenant as usize].aside,
        ] {
            *count = count.saturating_add_signed(change);
        }
        for id in gates {
            let gate = &mut self.gates[id as usize];
            gate.aside = gate.aside.saturating_add_signed(change);
            let stands = gate.aside > 0;
            if gate.tenant.is_some() {
                let waits_at = &mut self.tenants[tenant as usize].waits_at;
                match stands {
                    true => waits_at.insert(id),
                    false => waits_at.remove(&id),
                };
            }
        }
        gates.into_iter().for_each(|gate| self.settle_gate(gate));
        if crowded != self.is_crowded(tenant) {
            let concerned = self.tenants[tenant as usize].waits_at.clone();
            concerned
                .into_iter()
                .for_each(|gate| self.settle_gate(gate));
        }
        self.settle_controller(controller);
    }

    /// Whether a lane has as many runs as its controller may have, which can be while some of them stand aside, or is held.
    pub(super) fn has_all_it_may(&self, lane: u32) -> bool {
        let lane = &self.lanes[lane as usize];
        lane.share.running >= self.controllers[lane.controller as usize].slots || self.is_held(lane)
    }

    /// Takes such a lane out of the turns.
    pub(super) fn stall(&mut self, lane: u32) {
        self.deactivate(lane);
        self.lanes[lane as usize].share.barred = true;
        for gate in self.lanes[lane as usize].gates {
            self.settle_gate(gate);
        }
    }

    /// Lets a lane take turns again if it has no longer all that it may.
    pub(super) fn unstall(&mut self, lane: u32) {
        if !self.lanes[lane as usize].share.barred || self.has_all_it_may(lane) {
            return;
        }
        let turn = self.lane_turn(self.lanes[lane as usize].controller as usize);
        let stalled = &mut self.lanes[lane as usize];
        stalled.share.barred = false;
        if stalled.share.waiting > 0 {
            stalled.share.rejoin(turn);
            self.activate(lane);
        }
    }
}
