//! The clusters that a provider has engaged in a run. Entry point: [`Engaged::bring_in_line`].

use super::Problem;
use crate::engage::{ClusterSpec, Engage, EngageError};
use crate::name::ClusterName;
use std::collections::BTreeMap;

/// The clusters that a provider has engaged in a run, as it engaged them. In boxes, because the nodes of such a map are half empty.
#[derive(Default)]
pub(super) struct Engaged(BTreeMap<ClusterName, Box<ClusterSpec>>);

impl Engaged {
    /// Disengages the clusters that are no longer wanted, then engages those that are new or changed. A cluster that is refused is added
    /// to the problems, and is tried again by the next call. False if the manager is stopping.
    pub(super) fn bring_in_line(
        &mut self,
        wanted: BTreeMap<ClusterName, ClusterSpec>,
        engage: &dyn Engage,
        problems: &mut Vec<Problem>,
    ) -> bool {
        self.0.retain(|name, _| {
            let stays = wanted.contains_key(name);
            if !stays {
                engage.disengage(name);
            }
            stays
        });
        for (name, spec) in wanted {
            if self.0.get(&name).is_some_and(|there| there.same(&spec)) {
                continue;
            }
            match engage.engage(spec.clone()) {
                Ok(()) => drop(self.0.insert(name, Box::new(spec))),
                Err(EngageError::Stopping) => return false,
                Err(error) => problems.push(Problem {
                    subject: name.to_string(),
                    message: error.to_string(),
                }),
            }
        }
        true
    }

    /// Whether a cluster is engaged.
    pub(super) fn has(&self, name: &ClusterName) -> bool {
        self.0.contains_key(name)
    }

    /// Disengages a cluster, so that the next call of [`Self::bring_in_line`] engages another one of its name.
    pub(super) fn end(&mut self, name: &ClusterName, engage: &dyn Engage) {
        if self.0.remove(name).is_some() {
            engage.disengage(name);
        }
    }
}
