//! Which of several processes works on which clusters. Entry point: [`ShardingSpec`].

use crate::config::kinds::lease::LeaseFields;
use crate::config::kinds::{Interval, Refusal, Within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::shard::{Sharding, ShardingError};

/// Sharding: several processes with the same documents share the clusters, each works on its part. It needs a local cluster, where its
/// Leases live, and leave to list, create, update and delete Leases in their namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ShardingSpec {
    /// Whether the processes share the clusters. Default: false.
    pub(crate) enabled: bool,
    /// The namespace of the Leases, which must exist. Default: windlass.
    pub(crate) namespace: Option<String>,
    /// The name of the assignment's Lease, with which the names of the members' Leases begin. Default: windlass.
    pub(crate) name: Option<String>,
    /// This process's part of the clusters, in proportion to the weights of the others. Default: 10.
    pub(crate) weight: Option<Within<u8, 1, 100>>,
    /// How many shards the clusters fall into, the same for all processes. Default: 256.
    pub(crate) shards: Option<Within<u16, 1, 1024>>,
    /// How long the others wait after the last renewal of a member that they saw. Default: 15s.
    pub(crate) lease_duration: Option<Interval>,
    /// How long a member that cannot renew goes on, at most three quarters of leaseDuration. Default: 10s.
    pub(crate) renew_deadline: Option<Interval>,
    /// Time between two renewals, less than five sixths of renewDeadline. Default: 2s.
    pub(crate) retry_period: Option<Interval>,
}

impl ShardingSpec {
    fn fields(&self) -> LeaseFields<'_> {
        LeaseFields {
            path: "spec.sharding",
            namespace: self.namespace.as_deref(),
            name: self.name.as_deref(),
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        }
    }

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.fields().check()?;
        self.sharding("member").check().map_err(|error| {
            let path = match error {
                ShardingError::Name(_) => "spec.sharding.name",
                _ => "spec.sharding",
            };
            Refusal::new(path, error.to_string())
        })
    }

    /// Namespace and name of the assignment's Lease.
    pub(crate) fn lease(&self) -> (&str, &str) {
        self.fields().names()
    }

    /// The sharding that is asked for, if one is. This process is a member of it under the name of its machine.
    pub(crate) fn options(&self, machine: &str) -> Option<Sharding> {
        self.enabled.then(|| self.sharding(machine))
    }

    fn sharding(&self, member: &str) -> Sharding {
        let (namespace, name) = self.lease();
        let default = Sharding::new(namespace, name);
        Sharding {
            member: member.into(),
            weight: self.weight.map_or(default.weight, Within::get),
            shards: self.shards.map_or(default.shards, Within::get),
            timing: self.fields().timing(),
            ..default
        }
    }
}
