//! What a client may touch. Entry points: [`Grant`] and [`Grant::check`].
//!
//! Rules are those of Kubernetes' RBAC, with the same exactness, times namespaces, times clusters. What no rule grants is
//! denied.

mod denied;
mod identity;
mod rule;
#[cfg(test)]
mod tests;

pub use denied::Denied;
pub use identity::{Identity, IdentityError};
pub use rule::{ClusterRule, Rule};

use crate::name::ClusterName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A verb of the Kubernetes API.
///
/// A server-side apply is [`Verb::Patch`], and [`Verb::Create`] as well where the object may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reading one object.
    Get,
    /// Reading a collection.
    List,
    /// Following a collection or an object.
    Watch,
    /// Making an object.
    Create,
    /// Replacing an object.
    Update,
    /// Changing an object.
    Patch,
    /// Deleting an object.
    Delete,
    /// Deleting a collection.
    DeleteCollection,
}

impl Verb {
    /// The word in rules.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// What a rule can tell of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct ClusterFacts<'a> {
    /// Its name.
    pub name: &'a ClusterName,
    /// Its labels, from its provider.
    pub labels: &'a BTreeMap<String, String>,
    /// Whether it is the cluster of the request that is being reconciled.
    pub own: bool,
}

/// One call, as the URL that it goes to tells it.
#[derive(Debug, Clone, Copy)]
pub struct Access<'a> {
    /// The cluster.
    pub cluster: ClusterFacts<'a>,
    /// `""` for the core group.
    pub group: &'a str,
    /// The plural, for example `configmaps`.
    pub resource: &'a str,
    /// For example `status`.
    pub subresource: Option<&'a str>,
    /// What is done.
    pub verb: Verb,
    /// `None` for a cluster-scoped resource and for all namespaces: both need a rule with namespaces `["*"]`.
    pub namespace: Option<&'a str>,
    /// The object's name where the URL has one, or where a list or watch asks for `metadata.name=` it. A create has none, unless it
    /// is that of a server-side apply.
    pub name: Option<&'a str>,
}

/// The namespaces in which something is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// Every one, and cluster-scoped resources.
    All,
    /// These, at least one.
    Only(BTreeSet<Arc<str>>),
    /// None.
    None,
}

impl Namespaces {
    fn of(names: BTreeSet<Arc<str>>) -> Self {
        if names.is_empty() {
            Self::None
        } else {
            Self::Only(names)
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::All, some) | (some, Self::All) => some,
            (Self::Only(a), Self::Only(b)) => Self::of(a.intersection(&b).cloned().collect()),
        }
    }

    /// Whether a namespace is among them; `None` stands for all of them, and for cluster-scoped resources.
    #[must_use]
    pub fn contains(&self, namespace: Option<&str>) -> bool {
        match (self, namespace) {
            (Self::All, _) => true,
            (Self::Only(names), Some(namespace)) => names.contains(namespace),
            (Self::Only(_), None) | (Self::None, _) => false,
        }
    }
}

/// What a client may touch, and as whom: everything, or what rules grant, and never more than a ceiling of further rules. Cheap to
/// clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Every layer must allow a call; no layer at all allows every call. The ceiling comes last.
    layers: Arc<[Layer]>,
    /// Whom calls that reach a server are made in the name of; none: whoever the cluster's credentials are of.
    identity: Option<Identity>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Layer {
    rules: Arc<[Rule]>,
    /// Whether it is a tenant's ceiling over what its reconcilers' own rules grant.
    ceiling: bool,
}

impl Grant {
    /// Everything, in every cluster: for native code, which is trusted as the process is.
    #[must_use]
    pub fn all() -> Self {
        Self {
            layers: Arc::new([]),
            identity: None,
        }
    }

