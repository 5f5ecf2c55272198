//! A rule: what it names and whether it covers a call. Entry point: [`Rule`].

use super::{Access, BINDING_LABELS, ClusterFacts, Right, Verb, flow};
use crate::kind::FLEET_GROUP;
use crate::name::{ClusterName, NamePattern};
use crate::pairs::Pairs;
use crate::selector::{LabelSelector, LabelSet};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A rule of a grant: RBAC's rule, times namespaces, times clusters. An empty list names nothing, except `resource_names`.
///
/// As text it is YAML on one line, to paste as an item of a Reconciler's `rules`. Without namespaces its JSON is a rule of a role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Rule {
    /// `apiGroups`: names, `""` for the core group, `*` for all.
    pub api_groups: Vec<Arc<str>>,
    /// `resources`: `pods`, `pods/status`, `*` for all with their subresources, `*/status` for one subresource of all. A resource
    /// does not include its subresources.
    pub resources: Vec<Arc<str>>,
    /// `verbs`: names, or `*` for all.
    pub verbs: Vec<Arc<str>>,
    /// `resourceNames`: names of objects; empty for all. As in RBAC, a rule with names grants no call whose URL has no name: no create
    /// and no deletecollection, and a list or watch only if it selects `metadata.name=` one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<Arc<str>>,
    /// `namespaces`: exact names, or `*` for all and for cluster-scoped resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Arc<str>>,
    /// `clusters`; `None` for the cluster of the request that is being reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterRule>,
}

/// The clusters of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterRule {
    /// Whether it matches the local (hub) cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
    /// Patterns over the names of the other clusters. Empty: any name, if there is a selector; otherwise none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NamePattern>,
    /// The labels that the other clusters must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// The labels of a cluster by which rights may be granted.
pub(super) struct Granting<'a>(pub(super) &'a Pairs);

impl LabelSet for Granting<'_> {
    fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        if key.starts_with(BINDING_LABELS) {
            return None;
        }
        self.0.label(key)
    }
}

impl ClusterRule {
    /// The rule that matches the cluster of this name. A `*` in the name matches any text there, as in every pattern.
    #[must_use]
    pub fn only(name: &ClusterName) -> Self {
        let is_other = !name.is_local();
        let names = is_other.then(|| NamePattern::new(name.as_str()));
        Self {
            local: name.is_local(),
            names: names.into_iter().collect(),
            selector: None,
        }
    }

    /// Whether it matches a cluster.
    #[must_use]
    pub fn matches(&self, cluster: &ClusterFacts<'_>) -> bool {
        if cluster.name.is_local() {
            return self.local;
        }
        let labels = Granting(cluster.labels);
        let selected = |selector: &LabelSelector| selector.matches(&labels);
        self.has_name(cluster.name.as_str()) && self.selector.as_ref().is_none_or(selected)
    }

    /// Whether it matches a cluster of this name, whatever its labels are.
    pub(super) fn covers_any_of(&self, name: &ClusterName) -> bool {
        if name.is_local() {
            return self.local;
        }
        self.selector.is_none() && self.has_name(name.as_str())
    }

    /// Whether it matches the clusters that another rule names, if they have its labels.
    #[must_use]
    pub fn may_match(&self, named: &Self) -> bool {
        let mut names = named.names.iter();
        (self.local || !named.local) && names.all(|name| self.has_name(name.as_str()))
    }

    /// Whether another cluster than the local one may have this name.
    fn has_name(&self, name: &str) -> bool {
        match &self.names[..] {
            [] => self.selector.is_some(),
            names => names.iter().any(|pattern| pattern.matches(name)),
        }
    }

    /// Whether it can match another cluster than the local one.
    #[must_use]
    pub fn matches_others(&self) -> bool {
        !self.names.is_empty() || self.selector.is_some()
    }

    /// Whether it can match any cluster at all.
    pub(super) fn matches_any(&self) -> bool {
        self.local || self.matches_others()
    }
}

fn names(list: &[Arc<str>], name: &str) -> bool {
    list.iter().any(|entry| &**entry == "*" || &**entry == name)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = serde_json::to_value(self).map_err(|_| fmt::Error)?;
        f.write_str(&flow(&value))
    }
}

