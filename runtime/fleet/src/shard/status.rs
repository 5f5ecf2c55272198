//! The state of a sharding, for status pages. Entry points: [`Status`], and [`ShardStatus`] for others.

use super::Sharding;
use super::ownership::Moves;
use super::problem::Problem;
use super::set::ShardSet;
use super::view::{Identity, View};
use std::sync::Arc;

/// A sharded fleet, as one of its processes knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ShardStatus {
    /// The namespace of the Leases.
    pub namespace: String,
    /// The name of the sharding.
    pub name: String,
    /// The name of this member.
    pub member: String,
    /// The number of shards.
    pub shards: u16,
    /// How many of them this process holds.
    pub held: u32,
    /// How many of them no living member holds.
    pub ownerless: u32,
    /// Shards that this process has taken or given away since it started.
    pub moves: u64,
    /// All members that are known.
    pub members: Vec<ShardMember>,
    /// What people must repair, or the error of the last call about the Leases.
    pub problem: Option<String>,
}

/// A process of a sharded fleet.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShardMember {
    /// Its name; empty: its Lease was never seen.
    pub name: String,
    /// The life of the process under which it holds shards.
    pub incarnation: String,
    /// Its part of the shards, in proportion. 0: unknown.
    pub weight: u8,
    /// Whether its Lease is renewed.
    pub alive: bool,
    /// Whether it gives its shards away.
    pub draining: bool,
    /// How many shards it holds.
    pub held: u32,
    /// How many shards it is ready to take over.
    pub next: u32,
}

impl ShardStatus {
    /// Before anything is known.
    pub(crate) fn before(sharding: &Sharding) -> Self {
        Self {
            namespace: sharding.namespace.clone(),
            name: sharding.name.clone(),
            member: sharding.member.to_string(),
            shards: sharding.shards,
            ownerless: sharding.shards.into(),
            ..Self::default()
        }
    }

    pub(crate) fn of(sharding: &Sharding, status: &Status) -> Self {
        let members = status.members.iter().map(|member| ShardMember {
            name: member.name.to_string(),
            incarnation: member.incarnation.to_string(),
            weight: member.weight,
            alive: member.alive,
            draining: member.draining,
            held: member.holds.len(),
            next: member.next.len(),
        });
        let moves = &status.moves;
        let claimed = moves.free + moves.dead + moves.own;
        Self {
            members: members.collect(),
            held: status
                .members
                .iter()
                .find(|member| member.incarnation == status.incarnation)
                .map_or(0, |member| member.holds.len()),
            ownerless: status.ownerless.len(),
            moves: claimed + moves.given + moves.drained + moves.released,
            problem: status.problem.as_ref().map(ToString::to_string),
            ..Self::before(sharding)
        }
    }
}

/// The fleet as one process knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    /// The incarnation of this process.
    pub(crate) incarnation: Arc<str>,
    /// The number of shards here.
    pub(crate) shards: u16,
    /// All members that are known, by incarnation, and holders without a Lease.
    pub(crate) members: Vec<MemberStatus>,
    /// The shards without a living holder.
    pub(crate) ownerless: ShardSet,
    /// The shards that this process has moved since it started. A move by a call whose answer was lost is not counted.
    pub(crate) moves: Moves,
    /// What people must repair.
    pub(crate) problem: Option<Problem>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberStatus {
    pub(crate) incarnation: Arc<str>,
    /// The stable name; empty: its Lease was never seen.
    pub(crate) name: Arc<str>,
    /// Its part of the shards, in proportion. 0: unknown.
    pub(crate) weight: u8,
    pub(crate) draining: bool,
    /// It renews its Lease and cannot list.
    pub(crate) blind: bool,
    pub(crate) alive: bool,
    /// The shards that it holds.
    pub(crate) holds: ShardSet,
    /// The shards that it is ready to take over.
    pub(crate) next: ShardSet,
}

impl Status {
    pub(crate) fn of(
        view: &View,
        identity: &Identity,
        sharding: &Sharding,
        moves: Moves,
        problem: Option<&Problem>,
    ) -> Self {
        let share = |incarnation: &str| {
            let known = view.known.as_ref();
            known
                .map(|known| known.assignment.share(incarnation))
                .unwrap_or_default()
        };
        let members = view.members.iter().map(|(incarnation, seen)| {
            let (state, share) = (seen.state.as_ref(), share(incarnation));
            MemberStatus {
                incarnation: incarnation.clone(),
                name: state.map_or_else(|| "".into(), |state| state.name.clone()),
                weight: state.map_or(0, |state| state.weight),
                draining: state.is_some_and(|state| state.draining),
                blind: state.is_some_and(|state| state.blind),
                alive: *incarnation == identity.me || view.is_other(identity, incarnation),
                holds: share.holds,
                next: share.next,
            }
        });
        Self {
            incarnation: identity.me.clone(),
            shards: sharding.shards,
            members: members.collect(),
            ownerless: view.ownerless(identity, sharding.shards),
            moves,
            problem: problem.cloned(),
        }
    }

    /// The name of the living member that holds a shard.
    pub(crate) fn owner(&self, shard: u16) -> Option<&Arc<str>> {
        let mut living = self.members.iter().filter(|member| member.alive);
        let owner = living.find(|member| member.holds.contains(shard));
        owner.map(|member| &member.name)
    }

    /// The member that holds a shard, dead or alive.
    #[cfg(test)]
    pub(crate) fn holder(&self, shard: u16) -> Option<&MemberStatus> {
        self.members
            .iter()
            .find(|member| member.holds.contains(shard))
    }
}
