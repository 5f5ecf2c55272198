//! Why a manager cannot be built, run or changed. Entry point: [`ManagerError`].

use crate::election::ElectionError;
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::shard::ShardingError;

/// Why a manager cannot be built, or a controller not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// Two controllers of one tenant have one name.
    #[error("tenant {tenant} has two reconcilers named {name}: rename one")]
    DuplicateController {
        /// The tenant.
        tenant: TenantName,
        /// The name.
        name: ControllerName,
    },
    /// Two providers have one name.
    #[error("two providers are named {0:?}: rename one")]
    DuplicateProvider(String),
    /// The local cluster has a name.
    #[error("the local cluster is named {0:?}, but its name is always empty")]
    NamedLocal(ClusterName),
    /// The manager is draining.
    #[error("the manager is stopping")]
    Stopping,
    /// The election cannot be held.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// There is no cluster to keep the lease in.
    #[error(
        "leader election needs a local cluster for its lease: add one, or run one process without it"
    )]
    ElectionWithoutLocal,
    /// The fleet cannot be sharded.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// There is no cluster to keep the leases in.
    #[error(
        "shards need a local cluster for their leases: add one, or run one process without them"
    )]
    ShardingWithoutLocal,
    /// A leader does all the work, and members of a sharded fleet share it.
    #[error("leader election and shards exclude each other: remove one of them")]
    ElectionAndShards,
    /// The process cannot listen for signals.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::ErrorKind),
    /// A second signal arrived during the drain.
    #[error("ended by a second signal: running reconciles were cut off")]
    Interrupted,
    /// The lease was lost: another process may lead by now.
    #[error("leader election lost: the lease {namespace}/{name} could not be renewed in time")]
    ElectionLost {
        /// The namespace of the lease.
        namespace: String,
        /// The name of the lease.
        name: String,
    },
}
