//! The classes and clusters that exist: made, changed and removed. Entry point: [`Classes`].

use super::ControllerId;
use super::class::{
    Class, Cluster, Controller, Counts, FIRST_AVERAGE, Flow, Schedule, Tenant, Totals,
};
use super::gate::Gate;
use super::key::Lists;
use super::options::{ClusterMode, Limits, QueueOptions, TenantOptions};
use super::slab::{ClusterId, ControllerIndex, FlowId, GateId, Slab, TenantClusterId, TenantId};
use super::slow::{TenantCluster, TenantGates};
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::portion::Portion;
use ahash::AHashMap;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Flows without keys that are kept in any case for what is known of their virtual time; beyond that, as many as flows with keys.
const KEPT_FLOWS: usize = 4096;

/// The tree of classes, and the clusters across it. It knows of keys only how many there are.
#[derive(Debug, Default)]
pub(super) struct Classes {
    pub(super) limits: Limits,
    /// Of the limits of tenants and controllers, which are for all processes together.
    portion: Portion,
    /// Runs that have not ended.
    pub(super) running: usize,
    pub(super) schedule: Schedule<TenantId>,
    /// Where new and idle tenants begin: not before one that was picked, and later with every run.
    pub(super) virtual_clock: u64,
    /// Tenants with ready keys.
    pub(super) ready_tenants: u32,
    pub(super) tenants: Slab<TenantId, Tenant>,
    tenant_ids: BTreeMap<TenantName, TenantId>,
    /// Tenants that have a controller.
    owners: usize,
    pub(super) controllers: Slab<ControllerIndex, Controller>,
    /// How many controllers there have been; part of the id of the next one.
    controllers_added: u32,
    pub(super) flows: Slab<FlowId, Flow>,
    flow_ids: AHashMap<(ControllerIndex, ClusterId), FlowId>,
    empty_flows: usize,
    pub(super) clusters: Slab<ClusterId, Cluster>,
    cluster_ids: AHashMap<ClusterName, ClusterId>,
    pub(super) gates: Slab<GateId, Gate>,
    pub(super) tenant_clusters: Slab<TenantClusterId, TenantCluster>,
    /// Gates with room and parked flows, and no others: [`Classes::pick`] ends because each of them has a flow to wake.
    pub(super) open_gates: BTreeSet<GateId>,
    /// Controllers in clusters whose keys are held, whether they have a flow or not. At most controllers × clusters.
    held: HashSet<(ControllerIndex, ClusterId)>,
}

