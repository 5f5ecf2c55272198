//! Limits that many lanes run into together: those of clusters, and of a tenant's slow clusters. Entry point: [`Gate`].
//!
//! A lane whose turn it is but that stands before a full gate parks there, out of everybody's way. When a run behind the gate ends,
//! no more lanes are woken than can go through, those of the class that has had least first: with a thousand tenants before one
//! cluster a turn must not cost a thousand steps.

use super::slab::Id;
use std::collections::BTreeSet;

/// A gate's place among all gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GateId(u32);

impl Id for GateId {
    fn new(place: u32) -> Self {
        Self(place)
    }

    fn place(self) -> usize {
        self.0 as usize
    }
}

/// What a lane waits at a gate under: the virtual times of its tenant, of its controller and of its own. The least is woken first.
pub(super) type Rank = [u64; 3];

/// A limit on runs, of any number of lanes.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub(super) limit: u32,
    /// Runs of the lanes that lead through it.
    pub(super) running: u32,
    /// Lanes that take turns and lead through it.
    pub(super) active: u32,
    /// Lanes that wait here, by the virtual times that they had when they came.
    pub(super) parked: BTreeSet<(Rank, u32)>,
}

impl Gate {
    /// Runs that may still begin.
    pub(super) fn room(&self) -> u32 {
        self.limit.saturating_sub(self.running)
    }

    /// Whether more could run than lanes stand ready for.
    pub(super) fn wants_more(&self) -> bool {
        !self.parked.is_empty() && self.active < self.room()
    }

    /// Whether a parked lane could go through.
    pub(super) fn has_slack(&self) -> bool {
        !self.parked.is_empty() && self.room() > 0
    }
}
