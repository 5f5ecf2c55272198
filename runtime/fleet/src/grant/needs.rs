//! Calls that no rule grants, noted instead of denied. Entry point: [`Needs`].

use super::{Access, Right};
use crate::name::ClusterName;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Most calls that are noted. Further ones are left out: a guest could make up names without end.
const MOST: usize = 1000;

/// A call that no rule grants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The cluster; `None`: the one of the request that is being reconciled.
    pub cluster: Option<ClusterName>,
    /// The right to make it, without the object's name: who needs one object needs the next one.
    pub right: Right,
    /// Whether the resource's objects live in namespaces. If so, a right without a namespace is for all of them.
    pub namespaced: bool,
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
        let mut noted = self.0.lock();
        if noted.len() < MOST {
            noted.insert(Need {
                cluster: (!access.cluster.own).then(|| access.cluster.name.clone()),
                right: Right {
                    name: None,
                    ..Right::of(access)
                },
                namespaced: access.namespaced,
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
