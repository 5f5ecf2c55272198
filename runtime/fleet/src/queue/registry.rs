//! The classes and clusters that exist: made, changed and taken away. Entry point: [`Classes`].

use super::class::{Cluster, Controller, FIRST_AVERAGE, Lane, Share, Tally, Tenant, Totals};
use super::gate::{Gate, GateId};
use super::heap::{Heap, Places};
use super::options::{ClusterState, ControllerOptions, Limits, TenantOptions};
use super::slab::Slab;
use super::slow::{Halves, Pair, PairId};
use super::table::Table;
use crate::name::{ClusterName, ControllerName, TenantName};
use ahash::AHashMap;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The tree of classes, the clusters across it, and whose turn it is; knows of keys only how many there are.
#[derive(Debug, Default)]
pub(super) struct Classes {
    pub(super) limits: Limits,
    /// Runs that have not ended.
    pub(super) running: usize,
    /// Tenants that take turns.
    pub(super) order: Heap,
    /// The virtual time of tenants: that of the one whose turn came last.
    pub(super) turn: u64,
    pub(super) tenants: Vec<Tenant>,
    /// Where tenants stand in `order`.
    pub(super) tenant_places: Places,
    free_tenants: Vec<u32>,
    tenant_ids: AHashMap<TenantName, u32>,
    /// Tenants that have a controller.
    owners: usize,
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
    pub(super) gates: Slab<GateId, Gate>,
    pub(super) pairs: Slab<PairId, Pair>,
    /// Gates with room and parked lanes, and no others: [`Classes::pick`] ends as each of them has a lane to wake.
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
        self.refresh_tenants();
        let mut clusters: Vec<u32> = self.cluster_ids.values().copied().collect();
        clusters.sort_unstable();
        clusters
            .into_iter()
            .for_each(|cluster| self.refresh_cluster(cluster));
    }

    /// Makes a tenant, or changes it.
    pub(super) fn set_tenant(&mut self, name: &TenantName, options: TenantOptions) -> u32 {
        let Some(&tenant) = self.tenant_ids.get(name) else {
            let share = Share::new(options.weight, FIRST_AVERAGE, self.turn);
            let made = Tenant {
                name: name.clone(),
                slots: 0,
                gates: Halves {
                    slow: self.gates.insert(Gate::default()),
                    upper: self.gates.insert(Gate::default()),
                },
                owned: 0,
                options,
                share,
                turn: 0,
                controllers: Heap::default(),
            };
            let tenant = place(&mut self.tenants, &mut self.free_tenants, made);
            self.tenant_ids.insert(name.clone(), tenant);
            self.refresh_tenant(tenant);
            return tenant;
        };
        let changed = &mut self.tenants[tenant as usize];
        changed.options = options;
        changed.share.weight = options.weight.max(1);
        self.refresh_tenant(tenant);
        tenant
    }

    /// Gives a tenant the slots that are its own now, and half of them to clusters that do not answer.
    fn refresh_tenant(&mut self, tenant: u32) {
        let changed = &mut self.tenants[tenant as usize];
        let global = self.limits.global;
        // Half is rounded up, so that two tenants leave no slot empty.
        let otherwise = match self.owners {
            0 | 1 => global,
            _ => global.div_ceil(2),
        };
        let limit = changed.options.concurrency.unwrap_or(otherwise);
        changed.slots = slots(limit.min(global));
        let half = (changed.slots / 2).max(1);
        let Halves { slow, upper } = changed.gates;
        self.gates[slow].limit = half;
        self.gates[upper].limit = half;
        self.settle_tenant(tenant);
        self.settle_gate(slow);
        self.note_slack(upper);
    }

    fn refresh_tenants(&mut self) {
        let mut tenants: Vec<u32> = self.tenant_ids.values().copied().collect();
        tenants.sort_unstable();
        tenants
            .into_iter()
            .for_each(|tenant| self.refresh_tenant(tenant));
    }

    /// Notes that a tenant has one more controller, or one less: one that is alone has all slots.
    fn count_owned(&mut self, tenant: u32, change: i32) {
        let owned = &mut self.tenants[tenant as usize].owned;
        let before = usize::from(*owned > 0);
        *owned = owned.saturating_add_signed(change);
        let owners = self.owners + usize::from(*owned > 0) - before;
        if owners != self.owners {
            self.owners = owners;
            self.refresh_tenants();
        }
    }

    /// Forgets a tenant that has no controllers.
    pub(super) fn remove_tenant(&mut self, name: &TenantName) -> bool {
        let Some(&tenant) = self.tenant_ids.get(name) else {
            return true;
        };
        if self.tenants[tenant as usize].owned > 0 {
            return false;
        }
        for cluster in &mut self.clusters {
            if let Some(pair) = cluster.pairs.remove(&tenant) {
                self.pairs.remove(pair);
            }
        }
        let Halves { slow, upper } = self.tenants[tenant as usize].gates;
        self.drop_gate(slow);
        self.drop_gate(upper);
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
            slots: options.concurrency.map_or(u32::MAX, slots),
            lane_slots: slots(options.per_cluster),
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
        };
        self.count_owned(tenant, 1);
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
        self.count_owned(self.controllers[controller as usize].tenant, -1);
    }

    pub(super) fn set_options(&mut self, controller: u32, options: ControllerOptions) {
        let changed = &mut self.controllers[controller as usize];
        changed.options = options;
        changed.slots = options.concurrency.map_or(u32::MAX, slots);
        changed.lane_slots = slots(options.per_cluster);
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
        let gate = self.gates.insert(Gate::default());
        let made = Cluster {
            name: name.clone(),
            state: ClusterState::Ready,
            gate,
            lanes: Vec::new(),
            pairs: BTreeMap::new(),
            leaving: false,
        };
        let cluster = place(&mut self.clusters, &mut self.free_clusters, made);
        self.cluster_ids.insert(name.clone(), cluster);
        self.refresh_cluster(cluster);
        cluster
    }

    pub(super) fn set_cluster(&mut self, name: &ClusterName, state: ClusterState) {
        let cluster = self.cluster(name);
        let before = std::mem::replace(&mut self.clusters[cluster as usize].state, state);
        self.refresh_cluster(cluster);
        if state == ClusterState::Ready && before != state {
            // It answers again.
            self.forgive(cluster);
        }
    }

    /// Gives a cluster's gate its limit anew.
    fn refresh_cluster(&mut self, cluster: u32) {
        let Cluster { gate, state, .. } = self.clusters[cluster as usize];
        self.gates[gate].limit = match state {
            ClusterState::Ready => narrow(self.limits.per_cluster),
            ClusterState::Probing => 1,
            ClusterState::Held => 0,
        };
        self.settle_gate(gate);
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
        for pair in std::mem::take(&mut dropped.pairs).into_values() {
            self.pairs.remove(pair);
        }
        let gate = dropped.gate;
        self.drop_gate(gate);
        self.free_clusters.push(cluster);
    }

    fn drop_gate(&mut self, gate: GateId) {
        self.slack.remove(&gate);
        self.gates.remove(gate);
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
        let share = Share::new(1, of.share.average, of.turn);
        let pair = self.pair(of.tenant, cluster);
        let made = Lane {
            controller,
            cluster,
            share,
            best: 0,
            pair,
            hash,
            parked: None,
            keys: 0,
        };
        let lane = place(&mut self.lanes, &mut self.free_lanes, made);
        self.empty_lanes += 1;
        self.lane_ids.insert(hash, lane);
        self.clusters[cluster as usize].lanes.push(lane);
        self.pairs[pair].lanes.push(lane);
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
            pair,
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
        self.pairs[pair].lanes.retain(|of| *of != lane);
        self.free_lanes.push(lane);
        self.drop_cluster(cluster);
    }

    /// A tenant's part of a cluster, made if there is none.
    fn pair(&mut self, tenant: u32, cluster: u32) -> PairId {
        let pairs = &mut self.clusters[cluster as usize].pairs;
        let gates = self.tenants[tenant as usize].gates;
        *pairs
            .entry(tenant)
            .or_insert_with(|| self.pairs.insert(Pair::new(gates)))
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
