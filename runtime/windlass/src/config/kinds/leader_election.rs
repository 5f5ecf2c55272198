//! Which of several processes works. Entry point: [`LeaderElectionSpec`].

use crate::config::kinds::lease::LeaseFields;
use crate::config::kinds::{Interval, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::election::ElectionOptions;

/// Leader election: of several processes with the same documents one works, the others keep their caches warm. It needs a local
/// cluster, where its Lease lives, and leave to get, create and update that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct LeaderElectionSpec {
    /// Whether the processes elect a leader. Default: false.
    pub(crate) enabled: bool,
    /// The Lease's namespace, which must exist. Default: windlass.
    pub(crate) namespace: Option<String>,
    /// The Lease's name. Default: windlass.
    pub(crate) name: Option<String>,
    /// How long the others wait after the last renewal that they saw. Default: 15s.
    pub(crate) lease_duration: Option<Interval>,
    /// How long a leader that cannot renew goes on, at most three quarters of leaseDuration. Default: 10s.
    pub(crate) renew_deadline: Option<Interval>,
    /// Time between two reads of the Lease, less than five sixths of renewDeadline. Default: 2s.
    pub(crate) retry_period: Option<Interval>,
}

impl LeaderElectionSpec {
    fn fields(&self) -> LeaseFields<'_> {
        LeaseFields {
            path: "spec.leaderElection",
            namespace: self.namespace.as_deref(),
            name: self.name.as_deref(),
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        }
    }

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.fields().check()
    }

    /// Namespace and name of the Lease.
    pub(crate) fn lease(&self) -> (&str, &str) {
        self.fields().names()
    }

    /// The election that is asked for, if one is. This process stands in it under the name of its machine, for people, and what no
    /// other process has.
    pub(crate) fn options(&self, machine: &str) -> Option<ElectionOptions> {
        let (namespace, name) = self.lease();
        self.enabled.then(|| {
            let options = ElectionOptions::new(namespace, name);
            ElectionOptions {
                candidate: format!("{machine}_{}", options.candidate),
                timing: self.fields().timing(),
                ..options
            }
        })
    }
}
