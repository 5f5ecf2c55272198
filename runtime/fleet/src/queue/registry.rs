//! The classes and clusters that exist: made, changed and taken away. Entry point: [`Classes`].

use super::class::{Cluster, Controller, FIRST_AVERAGE, Lane, Share, Tally, Tenant, Totals};
use super::gate::{Gate, GateId};
use super::heap::{Heap, Places};
use super::options::{ClusterState, ControllerOptions, Limits, TenantOptions};
use super::table::Table;
use crate::name::{ClusterName, ControllerName, TenantName};
use ahash::AHashMap;
use std::collections::{BTreeSet, HashSet};

/// The tree of classes, the clusters across it, and whose turn it is; knows of keys only how many there are.
#[derive(Debug, Default)]
pub(super) struct Classes {
    pub(super) limits: Limits,
    /// Runs that have not ended.
    pub(super) running: usize,
    /// Of them, those that have stepped aside.
    pub(super) aside: usize,
    /// Tenants that take turns.
    pub(super) order: Heap,
    /// The virtual time of tenants: that of the one whose turn came last.
    pub(super) turn: u64,
    pub(super) tenants: Vec<Tenant>,
    /// Where tenants stand in `order`.
    pub(super) tenant_places: Places,
    free_tenants: Vec<u32>,
    tenant_ids: AHashMap<TenantName, u32>,
    pub(super) controllers: Vec<Controller>,
    /// Where controllers stand in their tenants' heaps: they do while they have a key that may be handed out as far as their own
    /// limits go.
    pub(super) controller_places: Places,
    free_controllers: Vec<u32>,
    pub(super) lanes: Vec<Lane>,
    /// Where lanes stand in their controllers' heaps.
    pub(super) lane_places: Places,
    free_lanes: Vec<u32>,
    /// By controller and the cluster's name.
    lane_ids: Table,
    /// Lanes without keys. They are kept for what they know of their share, up to a point.
    empty_lanes: usize,
    pub(super) clusters: Vec<Cluster>,
    free_clusters: Vec<u32>,
    cluster_ids: AHashMap<ClusterName, u32>,
    pub(super) gates: Vec<Gate>,
    free_gates: Vec<GateId>,
    tenant_gates: AHashMap<(u32, u32), GateId>,
    /// Gates with room and parked lanes.
    pub(super) slack: BTreeSet<GateId>,
    /// Controllers in clusters whose keys are held, whether they have a lane or not. At most controllers × clusters.
    held: HashSet<(u32, u32)>,
}

