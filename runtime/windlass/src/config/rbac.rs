//! The RBAC permissions that a configuration needs for the manager's credentials. Entry point: [`needed`].

mod callers;
mod hub;
mod manifest;
mod objects;
mod permission;
mod review;
#[cfg(test)]
mod tests;

pub(crate) use callers::{callers, nonresource_url};
pub(crate) use hub::{Hub, definitions, in_local};
pub(crate) use manifest::{Subject, lines, manifests, name_by_content, yaml};
pub(crate) use objects::cluster_roles;
pub(crate) use permission::Permissions;
pub(crate) use review::{Findings, Question, Review};
#[cfg(test)]
pub(crate) use tests::permissions;

use crate::config::kinds::{Impersonate, ManagerSpec, ReconcilerSpec, RuleSpec, TenantSpec};
use permission::Permission;
use windlass_fleet::Pairs;
use windlass_fleet::cluster::SHOWN_NAMESPACE;
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::LabelSelector;
use windlass_fleet::source::{ClusterFilter, WatchClusters};

/// The clusters of a set of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The clusters of providers.
    Members,
    /// The local (hub) cluster.
    Local,
}

/// The clusters that permissions are for: all of a side, or one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The side.
    pub(crate) side: Side,
    /// The one cluster of the side; `None`: any of them.
    pub(crate) cluster: Option<Member<'a>>,
}

/// What names and selectors of clusters match, and where its objects are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    /// The cluster's name.
    pub(crate) name: &'a str,
    /// Its labels, from its provider.
    pub(crate) labels: &'a Pairs,
    /// The namespace of its server that it is; `None`: the whole server.
    pub(crate) namespace: Option<&'a str>,
}

impl From<Side> for Place<'_> {
    fn from(side: Side) -> Self {
        Self {
            side,
            cluster: None,
        }
    }
}

impl Place<'_> {
    /// Whether some cluster of the place can be one of these.
    fn meets(&self, filter: &ClusterFilter) -> bool {
        let Some(member) = self.cluster else {
            return true;
        };
        let selector = filter.selector.as_ref();
        self.side == Side::Local
            || filter.names.iter().any(|name| name.matches(member.name))
                && selector.is_none_or(|selector| selector.matches(member.labels))
    }
}

/// The permissions of a reconciler, by the user that needs them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// For the user of the manager's credentials.
    pub(crate) own: Permissions,
    /// For the user whom its tenant impersonates. Empty without such a user.
    pub(crate) user: Permissions,
    /// Those of `own` that its watches need.
    pub(crate) watches: Permissions,
}

/// The parts of a guest's description that matter here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Description {
    /// The clusters that its watches engage.
    pub(crate) scopes: Vec<(WatchClusters, ClusterFilter)>,
    /// Whether its code maps events to requests, of other clusters too.
    pub(crate) maps: bool,
    /// The functions of `cluster` that it calls.
    pub(crate) functions: Vec<String>,
    /// Group and resource of the kinds that it watches.
    pub(crate) watched: Vec<(String, String)>,
}

/// A reconciler and the description of its guest.
pub(crate) struct Work<'a> {
    /// Its document.
    pub(crate) spec: &'a ReconcilerSpec,
    /// Its tenant's document.
    pub(crate) tenant: Option<&'a TenantSpec>,
    /// The guest's description. `None` if it could not be asked: then it is assumed to use all of its rules.
    pub(crate) description: Option<Description>,
}

