//! The shards of several processes, as both sides of the admin endpoints see them. Entry point: [`ShardsView`].

use serde::{Deserialize, Serialize};

/// A sharded fleet, as one of its processes knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ShardsView {
    /// Whether there are shards. Without them the other fields are empty.
    pub(crate) enabled: bool,
    /// The members, sorted by name.
    pub(crate) items: Vec<MemberView>,
    /// The namespace of the Leases.
    pub(crate) namespace: String,
    /// The name of the assignment's Lease.
    pub(crate) name: String,
    /// The number of shards.
    pub(crate) shards: u64,
    /// How many of them no living member holds.
    pub(crate) shards_without_owner: u64,
    /// How many clusters no living member works on.
    pub(crate) clusters_without_owner: u64,
    /// The first of these clusters.
    pub(crate) without_owner: Vec<String>,
    /// The member that answers.
    pub(crate) member: String,
    /// Shards that this member has taken or given away since it started.
    pub(crate) moves: u64,
    /// Why this member cannot take part; empty: it can.
    pub(crate) problem: String,
    /// The member that works on the cluster that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

/// A process of a sharded fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MemberView {
    /// Its name.
    pub(crate) name: String,
    /// Working, Draining or Dead.
    pub(crate) state: String,
    /// Its part of the shards, in proportion.
    pub(crate) weight: u64,
    /// How many shards it holds.
    pub(crate) shards: u64,
    /// How many shards it is ready to take over.
    pub(crate) next: u64,
    /// How many clusters it works on.
    pub(crate) clusters: u64,
}

impl MemberView {
    /// The states.
    pub(crate) const WORKING: &'static str = "Working";
    pub(crate) const DRAINING: &'static str = "Draining";
    pub(crate) const DEAD: &'static str = "Dead";
}

/// What a drain begins with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DrainReply {
    /// The member that drains.
    pub(crate) member: String,
    /// How many shards it holds.
    pub(crate) shards: u64,
    /// How many members may take them.
    pub(crate) others: u64,
}
