//! What a client may do. Entry points: [`Grant`] and [`Grant::check`].
//!
//! A rule is a rule of Kubernetes' RBAC, with the same meaning, for namespaces and clusters. A call that no rule grants is denied.
//! What rules grant, by itself and compared with what is needed, is a [`RuleSet`].

mod bound;
mod denied;
mod flow;
mod identity;
mod needs;
mod noting;
mod right;
mod rule;
mod rule_set;
mod writes;
#[cfg(test)]
mod tests;

pub use bound::ClusterBound;
pub use denied::Denied;
pub use flow::flow;
pub use identity::{Identity, IdentityError};
pub use needs::{Need, Needs, Noted};
pub use right::Right;
pub use rule::{ClusterRule, Rule};
pub use rule_set::RuleSet;

use crate::name::ClusterName;
use crate::pairs::Pairs;
use std::collections::BTreeSet;
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
    /// A verb that no call of a client has. Only servers check it.
    Other(&'static str),
}

impl Verb {
    /// The verbs of calls for objects, which `*` stands for in a rule.
    pub const ALL: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];
    /// Acting as a user, a group or a service account.
    pub const IMPERSONATE: Self = Self::Other("impersonate");
    /// Every verb that a server may ask for.
    pub const ANY: Self = Self::Other("*");

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
            Self::Other(verb) => verb,
        }
    }
}

/// The prefix of a cluster's labels that rules do not see: they are those of an APIBinding, and the owner of the workspace writes them.
pub const BINDING_LABELS: &str = "binding/";

/// What a rule can match of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct ClusterFacts<'a> {
    /// Its name.
    pub name: &'a ClusterName,
    /// Its labels, from its provider.
    pub labels: &'a Pairs,
    /// The name of its provider; `None`: it has none, as the local cluster.
    pub provider: Option<&'a str>,
    /// Whether it is the cluster of the request that is being reconciled.
    pub own: bool,
}

/// One call, as its URL describes it.
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
    /// Whether the resource's objects live in namespaces.
    pub namespaced: bool,
    /// `None` for a cluster-scoped resource and for all namespaces: both need a rule with namespaces `["*"]`.
    pub namespace: Option<&'a str>,
    /// The object's name, if the URL has one or if a list or watch selects `metadata.name=`. A create has none, unless it is part of a
    /// server-side apply.
    pub name: Option<&'a str>,
}

/// The namespaces in which something is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// Every namespace, and cluster-scoped resources.
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

    /// Whether a namespace is allowed; `None` means all namespaces, or a cluster-scoped resource.
    #[must_use]
    pub fn contains(&self, namespace: Option<&str>) -> bool {
        match (self, namespace) {
            (Self::All, _) => true,
            (Self::Only(names), Some(namespace)) => names.contains(namespace),
            (Self::Only(_), None) | (Self::None, _) => false,
        }
    }
}

