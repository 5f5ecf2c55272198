//! What each reconciler needs in each cluster. No I/O. Entry point: [`Plan`].

use crate::config::kinds::{Impersonate, Kind, ManagerSpec};
use crate::config::load::Configuration;
use crate::config::rbac::{
    Hub, Member, Permissions, Place, Side, Work, definitions, in_local, of_manager,
};
use std::collections::BTreeMap;
use windlass_fleet::Pairs;

/// The reconcilers of a configuration, and the manager that runs them.
pub(super) struct Plan<'a> {
    work: Vec<(&'a str, Work<'a>)>,
    manager: ManagerSpec,
    has_provider: bool,
    /// What Providers read in the local cluster.
    hub: Permissions,
    /// What Providers read in hubs that they reach with credentials of their own, by Provider.
    hubs: BTreeMap<&'a str, Permissions>,
}

/// A cluster, as far as needs depend on it.
pub(super) struct Site<'a> {
    /// Its name; empty for the local cluster.
    pub(super) name: &'a str,
    /// Its labels.
    pub(super) labels: &'a Pairs,
    /// The namespace of its server that it is; `None`: the whole server.
    pub(super) namespace: Option<&'a str>,
    /// Where the manager records its own Events, if this is the local cluster.
    pub(super) home: &'a str,
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
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Need {
    /// What needs them.
    pub(super) who: Who,
    /// The permissions.
    pub(super) permissions: Permissions,
    /// Those of them that the reconciler's watches need.
    pub(super) watches: Permissions,
}

/// What needs permissions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// The manager itself.
    Manager,
    /// The Provider of this name, in its hub.
    Provider(String),
    /// The reconciler of this name.
    Reconciler(String),
}

impl Ask {
    /// The permissions of all its needs.
    pub(super) fn permissions(&self) -> Permissions {
        let mut all = Permissions::default();
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
            has_provider: configuration.has(Kind::Provider),
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
        let ask = |permissions: &Permissions| Ask {
            user: None,
            needs: vec![Need {
                who: Who::Provider(provider.to_owned()),
                permissions: permissions.clone(),
                watches: Permissions::default(),
            }],
        };
        self.hubs.get(provider).map(ask).into_iter().collect()
    }

    /// What is asked in a cluster: first about the user of the credentials, then about each user whom a tenant impersonates.
    pub(super) fn asks(&self, site: &Site<'_>) -> Vec<Ask> {
        let (side, home) = match site.name.is_empty() {
            true => (Side::Local, Some(self.home(site))),
            false => (Side::Members, None),
        };
        let place = Place {
            side,
            cluster: Some(Member {
                name: site.name,
                labels: site.labels,
                namespace: site.namespace,
            }),
        };
        let needs = self.work.iter();
        let needs = needs.map(|(name, work)| (*name, work.needs(place, self.has_provider)));
        let needs: Vec<_> = needs.collect();
        let mut own = of_manager(side, &self.manager, home);
        if side == Side::Local {
            own.extend(self.hub.clone());
            let mut all = own.clone();
            needs.iter().for_each(|(_, of)| all.extend(of.own.clone()));
            own.extend(definitions(&all));
        }
        let mut asks = vec![Ask {
            user: None,
            needs: vec![Need {
                who: Who::Manager,
                permissions: own,
                watches: Permissions::default(),
            }],
        }];
        for ((_, work), (name, needs)) in self.work.iter().zip(needs) {
            let need = |permissions, watches| Need {
                who: Who::Reconciler(name.to_owned()),
                permissions,
                watches,
            };
            add(&mut asks, None, need(needs.own, needs.watches));
            let user = work.impersonates();
            add(&mut asks, user, need(needs.user, Permissions::default()));
        }
        asks
    }

    /// The namespace of the manager's own Events.
    fn home<'s>(&'s self, site: &'s Site<'_>) -> &'s str {
        match self.manager.leader_election.enabled {
            true => self.manager.leader_election.lease().0,
            false => site.home,
        }
    }
}

fn hubs_elsewhere(configuration: &Configuration) -> BTreeMap<&str, Permissions> {
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
