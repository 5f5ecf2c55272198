//! Calls that no rule grants, noted instead of denied. Entry point: [`Needs`].

use super::{Access, Verb};
use crate::name::ClusterName;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Most calls that are noted. Further ones are left out: a guest could make up names without end.
const MOST: usize = 1000;

/// A call that no rule grants, without the object's name: who needs one object needs the next one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The cluster; `None`: the one of the request that is being reconciled.
    pub cluster: Option<ClusterName>,
    /// `""` for the core group.
    pub group: String,
    /// With its subresource, as in a rule.
    pub resource: String,
    /// `None`: in all namespaces, or a cluster-scoped resource.
    pub namespace: Option<String>,
    /// Whether the resource's objects live in namespaces.
    pub namespaced: bool,
    /// The verb.
    pub verb: Verb,
}

/// What a reconciler did that its rules do not grant. To find its rules in tests: [`Grant::noting`](super::Grant::noting).
#[derive(Debug, Default)]
pub struct Needs(Mutex<BTreeSet<Need>>);

impl Needs {
    /// What was noted so far.
    #[must_use]
    pub fn noted(&self) -> BTreeSet<Need> {
        self.0.lock().clone()
    }

    /// Whether there may be more: no further call is noted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.lock().len() >= MOST
    }

    pub(super) fn note(&self, access: &Access<'_>) {
        let resource = match access.subresource {
            Some(subresource) => format!("{}/{subresource}", access.resource),
            None => access.resource.to_owned(),
        };
        let mut noted = self.0.lock();
        if noted.len() < MOST {
            noted.insert(Need {
                cluster: (!access.cluster.own).then(|| access.cluster.name.clone()),
                group: access.group.to_owned(),
                resource,
                namespace: access.namespace.map(str::to_owned),
                namespaced: access.namespaced,
                verb: access.verb,
            });
        }
    }
}

/// What was noted is no part of what a grant allows.
impl PartialEq for Needs {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Needs {}