impl Rule {
    /// The rule with the clusters without which it would be of no use: clusters are objects of the local cluster, and only those are seen
    /// that a rule opens.
    #[must_use]
    pub fn of_use(self) -> Self {
        if !self.api_groups.iter().any(|group| &**group == FLEET_GROUP) {
            return self;
        }
        let clusters = ClusterRule {
            local: true,
            names: vec![NamePattern::any()],
            selector: None,
        };
        Self {
            clusters: Some(clusters),
            ..self
        }
    }

    pub(super) fn allows(&self, access: &Access<'_>) -> bool {
        let within = match access.namespace {
            Some(namespace) => names(&self.namespaces, namespace),
            None => self.namespaces.iter().any(|entry| &**entry == "*"),
        };
        within
            && self.covers(
                access.group,
                access.resource,
                access.subresource,
                access.verb,
            )
            && self.covers_cluster(&access.cluster)
            && self.names(access.name)
    }

    /// Whether it matches an object of this name; without a name, whether it matches all objects.
    pub(super) fn names(&self, name: Option<&str>) -> bool {
        let named = |name: &str| self.resource_names.iter().any(|entry| &**entry == name);
        self.resource_names.is_empty() || name.is_some_and(named)
    }

    /// Whether everything matches, clusters, namespaces and object names not considered.
    pub(super) fn covers(
        &self,
        group: &str,
        resource: &str,
        subresource: Option<&str>,
        verb: Verb,
    ) -> bool {
        let mut resources = self.resources.iter();
        names(&self.verbs, verb.as_str())
            && names(&self.api_groups, group)
            && resources.any(|entry| covers_resource(entry, resource, subresource))
    }

    /// Whether it grants a verb in some namespace of a cluster, on all objects or on those of a name.
    pub(super) fn grants_some(
        &self,
        cluster: &ClusterFacts<'_>,
        group: &str,
        resource: &str,
        verb: Verb,
        name: Option<&str>,
    ) -> bool {
        self.covers(group, resource, None, verb) && self.covers_cluster(cluster) && self.names(name)
    }

    /// Whether it grants a right, namespaces and clusters not considered.
    #[must_use]
    pub fn grants(&self, right: &Right) -> bool {
        let (resource, subresource) = right.resource_parts();
        self.covers(&right.group, resource, subresource, right.verb)
            && self.names(right.name.as_deref())
    }

    pub(super) fn covers_cluster(&self, cluster: &ClusterFacts<'_>) -> bool {
        self.clusters
            .as_ref()
            .map_or(cluster.own, |clusters| clusters.matches(cluster))
    }

    /// Whether it grants whatever another rule grants. Compares entry by entry, and takes different clusters as not included.
    pub(super) fn includes(&self, other: &Self) -> bool {
        let all_of =
            |own: &[Arc<str>], lists: &[Arc<str>]| lists.iter().all(|name| names(own, name));
        let objects = self.resource_names.is_empty()
            || !other.resource_names.is_empty()
                && other
                    .resource_names
                    .iter()
                    .all(|name| self.resource_names.contains(name));
        objects
            && all_of(&self.api_groups, &other.api_groups)
            && all_of(&self.resources, &other.resources)
            && all_of(&self.verbs, &other.verbs)
            && all_of(&self.namespaces, &other.namespaces)
            && self.clusters == other.clusters
    }

    pub(super) fn names_group(&self, group: &str) -> bool {
        names(&self.api_groups, group)
    }
}

/// Whether an entry of a rule's list covers another entry: `*` covers all, `*/status` the status of every resource.
pub(super) fn covers_entry(wide: &str, narrow: &str) -> bool {
    let (resource, subresource) = resource_parts(narrow);
    covers_resource(wide, resource, subresource)
}

pub(super) fn resource_parts(entry: &str) -> (&str, Option<&str>) {
    match entry.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (entry, None),
    }
}

fn covers_resource(entry: &str, resource: &str, subresource: Option<&str>) -> bool {
    if entry == "*" {
        return true;
    }
    match (entry.split_once('/'), subresource) {
        (None, None) => entry == resource,
        (Some((named, sub)), Some(subresource)) => {
            sub == subresource && (named == "*" || named == resource)
        }
        _ => false,
    }
}