/// The permissions that the manager's credentials need in the clusters of a side, without duplicates. `home` is the namespace of the
/// local cluster in which the manager records its own Events, if it does.
pub(crate) fn needed(
    side: Side,
    work: &[Work<'_>],
    manager: &ManagerSpec,
    has_provider: bool,
    home: Option<&str>,
) -> Permissions {
    let mut all = of_manager(side, manager, home);
    for work in work {
        all.extend(work.needs(side.into(), has_provider).own);
    }
    all.reduce();
    all
}

/// The permissions of the manager itself, whatever its reconcilers do.
pub(crate) fn of_manager(side: Side, manager: &ManagerSpec, home: Option<&str>) -> Permissions {
    let mut all = Permissions::default();
    // Distinguishes a cluster from another one at the same address.
    all.add(Permission::new("", "namespaces", "get").named("kube-system"));
    if side == Side::Local && manager.leader_election.enabled {
        let (namespace, name) = manager.leader_election.lease();
        let lease = |verb| Permission::new("coordination.k8s.io", "leases", verb).within(namespace);
        all.add(lease("create"));
        all.add(lease("get").named(name));
        all.add(lease("update").named(name));
    }
    if side == Side::Local && manager.may_review_tokens() {
        for (group, resource) in [
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        ] {
            all.add(Permission::new(group, resource, "create"));
        }
    }
    if let Some(home) = home.filter(|_| side == Side::Local) {
        all.extend(recording(Some(home)));
    }
    all
}

impl Work<'_> {
    /// The user whom its tenant impersonates.
    pub(crate) fn impersonates(&self) -> Option<&Impersonate> {
        self.tenant?.impersonate.as_ref()
    }

    /// The permissions that it needs in a place. Empty: it makes no call there.
    pub(crate) fn needs(&self, place: Place<'_>, has_provider: bool) -> Needs {
        let mut granted = self.granted(place, has_provider);
        if let Some(stored) = place.cluster.and_then(|cluster| cluster.namespace) {
            granted = granted.in_namespace(stored, SHOWN_NAMESPACE);
        }
        let mut needs = Needs::default();
        if granted.is_empty() {
            return needs;
        }
        if self.calls("delete-collection") && granted.everywhere("deletecollection") {
            needs.own.add(Permission::new("", "namespaces", "list"));
        }
        let mut events = Permissions::default();
        if self.calls("record-event") {
            for namespace in granted.namespaces("get") {
                events.extend(recording(namespace.as_deref()));
            }
        }
        match self.impersonates() {
            Some(whom) => {
                needs.user = granted.without_cached_reads();
                needs.user.extend(events);
                granted.keep_caches();
                needs.own.extend(impersonation(whom));
            }
            None => needs.own.extend(events),
        }
        needs.own.extend(granted);
        if let Some(description) = &self.description {
            // A rule for `*` is more than its watches need.
            needs.watches = needs.own.for_watches(&description.watched);
            needs.own.extend(needs.watches.clone());
        }
        needs
    }

    /// The grants of its rules in a place, within the rules of its tenant.
    fn granted(&self, place: Place<'_>, has_provider: bool) -> Permissions {
        let own = self.has_requests_in(place, has_provider);
        let applies = |rule: &&RuleSpec| match &rule.clusters {
            None => own,
            Some(_) => opens(rule, place),
        };
        let rules = self.spec.rules.iter().filter(applies);
        let mut granted = Permissions::default();
        match self.tenant.and_then(|tenant| tenant.rules.as_ref()) {
            None => rules.for_each(|rule| granted.grant(rule, None)),
            Some(ceiling) => {
                for rule in rules {
                    for bound in ceiling.iter().filter(applies) {
                        granted.grant(rule, Some(bound));
                    }
                }
            }
        }
        granted
    }

    /// Whether a cluster of a place may be the cluster of a request.
    fn has_requests_in(&self, place: Place<'_>, has_provider: bool) -> bool {
        let (side, clusters) = (place.side, &self.spec.clusters);
        let only = filter(clusters.names.as_deref(), clusters.selector.as_deref());
        let selected = place.meets(&only);
        let opened = || self.spec.rules.iter().any(|rule| opens(rule, place));
        let configured = match side {
            Side::Local => clusters.local.unwrap_or(!has_provider),
            Side::Members => clusters.provider.unwrap_or(has_provider),
        };
        let Some(description) = &self.description else {
            return selected || opened();
        };
        let engages = |(scope, only): &(WatchClusters, ClusterFilter)| {
            let side_is_one = match scope {
                WatchClusters::AsConfigured => configured,
                WatchClusters::Local => side == Side::Local,
                WatchClusters::Provider => side == Side::Members,
                WatchClusters::All => true,
            };
            side_is_one && place.meets(only)
        };
        selected && description.scopes.iter().any(engages) || description.maps && opened()
    }

    fn calls(&self, function: &str) -> bool {
        let calls = |description: &Description| {
            description
                .functions
                .iter()
                .any(|called| called == function)
        };
        self.description.as_ref().is_none_or(calls)
    }
}

/// The permissions to record Events in a namespace, or in all if it is `None`.
fn recording(namespace: Option<&str>) -> Permissions {
    let mut needed = Permissions::default();
    for verb in ["create", "patch"] {
        needed.add(Permission::new("", "events", verb).within_some(namespace));
    }
    needed
}

/// Whether a rule names a cluster of a place.
fn opens(rule: &RuleSpec, place: Place<'_>) -> bool {
    let Some(clusters) = &rule.clusters else {
        return false;
    };
    if place.side == Side::Local {
        return clusters.local;
    }
    let names = Some(&clusters.names[..]).filter(|names| !names.is_empty());
    let selector = clusters.selector.as_deref();
    (names.is_some() || selector.is_some()) && place.meets(&filter(names, selector))
}

/// The clusters of a document's names and selector; without names, of any name.
fn filter(names: Option<&[String]>, selector: Option<&str>) -> ClusterFilter {
    let names = names.map(|names| names.iter().map(NamePattern::new).collect());
    ClusterFilter {
        names: names.unwrap_or_else(|| vec![NamePattern::any()]),
        // The selector of a checked document can be read.
        selector: selector.and_then(|selector| LabelSelector::parse(selector).ok()),
    }
}

/// The permissions to impersonate a user. For RBAC a service account is not a user.
fn impersonation(whom: &Impersonate) -> Permissions {
    let mut needed = Permissions::default();
    let account = whom.user.strip_prefix("system:serviceaccount:");
    needed.add(match account.and_then(|account| account.split_once(':')) {
        Some((namespace, name)) => Permission::new("", "serviceaccounts", "impersonate")
            .within(namespace)
            .named(name),
        None => Permission::new("", "users", "impersonate").named(&whom.user),
    });
    for group in &whom.groups {
        needed.add(Permission::new("", "groups", "impersonate").named(group));
    }
    needed
}
