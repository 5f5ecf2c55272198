//! What a reconciler does under a grant that notes: for finding its rules in tests. Entry point: [`Needs`].

use super::{Access, ClusterFacts, Right, Rule};
use crate::kind::{FLEET_GROUP, GroupVersionKind};
use crate::name::ClusterName;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Most entries of each kind that are noted. Further ones are left out: a guest could make up names without end.
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

/// What was noted so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Noted {
    /// Calls that no rule grants, and one for each cluster that no rule opens.
    pub needs: BTreeSet<Need>,
    /// The rules that granted a call or opened a cluster.
    pub used: Vec<Rule>,
    /// Kinds in calls that the cluster does not serve, each with the served kind that is most like it, if any is.
    pub unknown: BTreeMap<GroupVersionKind, Option<GroupVersionKind>>,
}

/// What a reconciler did that its rules do not grant, and which rules it used. To find its rules in tests:
/// [`Grant::noting`](super::Grant::noting).
#[derive(Debug, Default)]
pub struct Needs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    noted: Noted,
    /// Clusters that it asked for and no rule opens, each with a right that a rule for it may grant.
    unopened: BTreeMap<ClusterName, Right>,
    /// Clusters that it asked for, each with the rules that opened it. Other labels may have other rules open it.
    openers: Vec<(ClusterName, Vec<Rule>)>,
}

impl Needs {
    /// What was noted so far.
    #[must_use]
    pub fn noted(&self) -> Noted {
        let state = self.0.lock();
        let mut noted = state.noted.clone();
        for (cluster, right) in &state.unopened {
            let mut needs = noted.needs.iter();
            // The rule for such a call opens the cluster too, and one for clusters as objects opens all.
            let opens = |need: &Need| {
                let all = &*need.right.group == FLEET_GROUP;
                all || need.cluster.as_ref() == Some(cluster)
            };
            if !needs.any(opens) {
                noted.needs.insert(Need {
                    cluster: Some(cluster.clone()),
                    right: right.clone(),
                    namespaced: true,
                });
            }
        }
        for (_, rules) in &state.openers {
            if !rules.iter().any(|rule| noted.used.contains(rule)) {
                noted.used.extend(rules.iter().cloned());
            }
        }
        noted
    }

    /// Whether there may be more: something is no longer noted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let state = self.0.lock();
        let most = [
            state.noted.needs.len(),
            state.noted.unknown.len(),
            state.unopened.len(),
            state.openers.len(),
        ];
        most.into_iter().any(|count| count >= MOST)
    }

    /// Notes a call that no rule grants.
    pub(super) fn note(&self, access: &Access<'_>) {
        let needs = &mut self.0.lock().noted.needs;
        if needs.len() < MOST {
            needs.insert(Need {
                cluster: (!access.cluster.own).then(|| access.cluster.name.clone()),
                right: Right {
                    name: None,
                    ..Right::of(access)
                },
                namespaced: access.namespaced,
            });
        }
    }

    /// Notes that a rule granted something. There are as many as the documents have.
    pub(super) fn note_use(&self, rule: &Rule) {
        let used = &mut self.0.lock().noted.used;
        if !used.contains(rule) {
            used.push(rule.clone());
        }
    }

    /// Notes that a cluster was asked for, and the rules that open it. `right`: what a rule may grant there if no call needs one.
    pub(super) fn note_cluster(&self, cluster: &ClusterFacts<'_>, rules: &[Rule], right: Right) {
        let covers = |rule: &&Rule| rule.covers_cluster(cluster);
        let openers: Vec<Rule> = rules.iter().filter(covers).cloned().collect();
        let (state, name) = (&mut *self.0.lock(), cluster.name.clone());
        if openers.is_empty() && state.unopened.len() < MOST {
            state.unopened.insert(name, right);
        } else if !openers.is_empty() && state.openers.len() < MOST {
            let opened = (name, openers);
            if !state.openers.contains(&opened) {
                state.openers.push(opened);
            }
        }
    }

    /// Notes a kind that a cluster does not serve.
    pub(super) fn note_unknown(&self, kind: &GroupVersionKind, like: Option<GroupVersionKind>) {
        let unknown = &mut self.0.lock().noted.unknown;
        if unknown.len() < MOST {
            unknown.insert(kind.clone(), like);
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
