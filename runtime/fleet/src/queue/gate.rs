//! Limits that many lanes run into together: those of clusters. Entry point: [`Gate`].
//!
//! A lane whose turn it is but that stands before a full gate parks there, out of everybody's way. When a run behind the gate ends,
//! no more lanes are woken than can go through, those of whoever has had least first: with a thousand tenants before one cluster
//! a turn must not cost a thousand steps.

use std::collections::BTreeSet;

/// A gate's place among all gates.
pub(super) type GateId = u32;

/// A limit on what runs in a cluster, over all tenants or within one.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub(super) limit: u32,
    /// Those that have stepped aside included.
    pub(super) running: u32,
    /// Of them, those that have stepped aside.
    pub(super) aside: u32,
    /// Lanes that take turns and lead through this gate.
    pub(super) active: u32,
    /// Lanes that wait here, by the virtual time that they had when they came.
    pub(super) parked: BTreeSet<(u64, u32)>,
    /// Lanes, of any state, that lead through this gate.
    pub(super) lanes: u32,
    /// The tenant, if the limit is that of a cluster within a tenant.
    pub(super) tenant: Option<u32>,
}

impl Gate {
    /// Runs that may still begin; none behind a gate that is closed.
    pub(super) fn room(&self, closed: bool) -> u32 {
        if closed {
            return 0;
        }
        self.limit.saturating_sub(self.running)
    }

    /// Whether more could run than lanes stand ready for.
    pub(super) fn wants_more(&self, closed: bool) -> bool {
        !self.parked.is_empty() && self.active < self.room(closed)
    }

    /// Whether a parked lane could go through.
    pub(super) fn has_slack(&self, closed: bool) -> bool {
        !self.parked.is_empty() && self.room(closed) > 0
    }
}
