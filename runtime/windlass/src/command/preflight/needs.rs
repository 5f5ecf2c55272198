//! What each reconciler needs in each cluster. No I/O. Entry point: [`Plan`].

use crate::config::kinds::{Impersonate, ManagerSpec};
use crate::config::load::Configuration;
use crate::config::rbac::{Hub, Member, Place, Side, Work, definitions, in_local, of_manager};
use std::collections::BTreeMap;
use windlass_fleet::grant::RuleSet;

/// The reconcilers of a configuration, and the manager that runs them.
pub(super) struct Plan<'a> {
    work: Vec<(&'a str, Work<'a>)>,
    manager: ManagerSpec,
    /// What Providers read in the local cluster.
    hub: RuleSet,
    /// What Providers read in hubs that they reach with credentials of their own, by Provider.
    hubs: BTreeMap<&'a str, RuleSet>,
}

/// Everything that is asked about one user of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ask {
    /// The user whom a tenant impersonates; `None`: the user of the credentials.
    pub(super) user: Option<Impersonate>,
    /// What each needs.
    pub(super) needs: Vec<Need>,
}

/// The permissions that one reconciler, a Provider or the manager itself needs of a user.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Need {
    /// The Provider, if this is its hub.
    pub(super) provider: Option<String>,
    /// The reconciler. Without it and without a Provider: the manager itself.
    pub(super) reconciler: Option<String>,
    /// The permissions.
    pub(super) permissions: RuleSet,
    /// Those of them that the reconciler's watches need.
    pub(super) watches: RuleSet,
}

impl Ask {
    /// The permissions of all its needs.
    pub(super) fn permissions(&self) -> RuleSet {
        let mut all = RuleSet::default();
        for need in &self.needs {
            all.extend(need.permissions.clone());
        }
        all
    }
}

impl<'a> Plan<'a> {
    /// The plan of a configuration. `work` has its reconcilers, in their order.
    pub(super) fn new(configuration: &'a Configuration, work: Vec<Work<'a>>) -> Self {
        let names = configuration.reconcilers();
        let names = names.map(|(document, _)| document.identity.name.as_str());
        Self {
            work: names.zip(work).collect(),
            manager: configuration.manager_spec(),
            hub: in_local(configuration),
            hubs: hubs_elsewhere(configuration),
        }
    }

    /// The Providers whose hubs are reached with credentials of their own.
    pub(super) fn providers_with_hubs(&self) -> impl Iterator<Item = &'a str> {
        self.hubs.keys().copied()
    }

    /// What is asked in the hub of a Provider that reaches it with credentials of its own.
    pub(super) fn hub_asks(&self, provider: &str) -> Vec<Ask> {
        let ask = |permissions: &RuleSet| Ask {
            user: None,
            needs: vec![Need {
                provider: Some(provider.to_owned()),
                permissions: permissions.clone(),
                ..Need::default()
            }],
        };
        self.hubs.get(provider).map(ask).into_iter().collect()
    }

    /// What is asked in a cluster: first about the user of the credentials, then about each user whom a tenant impersonates. In the local
    /// cluster the manager records its own Events in the namespace `home`, unless it records them beside its Lease.
    pub(super) fn asks(&self, cluster: Member<'_>, home: &str) -> Vec<Ask> {
        let home = self.manager.shared_lease().map_or(home, |(home, _)| home);
        let side = if cluster.name.is_local() {
            Side::Local
        } else {
            Side::Members
        };
        let place = Place {
            side,
            cluster: Some(cluster),
        };
        let needs = self.work.iter();
        let needs = needs.map(|(name, work)| (*name, work.needs(place)));
        let needs: Vec<_> = needs.collect();
        let mut own = of_manager(side, &self.manager, Some(home));
        if side == Side::Local {
            own.extend(self.hub.clone());
            let mut all = own.clone();
            needs.iter().for_each(|(_, of)| all.extend(of.own.clone()));
            own.extend(definitions(&all));
        }
        let mut asks = vec![Ask {
            user: None,
            needs: vec![Need {
                permissions: own,
                ..Need::default()
            }],
        }];
        for ((_, work), (name, needs)) in self.work.iter().zip(needs) {
            let need = |permissions, watches| Need {
                reconciler: Some(name.to_owned()),
                permissions,
                watches,
                ..Need::default()
            };
            add(&mut asks, None, need(needs.own, needs.watches));
            let user = work.impersonates();
            add(&mut asks, user, need(needs.user, RuleSet::default()));
        }
        asks
    }
}

fn hubs_elsewhere(configuration: &Configuration) -> BTreeMap<&str, RuleSet> {
    let providers = configuration.providers();
    let elsewhere = providers.filter_map(|(document, spec)| {
        let hub = Hub::of(spec).filter(Hub::is_elsewhere)?;
        Some((document.identity.name.as_str(), hub.needed()))
    });
    elsewhere.collect()
}

fn add(asks: &mut Vec<Ask>, user: Option<&Impersonate>, need: Need) {
    if need.permissions.is_empty() {
        return;
    }
    match asks.iter_mut().find(|ask| ask.user.as_ref() == user) {
        Some(ask) => ask.needs.push(need),
        None => asks.push(Ask {
            user: user.cloned(),
            needs: vec![need],
        }),
    }
}
