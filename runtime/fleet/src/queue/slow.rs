//! Clusters that do not answer leave half of a tenant's slots to those that do. Entry point: [`TenantCluster`].
//!
//! A cluster becomes slow for a tenant when one of the tenant's runs there is [`SLOW`] old. It stays slow until a run there ends in
//! less and none is as old: a cluster that does not answer is slow between two runs, too. A tenant begins runs in slow clusters only
//! while it has fewer in all of them than half of its slots: their flows pass its gate for slow clusters.
//!
//! It takes a second to find that out. Clusters that have just fallen silent could take every slot meanwhile. So while a tenant
//! uses half of its slots or more, a cluster with a run under way gets another one only within [`ANSWERED_FOR`] after one has ended
//! there. Otherwise its keys wait at the tenant's gate for unanswered clusters.
//!
//! What it does not guarantee: a run is never taken back. What a tenant began in clusters before they were found to be slow goes on and
//! counts: beside the half, one run in each, and more where one had just ended. Many more clusters than slots that fall silent at once
//! can take all of them for as long as their runs may last.

use super::Queue;
use super::registry::Classes;
use super::slab::{ClusterId, FlowId, GateId, TenantClusterId};

/// A cluster is slow when one of its runs is so old, in nanoseconds.
pub(super) const SLOW: u64 = 1_000_000_000;

/// For so long after a run has ended its cluster is known to answer, in nanoseconds. Keys that wait for that begin at once.
pub(super) const ANSWERED_FOR: u64 = 100_000_000;

/// The gates of a tenant, each with a limit of half of its slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct TenantGates {
    /// Of slow clusters. It counts the runs in slow clusters.
    pub(super) slow: GateId,
    /// Of clusters that have not answered lately. It counts all of the tenant's runs. A flow that is parked here is woken when a run in
    /// its cluster ends, or when there is room and nothing else may run.
    pub(super) unanswered: GateId,
}

/// A tenant's part of a cluster.
#[derive(Debug)]
pub(super) struct TenantCluster {
    /// The tenant's.
    pub(super) gates: TenantGates,
    /// The flows of the tenant's controllers in the cluster.
    pub(super) flows: Vec<FlowId>,
    /// Runs of these flows. The gate of slow clusters counts them while the cluster is slow.
    running: u32,
    /// When the last of them ended, if the cluster was there.
    ended: Option<u64>,
    /// Of these runs, those that are [`SLOW`] old. If there is one, the cluster is slow.
    old: u32,
    pub(super) slow: bool,
}

/// What the end of a run says of its cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// It was counted as old.
    pub(super) old: bool,
    /// Its cluster had been removed: a long run says nothing about the cluster that has that name now.
    pub(super) cluster_gone: bool,
}

impl TenantCluster {
    pub(super) fn new(gates: TenantGates) -> Self {
        Self {
            gates,
            flows: Vec::new(),
            running: 0,
            ended: None,
            old: 0,
            slow: false,
        }
    }

    /// Whether it has a run under way, and none has ended lately.
    pub(super) fn is_unanswered(&self, now: u64) -> bool {
        let is_lately = |ended: u64| now < ended.saturating_add(ANSWERED_FOR);
        self.running > 0 && !self.ended.is_some_and(is_lately)
    }
}

impl Queue {
    /// Notes the runs that have become old. Every call that depends on time does so first.
    pub(super) fn mark_old_runs(&mut self, now: u64) {
        while let Some(flow) = self.runs.mark_old(now) {
            let at = self.classes.flows[flow].tenant_cluster;
            self.classes.tenant_clusters[at].old += 1;
            self.classes.set_slow(at, true);
        }
    }
}

impl Classes {
    /// Counts a run that begins.
    pub(super) fn count_start(&mut self, at: TenantClusterId) {
        let cluster = &mut self.tenant_clusters[at];
        cluster.running += 1;
        let TenantGates { unanswered, .. } = cluster.gates;
        self.gates[unanswered].running += 1;
        self.update_open_gates(unanswered);
    }

    /// Counts a run that has ended.
    pub(super) fn count_end(&mut self, at: TenantClusterId, now: u64, run: Ended) {
        let cluster = &mut self.tenant_clusters[at];
        cluster.running -= 1;
        if !run.cluster_gone {
            cluster.ended = Some(now);
        }
        cluster.old -= u32::from(run.old);
        let TenantGates { unanswered, .. } = cluster.gates;
        let in_time = !run.old || run.cluster_gone;
        if in_time && cluster.old == 0 {
            self.set_slow(at, false);
        }
        self.gates[unanswered].running -= 1;
        if !self.gates[unanswered].parked.is_empty() {
            let flows = self.tenant_clusters[at].flows.clone();
            flows
                .into_iter()
                .for_each(|flow| self.unpark(flow, unanswered));
        }
        self.update_open_gates(unanswered);
    }

    /// Forgets when a cluster has answered, and that it was slow, unless it has an old run.
    pub(super) fn reset_answers(&mut self, cluster: ClusterId) {
        let parts = &self.clusters[cluster].tenants;
        let parts: Vec<TenantClusterId> = parts.values().copied().collect();
        for at in parts {
            self.tenant_clusters[at].ended = None;
            self.set_slow(at, self.tenant_clusters[at].old > 0);
        }
    }

    /// Has the flows of a tenant in a cluster pass the gate for slow clusters, or not. Linear in these flows, which are at most one for
    /// each of the tenant's controllers; it takes a run of a second to come here.
    fn set_slow(&mut self, at: TenantClusterId, slow: bool) {
        let cluster = &mut self.tenant_clusters[at];
        if cluster.slow == slow {
            return;
        }
        cluster.slow = slow;
        let (running, flows) = (cluster.running, cluster.flows.clone());
        let gate = cluster.gates.slow;
        let is_scheduled = |flow: &&FlowId| self.flows[**flow].class.scheduled.is_some();
        let scheduled = flows.iter().filter(is_scheduled).count() as u32;
        let through = &mut self.gates[gate];
        if slow {
            through.running += running;
            through.scheduled += scheduled;
        } else {
            through.running -= running;
            through.scheduled -= scheduled;
            flows.into_iter().for_each(|flow| self.unpark(flow, gate));
        }
        self.wake_at(gate);
    }
}
