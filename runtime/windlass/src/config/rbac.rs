//! The RBAC permissions that a configuration needs for the manager's credentials. Entry point: [`needed`].

mod caches;
mod callers;
mod hub;
mod manifest;
mod objects;
mod review;
#[cfg(test)]
mod tests;

use caches::{caches, for_watches, in_namespace, without_cached_reads};
pub(crate) use callers::{callers, nonresource_url};
pub(crate) use hub::{Hub, definitions, in_local};
pub(crate) use manifest::{Subject, manifests, name_by_content, yaml};
pub(crate) use objects::cluster_roles;
pub(crate) use review::{Findings, Question, Review};
#[cfg(test)]
pub(crate) use tests::permissions;

use crate::config::kinds::{Impersonate, ManagerSpec, ReconcilerSpec, TenantSpec, rules};
use std::collections::BTreeSet;
use windlass_fleet::cluster::SHOWN_NAMESPACE;
use windlass_fleet::grant::{ClusterFacts, ClusterRule, Right, Rule, RuleSet, Verb};
use windlass_fleet::source::{ClusterFilter, WatchClusters};
use windlass_fleet::{ClusterName, FLEET_GROUP, Pairs};

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
    pub(crate) name: &'a ClusterName,
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
    /// Whether a rule for these clusters is for some cluster of the place.
    fn is_in(&self, clusters: &ClusterRule) -> bool {
        match (self.side, self.cluster) {
            (Side::Local, _) => clusters.local,
            (Side::Members, None) => clusters.matches_others(),
            (Side::Members, Some(member)) => clusters.matches(&ClusterFacts {
                name: member.name,
                labels: member.labels,
                provider: None,
                own: false,
            }),
        }
    }

    /// Whether some cluster of the place can be one of these.
    fn meets(&self, filter: &ClusterFilter) -> bool {
        self.cluster
            .is_none_or(|member| filter.matches(member.name, member.labels))
    }
}

/// The permissions of a reconciler, by the user that needs them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// For the user of the manager's credentials.
    pub(crate) own: RuleSet,
    /// For the user whom its tenant impersonates. Empty without such a user.
    pub(crate) user: RuleSet,
    /// Those of `own` that its watches need.
    pub(crate) watches: RuleSet,
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
    /// The rights to watch the kinds that it watches.
    pub(crate) watched: RuleSet,
}

/// A reconciler and the description of its guest.
pub(crate) struct Work<'a> {
    /// Its document.
    pub(crate) spec: &'a ReconcilerSpec,
    /// Its tenant's document.
    pub(crate) tenant: Option<&'a TenantSpec>,
    /// Whether there is a Provider with clusters. Without one it works in the local cluster, unless its document says otherwise.
    pub(crate) has_provider: bool,
    /// The guest's description. `None` if it could not be asked: then it is assumed to use all of its rules.
    pub(crate) description: Option<Description>,
}

