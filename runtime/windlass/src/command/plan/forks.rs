//! Copies of the clusters of a configuration, over which it is rehearsed. Entry point: [`Forks::start`].
//!
//! Two managers have to do with them. One reaches the real clusters, runs no reconciler, and has the right to get, list and watch. The
//! rehearsal's own reaches the copies, which ask the first one for what they do not hold.

use super::reads::{Reads, allowing};
use crate::admin::token_file;
use anyhow::{Context, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_apiserver::{Budget, Change, Cluster, Server};
use windlass_fleet::cluster::{ClusterConfig, Scope};
use windlass_fleet::engage::{ClusterSpec, Reroute};
use windlass_fleet::manager::{Manager, ManagerHandle, ManagerOptions};
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{Client, ClusterName};

/// The copies of one rehearsal. With this value all of them end.
pub(super) struct Forks {
    server: Server,
    /// What clients of the copies have to show: other users of the machine may not read them.
    token: String,
    budget: Arc<Budget>,
    /// The real clusters, by the name of their copies.
    real: Arc<Clusters>,
    reads: ManagerHandle,
    known: Mutex<Known>,
    _stop: DropGuard,
}

#[derive(Default)]
struct Known {
    forks: Vec<Fork>,
    /// The clusters of the rehearsal: the place of their copy among the forks, and the part that they are.
    clusters: BTreeMap<ClusterName, (usize, Scope)>,
    /// The providers of which a server is the hub.
    hubs: BTreeMap<usize, String>,
}

struct Fork {
    name: ClusterName,
    config: ClusterConfig,
    /// Where the copy is.
    url: String,
    copy: Cluster,
}

/// A change in a cluster.
pub(super) struct ClusterChange {
    /// The cluster as it is named to people.
    pub(super) cluster: String,
    /// The real server, as the reads know it.
    server: ClusterName,
    pub(super) change: Change,
}

impl Forks {
    /// Starts without a copy. The real clusters are reached with `options`; all copies together hold at most `most` bytes.
    ///
    /// # Errors
    /// When no port is free.
    pub(super) async fn start(options: ManagerOptions, most: u64) -> Result<Arc<Self>> {
        let server = Server::builder().bind("127.0.0.1:0").await?;
        let token = token_file::token().context("make a token for the copies")?;
        server.set_tokens(Some(&[&token]));
        let real = Arc::new(Clusters::new("plan"));
        let options = ManagerOptions {
            duplicate_clusters: true,
            ..options
        };
        let manager = Manager::builder().options(options).provider(real.clone());
        let bound = manager.build().context("reach the clusters")?.bind();
        let (reads, stop) = (bound.handle(), CancellationToken::new());
        tokio::spawn(bound.run(stop.clone()));
        Ok(Arc::new(Self {
            server,
            token,
            budget: Budget::new(most),
            real,
            reads,
            known: Mutex::default(),
            _stop: stop.drop_guard(),
        }))
    }

    /// What has been copied, in bytes.
    pub(super) fn copied(&self) -> u64 {
        self.budget.used()
    }

    /// From now on changes are counted anew.
    pub(super) fn settle(&self) {
        let known = self.known.lock();
        known.forks.iter().for_each(|fork| fork.copy.settle_fork());
    }

    /// What has changed in the copies since, by cluster.
    pub(super) fn changes(&self) -> Vec<ClusterChange> {
        let known = self.known.lock();
        let mut all = Vec::new();
        for (place, fork) in known.forks.iter().enumerate() {
            let changes = fork.copy.fork_changes().into_iter();
            all.extend(changes.map(|change| ClusterChange {
                cluster: known.name(place, &change.namespace),
                server: fork.name.clone(),
                change,
            }));
        }
        all
    }

    /// A client of the real server of a change that may create, update and delete there; `None`: the server is gone. For dry runs alone.
    pub(super) fn writer(&self, at: &ClusterChange) -> Option<Client> {
        let cluster = self.reads.fleet().cluster(&at.server)?;
        Some(cluster.client(allowing(&["create", "update", "delete"])))
    }

    /// The place of the copy of a server, which is made unless there is one. `read`: how the server is read. A configuration may lead to a copy
    /// already: a provider may have it of the hub.
    fn of(&self, config: &ClusterConfig, read: &ClusterSpec, known: &mut Known) -> usize {
        let url = config.server();
        let mut forks = known.forks.iter();
        let found = forks.position(|fork| {
            fork.url == url || (fork.config.server() == url && fork.config.same_way(config))
        });
        if let Some(place) = found {
            let fork = &mut known.forks[place];
            if fork.url != url && !fork.config.same(config) {
                fork.config = config.clone();
                self.real.put(named(fork.name.clone(), read));
            }
            return place;
        }
        let place = known.forks.len();
        let taken = known.forks.iter().any(|fork| fork.config.server() == url);
        let name = ClusterName::new(&url).ok().filter(|_| !taken);
        let name = name.unwrap_or_else(|| numbered(place));
        let origin = Reads::new(self.reads.clone(), name.clone(), read);
        let (called, budget) = (format!("copy-{place}"), self.budget.clone());
        let copy = self.server.fork(&called, Arc::new(origin), budget);
        self.real.put(named(name.clone(), read));
        known.forks.push(Fork {
            name,
            config: config.clone(),
            url: self.server.url(copy.name()),
            copy,
        });
        place
    }

    /// The configuration that leads to a copy.
    fn way(&self, place: usize, config: &ClusterConfig, known: &Known) -> ClusterConfig {
        let url = &known.forks[place].url;
        if config.server() == *url {
            return config.clone();
        }
        let way = ClusterConfig::of_copy(url, &self.token, config);
        // The URL is one of the server, which is valid. No error may lead to the real cluster.
        way.unwrap_or_else(|_| config.nowhere())
    }
}

/// What is read, under the name of its copy.
fn named(name: ClusterName, read: &ClusterSpec) -> ClusterSpec {
    ClusterSpec {
        scope: read.scope.clone(),
        ..ClusterSpec::new(name, read.config.clone())
    }
}

/// A name for a server whose URL is none, or that of another one.
fn numbered(place: usize) -> ClusterName {
    // Letters, digits and a hyphen are a name.
    ClusterName::new(format!("server-{place}")).unwrap_or_else(|_| ClusterName::local())
}

impl Known {
    /// The cluster of an object in the copy of a server.
    fn name(&self, place: usize, namespace: &str) -> String {
        let of_server = self.clusters.iter().filter(|(_, (at, _))| *at == place);
        let is_part = |scope: &Scope| match scope {
            Scope::Namespace(part) => *part.name == *namespace,
            Scope::Whole | Scope::Workspace(_) => false,
        };
        let mut parts = of_server.clone().filter(|(_, (_, scope))| is_part(scope));
        let mut wholes = of_server.filter(|(_, (_, scope))| *scope == Scope::Whole);
        if let Some((name, _)) = parts.next().or_else(|| wholes.next()) {
            return name.to_string();
        }
        match self.hubs.get(&place) {
            Some(provider) => format!("the hub of {provider}"),
            None => self.forks[place].config.server(),
        }
    }
}

impl Reroute for Forks {
    fn cluster(&self, spec: &mut ClusterSpec) {
        let at_endpoint = spec.clone();
        // Objects of several workspaces may have one name, so that one copy cannot hold them.
        spec.leave_endpoint();
        let config = &at_endpoint.config;
        // One that begins or ends does not say by itself what it serves.
        let is_of_type = config.is_of_initializing() || config.is_of_terminating();
        let read = if is_of_type { &at_endpoint } else { &*spec };
        let mut known = self.known.lock();
        let place = self.of(&spec.config, read, &mut known);
        known
            .clusters
            .insert(spec.name.clone(), (place, spec.scope.clone()));
        spec.config = self.way(place, &spec.config, &known);
    }

    fn hub(&self, provider: &str, config: &ClusterConfig) -> ClusterConfig {
        if config.is_of_workspaces() {
            // Its provider lists and watches it; reconcilers work in the copies of its workspaces alone.
            return config.only_reading();
        }
        let mut known = self.known.lock();
        let read = ClusterSpec::new(ClusterName::local(), config.clone());
        let place = self.of(config, &read, &mut known);
        known.hubs.insert(place, provider.to_owned());
        self.way(place, config, &known)
    }

    fn original(&self, config: ClusterConfig) -> ClusterConfig {
        let known = self.known.lock();
        let url = config.server();
        let mut forks = known.forks.iter();
        let fork = forks.find(|fork| fork.url == url);
        fork.map_or(config, |fork| fork.config.clone())
    }
}

#[cfg(test)]
impl ClusterChange {
    pub(super) fn of(cluster: &str, change: Change) -> Self {
        Self {
            cluster: cluster.to_owned(),
            server: ClusterName::local(),
            change,
        }
    }
}
