//! Which of several processes works. Entry point: [`LeaderElectionSpec`].

use crate::config::kinds::{Interval, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::election::{ElectionOptions, Timing};

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
    pub(super) const DEFAULT: &'static str = "windlass";

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        for (field, text) in [("namespace", &self.namespace), ("name", &self.name)] {
            if text.as_deref() == Some("") {
                let path = format!("spec.leaderElection.{field}");
                return Err(Refusal::new(path, "it is empty: name one, or leave it out"));
            }
        }
        let timing = self.timing().check();
        timing.map_err(|error| Refusal::new("spec.leaderElection", error.to_string()))
    }

    fn timing(&self) -> Timing {
        let default = Timing::default();
        let or =
            |interval: Option<Interval>, default| interval.map_or(default, |interval| interval.0);
        Timing {
            lease_duration: or(self.lease_duration, default.lease_duration),
            renew_deadline: or(self.renew_deadline, default.renew_deadline),
            retry_period: or(self.retry_period, default.retry_period),
        }
    }

    /// Namespace and name of the Lease.
    pub(crate) fn lease(&self) -> (&str, &str) {
        (
            self.namespace.as_deref().unwrap_or(Self::DEFAULT),
            self.name.as_deref().unwrap_or(Self::DEFAULT),
        )
    }

    /// The election that is asked for, if one is. This process stands in it under the name of its machine, for people, and what no
    /// other process has.
    pub(crate) fn options(&self, machine: &str) -> Option<ElectionOptions> {
        let (namespace, name) = self.lease();
        self.enabled.then(|| {
            let options = ElectionOptions::new(namespace, name);
            ElectionOptions {
                candidate: format!("{machine}_{}", options.candidate),
                timing: self.timing(),
                ..options
            }
        })
    }
}
