//! Why a member takes no shard, or should have kept one. Entry point: [`Problem`].

use super::MAX_MEMBERS;
use super::assignment::Damage;
use super::set::ShardSet;
use std::sync::Arc;

/// What people must repair. The errors of calls are the caller's to report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// This process has another number of shards than the assignment. It takes none.
    #[error(
        "this process is configured with {ours} shards, and the fleet with {theirs}: give all processes the same number, or stop them and delete the assignment"
    )]
    Shards {
        /// The number here.
        ours: u16,
        /// The number in the assignment.
        theirs: u16,
    },
    /// The assignment cannot be read. Members keep their shards, and nothing moves.
    #[error("the assignment is damaged: repair its annotation, or delete it")]
    Damaged(#[source] Damage),
    /// The assignment would be too long for an object.
    #[error("the assignment of {0} bytes is too long: use fewer shards or fewer processes")]
    TooLong(usize),
    /// There are too many Leases of members.
    #[error(
        "there are more than {MAX_MEMBERS} members: delete the leases of processes that do not run"
    )]
    Crowded,
    /// A member that lives may run shards by another assignment, which was deleted. Shards without a holder wait for it.
    #[error(
        "{0} may run shards by an assignment that was deleted: it must list the leases, or end"
    )]
    Elsewhere(Arc<str>),
    /// A Lease has the label and does not belong to the sharding.
    #[error(
        "the lease {0:?} has the label of the sharding and is none of its leases: delete it or its label"
    )]
    Foreign(String),
    /// The assignment exists, and the list does not show it.
    #[error(
        "the lease of the assignment exists without its label: if it is an election's, end its processes and delete it; else set the label again"
    )]
    Unlabelled,
    /// Shards passed to others while this incarnation lived, by a write that was not a member's or by a clock that is wrong.
    #[error(
        "the shards {0} were taken from this process, which lives: is a clock wrong, or was the assignment edited?"
    )]
    Taken(ShardSet),
}
