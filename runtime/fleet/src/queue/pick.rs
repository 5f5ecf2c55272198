//! Picks the flow that runs next. Entry point: [`Classes::pick`].
//!
//! Start-time fair queueing on three levels: of tenants, of a tenant's controllers and of a controller's flows, the one that has been
//! charged least slot time is next, tenants by weight. Among a controller's flows priority comes first, but for one run of four.
//!
//! No class starves: what is ready keeps its virtual time until it runs, and what comes back from a pause comes back at the clock of its
//! parent, which moves on with every run.
//!
//! Invariants: a flow is in its controller's schedule while it has ready keys, is not blocked and is not parked. A controller is in its
//! tenant's schedule while a flow is in its own, and its own limits allow a run; a tenant likewise. So the first of each schedule
//! leads to a flow that may run, unless a gate is full or the flow is to be blocked.
//!
//! A pick costs O(log n) in classes, and more only for flows that it blocks or parks.

use super::class::Flow;
use super::gate::Rank;
use super::registry::Classes;
use super::slab::{ControllerIndex, FlowId, GateId, TenantId};
use super::slow::Ended;

/// Parked flows of which one wake corrects the rank, so that it costs a few steps; later wakes correct the others.
const CORRECTED_RANKS: usize = 8;

impl Classes {
    /// The flow that runs next, if any may run now.
    pub(super) fn pick(&mut self, now: u64) -> Option<FlowId> {
        if self.running >= self.limits.global {
            return None;
        }
        loop {
            match self.first_scheduled() {
                Some(flow) if self.must_block(flow) => self.block(flow),
                Some(flow) => match self.full_gate(flow, now) {
                    Some(gate) => self.park(flow, gate),
                    None => return Some(flow),
                },
                // All that were woken are blocked or parked elsewhere, so another parked flow may run. This ends, because a flow parks
                // only at full gates and is woken only at open ones.
                None => self.wake(*self.open_gates.first()?),
            }
        }
    }

    fn first_scheduled(&self) -> Option<FlowId> {
        let (_, tenant) = self.schedule.first()?;
        let (_, controller) = self.tenants[*tenant].schedule.first()?;
        self.controllers[*controller].next_flow()
    }

    fn full_gate(&self, flow: FlowId, now: u64) -> Option<GateId> {
        let at = &self.tenant_clusters[self.flows[flow].tenant_cluster];
        let unanswered = at.is_unanswered(now).then_some(at.gates.unanswered);
        let mut gates = self.gates_of(flow).chain(unanswered);
        gates.find(|gate| self.gates[*gate].room() == 0)
    }

    /// The gates that a flow passes: its cluster's, and its tenant's for slow clusters if the cluster is slow.
    fn gates_of(&self, flow: FlowId) -> impl Iterator<Item = GateId> + use<> {
        let flow = &self.flows[flow];
        let at = &self.tenant_clusters[flow.tenant_cluster];
        let cluster = self.clusters[flow.cluster].gate;
        [Some(cluster), at.slow.then_some(at.gates.slow)]
            .into_iter()
            .flatten()
    }

    /// Whether a flow has as many runs as its controller may have in one cluster, or is held.
    fn must_block(&self, flow: FlowId) -> bool {
        let flow = &self.flows[flow];
        flow.class.running >= self.controllers[flow.controller].flow_slots || self.is_held(flow)
    }

    fn block(&mut self, flow: FlowId) {
        self.unschedule_flow(flow);
        self.flows[flow].class.blocked = true;
        self.wake_at_gates_of(flow);
    }

    /// Schedules a blocked flow again if it may run.
    pub(super) fn unblock(&mut self, flow: FlowId) {
        if !self.flows[flow].class.blocked || self.must_block(flow) {
            return;
        }
        self.flows[flow].class.blocked = false;
        if self.flows[flow].class.ready_flows > 0 {
            self.rejoin(flow);
        }
    }

    /// Schedules a flow again that a limit held up.
    fn rejoin(&mut self, flow: FlowId) {
        let controller = &self.controllers[self.flows[flow].controller];
        self.flows[flow].class.rejoin(controller.virtual_clock);
        self.schedule_flow(flow);
    }

