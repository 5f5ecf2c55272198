//! Limits that many flows share: those of clusters, and of a tenant's slow clusters. Entry point: [`Gate`].
//!
//! A flow that is next but whose gate is full parks there and leaves the schedule. When a run behind the gate ends, no more flows are
//! woken than can pass, those with the least virtual time first: with a thousand tenants behind one cluster, a pick must not cost a
//! thousand steps.

use super::slab::FlowId;
use std::collections::BTreeSet;

/// What parked flows are ordered by: the virtual times of the tenant, of the controller and of the flow. The least is woken first.
pub(super) type Rank = [u64; 3];

/// A limit on runs, of any number of flows.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub(super) limit: u32,
    /// Runs of the flows that pass it.
    pub(super) running: u32,
    /// Flows that are scheduled and pass it.
    pub(super) scheduled: u32,
    /// Flows that wait here, by their rank when they parked.
    pub(super) parked: BTreeSet<(Rank, FlowId)>,
}

impl Gate {
    /// Runs that may still begin.
    pub(super) fn room(&self) -> u32 {
        self.limit.saturating_sub(self.running)
    }

    /// Whether more runs may begin than flows are scheduled for.
    pub(super) fn wants_more(&self) -> bool {
        !self.parked.is_empty() && self.scheduled < self.room()
    }

    /// Whether a parked flow could pass.
    pub(super) fn can_wake(&self) -> bool {
        !self.parked.is_empty() && self.room() > 0
    }
}
