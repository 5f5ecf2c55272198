//! Copies of the clusters of a configuration, over which it is rehearsed. Entry point: [`Forks::start`].
//!
//! Two managers have to do with them. One reaches the real clusters, runs no reconciler, and has the right to get, list and watch. The
//! rehearsal's own reaches the copies, which ask the first one for what they do not hold.

use crate::admin::token_file;
use anyhow::{Context, Result};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_apiserver::{Budget, Change, Cluster, Origin, OriginError, Server};
use windlass_fleet::cluster::{ClusterConfig, Scope};
use windlass_fleet::engage::{ClusterSpec, Reroute};
use windlass_fleet::grant::{Grant, Rule};
use windlass_fleet::manager::{Manager, ManagerHandle, ManagerOptions};
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{Client, ClusterName};

/// How long a copy waits until the cluster that it stands for is engaged.
const ENGAGING: Duration = Duration::from_secs(10);
/// How often it looks meanwhile.
const MOMENT: Duration = Duration::from_millis(10);

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
    /// By the URL of the real server.
    forks: BTreeMap<String, Fork>,
    /// What the clusters of the rehearsal are: part and copy.
    clusters: BTreeMap<ClusterName, (String, Scope)>,
    /// The providers of which a server is the hub.
    hubs: BTreeMap<String, String>,
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
        known
            .forks
            .values()
            .for_each(|fork| fork.copy.settle_fork());
    }

    /// What has changed in the copies since, by cluster.
    pub(super) fn changes(&self) -> Vec<ClusterChange> {
        let known = self.known.lock();
        let mut all = Vec::new();
        for (server, fork) in &known.forks {
            let changes = fork.copy.fork_changes().into_iter();
            all.extend(changes.map(|change| ClusterChange {
                cluster: known.name(server, &change.namespace),
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

    /// The configuration that leads to the copy of a server, which is made unless there is one. One that leads to a copy stays: a provider
    /// may have it of the hub.
    fn of(&self, config: &ClusterConfig, known: &mut Known) -> ClusterConfig {
        let server = config.server();
        if known.real(&server).is_some() {
            return config.clone();
        }
        let count = known.forks.len();
        let fork = known.forks.entry(server.clone()).or_insert_with(|| {
            let name = ClusterName::new(&server).unwrap_or_else(|_| fallback(count));
            let origin = Reads {
                reads: self.reads.clone(),
                name: name.clone(),
            };
            let budget = self.budget.clone();
            let copy = self
                .server
                .fork(&format!("copy-{count}"), Arc::new(origin), budget);
            self.real
                .put(ClusterSpec::new(name.clone(), config.clone()));
            Fork {
                name,
                config: config.clone(),
                url: self.server.url(copy.name()),
                copy,
            }
        });
        if !fork.config.same(config) {
            fork.config = config.clone();
            let spec = ClusterSpec::new(fork.name.clone(), config.clone());
            self.real.put(spec);
        }
        let to_copy = ClusterConfig::from_url_with_token(&fork.url, &self.token, config);
        // The URL is one of the server, which is valid.
        to_copy.unwrap_or_else(|_| config.clone())
    }
}

/// A name for a server whose URL is none.
fn fallback(count: usize) -> ClusterName {
    // Letters, digits and a hyphen are a name.
    ClusterName::new(format!("server-{count}")).unwrap_or_else(|_| ClusterName::local())
}

impl Known {
    /// The server of which this URL is a copy.
    fn real(&self, url: &str) -> Option<&String> {
        let mut forks = self.forks.iter();
        let of = forks.find(|(_, fork)| fork.url == url);
        of.map(|(server, _)| server)
    }

    /// The real server of a configuration, which may lead to a copy.
    fn server(&self, config: &ClusterConfig) -> String {
        let server = config.server();
        self.real(&server).cloned().unwrap_or(server)
    }

    /// The cluster of an object in the copy of a server.
    fn name(&self, server: &str, namespace: &str) -> String {
        let of_server = self.clusters.iter().filter(|(_, (at, _))| at == server);
        let is_part = |scope: &Scope| match scope {
            Scope::Namespace(part) => *part.name == *namespace,
            Scope::Whole | Scope::Workspace(_) => false,
        };
        let mut parts = of_server.clone().filter(|(_, (_, scope))| is_part(scope));
        let mut wholes = of_server.filter(|(_, (_, scope))| *scope == Scope::Whole);
        if let Some((name, _)) = parts.next().or_else(|| wholes.next()) {
            return name.to_string();
        }
        match self.hubs.get(server) {
            Some(provider) => format!("the hub of {provider}"),
            None => server.to_owned(),
        }
    }
}

impl Reroute for Forks {
    fn cluster(&self, spec: &ClusterSpec) -> ClusterConfig {
        let mut known = self.known.lock();
        let place = (known.server(&spec.config), spec.scope.clone());
        known.clusters.insert(spec.name.clone(), place);
        self.of(&spec.config, &mut known)
    }

    fn hub(&self, provider: &str, config: &ClusterConfig) -> ClusterConfig {
        let mut known = self.known.lock();
        let server = known.server(config);
        known.hubs.insert(server, provider.to_owned());
        self.of(config, &mut known)
    }
}

/// Reads of one real cluster.
struct Reads {
    reads: ManagerHandle,
    name: ClusterName,
}

impl Reads {
    async fn answer(&self, path: String, accept: &'static str) -> Result<Bytes, OriginError> {
        let engaged = async {
            loop {
                if let Some(cluster) = self.reads.fleet().cluster(&self.name) {
                    return cluster;
                }
                tokio::time::sleep(MOMENT).await;
            }
        };
        let unreachable = |why: String| OriginError::Unreachable(why);
        let cluster = tokio::time::timeout(ENGAGING, engaged).await;
        let cluster = cluster.map_err(|_| unreachable(format!("{} is not engaged", self.name)))?;
        let answer = cluster
            .client(allowing(&["get", "list", "watch"]))
            .read_raw(path, accept)
            .await;
        let (code, body) = answer.map_err(|error| unreachable(error.to_string()))?;
        if (200..300).contains(&code) {
            Ok(body)
        } else {
            Err(OriginError::Answered { code, body })
        }
    }
}

impl Origin for Reads {
    fn read(
        &self,
        path: String,
        accept: &'static str,
    ) -> BoxFuture<'_, Result<Bytes, OriginError>> {
        self.answer(path, accept).boxed()
    }
}

/// The right to do this, and nothing else.
fn allowing(verbs: &[&str]) -> Grant {
    let all = || vec!["*".into()];
    Grant::new([Rule {
        api_groups: all(),
        resources: all(),
        verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
        namespaces: all(),
        ..Rule::default()
    }])
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