    /// A flow has a ready key and had none.
    pub(super) fn flow_ready(&mut self, flow: FlowId, best: i32, now: u64) {
        let (controller, tenant) = self.parents(flow);
        let parent = &mut self.controllers[controller];
        let owner = &mut self.tenants[tenant];
        let ready = &mut self.flows[flow];
        ready.best = best;
        ready.class.add_ready_flow(now, parent.virtual_clock);
        parent.class.add_ready_flow(now, owner.virtual_clock);
        owner.class.add_ready_flow(now, self.virtual_clock);
        owner.ready_controllers += u32::from(parent.class.ready_flows == 1);
        self.ready_tenants += u32::from(owner.class.ready_flows == 1);
        if !self.flows[flow].class.blocked {
            self.schedule_flow(flow);
        }
    }

    /// The highest priority of a flow's ready keys may have changed.
    pub(super) fn set_best(&mut self, flow: FlowId, best: i32) {
        if self.flows[flow].best != best {
            self.flows[flow].best = best;
            self.reschedule_flow(flow);
        }
    }

    /// A flow's last ready key is gone.
    pub(super) fn flow_emptied(&mut self, flow: FlowId, now: u64) {
        let (controller, tenant) = self.parents(flow);
        let parent = &mut self.controllers[controller];
        let owner = &mut self.tenants[tenant];
        self.flows[flow].class.remove_ready_flow(now);
        parent.class.remove_ready_flow(now);
        owner.class.remove_ready_flow(now);
        owner.ready_controllers -= u32::from(parent.class.ready_flows == 0);
        self.ready_tenants -= u32::from(owner.class.ready_flows == 0);
        match self.flows[flow].parked.take() {
            Some((gate, rank)) => {
                self.gates[gate].parked.remove(&(rank, flow));
                self.update_open_gates(gate);
            }
            None if self.flows[flow].class.blocked => {}
            None => self.unschedule_flow(flow),
        }
        self.wake_at_gates_of(flow);
    }

    /// One of a flow's keys begins to run; `best` is the highest priority of those that stay ready. Returns the slot time charged.
    pub(super) fn start(&mut self, flow: FlowId, best: Option<i32>, now: u64) -> u64 {
        let (controller, tenant) = self.parents(flow);
        let class = &mut self.flows[flow].class;
        let charged = class.next_charge();
        let parent = &mut self.controllers[controller];
        parent.count_turn(flow);
        // It may have been passed over for long, and must not make up for all of that at the cost of the others.
        class.rejoin(parent.virtual_clock);
        let siblings = parent.class.ready_flows;
        parent.virtual_clock = class.clock_after(parent.virtual_clock, charged, siblings);
        class.charge(charged);
        let owner = &mut self.tenants[tenant];
        let (clock, siblings) = (owner.virtual_clock, owner.ready_controllers);
        owner.virtual_clock = parent.class.clock_after(clock, charged, siblings);
        parent.class.charge(charged);
        let (clock, siblings) = (self.virtual_clock, self.ready_tenants);
        self.virtual_clock = owner.class.clock_after(clock, charged, siblings);
        owner.class.charge(charged);

        self.running += 1;
        for gate in self.gates_of(flow) {
            self.gates[gate].running += 1;
        }
        self.count_start(self.flows[flow].tenant_cluster);
        match best {
            Some(best) => self.flows[flow].best = best,
            None => self.flow_emptied(flow, now),
        }
        self.reschedule_flow(flow);
        self.reschedule_controller(controller);
        self.wake_at_gates_of(flow);
        charged
    }

    /// A run of a flow's key has ended.
    pub(super) fn finish(
        &mut self,
        flow: FlowId,
        charged: u64,
        slot_time: u64,
        now: u64,
        ended: Ended,
    ) {
        let (controller, tenant) = self.parents(flow);
        let classes = [
            &mut self.flows[flow].class,
            &mut self.controllers[controller].class,
            &mut self.tenants[tenant].class,
        ];
        for class in classes {
            class.correct(now, charged, slot_time);
        }
        self.running -= 1;
        self.unblock(flow);
        self.reschedule_flow(flow);
        self.reschedule_controller(controller);
        for gate in self.gates_of(flow) {
            self.gates[gate].running -= 1;
            self.wake_at(gate);
        }
        self.count_end(self.flows[flow].tenant_cluster, now, ended);
    }

    fn parents(&self, flow: FlowId) -> (ControllerIndex, TenantId) {
        let controller = self.flows[flow].controller;
        (controller, self.controllers[controller].tenant)
    }

    fn schedule_flow(&mut self, id: FlowId) {
        for gate in self.gates_of(id) {
            self.gates[gate].scheduled += 1;
        }
        let Flow {
            class,
            best,
            controller,
            ..
        } = &mut self.flows[id];
        let controller = *controller;
        class.schedule(id, *best, &mut self.controllers[controller].schedule);
        self.reschedule_controller(controller);
    }

