//! Shards: which of several processes runs the keys of which clusters, by Leases. Entry points: [`Sharding`], and `Membership`
//! for the manager.
//!
//! Clusters fall into a fixed number of shards by the hash of their names. A process takes part as an *incarnation*, which holds shards. Every
//! incarnation renews a Lease of its own, and one more Lease, the *assignment*, says which incarnation holds which shards. `machine` decides,
//! without I/O; its caller sends its calls, fills caches and ends runs. As in `election`, only time that this process has observed decides.
//!
//! Invariants:
//! * At any instant the assignment names at most one holder of a shard. An incarnation runs keys only of shards for which it has read its own
//!   name there.
//! * A shard passes on only when its holder gives it, after its last run and write have ended, or when its holder is dead. Then the member that
//!   should own it claims it. If that member has yet to see the holder die, another member gives it the shard.
//! * An incarnation is over for ever once its last renewal, or its attempt to join, began `renew_deadline` ago. It is dead for another process
//!   once that process has listed its Lease unchanged over the Lease's whole duration, which is longer. So what is found dead can never hold
//!   anything again, and a call about it may land late.
//! * The fence of an incarnation closes when the incarnation is over, and its writes have landed before any other process finds it dead.
//! * Only the server's answer to a read, or to a call's own success, gives a shard. A call with an unknown outcome gives nothing, and a shard that
//!   was offered to another member by such a call is not run.
//!
//! Cost: an update and a list per process and `retry_period`, and an update of the assignment per change. Nothing grows with the clusters.
//!
//! Not guaranteed: as in `election`, the fence cannot recall a request that has left the process. A restored backup of the API server, or an
//! assignment that is edited by hand, may name two processes for a shard until the next list of both. One that is deleted is harmless.

mod assignment;
mod call;
mod machine;
mod members;
mod membership;
#[cfg(test)]
mod model_tests;
mod ownership;
mod placement;
mod problem;
mod record;
mod set;
mod status;
mod view;

pub use record::{LABEL, member_of};
pub use status::{ShardMember, ShardStatus};

pub(crate) use membership::{Membership, Stay};
pub(crate) use set::ShardSet;

use crate::election::{Timing, TimingError};
use set::MAX_SHARDS;
use std::sync::Arc;

/// The number of shards by default.
pub const DEFAULT_SHARDS: u16 = 256;

/// The most members that a process observes.
pub const MAX_MEMBERS: usize = 1000;

/// The greatest weight of a member.
pub const MAX_WEIGHT: u8 = 100;

/// Longest name of a sharding, in bytes: it is the value of a label.
const MAX_NAME: usize = 63;

/// Longest name of a member, in bytes.
const MAX_MEMBER_NAME: usize = 253;

/// The Leases of a sharding, this member and the timing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharding {
    /// The namespace of the Leases, in the local cluster. It must exist.
    pub namespace: String,
    /// The name of the assignment, the start of the names of members' Leases, and the label's value.
    pub name: String,
    /// The name of this member. A process that starts again under this name gets the same shards. Two processes that live must not share it.
    pub member: Arc<str>,
    /// This member's part of the shards, in proportion to the other members' weights: 1 to [`MAX_WEIGHT`].
    pub weight: u8,
    /// The number of shards, the same for all members: 1 to 1,024.
    pub shards: u16,
    /// How long a member's Lease lasts and how it is renewed.
    pub timing: Timing,
}

/// Why a sharding cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardingError {
    /// The namespace is empty.
    #[error("the leases of a sharding need a namespace")]
    Namespace,
    /// The name is not the name of an object and the value of a label.
    #[error(
        "{0:?} is no name of a sharding: use 1 to {MAX_NAME} lower-case letters, digits and '-', with a letter or a digit at both ends"
    )]
    Name(String),
    /// The member's name is empty or too long.
    #[error("the name of a member has 1 to {MAX_MEMBER_NAME} bytes, and not {0}")]
    Member(usize),
    /// The weight is out of bounds.
    #[error("the weight {0} is out of bounds: use 1 to {MAX_WEIGHT}")]
    Weight(u8),
    /// The number of shards is out of bounds.
    #[error("{0} is not a number of shards: use 1 to {MAX_SHARDS}")]
    Shards(u16),
    /// The times do not fit together.
    #[error(transparent)]
    Timing(#[from] TimingError),
}

impl Sharding {
    /// A sharding by namespace and name, with a random name for this member, a weight of 10, [`DEFAULT_SHARDS`] and the default timing.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            member: format!("{:016x}", fastrand::u64(..)).into(),
            weight: 10,
            shards: DEFAULT_SHARDS,
            timing: Timing::default(),
        }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// [`ShardingError`].
    pub fn check(&self) -> Result<(), ShardingError> {
        if self.namespace.is_empty() {
            return Err(ShardingError::Namespace);
        }
        if !is_label(&self.name) {
            return Err(ShardingError::Name(self.name.chars().take(80).collect()));
        }
        if !(1..=MAX_MEMBER_NAME).contains(&self.member.len()) {
            return Err(ShardingError::Member(self.member.len()));
        }
        if !(1..=MAX_WEIGHT).contains(&self.weight) {
            return Err(ShardingError::Weight(self.weight));
        }
        if !(1..=MAX_SHARDS).contains(&self.shards) {
            return Err(ShardingError::Shards(self.shards));
        }
        Ok(self.timing.check()?)
    }

    /// The name of the Lease of an incarnation.
    fn lease_of(&self, incarnation: &str) -> String {
        format!("{}-{incarnation}", self.name)
    }
}

/// Whether a text is the name of a Lease and the value of a label.
fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (first, last) = (name.bytes().next(), name.bytes().next_back());
    name.len() <= MAX_NAME
        && name.bytes().all(|byte| inner(byte) || byte == b'-')
        && first
            .zip(last)
            .is_some_and(|(first, last)| inner(first) && inner(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharding() -> Sharding {
        Sharding {
            namespace: "windlass".to_owned(),
            name: "fleet".to_owned(),
            member: "windlass-0".into(),
            weight: 10,
            shards: DEFAULT_SHARDS,
            timing: Timing::default(),
        }
    }

    #[test]
    fn options_within_bounds_are_accepted() {
        assert_eq!(sharding().check(), Ok(()));
        for shards in [1, MAX_SHARDS] {
            let options = Sharding {
                shards,
                ..sharding()
            };
            assert_eq!(options.check(), Ok(()));
        }
    }

    #[test]
    fn options_out_of_bounds_are_refused() {
        use ShardingError::{Member, Name, Shards, Weight};
        for name in ["", "-a", "a-", "A", "a.b", &"a".repeat(64)] {
            let name = name.to_owned();
            assert!(matches!(
                Sharding { name, ..sharding() }.check(),
                Err(Name(_))
            ));
        }
        for weight in [0, 101] {
            let options = Sharding {
                weight,
                ..sharding()
            };
            assert_eq!(options.check(), Err(Weight(weight)));
        }
        for shards in [0, 1025] {
            let options = Sharding {
                shards,
                ..sharding()
            };
            assert_eq!(options.check(), Err(Shards(shards)));
        }
        let member = "".into();
        assert_eq!(
            Sharding {
                member,
                ..sharding()
            }
            .check(),
            Err(Member(0))
        );
    }
}
