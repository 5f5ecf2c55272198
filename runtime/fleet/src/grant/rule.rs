//! A rule: what it names and whether it covers a call. Entry point: [`Rule`].

use super::{Access, BINDING_LABELS, ClusterFacts, Verb};
use crate::name::{ClusterName, NamePattern};
use crate::pairs::Pairs;
use crate::selector::{LabelSelector, LabelSet};
use std::borrow::Cow;
use std::sync::Arc;

/// A rule of a grant: RBAC's rule, times namespaces, times clusters. An empty list names nothing, except `resource_names`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    pub resource_names: Vec<Arc<str>>,
    /// `namespaces`: exact names, or `*` for all and for cluster-scoped resources.
    pub namespaces: Vec<Arc<str>>,
    /// `clusters`; `None` for the cluster of the request that is being reconciled.
    pub clusters: Option<ClusterRule>,
}

/// The clusters of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterRule {
    /// Whether it matches the local (hub) cluster.
    pub local: bool,
    /// Patterns over the names of the other clusters. Empty: any name, if there is a selector; otherwise none.
    pub names: Vec<NamePattern>,
    /// The labels that the other clusters must have.
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
    fn matches(&self, cluster: &ClusterFacts<'_>) -> bool {
        if cluster.name.is_local() {
            return self.local;
        }
        let named = match &self.names[..] {
            [] => self.selector.is_some(),
            names => names
                .iter()
                .any(|pattern| pattern.matches(cluster.name.as_str())),
        };
        named
            && self
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&Granting(cluster.labels)))
    }

    /// Whether it matches a cluster of this name, whatever its labels are.
    pub(super) fn covers_any_of(&self, name: &ClusterName) -> bool {
        if name.is_local() {
            return self.local;
        }
        self.selector.is_none()
            && self
                .names
                .iter()
                .any(|pattern| pattern.matches(name.as_str()))
    }

    /// Whether it can match any cluster at all.
    pub(super) fn matches_any(&self) -> bool {
        self.local || !self.names.is_empty() || self.selector.is_some()
    }
}

fn names(list: &[Arc<str>], name: &str) -> bool {
    list.iter().any(|entry| &**entry == "*" || &**entry == name)
}

impl Rule {
    pub(super) fn allows(&self, access: &Access<'_>) -> bool {
        let within = match access.namespace {
            Some(namespace) => names(&self.namespaces, namespace),
            None => self.namespaces.iter().any(|entry| &**entry == "*"),
        };
        within
            && self.covers(
                &access.cluster,
                access.group,
                access.resource,
                access.subresource,
                access.verb,
            )
            && self.names(access.name)
    }

    /// Whether it matches an object of this name; without a name, whether it matches all objects.
    pub(super) fn names(&self, name: Option<&str>) -> bool {
        let named = |name: &str| self.resource_names.iter().any(|entry| &**entry == name);
        self.resource_names.is_empty() || name.is_some_and(named)
    }

    /// Whether everything matches, namespaces and object names not considered.
    pub(super) fn covers(
        &self,
        cluster: &ClusterFacts<'_>,
        group: &str,
        resource: &str,
        subresource: Option<&str>,
        verb: Verb,
    ) -> bool {
        names(&self.verbs, verb.as_str())
            && names(&self.api_groups, group)
            && self
                .resources
                .iter()
                .any(|entry| covers_resource(entry, resource, subresource))
            && self.covers_cluster(cluster)
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