    /// Nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::new([])
    }

    /// What rules grant.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            layers: Arc::new([Layer {
                rules: rules.into_iter().collect(),
                ceiling: false,
            }]),
            identity: None,
        }
    }

    /// The same, but never more than the rules of a ceiling grant: a call must be allowed by both.
    #[must_use]
    pub fn under(&self, ceiling: impl IntoIterator<Item = Rule>) -> Self {
        let ceiling = Layer {
            rules: ceiling.into_iter().collect(),
            ceiling: true,
        };
        Self {
            layers: self.layers.iter().cloned().chain([ceiling]).collect(),
            identity: self.identity.clone(),
        }
    }

    /// What this grant and another one both allow: what is left of a grant where another takes its place that may be wider or narrower.
    /// In the name of whom the other one says, or else of whom this one says. Equal to this one where the other takes nothing away.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let narrows = |layer: &&Layer| !self.layers.iter().any(|own| layer.covers(own));
        let more = other.layers.iter().filter(narrows);
        Self {
            layers: self.layers.iter().chain(more).cloned().collect(),
            identity: other.identity.clone().or_else(|| self.identity.clone()),
        }
    }

    /// The same, in somebody's name: what reaches a server, every write and every read that no cache answers, is then subject to what
    /// the server itself allows them. Reads from caches, and the watches that fill these, are not: the rules alone decide on them.
    #[must_use]
    pub fn in_the_name_of(self, identity: Option<Identity>) -> Self {
        Self { identity, ..self }
    }

    /// Whom calls that reach a server are made in the name of; `None`: whoever the cluster's credentials are of.
    #[must_use]
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Whether a call is allowed.
    ///
    /// # Errors
    /// [`Denied`], which tells the rule that is missing.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Denied> {
        let missing = self
            .layers
            .iter()
            .find(|layer| !layer.rules.iter().any(|rule| rule.allows(access)));
        missing.map_or(Ok(()), |layer| Err(Denied::new(access, layer.ceiling)))
    }

    /// Where a verb is allowed on all objects of a resource, or on those of a name: what a list or watch without a namespace is
    /// narrowed to. Without a name, rules with resourceNames grant nothing here.
    #[must_use]
    pub fn namespaces(
        &self,
        cluster: &ClusterFacts<'_>,
        group: &str,
        resource: &str,
        verb: Verb,
        name: Option<&str>,
    ) -> Namespaces {
        self.layers
            .iter()
            .fold(Namespaces::All, |namespaces, layer| {
                namespaces.and(layer.namespaces(cluster, group, resource, verb, name))
            })
    }

    /// Whether any rule names a group: if none does, a kind of it is denied without asking the cluster what it is.
    #[must_use]
    pub fn names_group(&self, group: &str) -> bool {
        self.layers
            .iter()
            .all(|layer| layer.rules.iter().any(|rule| rule.names_group(group)))
    }

    /// Whether some rule reaches beyond the request's own cluster, in whatever clusters there may be.
    #[must_use]
    pub fn opens_other_clusters(&self) -> bool {
        self.layers.iter().all(|layer| {
            layer
                .rules
                .iter()
                .any(|rule| rule.clusters.as_ref().is_some_and(ClusterRule::opens_any))
        })
    }

    /// Whether some rule reaches a cluster.
    #[must_use]
    pub fn opens(&self, cluster: &ClusterFacts<'_>) -> bool {
        self.layers
            .iter()
            .all(|layer| layer.rules.iter().any(|rule| rule.covers_cluster(cluster)))
    }

    /// Whether rules reach every cluster that has this name, whatever its labels are. Then it can be said that there is none; else
    /// that would tell which names are taken.
    #[must_use]
    pub fn opens_by_name(&self, name: &ClusterName) -> bool {
        self.layers.iter().all(|layer| {
            let mut clusters = layer.rules.iter().filter_map(|rule| rule.clusters.as_ref());
            clusters.any(|clusters| clusters.covers_any_of(name))
        })
    }
}

impl Layer {
    /// Whether it allows whatever another layer allows, as far as that can be told rule by rule.
    fn covers(&self, other: &Self) -> bool {
        let covered = |rule: &Rule| self.rules.iter().any(|own| own.includes(rule));
        other.rules.iter().all(covered)
    }

    fn namespaces(
        &self,
        cluster: &ClusterFacts<'_>,
        group: &str,
        resource: &str,
        verb: Verb,
        name: Option<&str>,
    ) -> Namespaces {
        let mut names = BTreeSet::new();
        for rule in &*self.rules {
            if !rule.names(name) || !rule.covers(cluster, group, resource, None, verb) {
                continue;
            }
            if rule.namespaces.iter().any(|namespace| &**namespace == "*") {
                return Namespaces::All;
            }
            names.extend(rule.namespaces.iter().cloned());
        }
        Namespaces::of(names)
    }
}
