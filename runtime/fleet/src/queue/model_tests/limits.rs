//! What may run, counted anew each time. Entry point: [`Model::may_run`].

use super::{Controller, Doing, Id, Key, MILLI, Model, SECOND};
use crate::name::ClusterName;
use crate::queue::ClusterMode;

impl Model {
    fn is_of(&self, tenant: usize) -> impl Fn(&Id) -> bool {
        move |id| self.controllers[id.0].tenant == tenant
    }

    /// Slots of a tenant: those that are written, or half of all, or all if it is alone.
    fn slots(&self, tenant: usize) -> usize {
        let has_controller = |tenant: &usize| {
            let of = |(at, controller): (usize, &Controller)| {
                controller.tenant == *tenant
                    && (controller.alive || self.running(|id| id.0 == at) > 0)
            };
            self.controllers.iter().enumerate().any(of)
        };
        let global = self.limits.global;
        let otherwise = match (0..self.tenants.len()).filter(has_controller).count() {
            1 => global,
            _ => global.div_ceil(2),
        };
        let written = self.tenants[tenant].concurrency;
        written.unwrap_or(otherwise).min(global).max(1)
    }

    /// Whether a key runs for a second already.
    fn is_old(&self, key: &Key) -> bool {
        matches!(key.doing, Doing::Running { started, .. } if self.now >= started + SECOND)
    }

    /// Whether a tenant has such a run in a cluster.
    fn has_old(&self, tenant: usize, cluster: &ClusterName) -> bool {
        let is_there = |id: &Id| self.is_of(tenant)(id) && id.1.cluster == *cluster;
        let mut keys = self.keys.iter();
        keys.any(|(id, key)| is_there(id) && self.is_old(key))
    }

    pub(super) fn find_slow(&mut self) {
        for (id, key) in &self.keys {
            if self.is_old(key) {
                let tenant = self.controllers[id.0].tenant;
                self.slow.insert((tenant, id.1.cluster.clone()));
            }
        }
    }

    /// Only clusters that still are slow stay so.
    pub(super) fn forgive(&mut self, cluster: &ClusterName) {
        self.ended.retain(|(_, of), _| of != cluster);
        let slow = std::mem::take(&mut self.slow);
        let stays =
            |(tenant, of): &(usize, ClusterName)| of != cluster || self.has_old(*tenant, of);
        self.slow = slow.into_iter().filter(stays).collect();
    }

    /// Whether a key may run as far as slow clusters are concerned.
    fn has_room_if_slow(&self, (at, request): &Id) -> bool {
        let tenant = self.controllers[*at].tenant;
        let is_slow = |id: &Id| self.slow.contains(&(tenant, id.1.cluster.clone()));
        let of_slow = self.running(|id| self.is_of(tenant)(id) && is_slow(id));
        let half = (self.slots(tenant) / 2).max(1);
        !self.slow.contains(&(tenant, request.cluster.clone())) || of_slow < half
    }

    fn is_within_limits(&self, id: &Id) -> bool {
        let (at, request) = id;
        let Controller {
            tenant, options, ..
        } = self.controllers[*at];
        let state = self.clusters.get(&request.cluster).copied();
        let cluster = match state.unwrap_or_default() {
            ClusterMode::Ready => self.limits.per_cluster,
            ClusterMode::Probing => 1,
            ClusterMode::Held => 0,
        };
        let is_there = |id: &Id| id.1.cluster == request.cluster;
        !self.held.contains(&(*at, request.cluster.clone()))
            && self.running(|_| true) < self.limits.global
            && self.running(self.is_of(tenant)) < self.slots(tenant)
            && self.running(|id| id.0 == *at) < options.concurrency.unwrap_or(usize::MAX)
            && self.running(|id| id.0 == *at && is_there(id)) < options.per_cluster
            && self.running(is_there) < cluster
    }

    /// Whether a key may run as far as its cluster has answered lately, or half of its tenant's slots are free.
    fn is_answered(&self, (at, request): &Id) -> bool {
        let tenant = self.controllers[*at].tenant;
        let of_tenant = self.is_of(tenant);
        let there = self.running(|id| of_tenant(id) && id.1.cluster == request.cluster);
        let ended = self.ended.get(&(tenant, request.cluster.clone()));
        there == 0
            || ended.is_some_and(|ended| self.now < *ended + 100 * MILLI)
            || self.running(&of_tenant) < (self.slots(tenant) / 2).max(1)
    }

    pub(super) fn may_run(&self, id: &Id) -> bool {
        self.is_within_limits(id) && self.has_room_if_slow(id) && self.is_answered(id)
    }

    /// Counts the keys that only the rules about slow clusters hold up.
    pub(super) fn count_denied(&mut self) {
        self.parked &= self.keys.values().any(|key| key.doing == Doing::Ready);
        for (id, key) in &self.keys {
            if key.doing == Doing::Ready && self.is_within_limits(id) {
                match (self.has_room_if_slow(id), self.is_answered(id)) {
                    (true, true) => continue,
                    (false, true) => self.denied[0] += 1,
                    (true, false) => self.denied[1] += 1,
                    (false, false) => {}
                }
                self.parked = true;
            }
        }
    }

    /// A run that ended in time, or says nothing of its cluster, shows that this is not slow, if no other run does.
    pub(super) fn end_in_cluster(&mut self, (at, request): &Id, in_time: bool, gone: bool) {
        let tenant = self.controllers[*at].tenant;
        if !gone {
            let there = (tenant, request.cluster.clone());
            self.ended.insert(there, self.now);
        }
        if in_time && !self.has_old(tenant, &request.cluster) {
            self.slow.remove(&(tenant, request.cluster.clone()));
        }
    }
}
