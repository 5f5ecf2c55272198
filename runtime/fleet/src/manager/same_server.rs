//! Which of several clusters that are one server is worked on. Entry points: [`SameServer::note`] and [`SameServer::place`].
//!
//! One server may be engaged under two names: as two contexts of a kubeconfig, or by two providers that know it. Reconciled under both,
//! its objects would be written twice, and two guests that act as one would undo each other's work. The cluster that was known to be this
//! server first is worked on, the others stand behind it until it is gone or turns out to be another server.
//!
//! So that a restart gives the same answer where it can, a cluster waits for one of a smaller name that is just being reached for the first
//! time under the same address. It waits for the end of that attempt at most.
//!
//! It does no I/O. Cost: O(log n) in clusters, and linear in the clusters of one server.

use crate::cluster::Cluster;
use crate::name::ClusterName;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is known of a cluster's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sight {
    /// It is being reached for the first time.
    Coming {
        /// The address of the server, and the part of it.
        address: String,
    },
    /// It has given its identity.
    Known {
        identity: String,
        /// As in [`Self::Coming`].
        address: String,
    },
    /// It could not be reached, or does not give its identity: it counts as a server of its own.
    Unknown,
}

/// Where a cluster stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the one to work on.
    First,
    /// Another one, which may be the same server, is being reached.
    Waiting,
    /// The cluster of this name is the same server, and is worked on.
    Behind(ClusterName),
}

/// What is known of all clusters.
#[derive(Debug, Default)]
pub(super) struct SameServer {
    sights: BTreeMap<ClusterName, Sight>,
    /// The clusters of a server by its identity, in the order in which they were found to be it. The first is worked on.
    of_server: HashMap<String, Vec<ClusterName>>,
    coming: HashMap<String, BTreeSet<ClusterName>>,
}

impl Sight {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let server = cluster.config().server();
        let address = format!("{server} {:?}", cluster.scope());
        match cluster.identity() {
            // Another endpoint of kcp shows other objects of the same workspace.
            Some(workspace) if cluster.scope().workspace().is_some() => Self::Known {
                identity: format!("{workspace} at {server}"),
                address,
            },
            Some(identity) => Self::Known { identity, address },
            None if cluster.is_being_reached() => Self::Coming { address },
            None => Self::Unknown,
        }
    }
}

impl SameServer {
    /// Notes what is known of a cluster; none: it is gone. Returns the other clusters whose places may have changed.
    pub(super) fn note(&mut self, name: &ClusterName, sight: Option<Sight>) -> Vec<ClusterName> {
        let is_settled = matches!(self.place(name), Place::First | Place::Behind(_));
        if self.sights.get(name) == sight.as_ref() && is_settled {
            return Vec::new();
        }
        let mut affected = self.forget(name);
        match &sight {
            Some(Sight::Coming { address }) => {
                let coming = self.coming.entry(address.clone()).or_default();
                coming.insert(name.clone());
            }
            Some(Sight::Known { identity, address }) if !self.has_to_wait(name, address) => {
                let same = self.of_server.entry(identity.clone()).or_default();
                same.push(name.clone());
            }
            Some(Sight::Known { .. } | Sight::Unknown) | None => {}
        }
        if let Some(sight) = sight {
            self.sights.insert(name.clone(), sight);
        }
        affected.retain(|other| other != name);
        affected
    }

    /// Where a cluster stands, as far as is known.
    pub(super) fn place(&self, name: &ClusterName) -> Place {
        let Some(Sight::Known { identity, .. }) = self.sights.get(name) else {
            return Place::First;
        };
        let same = self.of_server.get(identity);
        let same = same.filter(|same| same.contains(name));
        match same.and_then(|same| same.first()) {
            None => Place::Waiting,
            Some(first) if first == name => Place::First,
            Some(first) => Place::Behind(first.clone()),
        }
    }

    /// Every cluster that stands behind another one, and that one.
    pub(super) fn behind(&self) -> impl Iterator<Item = (&ClusterName, &ClusterName)> {
        self.of_server.values().flat_map(|same| {
            let first = same.first();
            let others = same.iter().skip(1);
            others.filter_map(move |other| Some((other, first?)))
        })
    }

    /// Whether a cluster of a smaller name may turn out to be the same server.
    fn has_to_wait(&self, name: &ClusterName, address: &str) -> bool {
        let coming = self.coming.get(address).and_then(BTreeSet::first);
        coming.is_some_and(|first| first < name)
    }