    fn unschedule_flow(&mut self, id: FlowId) {
        for gate in self.gates_of(id) {
            self.gates[gate].scheduled -= 1;
        }
        let flow = &mut self.flows[id];
        let controller = flow.controller;
        let schedule = &mut self.controllers[controller].schedule;
        flow.class.unschedule(id, schedule);
        self.reschedule_controller(controller);
    }

    /// Moves a scheduled flow after its virtual time or its priority has changed.
    fn reschedule_flow(&mut self, id: FlowId) {
        let flow = &mut self.flows[id];
        if flow.class.scheduled.is_some() {
            let schedule = &mut self.controllers[flow.controller].schedule;
            flow.class.schedule(id, flow.best, schedule);
        }
    }

    /// Corrects a controller's place in the schedule after anything that it depends on has changed.
    pub(super) fn reschedule_controller(&mut self, id: ControllerIndex) {
        let controller = &mut self.controllers[id];
        let class = &mut controller.class;
        let runnable =
            !class.blocked && !controller.schedule.is_empty() && class.running < controller.slots;
        let tenant = controller.tenant;
        let owner = &mut self.tenants[tenant];
        class.reschedule(id, runnable, owner.virtual_clock, &mut owner.schedule);
        self.reschedule_tenant(tenant);
    }

    /// Corrects a tenant's place in the schedule after anything that it depends on has changed.
    pub(super) fn reschedule_tenant(&mut self, id: TenantId) {
        let tenant = &mut self.tenants[id];
        let runnable = !tenant.schedule.is_empty() && tenant.class.running < tenant.slots;
        let class = &mut tenant.class;
        class.reschedule(id, runnable, self.virtual_clock, &mut self.schedule);
    }

    /// Takes a flow out of the schedule until there is room behind a gate.
    fn park(&mut self, flow: FlowId, gate: GateId) {
        self.unschedule_flow(flow);
        let rank = self.rank(flow);
        self.flows[flow].parked = Some((gate, rank));
        self.gates[gate].parked.insert((rank, flow));
        // It is no longer scheduled for its other gates, which may now want another flow.
        self.wake_at_gates_of(flow);
    }

    fn rank(&self, flow: FlowId) -> Rank {
        let (controller, tenant) = self.parents(flow);
        let tenant = self.tenants[tenant].class.vtime;
        let controller = self.controllers[controller].class.vtime;
        [tenant, controller, self.flows[flow].class.vtime]
    }

    /// Wakes the first flow that is parked at a gate.
    fn wake(&mut self, gate: GateId) {
        // Flows are parked by the rank that they had at that time.
        for _ in 0..CORRECTED_RANKS {
            let mut parked = self.gates[gate].parked.iter();
            let (Some(&(rank, flow)), second) = (parked.next(), parked.next()) else {
                return;
            };
            let second = second.map_or([u64::MAX; 3], |second| second.0);
            let fresh = self.rank(flow);
            if fresh <= rank || fresh <= second {
                break;
            }
            let parked = &mut self.gates[gate].parked;
            parked.remove(&(rank, flow));
            parked.insert((fresh, flow));
            self.flows[flow].parked = Some((gate, fresh));
        }
        if let Some(&(_, flow)) = self.gates[gate].parked.first() {
            self.unpark(flow, gate);
            self.update_open_gates(gate);
        }
    }

    /// Schedules a flow again, if it is parked at this gate.
    pub(super) fn unpark(&mut self, flow: FlowId, gate: GateId) {
        let Some((at, rank)) = self.flows[flow].parked else {
            return;
        };
        if at == gate {
            self.gates[gate].parked.remove(&(rank, flow));
            self.flows[flow].parked = None;
            self.rejoin(flow);
        }
    }

    fn wake_at_gates_of(&mut self, flow: FlowId) {
        for gate in self.gates_of(flow) {
            self.wake_at(gate);
        }
    }

    /// Wakes as many flows as may pass a gate, after anything that it depends on has changed.
    pub(super) fn wake_at(&mut self, gate: GateId) {
        if self.gates[gate].parked.is_empty() && self.open_gates.is_empty() {
            return;
        }
        while self.gates[gate].wants_more() {
            self.wake(gate);
        }
        self.update_open_gates(gate);
    }

    pub(super) fn update_open_gates(&mut self, gate: GateId) {
        if self.gates[gate].can_wake() {
            self.open_gates.insert(gate);
        } else if !self.open_gates.is_empty() {
            self.open_gates.remove(&gate);
        }
    }
}