impl Classes {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Changes the limits over all.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.refresh_gates();
    }

    /// Makes a tenant, or changes it.
    pub(super) fn set_tenant(&mut self, name: &TenantName, options: TenantOptions) -> u32 {
        let Some(&tenant) = self.tenant_ids.get(name) else {
            let share = Share::new(options.weight, FIRST_AVERAGE, self.turn);
            let made = Tenant {
                name: name.clone(),
                slots: options.concurrency.map_or(u32::MAX, slots),
                options,
                share,
                turn: 0,
                controllers: Heap::default(),
                aside: 0,
                waits_at: BTreeSet::new(),
            };
            let tenant = place(&mut self.tenants, &mut self.free_tenants, made);
            self.tenant_ids.insert(name.clone(), tenant);
            return tenant;
        };
        let changed = &mut self.tenants[tenant as usize];
        changed.options = options;
        changed.slots = options.concurrency.map_or(u32::MAX, slots);
        changed.share.weight = options.weight.max(1);
        self.settle_tenant(tenant);
        self.refresh_gates();
        tenant
    }

    /// Forgets a tenant that has no controllers.
    pub(super) fn remove_tenant(&mut self, name: &TenantName) -> bool {
        let Some(&tenant) = self.tenant_ids.get(name) else {
            return true;
        };
        let free: BTreeSet<u32> = self.free_controllers.iter().copied().collect();
        if self
            .controllers
            .iter()
            .zip(0..)
            .any(|(controller, id)| controller.tenant == tenant && !free.contains(&id))
        {
            return false;
        }
        self.tenant_ids.remove(name);
        self.free_tenants.push(tenant);
        true
    }

    pub(super) fn tenant_id(&self, name: &TenantName) -> Option<u32> {
        self.tenant_ids.get(name).copied()
    }

    pub(super) fn add_controller(
        &mut self,
        tenant: u32,
        name: ControllerName,
        options: ControllerOptions,
    ) -> u32 {
        let turn = self.tenants[tenant as usize].turn;
        let reused = self
            .free_controllers
            .last()
            .map(|place| &self.controllers[*place as usize]);
        let controller = Controller {
            generation: reused.map_or(0, |earlier| earlier.generation.wrapping_add(1)),
            alive: true,
            name,
            tenant,
            slots: slots(options.concurrency),
            options,
            share: Share::new(1, FIRST_AVERAGE, turn),
            turn: 0,
            lanes: Heap::default(),
            adds: 0,
            tally: Tally::default(),
            totals: Totals::default(),
            failures: 0,
            last_message: None,
            refused: false,
            aside: 0,
        };
        place(
            &mut self.controllers,
            &mut self.free_controllers,
            controller,
        )
    }

    /// Forgets a controller that is not alive, once it has no keys.
    pub(super) fn drop_controller(&mut self, controller: u32) {
        self.lanes_of(controller)
            .into_iter()
            .for_each(|lane| self.drop_lane(lane));
        self.held.retain(|(of, _)| *of != controller);
        self.free_controllers.push(controller);
    }

    pub(super) fn set_options(&mut self, controller: u32, options: ControllerOptions) {
        let changed = &mut self.controllers[controller as usize];
        changed.options = options;
        changed.slots = slots(options.concurrency);
        let lanes = self.lanes_that(|lane| lane.controller == controller && lane.share.barred);
        lanes.into_iter().for_each(|lane| self.unstall(lane));
        self.settle_controller(controller);
    }

    pub(super) fn hold_controller(&mut self, controller: u32, held: bool) {
        self.controllers[controller as usize].share.barred = held;
        self.settle_controller(controller);
    }

    /// Holds a controller's keys of one cluster, or lets them go. `hash` is that of the two.
    pub(super) fn hold_lane(
        &mut self,
        hash: u32,
        controller: u32,
        cluster: &ClusterName,
        held: bool,
    ) {
        if held {
            // A lane that is held leaves the turns when its turn comes.
            let id = self.cluster(cluster);
            self.held.insert((controller, id));
            return;
        }
        let Some(id) = self.cluster_id(cluster) else {
            return;
        };
        self.held.remove(&(controller, id));
        if let Some(lane) = self.find_lane(hash, controller, cluster) {
            self.unstall(lane);
        }
    }

    /// Lets go all lanes of a cluster.
    pub(super) fn release_cluster(&mut self, cluster: u32) {
        self.held.retain(|(_, of)| *of != cluster);
        let lanes = self.clusters[cluster as usize].lanes.clone();
        lanes.into_iter().for_each(|lane| self.unstall(lane));
    }

    /// Whether the keys of a lane wait for more than their turn.
    pub(super) fn is_held(&self, lane: &Lane) -> bool {
        !self.held.is_empty() && self.held.contains(&(lane.controller, lane.cluster))
    }

    /// The lanes of a controller, in the order of their numbers: what the queue does must not depend on how a map is laid out.
    pub(super) fn lanes_of(&self, controller: u32) -> Vec<u32> {
        self.lanes_that(|lane| lane.controller == controller)
    }

    fn lanes_that(&self, are: impl Fn(&Lane) -> bool) -> Vec<u32> {
        let lanes = self.lane_ids.places();
        let mut lanes: Vec<u32> = lanes
            .filter(|lane| are(&self.lanes[*lane as usize]))
            .collect();
        lanes.sort_unstable();
        lanes
    }

    pub(super) fn cluster_id(&self, name: &ClusterName) -> Option<u32> {
        self.cluster_ids.get(name).copied()
    }

    /// The cluster of a name, made if there is none.
    pub(super) fn cluster(&mut self, name: &ClusterName) -> u32 {
        if let Some(&cluster) = self.cluster_ids.get(name) {
            self.clusters[cluster as usize].leaving = false;
            return cluster;
        }
        let gate = self.add_gate(None);
        let made = Cluster {
            name: name.clone(),
            state: ClusterState::Ready,
            gate,
            lanes: Vec::new(),
            leaving: false,
        };
        let cluster = place(&mut self.clusters, &mut self.free_clusters, made);
        self.cluster_ids.insert(name.clone(), cluster);
        self.refresh_gate(gate, self.cluster_limit(ClusterState::Ready));
        cluster
    }

    pub(super) fn set_cluster(&mut self, name: &ClusterName, state: ClusterState) {
        let cluster = self.cluster(name);
        self.clusters[cluster as usize].state = state;
        self.refresh_gate(
            self.clusters[cluster as usize].gate,
            self.cluster_limit(state),
        );
    }

    /// Forgets a cluster that is leaving, once it has no lanes.
    pub(super) fn drop_cluster(&mut self, cluster: u32) {
        let dropped = &mut self.clusters[cluster as usize];
        if !dropped.leaving || !dropped.lanes.is_empty() {
            return;
        }
        dropped.leaving = false;
        self.cluster_ids.remove(&dropped.name);
        dropped.name = ClusterName::local();
        let gate = dropped.gate;
        self.drop_gate(gate);
        self.free_clusters.push(cluster);
    }

    /// The lane of a controller's keys in a cluster. `hash` is that of the two.
    pub(super) fn find_lane(
        &self,
        hash: u32,
        controller: u32,
        cluster: &ClusterName,
    ) -> Option<u32> {
        self.lane_ids.find(hash, |lane| {
            let lane = &self.lanes[lane as usize];
            lane.controller == controller && self.clusters[lane.cluster as usize].name == *cluster
        })
    }

    /// Makes such a lane where there is none.
    pub(super) fn add_lane(
        &mut self,
        hash: u32,
        controller: u32,
        cluster: &ClusterName,
        now: u64,
    ) -> u32 {
        let cluster = self.cluster(cluster);
        self.sweep(now);
        let of = &self.controllers[controller as usize];
        let (tenant, share) = (of.tenant, Share::new(1, of.share.average, of.turn));
        let gates = [
            self.clusters[cluster as usize].gate,
            self.tenant_gate(tenant, cluster),
        ];
        gates
            .iter()
            .for_each(|gate| self.gates[*gate as usize].lanes += 1);
        let made = Lane {
            controller,
            cluster,
            share,
            best: 0,
            gates,
            hash,
            parked: None,
            keys: 0,
        };
        let lane = place(&mut self.lanes, &mut self.free_lanes, made);
        self.empty_lanes += 1;
        self.lane_ids.insert(hash, lane);
        self.clusters[cluster as usize].lanes.push(lane);
        lane
    }

    /// A lane has one more key.
    pub(super) fn key_added(&mut self, lane: u32) {
        let lane = &mut self.lanes[lane as usize];
        lane.keys += 1;
        if lane.keys == 1 {
            self.empty_lanes -= 1;
        }
        let cluster = &mut self.clusters[lane.cluster as usize];
        if cluster.leaving {
            // One of the same name has come.
            cluster.leaving = false;
        }
    }

    /// A lane has one key less.
    pub(super) fn key_removed(&mut self, lane: u32) {
        let Lane { keys, cluster, .. } = &mut self.lanes[lane as usize];
        *keys -= 1;
        if *keys > 0 {
            return;
        }
        let cluster = *cluster;
        self.empty_lanes += 1;
        if self.clusters[cluster as usize].leaving {
            self.drop_lane(lane);
        }
    }

    /// Forgets lanes without keys when they are many and the majority, so that each costs little on average.
    fn sweep(&mut self, now: u64) {
        if self.empty_lanes < 4096 || self.empty_lanes * 2 < self.lane_ids.len() {
            return;
        }
        let settled = |lane: &Lane| {
            lane.keys == 0
                && lane
                    .share
                    .is_settled(now, self.controllers[lane.controller as usize].turn)
        };
        let settled = self.lanes_that(settled);
        settled.into_iter().for_each(|lane| self.drop_lane(lane));
    }

    /// Forgets a lane without keys, and its cluster if that only waited for it.
    pub(super) fn drop_lane(&mut self, lane: u32) {
        let Lane {
            cluster,
            gates,
            keys,
            hash,
            ..
        } = self.lanes[lane as usize];
        debug_assert_eq!(keys, 0);
        self.empty_lanes -= 1;
        self.lane_ids.remove(hash, lane);
        self.clusters[cluster as usize]
            .lanes
            .retain(|of| *of != lane);
        for gate in gates {
            let Gate { lanes, tenant, .. } = &mut self.gates[gate as usize];
            *lanes -= 1;
            if let (0, Some(tenant)) = (*lanes, *tenant) {
                self.tenant_gates.remove(&(tenant, cluster));
                self.drop_gate(gate);
            }
        }
        self.free_lanes.push(lane);
        self.drop_cluster(cluster);
    }

    /// The gate of a cluster within a tenant, made if there is none.
    fn tenant_gate(&mut self, tenant: u32, cluster: u32) -> GateId {
        if let Some(&gate) = self.tenant_gates.get(&(tenant, cluster)) {
            return gate;
        }
        let gate = self.add_gate(Some(tenant));
        self.tenant_gates.insert((tenant, cluster), gate);
        self.gates[gate as usize].limit = self.tenant_cluster_limit(tenant);
        gate
    }

    fn add_gate(&mut self, tenant: Option<u32>) -> GateId {
        place(
            &mut self.gates,
            &mut self.free_gates,
            Gate {
                tenant,
                ..Gate::default()
            },
        )
    }

    fn drop_gate(&mut self, gate: GateId) {
        self.slack.remove(&gate);
        self.free_gates.push(gate);
    }

    fn cluster_limit(&self, state: ClusterState) -> u32 {
        match state {
            ClusterState::Ready => self.limits.per_cluster.map_or(u32::MAX, narrow),
            ClusterState::Probing => 1,
            ClusterState::Held => 0,
        }
    }

    fn tenant_cluster_limit(&self, tenant: u32) -> u32 {
        let TenantOptions {
            concurrency,
            per_cluster,
            ..
        } = self.tenants[tenant as usize].options;
        let limit = concurrency.map_or(self.limits.global, |limit| limit.min(self.limits.global));
        narrow(per_cluster.unwrap_or(limit / 4).max(1))
    }

    /// Gives every gate its limit anew.
    fn refresh_gates(&mut self) {
        let clusters = self
            .cluster_ids
            .values()
            .map(|cluster| &self.clusters[*cluster as usize]);
        let tenants = self.tenant_gates.iter();
        let mut limits: Vec<(GateId, u32)> = clusters
            .map(|cluster| (cluster.gate, self.cluster_limit(cluster.state)))
            .chain(tenants.map(|((tenant, _), gate)| (*gate, self.tenant_cluster_limit(*tenant))))
            .collect();
        limits.sort_unstable();
        limits
            .into_iter()
            .for_each(|(gate, limit)| self.refresh_gate(gate, limit));
    }

    fn refresh_gate(&mut self, gate: GateId, limit: u32) {
        self.gates[gate as usize].limit = limit;
        self.settle_gate(gate);
    }
}

/// Puts an item into a free place of a slab, or into a new one.
fn place<T>(items: &mut Vec<T>, free: &mut Vec<u32>, item: T) -> u32 {
    if let Some(place) = free.pop() {
        items[place as usize] = item;
        return place;
    }
    items.push(item);
    (items.len() - 1) as u32
}

/// A limit that no number of runs reaches is as good as none.
fn narrow(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

/// Most runs at once: at least one.
fn slots(concurrency: usize) -> u32 {
    narrow(concurrency.max(1))
}