/// What a client may do, and as which user: everything, or what rules grant, within a ceiling of further rules. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Every layer must allow a call; without a layer every call is allowed. The ceiling comes last.
    layers: Arc<[Layer]>,
    /// Every bound must have the cluster of a call.
    bounds: Arc<[ClusterBound]>,
    /// The user that calls to a server impersonate; none: they use the cluster's credentials as they are.
    identity: Option<Identity>,
    /// Notes the calls that no rule grants, and allows them; none: they are denied. A ceiling and bounds deny in either case. It is no part of
    /// equality.
    needs: Option<Arc<Needs>>,
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
            bounds: Arc::new([]),
            identity: None,
            needs: None,
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
            bounds: Arc::new([]),
            identity: None,
            needs: None,
        }
    }

    /// This grant within a ceiling: both must allow a call.
    #[must_use]
    pub fn with_ceiling(&self, ceiling: impl IntoIterator<Item = Rule>) -> Self {
        let ceiling = Layer {
            rules: ceiling.into_iter().collect(),
            ceiling: true,
        };
        Self {
            layers: self.layers.iter().cloned().chain([ceiling]).collect(),
            ..self.clone()
        }
    }

    /// This grant in no other clusters than these.
    #[must_use]
    pub fn within_clusters(&self, bound: ClusterBound) -> Self {
        Self {
            bounds: self.bounds.iter().cloned().chain([bound]).collect(),
            ..self.clone()
        }
    }

    /// This grant for a cluster that is not known yet: it is not compared with the clusters that bound the grant.
    #[must_use]
    pub fn in_some_cluster(&self) -> Self {
        Self {
            bounds: Arc::new([]),
            ..self.clone()
        }
    }

    /// What both this grant and another one allow: what stays allowed when the other one replaces this one. It impersonates the other
    /// one's user, or else this one's. It equals this grant if the other one removes nothing, and notes if this one does.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let narrows = |layer: &&Layer| !self.layers.iter().any(|own| layer.covers(own));
        let more = other.layers.iter().filter(narrows);
        let bounds = other
            .bounds
            .iter()
            .filter(|bound| !self.bounds.contains(bound));
        Self {
            layers: self.layers.iter().chain(more).cloned().collect(),
            bounds: self.bounds.iter().chain(bounds).cloned().collect(),
            identity: other.identity.clone().or_else(|| self.identity.clone()),
            needs: self.needs.clone(),
        }
    }

    /// This grant, with a user to impersonate: the server also checks that user's rights for each call that reaches it, which is every
    /// write and every read that no cache answers. For reads from caches, and for the watches that fill them, the rules alone decide.
    #[must_use]
    pub fn impersonate(self, identity: Option<Identity>) -> Self {
        Self { identity, ..self }
    }

    /// Whether it allows every call, as [`Self::all`].
    pub(crate) fn is_all(&self) -> bool {
        self.layers.is_empty() && self.bounds.is_empty()
    }

    /// The user that calls to a server impersonate; `None`: they use the cluster's credentials as they are.
    #[must_use]
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Whether a call is allowed.
    ///
    /// # Errors
    /// [`Denied`], which names the missing rule.
    pub fn check(&self, access: &Access<'_>) -> Result<(), Denied> {
        self.bounds
            .iter()
            .try_for_each(|bound| bound.check(access))?;
        let lacks = |layer: &&Layer| !layer.rules.iter().any(|rule| rule.allows(access));
        let mut lacking = None;
        for layer in self.layers.iter().filter(lacks) {
            let denied = || Denied::new(access, layer.ceiling);
            lacking = Some(self.needs_of(layer).ok_or_else(denied)?);
        }
        if let Some(needs) = lacking {
            needs.note(access);
        }
        self.note_uses(|rule| rule.allows(access));
        Ok(())
    }

    /// The namespaces in which a verb is allowed on all objects of a resource, or on the objects of a name. A list or watch without a
    /// namespace is narrowed to them. Without a name, rules with resourceNames grant nothing here.
    #[must_use]
    pub fn namespaces(
        &self,
        cluster: &ClusterFacts<'_>,
        group: &str,
        resource: &str,
        verb: Verb,
        name: Option<&str>,
    ) -> Namespaces {
        if !self.has_cluster(cluster) {
            return Namespaces::None;
        }
        self.note_uses(|rule| rule.grants_some(cluster, group, resource, verb, name));
        self.layers
            .iter()
            .fold(Namespaces::All, |namespaces, layer| {
                namespaces.and(layer.namespaces(cluster, group, resource, verb, name))
            })
    }

    /// Whether any rule names a group. If none does, its kinds are denied without asking the cluster about them.
    #[must_use]
    pub fn names_group(&self, group: &str) -> bool {
        self.layers.iter().all(|layer| {
            let names = layer.rules.iter().any(|rule| rule.names_group(group));
            names || self.needs_of(layer).is_some()
        })
    }

    /// Whether some rule could allow a call in another cluster than the request's.
    #[must_use]
    pub fn reaches_other_clusters(&self) -> bool {
        let bounded = self.bounds.iter().all(ClusterBound::matches_any);
        bounded
            && self.layers.iter().all(|layer| {
                let mut clusters = layer.rules.iter().filter_map(|rule| rule.clusters.as_ref());
                let noting = |local| self.opens_noting(layer, local);
                clusters.any(ClusterRule::matches_any) || noting(true) || noting(false)
            })
    }

    /// Whether some rule could allow a call in a provider's cluster that is not the request's.
    #[must_use]
    pub fn opens_provider_clusters(&self) -> bool {
        let opens = |rule: &Rule| {
            let clusters = rule.clusters.as_ref();
            clusters.is_some_and(ClusterRule::matches_others)
        };
        let mut layers = self.layers.iter();
        layers.all(|layer| layer.rules.iter().any(opens) || self.opens_noting(layer, false))
    }

    /// Whether what it grants in a cluster depends on the labels of the cluster.
    pub(crate) fn selects_by_label(&self) -> bool {
        if self.bounds.iter().any(|bound| bound.selector.is_some()) {
            return true;
        }
        let mut rules = self.layers.iter().flat_map(|layer| layer.rules.iter());
        rules.any(|rule| {
            let clusters = rule.clusters.as_ref();
            clusters.is_some_and(|clusters| clusters.selector.is_some())
        })
    }

    /// Whether some rule allows a call in a cluster.
    #[must_use]
    pub fn reaches(&self, cluster: &ClusterFacts<'_>) -> bool {
        let covered = |layer: &Layer| {
            let covers = layer.rules.iter().any(|rule| rule.covers_cluster(cluster));
            covers || self.opens_noting(layer, cluster.name.is_local())
        };
        self.has_cluster(cluster) && self.layers.iter().all(covered)
    }

    fn has_cluster(&self, cluster: &ClusterFacts<'_>) -> bool {
        self.bounds.iter().all(|bound| bound.admits(cluster))
    }

    /// Whether rules allow calls in a cluster of this name whatever its labels are. Only then may a caller learn that there is no such
    /// cluster; otherwise the answer would reveal which names exist.
    #[must_use]
    pub fn reaches_by_name(&self, name: &ClusterName) -> bool {
        let bounded = self.bounds.iter().all(|bound| bound.has_any_of(name));
        bounded
            && self.layers.iter().all(|layer| {
                let mut clusters = layer.rules.iter().filter_map(|rule| rule.clusters.as_ref());
                clusters.any(|clusters| clusters.covers_any_of(name))
                    || self.opens_noting(layer, name.is_local())
            })
    }
}

impl Layer {
    /// Whether it allows whatever another layer allows. Compares rule by rule, so it may answer no where the truth is yes.
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
            if !rule.grants_some(cluster, group, resource, verb, name) {
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
