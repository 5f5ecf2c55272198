//! The RBAC permissions that a configuration needs for the manager's credentials. Entry point: [`needed`].

mod manifest;
mod permission;
#[cfg(test)]
mod tests;

pub(crate) use manifest::{Subject, manifests, yaml};

use crate::config::kinds::{Impersonate, ManagerSpec, ReconcilerSpec, RuleSpec, TenantSpec};
use permission::{Permission, Permissions};
use windlass_fleet::source::WatchClusters;

/// The clusters of a set of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The clusters of providers.
    Members,
    /// The local (hub) cluster.
    Local,
}

/// The parts of a guest's description that matter here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Description {
    /// The clusters that its watches engage.
    pub(crate) scopes: Vec<WatchClusters>,
    /// Whether its code maps events to requests, of other clusters too.
    pub(crate) maps: bool,
    /// The functions of `cluster` that it calls.
    pub(crate) functions: Vec<String>,
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
    let mut all = Permissions::default();
    // Distinguishes a cluster from another one at the same address.
    all.add(Permission::new("", "namespaces", "get").named("kube-system"));
    for work in work {
        all.extend(work.needs(side, has_provider));
    }
    if side == Side::Local && manager.leader_election.enabled {
        let (namespace, name) = manager.leader_election.lease();
        let lease = |verb| Permission::new("coordination.k8s.io", "leases", verb).within(namespace);
        all.add(lease("create"));
        all.add(lease("get").named(name));
        all.add(lease("update").named(name));
    }
    if let Some(home) = home.filter(|_| side == Side::Local) {
        all.extend(recording(Some(home)));
    }
    all.reduce();
    all
}

impl Work<'_> {
    fn needs(&self, side: Side, has_provider: bool) -> Permissions {
        let mut granted = self.granted(side, has_provider);
        let mut own = Permissions::default();
        // The reconciler makes no call in these clusters.
        if granted.is_empty() {
            return granted;
        }
        if self.calls("delete-collection") && granted.everywhere("deletecollection") {
            own.add(Permission::new("", "namespaces", "list"));
        }
        match self.tenant.and_then(|tenant| tenant.impersonate.as_ref()) {
            // Its other calls need permissions of the impersonated user.
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

    /// The grants of its rules in the clusters of a side, within the rules of its tenant.
    fn granted(&self, side: Side, has_provider: bool) -> Permissions {
        let own = self.has_requests_in(side, has_provider);
        let applies = |rule: &&RuleSpec| match &rule.clusters {
            None => own,
            Some(_) => opens(rule, side),
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

    /// Whether a cluster of a side may be the cluster of a request.
    fn has_requests_in(&self, side: Side, has_provider: bool) -> bool {
        let clusters = &self.spec.clusters;
        let configured = match side {
            Side::Local => clusters.local.unwrap_or(!has_provider),
            Side::Members => clusters.provider.unwrap_or(has_provider),
        };
        let Some(description) = &self.description else {
            return true;
        };
        let engages = |scope: &WatchClusters| match scope {
            WatchClusters::AsConfigured => configured,
            WatchClusters::Local => side == Side::Local,
            WatchClusters::Provider => side == Side::Members,
            WatchClusters::All => true,
        };
        let asked_for = || description.maps && self.spec.rules.iter().any(|rule| opens(rule, side));
        description.scopes.iter().any(engages) || asked_for()
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

/// Whether a rule names a cluster of a side.
fn opens(rule: &RuleSpec, side: Side) -> bool {
    rule.clusters.as_ref().is_some_and(|clusters| match side {
        Side::Local => clusters.local,
        Side::Members => !clusters.names.is_empty() || clusters.selector.is_some(),
    })
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