impl Classes {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.refresh_tenants();
        // What the queue does must not depend on the order of a hash map.
        let mut clusters: Vec<_> = self.cluster_ids.values().copied().collect();
        clusters.sort_unstable();
        clusters
            .into_iter()
            .for_each(|cluster| self.refresh_cluster(cluster));
    }

    /// Changes which part of the limits of tenants and controllers is this process's.
    pub(super) fn set_portion(&mut self, portion: Portion) {
        self.portion = portion;
        self.refresh_tenants();
        let alive = self.controllers.iter_mut().filter(|one| one.alive);
        let controllers: Vec<_> = alive.map(|one| one.id.index).collect();
        for controller in controllers {
            let concurrency = self.controllers[controller].options.concurrency;
            self.controllers[controller].slots = self.slots_of(concurrency);
            self.reschedule_controller(controller);
        }
    }

    /// Most runs of a controller at once.
    fn slots_of(&self, concurrency: Option<usize>) -> u32 {
        concurrency.map_or(u32::MAX, |limit| slots(self.portion.of(limit)))
    }

    /// Adds a tenant, or changes it.
    pub(super) fn set_tenant(&mut self, name: &TenantName, options: TenantOptions) -> TenantId {
        let id = self.tenant_ids.get(name).copied();
        let tenant = id.unwrap_or_else(|| self.add_tenant(name, options));
        let changed = &mut self.tenants[tenant];
        changed.options = options;
        changed.class.weight = options.weight.max(1);
        self.refresh_tenant(tenant);
        tenant
    }

    fn add_tenant(&mut self, name: &TenantName, options: TenantOptions) -> TenantId {
        let tenant = self.tenants.insert(Tenant {
            name: name.clone(),
            slots: 0,
            gates: TenantGates {
                slow: self.gates.insert(Gate::default()),
                unanswered: self.gates.insert(Gate::default()),
            },
            controllers: 0,
            options,
            class: Class::new(options.weight, FIRST_AVERAGE, self.virtual_clock),
            virtual_clock: 0,
            ready_controllers: 0,
            schedule: Schedule::default(),
        });
        self.tenant_ids.insert(name.clone(), tenant);
        tenant
    }

    /// Computes a tenant's slots, and half of them for its gates.
    fn refresh_tenant(&mut self, id: TenantId) {
        let tenant = &mut self.tenants[id];
        let global = self.limits.global;
        // Half is rounded up, so that two tenants leave no slot empty.
        let default = match self.owners {
            0 | 1 => global,
            _ => global.div_ceil(2),
        };
        let own = tenant.options.concurrency;
        let limit = own.map_or(default, |limit| self.portion.of(limit));
        tenant.slots = slots(limit.min(global));
        let half = (tenant.slots / 2).max(1);
        let TenantGates { slow, unanswered } = tenant.gates;
        self.gates[slow].limit = half;
        self.gates[unanswered].limit = half;
        self.reschedule_tenant(id);
        self.wake_at(slow);
        self.update_open_gates(unanswered);
    }

    fn refresh_tenants(&mut self) {
        let tenants: Vec<_> = self.tenant_ids.values().copied().collect();
        tenants
            .into_iter()
            .for_each(|tenant| self.refresh_tenant(tenant));
    }

    /// Changes how many controllers a tenant has. A tenant that alone has any gets all slots.
    fn count_controllers(&mut self, tenant: TenantId, change: i32) {
        let controllers = &mut self.tenants[tenant].controllers;
        let before = usize::from(*controllers > 0);
        *controllers = controllers.saturating_add_signed(change);
        let owners = self.owners + usize::from(*controllers > 0) - before;
        if owners != self.owners {
            self.owners = owners;
            self.refresh_tenants();
        }
    }

    /// Removes a tenant; false if it has controllers.
    pub(super) fn remove_tenant(&mut self, name: &TenantName) -> bool {
        let Some(&tenant) = self.tenant_ids.get(name) else {
            return true;
        };
        if self.tenants[tenant].controllers > 0 {
            return false;
        }
        for cluster in self.clusters.iter_mut() {
            if let Some(part) = cluster.tenants.remove(&tenant) {
                self.tenant_clusters.remove(part);
            }
        }
        let TenantGates { slow, unanswered } = self.tenants[tenant].gates;
        self.remove_gate(slow);
        self.remove_gate(unanswered);
        self.tenant_ids.remove(name);
        self.tenants.remove(tenant);
        true
    }

    pub(super) fn tenant_id(&self, name: &TenantName) -> Option<TenantId> {
        self.tenant_ids.get(name).copied()
    }

    pub(super) fn add_controller(
        &mut self,
        tenant: TenantId,
        name: ControllerName,
        options: QueueOptions,
    ) -> ControllerId {
        let virtual_clock = self.tenants[tenant].virtual_clock;
        self.controllers_added = self.controllers_added.wrapping_add(1);
        let number = self.controllers_added;
        self.count_controllers(tenant, 1);
        let slots_of_all = self.slots_of(options.concurrency);
        let index = self.controllers.insert_with(|index| Controller {
            id: ControllerId { index, number },
            alive: true,
            name,
            tenant,
            slots: slots_of_all,
            flow_slots: slots(options.per_cluster),
            options,
            class: Class::new(1, FIRST_AVERAGE, virtual_clock),
            virtual_clock: 0,
            passed_over: 0,
            schedule: Schedule::default(),
            counts: Counts::default(),
            totals: Totals::default(),
            failures: 0,
            last_message: None,
            last_blame: None,
            refused: false,
        });
        self.controllers[index].id
    }

    /// Forgets a controller that is not alive, once it has no keys.
    pub(super) fn drop_controller(&mut self, controller: ControllerIndex) {
        self.flows_of(controller)
            .into_iter()
            .for_each(|flow| self.drop_flow(flow));
        self.held.retain(|(of, _)| *of != controller);
        self.controllers.remove(controller);
        self.count_controllers(self.controllers[controller].tenant, -1);
    }

    pub(super) fn set_options(&mut self, controller: ControllerIndex, options: QueueOptions) {
        let slots_of_all = self.slots_of(options.concurrency);
        let changed = &mut self.controllers[controller];
        changed.options = options;
        changed.slots = slots_of_all;
        changed.flow_slots = slots(options.per_cluster);
        let flows = self.flows_that(|flow| flow.controller == controller && flow.class.blocked);
        flows.into_iter().for_each(|flow| self.unblock(flow));
        self.reschedule_controller(controller);
    }

    pub(super) fn hold_controller(&mut self, controller: ControllerIndex, held: bool) {
        self.controllers[controller].class.blocked = held;
        self.reschedule_controller(controller);
    }

    /// Holds a controller's keys of one cluster, or releases them.
    pub(super) fn hold_flow(
        &mut self,
        controller: ControllerIndex,
        cluster: &ClusterName,
        held: bool,
    ) {
        if held {
            // A held flow leaves the schedule when it is next.
            let cluster = self.cluster(cluster);
            self.held.insert((controller, cluster));
            return;
        }
        let Some(cluster) = self.cluster_id(cluster) else {
            return;
        };
        self.held.remove(&(controller, cluster));
        if let Some(flow) = self.find_flow(controller, cluster) {
            self.unblock(flow);
        }
    }

    /// Releases all flows of a cluster.
    pub(super) fn release_cluster(&mut self, cluster: ClusterId) {
        self.held.retain(|(_, of)| *of != cluster);
        let flows = self.clusters[cluster].flows.clone();
        flows.into_iter().for_each(|flow| self.unblock(flow));
    }

    pub(super) fn is_held(&self, flow: &Flow) -> bool {
        !self.held.is_empty() && self.held.contains(&(flow.controller, flow.cluster))
    }

    pub(super) fn flows_of(&self, controller: ControllerIndex) -> Vec<FlowId> {
        self.flows_that(|flow| flow.controller == controller)
    }

    /// Sorted: what the queue does must not depend on the order of a hash map.
    fn flows_that(&self, are: impl Fn(&Flow) -> bool) -> Vec<FlowId> {
        let flows = self.flow_ids.values().copied();
        let mut flows: Vec<_> = flows.filter(|flow| are(&self.flows[*flow])).collect();
        flows.sort_unstable();
        flows
    }

    pub(super) fn cluster_id(&self, name: &ClusterName) -> Option<ClusterId> {
        self.cluster_ids.get(name).copied()
    }

    /// All clusters that it knows. Sorted: what the queue does must not depend on the order of a hash map.
    pub(super) fn known_clusters(&self) -> Vec<ClusterId> {
        let mut clusters: Vec<_> = self.cluster_ids.values().copied().collect();
        clusters.sort_unstable();
        clusters
    }

    /// The cluster of a name, made if there is none.
    pub(super) fn cluster(&mut self, name: &ClusterName) -> ClusterId {
        if let Some(&cluster) = self.cluster_ids.get(name) {
            self.clusters[cluster].leaving = false;
            return cluster;
        }
        let cluster = self.clusters.insert(Cluster {
            name: name.clone(),
            state: ClusterMode::Ready,
            gate: self.gates.insert(Gate::default()),
            flows: Vec::new(),
            tenants: BTreeMap::new(),
            leaving: false,
        });
        self.cluster_ids.insert(name.clone(), cluster);
        self.refresh_cluster(cluster);
        cluster
    }

    pub(super) fn set_cluster(&mut self, name: &ClusterName, state: ClusterMode) {
        let cluster = self.cluster(name);
        let before = std::mem::replace(&mut self.clusters[cluster].state, state);
        self.refresh_cluster(cluster);
        if state == ClusterMode::Ready && before != state {
            self.reset_answers(cluster);
        }
    }

    /// Computes the limit of a cluster's gate.
    fn refresh_cluster(&mut self, cluster: ClusterId) {
        let Cluster { gate, state, .. } = self.clusters[cluster];
        self.gates[gate].limit = match state {
            ClusterMode::Ready => saturated(self.limits.per_cluster),
            ClusterMode::Probing => 1,
            ClusterMode::Held => 0,
        };
        self.wake_at(gate);
    }

    /// Forgets a cluster that is leaving, once it has no flows.
    pub(super) fn drop_cluster(&mut self, cluster: ClusterId) {
        let dropped = &mut self.clusters[cluster];
        if !dropped.leaving || !dropped.flows.is_empty() {
            return;
        }
        dropped.leaving = false;
        self.cluster_ids.remove(&dropped.name);
        dropped.name = ClusterName::local();
        for part in std::mem::take(&mut dropped.tenants).into_values() {
            self.tenant_clusters.remove(part);
        }
        let gate = dropped.gate;
        self.remove_gate(gate);
        self.clusters.remove(cluster);
    }

    fn remove_gate(&mut self, gate: GateId) {
        self.open_gates.remove(&gate);
        self.gates.remove(gate);
    }

    /// The flow of a controller's keys in a cluster.
    pub(super) fn find_flow(
        &self,
        controller: ControllerIndex,
        cluster: ClusterId,
    ) -> Option<FlowId> {
        self.flow_ids.get(&(controller, cluster)).copied()
    }

    /// Adds the flow of a controller's keys in a cluster, which must not exist.
    pub(super) fn add_flow(
        &mut self,
        controller: ControllerIndex,
        cluster: ClusterId,
        now: u64,
    ) -> FlowId {
        self.sweep(now);
        let Controller {
            ref class,
            virtual_clock,
            tenant,
            ..
        } = self.controllers[controller];
        let class = Class::new(1, class.average, virtual_clock);
        let tenant_cluster = self.tenant_cluster(tenant, cluster);
        let flow = self.flows.insert(Flow {
            class,
            controller,
            cluster,
            tenant_cluster,
            best: 0,
            keys: 0,
            lists: Lists::default(),
            parked: None,
        });
        self.empty_flows += 1;
        self.flow_ids.insert((controller, cluster), flow);
        self.clusters[cluster].flows.push(flow);
        self.tenant_clusters[tenant_cluster].flows.push(flow);
        flow
    }

    /// Counts one more key of a flow.
    pub(super) fn key_added(&mut self, flow: FlowId) {
        let flow = &mut self.flows[flow];
        flow.keys += 1;
        if flow.keys == 1 {
            self.empty_flows -= 1;
        }
    }

    /// Counts one key less of a flow.
    pub(super) fn key_removed(&mut self, id: FlowId) {
        let flow = &mut self.flows[id];
        flow.keys -= 1;
        if flow.keys > 0 {
            return;
        }
        self.empty_flows += 1;
        if self.clusters[flow.cluster].leaving {
            self.drop_flow(id);
        }
    }

    /// Forgets flows without keys when they are many and the majority, so that each costs little on average.
    fn sweep(&mut self, now: u64) {
        if self.empty_flows < KEPT_FLOWS || self.empty_flows * 2 < self.flow_ids.len() {
            return;
        }
        let clock = |flow: &Flow| self.controllers[flow.controller].virtual_clock;
        let flows =
            self.flows_that(|flow| flow.keys == 0 && flow.class.is_forgettable(now, clock(flow)));
        flows.into_iter().for_each(|flow| self.drop_flow(flow));
    }

    /// Forgets a flow without keys, and its cluster if that is leaving and has no other.
    pub(super) fn drop_flow(&mut self, id: FlowId) {
        let Flow {
            controller,
            cluster,
            tenant_cluster,
            keys,
            ..
        } = self.flows[id];
        debug_assert_eq!(keys, 0);
        self.empty_flows -= 1;
        self.flow_ids.remove(&(controller, cluster));
        self.clusters[cluster].flows.retain(|flow| *flow != id);
        self.tenant_clusters[tenant_cluster]
            .flows
            .retain(|flow| *flow != id);
        self.flows.remove(id);
        self.drop_cluster(cluster);
    }

    /// A tenant's part of a cluster, made if there is none.
    fn tenant_cluster(&mut self, tenant: TenantId, cluster: ClusterId) -> TenantClusterId {
        let gates = self.tenants[tenant].gates;
        *self.clusters[cluster]
            .tenants
            .entry(tenant)
            .or_insert_with(|| self.tenant_clusters.insert(TenantCluster::new(gates)))
    }
}

/// A limit that no number of runs reaches is as good as none.
fn saturated(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

/// Most runs at once: at least one.
fn slots(concurrency: usize) -> u32 {
    saturated(concurrency.max(1))
}
