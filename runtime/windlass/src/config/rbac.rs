//! What a configuration needs of the API servers' own RBAC, for the credentials that the manager has. Entry point: [`needed`].

mod manifest;
mod permission;
#[cfg(test)]
mod tests;

pub(crate) use manifest::{Subject, manifests, yaml};

use crate::config::kinds::{Impersonate, ManagerSpec, ReconcilerSpec, RuleSpec, TenantSpec};
use permission::{Permission, Permissions};
use windlass_fleet::source::WatchClusters;

/// Which clusters roles are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Those of providers.
    Members,
    /// The local (hub) cluster.
    Local,
}

/// What a guest said when it was asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    /// Which clusters its watches engage.
    pub(crate) scopes: Vec<WatchClusters>,
    /// Whether its code maps events to requests, of other clusters too.
    pub(crate) maps: bool,
    /// The functions of a cluster that it calls.
    pub(crate) functions: Vec<String>,
}

/// A reconciler, and what is known of its guest.
pub(crate) struct Work<'a> {
    /// Its document.
    pub(crate) spec: &'a ReconcilerSpec,
    /// Its tenant's document.
    pub(crate) tenant: Option<&'a TenantSpec>,
    /// What its guest said; none when it could not be asked, and then all that it might do is reckoned with.
    pub(crate) told: Option<Told>,
}

/// All that the manager's credentials need in clusters of a place, with nothing twice. `home`: the namespace of the local cluster
/// in which the manager records Events of its own, if it does.
pub(crate) fn needed(
    place: Place,
    work: &[Work<'_>],
    manager: &ManagerSpec,
    has_provider: bool,
    home: Option<&str>,
) -> Permissions {
    let mut all = Permissions::default();
    // Tells clusters from others under the same address.
    all.add(Permission::new("", "namespaces", "get").named("kube-system"));
    for work in work {
        all.extend(work.needs(place, has_provider));
    }
    if place == Place::Local && manager.leader_election.enabled {
        let (namespace, name) = manager.leader_election.lease();
        let lease = |verb| Permission::new("coordination.k8s.io", "leases", verb).within(namespace);
        all.add(lease("create"));
        all.add(lease("get").named(name));
        all.add(lease("update").named(name));
    }
    if let Some(home) = home.filter(|_| place == Place::Local) {
        all.extend(recording(Some(home)));
    }
    all.reduce();
    all
}

impl Work<'_> {
    fn needs(&self, place: Place, has_provider: bool) -> Permissions {
        let mut granted = self.granted(place, has_provider);
        let mut own = Permissions::default();
        // Nothing is called in these clusters, so nothing is needed.
        if granted.is_empty() {
            return granted;
        }
        if self.calls("delete-collection") && granted.everywhere("deletecollection") {
            own.add(Permission::new("", "namespaces", "list"));
        }
        match self.tenant.and_then(|tenant| tenant.impersonate.as_ref()) {
            // Whatever else it calls is up to whom it is called in the name of.
            Some(whom) => {
                granted.keep_caches();
                own.extend(impersonation(whom));
            }
            None if self.calls("record-event") => {
                for namespace in granted.namespaces("get") {
                    own.extend(recording(namespace.as_deref()));
                }
            }
            None => {}
        }
        granted.extend(own);
        granted
    }

    /// What its rules grant in clusters of a place, and its tenant's rules allow.
    fn granted(&self, place: Place, has_provider: bool) -> Permissions {
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

    /// Whether some cluster of a place may be the own one of a request.
    fn has_requests_in(&self, place: Place, has_provider: bool) -> bool {
        let clusters = &self.spec.clusters;
        let configured = match place {
            Place::Local => clusters.local.unwrap_or(!has_provider),
            Place::Members => clusters.provider.unwrap_or(has_provider),
        };
        let Some(told) = &self.told else {
            return true;
        };
        let engages = |scope: &WatchClusters| match scope {
            WatchClusters::AsConfigured => configured,
            WatchClusters::Local => place == Place::Local,
            WatchClusters::Provider => place == Place::Members,
            WatchClusters::All => true,
        };
        let asked_for = || told.maps && self.spec.rules.iter().any(|rule| opens(rule, place));
        told.scopes.iter().any(engages) || asked_for()
    }

    fn calls(&self, function: &str) -> bool {
        let calls = |told: &Told| told.functions.iter().any(|called| called == function);
        self.told.as_ref().is_none_or(calls)
    }
}

/// What it takes to record Events in a namespace; none: in all.
fn recording(namespace: Option<&str>) -> Permissions {
    let mut needed = Permissions::default();
    for verb in ["create", "patch"] {
        needed.add(Permission::new("", "events", verb).within_some(namespace));
    }
    needed
}

/// Whether a rule opens some cluster of a place by name.
fn opens(rule: &RuleSpec, place: Place) -> bool {
    rule.clusters.as_ref().is_some_and(|clusters| match place {
        Place::Local => clusters.local,
        Place::Members => !clusters.names.is_empty() || clusters.selector.is_some(),
    })
}

/// What it takes to make calls in somebody's name. A service account is not a user to RBAC.
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