    /// Forgets a cluster, and returns those that stood behind it or waited for it.
    fn forget(&mut self, name: &ClusterName) -> Vec<ClusterName> {
        match self.sights.remove(name) {
            Some(Sight::Coming { address }) => {
                if let Some(coming) = self.coming.get_mut(&address) {
                    coming.remove(name);
                    if coming.is_empty() {
                        self.coming.remove(&address);
                    }
                }
                let waits = |(other, sight): (&ClusterName, &Sight)| {
                    let at = matches!(sight, Sight::Known { address: of, .. } if *of == address);
                    (at && self.place(other) == Place::Waiting).then(|| other.clone())
                };
                self.sights.iter().filter_map(waits).collect()
            }
            Some(Sight::Known { identity, .. }) => {
                let Some(same) = self.of_server.get_mut(&identity) else {
                    return Vec::new();
                };
                same.retain(|other| other != name);
                let rest = same.clone();
                if rest.is_empty() {
                    self.of_server.remove(&identity);
                }
                rest
            }
            Some(Sight::Unknown) | None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ClusterName {
        ClusterName::new(text).unwrap()
    }

    fn known(identity: &str) -> Option<Sight> {
        Some(Sight::Known {
            identity: identity.to_owned(),
            address: "https://one".to_owned(),
        })
    }

    fn coming() -> Option<Sight> {
        Some(Sight::Coming {
            address: "https://one".to_owned(),
        })
    }

    #[test]
    fn the_first_of_a_server_is_worked_on_until_it_is_gone_or_another_server() {
        let (a, b, c) = (name("a"), name("b"), name("c"));
        let mut all = SameServer::default();
        assert_eq!(all.note(&b, known("x")), []);
        assert_eq!(all.note(&a, known("x")), []);
        all.note(&c, known("x"));
        let place = |all: &SameServer| [&a, &b, &c].map(|of| all.place(of));
        let behind = |of: &ClusterName| Place::Behind(of.clone());
        assert_eq!(place(&all), [behind(&b), Place::First, behind(&b)]);
        assert_eq!(all.behind().count(), 2);
        // The same once more changes nothing, and so does a server that is away: its identity is known.
        assert_eq!(all.note(&b, known("x")), []);
        assert_eq!(place(&all), [behind(&b), Place::First, behind(&b)]);
        // Another server answers under its address.
        assert_eq!(all.note(&b, known("y")), [a.clone(), c.clone()]);
        assert_eq!(place(&all), [Place::First, Place::First, behind(&a)]);
        assert_eq!(all.note(&b, known("x")), []);
        assert_eq!(all.note(&a, None), [c.clone(), b.clone()]);
        assert_eq!(place(&all), [Place::First, behind(&c), Place::First]);
        for of in [&a, &b, &c] {
            all.note(of, None);
        }
        assert!(all.sights.is_empty() && all.of_server.is_empty() && all.coming.is_empty());
    }

    #[test]
    fn servers_without_an_identity_are_servers_of_their_own() {
        let mut all = SameServer::default();
        for of in ["a", "b"] {
            all.note(&name(of), Some(Sight::Unknown));
            assert_eq!(all.place(&name(of)), Place::First);
        }
    }

    /// Whichever answers first, the smaller name is worked on, unless it does not answer.
    #[test]
    fn of_two_that_come_at_once_under_one_address_the_smaller_name_is_first() {
        let (a, b) = (name("a"), name("b"));
        for (answer, expected) in [
            (known("x"), Place::Behind(a.clone())),
            (Some(Sight::Unknown), Place::First),
            (None, Place::First),
            (known("y"), Place::First),
        ] {
            let mut all = SameServer::default();
            all.note(&a, coming());
            all.note(&b, coming());
            assert_eq!(all.note(&b, known("x")), []);
            assert_eq!(all.place(&b), Place::Waiting);
            assert_eq!(all.note(&a, answer), std::slice::from_ref(&b));
            all.note(&b, known("x"));
            assert_eq!((all.place(&a), all.place(&b)), (Place::First, expected));
        }
        // The smaller name waits for nothing.
        let mut all = SameServer::default();
        all.note(&a, coming());
        all.note(&b, coming());
        all.note(&a, known("x"));
        assert_eq!(all.place(&a), Place::First);
    }
}
