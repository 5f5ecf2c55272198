//! The Leases by which several processes share the work: where they are, and their times. Entry point: [`LeaseFields`].

use crate::config::kinds::{Interval, Refusal};
use windlass_fleet::election::Timing;

/// The fields that leader election and sharding have in common.
pub(super) struct LeaseFields<'a> {
    /// The path of the fields in the document.
    pub(super) path: &'static str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) lease_duration: Option<Interval>,
    pub(super) renew_deadline: Option<Interval>,
    pub(super) retry_period: Option<Interval>,
}

impl<'a> LeaseFields<'a> {
    /// The namespace and the name when nothing else is said.
    pub(super) const DEFAULT: &'static str = "windlass";

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        for (field, text) in [("namespace", self.namespace), ("name", self.name)] {
            if text == Some("") {
                let path = format!("{}.{field}", self.path);
                return Err(Refusal::new(path, "it is empty: name one, or leave it out"));
            }
        }
        let timing = self.timing().check();
        timing.map_err(|error| Refusal::new(self.path, error.to_string()))
    }

    pub(super) fn timing(&self) -> Timing {
        let default = Timing::default();
        let or =
            |interval: Option<Interval>, default| interval.map_or(default, |interval| interval.0);
        Timing {
            lease_duration: or(self.lease_duration, default.lease_duration),
            renew_deadline: or(self.renew_deadline, default.renew_deadline),
            retry_period: or(self.retry_period, default.retry_period),
        }
    }

    /// Namespace and name.
    pub(super) fn names(&self) -> (&'a str, &'a str) {
        (
            self.namespace.unwrap_or(Self::DEFAULT),
            self.name.unwrap_or(Self::DEFAULT),
        )
    }
}