/// The permissions that the manager's credentials need in the clusters of a side, without duplicates. `home` is the namespace of the
/// local cluster in which the manager records its own Events, if it does.
pub(crate) fn needed(
    side: Side,
    work: &[Work<'_>],
    manager: &ManagerSpec,
    home: Option<&str>,
) -> RuleSet {
    let mut all = of_manager(side, manager, home);
    for work in work {
        all.extend(work.needs(side.into()).own);
    }
    all.reduce();
    all
}

/// The permissions of the manager itself, whatever its reconcilers do.
pub(crate) fn of_manager(side: Side, manager: &ManagerSpec, home: Option<&str>) -> RuleSet {
    let mut all = RuleSet::default();
    // Distinguishes a cluster from another one at the same address.
    all.add(Right::new("", "namespaces", Verb::Get).named("kube-system"));
    if side == Side::Local && manager.leader_election.enabled {
        let (namespace, name) = manager.leader_election.lease();
        let lease = |verb| Right::new("coordination.k8s.io", "leases", verb).within(namespace);
        all.add(lease(Verb::Create));
        all.add(lease(Verb::Get).named(name));
        all.add(lease(Verb::Update).named(name));
    }
    if side == Side::Local && manager.sharding.enabled {
        let (namespace, _) = manager.sharding.lease();
        let leases = |verb| Right::new("coordination.k8s.io", "leases", verb).within(namespace);
        // A member's Lease has a new name at each start.
        for verb in [Verb::List, Verb::Create, Verb::Update, Verb::Delete] {
            all.add(leases(verb));
        }
    }
    if side == Side::Local && manager.may_review_tokens() {
        for (group, resource) in [
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        ] {
            all.add(Right::new(group, resource, Verb::Create));
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
    pub(crate) fn needs(&self, place: Place<'_>) -> Needs {
        let mut granted = self.granted(place);
        if let Some(stored) = place.cluster.and_then(|cluster| cluster.namespace) {
            granted = in_namespace(&granted, stored, SHOWN_NAMESPACE);
        }
        let mut needs = Needs::default();
        if granted.is_empty() {
            return needs;
        }
        let everywhere = namespaces(&granted, Verb::DeleteCollection).contains(&None);
        if self.calls("delete-collection") && everywhere {
            needs.own.add(Right::new("", "namespaces", Verb::List));
        }
        let mut events = RuleSet::default();
        if self.calls("record-event") {
            for namespace in namespaces(&granted, Verb::Get) {
                events.extend(recording(namespace));
            }
        }
        match self.impersonates() {
            Some(whom) => {
                needs.user = without_cached_reads(&granted);
                needs.user.extend(events);
                granted = caches(&granted);
                needs.own.extend(impersonation(whom));
            }
            None => needs.own.extend(events),
        }
        needs.own.extend(granted);
        if let Some(description) = &self.description {
            // A rule for `*` is more than its watches need.
            needs.watches = for_watches(&needs.own, &description.watched);
            needs.own.extend(needs.watches.clone());
        }
        // No server is asked about the kinds that the host makes.
        let of_servers = |rights: RuleSet| rights.without_group(FLEET_GROUP);
        Needs {
            own: of_servers(needs.own),
            user: of_servers(needs.user),
            watches: of_servers(needs.watches),
        }
    }

    /// The grants of its rules in a place, within the rules of its tenant.
    fn granted(&self, place: Place<'_>) -> RuleSet {
        let all = rules(&self.spec.rules);
        let own = self.has_requests_in(place, &all);
        let applies = |rule: &&Rule| rule.clusters.as_ref().map_or(own, |all| place.is_in(all));
        let applying = all.iter().filter(applies);
        let Some(ceiling) = self.tenant.and_then(|tenant| tenant.rules.as_ref()) else {
            return applying.collect();
        };
        let mut granted = RuleSet::default();
        let ceiling = rules(ceiling);
        for rule in applying {
            let bounds = ceiling.iter().filter(applies);
            bounds.for_each(|bound| granted.grant(rule, Some(bound)));
        }
        granted
    }

    /// Whether a cluster of a place may be the cluster of a request.
    fn has_requests_in(&self, place: Place<'_>, rules: &[Rule]) -> bool {
        let (side, clusters) = (place.side, &self.spec.clusters);
        // The selector of a checked document can be read.
        let selected = place.meets(&clusters.filter().unwrap_or_default());
        let opened = || {
            let mut opened = rules.iter().filter_map(|rule| rule.clusters.as_ref());
            opened.any(|clusters| place.is_in(clusters))
        };
        let configured = match side {
            Side::Local => clusters.local.unwrap_or(!self.has_provider),
            Side::Members => clusters.provider.unwrap_or(self.has_provider),
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
fn recording(namespace: Option<&str>) -> impl Iterator<Item = Right> {
    let verbs = [Verb::Create, Verb::Patch].into_iter();
    verbs.map(move |verb| Right::new("", "events", verb).within(namespace))
}

/// The namespaces in which a verb is granted on any resource; `None` stands for all.
fn namespaces(all: &RuleSet, verb: Verb) -> BTreeSet<Option<&str>> {
    let of_verb = all.iter().filter(|one| one.verb == verb);
    of_verb.map(|one| one.namespace.as_deref()).collect()
}

/// The permissions to impersonate a user. For RBAC a service account is not a user.
fn impersonation(whom: &Impersonate) -> RuleSet {
    let mut needed = RuleSet::default();
    let impersonate = |resource| Right::new("", resource, Verb::IMPERSONATE);
    let account = whom.user.strip_prefix("system:serviceaccount:");
    needed.add(match account.and_then(|account| account.split_once(':')) {
        Some((namespace, name)) => impersonate("serviceaccounts").within(namespace).named(name),
        None => impersonate("users").named(&whom.user),
    });
    let groups = whom.groups.iter();
    needed.extend(groups.map(|group| impersonate("groups").named(group)));
    needed
}
