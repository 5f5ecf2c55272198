//! Kind `Manager`: the process. Entry point: [`ManagerSpec`].

use crate::config::kinds::admin::AdminSpec;
use crate::config::kinds::bounded::{GI, HOUR, MI, MINUTE, MS, SECOND};
use crate::config::kinds::caches::CachesSpec;
use crate::config::kinds::leader_election::LeaderElectionSpec;
use crate::config::kinds::lease::LeaseFields;
use crate::config::kinds::registries::RegistriesSpec;
use crate::config::kinds::sharding::ShardingSpec;
use crate::config::kinds::{
    AccessProviderSpec, Authentication, Bytes, Class, Interval, Refusal, Within,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;
use windlass_fleet::GroupKind;
use windlass_fleet::cluster::{RateLimit, TransportOptions};
use windlass_fleet::manager::Concurrency;
use windlass_fleet::metrics::MetricLimits;

/// What the process itself is asked for. The document may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ManagerSpec {
    /// The local (hub) cluster. Default: the cluster that this process runs in, else none.
    pub(crate) local: Option<LocalSpec>,
    /// How much runs at once, from dispatch to done, waiting for API servers included.
    pub(crate) concurrency: ConcurrencySpec,
    /// The admin endpoints.
    pub(crate) admin: AdminSpec,
    /// How long a stop waits for running reconciles. Default: 30s.
    pub(crate) drain_timeout: Option<Within<Interval, 0, HOUR>>,
    /// Whether clusters that are one server under several names are all worked on. Default: false.
    pub(crate) duplicate_clusters: bool,
    /// Bounds on calls to API servers.
    pub(crate) transport: TransportSpec,
    /// How caches follow their servers.
    pub(crate) caches: CachesSpec,
    /// Bounds on metrics.
    pub(crate) metrics: MetricsSpec,
    /// Of the objects of the local cluster it handles those of this class alone. Default: those without a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Class>,
    /// One of several processes leads, the others wait.
    pub(crate) leader_election: LeaderElectionSpec,
    /// Each of several processes works on a part of the clusters.
    pub(crate) sharding: ShardingSpec,
    /// How registries of images are reached.
    pub(crate) registries: RegistriesSpec,
    /// Guests that Reconcilers in the local cluster use by these names, each a `{path: ./hello.wasm}`. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) guests: BTreeMap<String, InstalledGuest>,
    /// Programs that Providers in the local cluster use by their names. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) access_providers: Vec<AccessProviderSpec>,
}

/// A guest of the platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct InstalledGuest {
    /// A .wasm file, or a source folder that was built; relative to the document's folder.
    pub(crate) path: PathBuf,
}

/// The local cluster: `kubeconfig` or `inCluster`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct LocalSpec {
    /// A kubeconfig file, relative to the document's folder. Default: none; then `inCluster` is needed.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context of `kubeconfig`. Default: its current context.
    pub(crate) context: Option<String>,
    /// The cluster that this process runs in, by its service account. Default: false.
    pub(crate) in_cluster: bool,
}

/// How many reconciles run at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ConcurrencySpec {
    /// In the whole process. Default: 512.
    pub(crate) global: Option<Within<usize, 1>>,
    /// In one cluster, of all reconcilers together. Default: 128.
    pub(crate) per_cluster: Option<Within<usize, 1>>,
    /// Of each reconciler by its primary kind, as `Deployment.apps`, unless its `spec.limits.concurrency` is set. Default: none.
    pub(crate) kinds: BTreeMap<String, Within<usize, 1>>,
}

/// Bounds on calls to API servers, each cluster counting for itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TransportSpec {
    /// Time for a connection: DNS, TCP, the proxy and TLS. Default: 10s.
    pub(crate) connect_timeout: Option<Within<Interval, { 100 * MS }, { 5 * MINUTE }>>,
    /// Time for a whole call that is not a watch. Default: 30s.
    pub(crate) call_timeout: Option<Within<Interval, SECOND, { 10 * MINUTE }>>,
    /// Calls in flight, without watches; tenants share them. The manager has 16 more for itself. Default: 128.
    pub(crate) requests_in_flight: Option<Within<usize, 1>>,
    /// Watches in flight. Default: 512.
    pub(crate) watches_in_flight: Option<Within<usize, 1>>,
    /// Calls and watches that begin per second; after a pause, as many at once. Default: no limit.
    pub(crate) requests_per_second: Option<Within<u32, 1, 1_000_000>>,
    /// Connections at once to one server as one identity. Default: 4096.
    pub(crate) max_connections: Option<Within<usize, 1>>,
    /// Time for a credential plugin. Default: 30s.
    pub(crate) plugin_timeout: Option<Within<Interval, SECOND, { 10 * MINUTE }>>,
    /// Largest answer that is read. Default: 64Mi.
    pub(crate) max_answer: Option<Within<Bytes, MI, GI>>,
    /// Answers to reconcilers' calls held at once, of all clusters together. Default: 256Mi.
    pub(crate) answers_in_memory: Option<Within<Bytes, { 64 * MI }, { 64 * GI }>>,
    /// Largest event of a watch. Default: 8Mi.
    pub(crate) max_event: Option<Within<Bytes, MI, { 256 * MI }>>,
    /// Longest `Retry-After` of a server that is honoured. Default: 1m.
    pub(crate) max_retry_after: Option<Within<Interval, 0, HOUR>>,
}

/// Bounds on metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct MetricsSpec {
    /// Clusters with series of their own; further ones are counted together. Default: 1000.
    pub(crate) clusters: Option<Within<usize, 0, 100_000>>,
    /// Pairs of a reconciler and a cluster with series of their own. Default: 10000.
    pub(crate) pairs: Option<Within<usize, 0, 1_000_000>>,
}

impl ManagerSpec {
    /// How much runs at once, the defaults filled in.
    pub(crate) fn concurrency(&self) -> Concurrency {
        let default = Concurrency::default();
        Concurrency {
            global: self.concurrency.global.map_or(default.global, Within::get),
            per_cluster: self
                .concurrency
                .per_cluster
                .map_or(default.per_cluster, Within::get),
            // What is no kind has been refused.
            kinds: self
                .concurrency
                .kinds
                .iter()
                .filter_map(|(kind, limit)| Some((kind.parse().ok()?, limit.get())))
                .collect(),
        }
    }

    /// Whether the local cluster may be asked about callers of the API: it is, or in a pod it would be.
    pub(crate) fn may_review_tokens(&self) -> bool {
        match self.admin.authentication {
            Some(authentication) => authentication == Authentication::TokenReview,
            None => self.local.as_ref().is_none_or(|local| local.in_cluster),
        }
    }

    /// Namespace and name of the Lease that several processes share, if they do.
    pub(crate) fn shared_lease(&self) -> Option<(&str, &str)> {
        let election = self.leader_election.enabled;
        let election = election.then(|| self.leader_election.lease());
        election.or_else(|| self.sharding.enabled.then(|| self.sharding.lease()))
    }

    /// How long a stop waits for what is running, the default filled in.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.drain_timeout
            .map_or(Self::DEFAULT_DRAIN, Within::get)
            .0
    }

    /// Bounds on series, the defaults filled in.
    pub(crate) fn metric_limits(&self) -> MetricLimits {
        let default = MetricLimits::default();
        MetricLimits {
            clusters: self.metrics.clusters.map_or(default.clusters, Within::get),
            pairs: self.metrics.pairs.map_or(default.pairs, Within::get),
        }
    }

    /// What differs from another, of what is read at the start alone. By its path.
    pub(crate) fn fixed_at_start(&self, other: &Self) -> Vec<&'static str> {
        let differs = [
            ("spec.local", self.local != other.local),
            ("spec.class", self.class != other.class),
            (
                "spec.duplicateClusters",
                self.duplicate_clusters != other.duplicate_clusters,
            ),
            ("spec.transport", self.transport != other.transport),
            (
                "spec.leaderElection",
                self.leader_election != other.leader_election,
            ),
            ("spec.sharding", self.sharding != other.sharding),
            ("spec.registries", self.registries != other.registries),
        ];
        let differs = differs.into_iter().filter(|(_, differs)| *differs);
        differs.map(|(path, _)| path).collect()
    }

    /// Where the admin endpoints listen when nothing else is said.
    pub(crate) const DEFAULT_ADMIN: SocketAddr =
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
    /// The name of the Lease when nothing else is said.
    pub(crate) const DEFAULT_LEASE: &str = LeaseFields::DEFAULT;
    /// How long a stop waits when nothing else is said.
    pub(crate) const DEFAULT_DRAIN: Interval = Interval::seconds(30);

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if let Some(local) = &self.local {
            local.check()?;
        }
        Class::check(self.class.as_ref())?;
        for kind in self.concurrency.kinds.keys() {
            if let Err(error) = kind.parse::<GroupKind>() {
                return Err(Refusal::new("spec.concurrency.kinds", error.to_string()));
            }
        }
        self.caches.check()?;
        self.registries.check()?;
        self.admin.check()?;
        let nameless = |provider: &&AccessProviderSpec| provider.exec_config.is_none();
        if let Some(provider) = self.access_providers.iter().find(nameless) {
            let message = format!("{:?} has no execConfig: name its program", provider.name);
            return Err(Refusal::new("spec.accessProviders", message));
        }
        if self.leader_election.enabled && self.sharding.enabled {
            let message = "leaderElection is enabled too: in an election one process works, with shards each does; keep one of them";
            return Err(Refusal::new("spec.sharding", message));
        }
        self.leader_election.check()?;
        self.sharding.check()
    }
}

impl LocalSpec {
    fn check(&self) -> Result<(), Refusal> {
        match (&self.kubeconfig, self.in_cluster) {
            (Some(_), true) => Err(Refusal::new(
                "spec.local",
                "both kubeconfig and inCluster are given: keep one of them",
            )),
            (None, true) if self.context.is_some() => Err(Refusal::new(
                "spec.local.context",
                "a context needs a kubeconfig: remove it or give kubeconfig",
            )),
            (None, false) => Err(Refusal::new(
                "spec.local",
                "no cluster is named: give kubeconfig or inCluster: true",
            )),
            _ => Ok(()),
        }
    }
}

impl TransportSpec {
    /// Bounds on calls, the defaults filled in. Without the proxies of the environment.
    pub(crate) fn options(&self) -> TransportOptions {
        let default = TransportOptions::default();
        let time = |given: Option<Interval>, otherwise| given.map_or(otherwise, |time| time.0);
        let size = |given: Option<Bytes>, otherwise| given.map_or(otherwise, Bytes::count);
        TransportOptions {
            proxy: default.proxy,
            streams: default.streams,
            connect_timeout: time(
                self.connect_timeout.map(Within::get),
                default.connect_timeout,
            ),
            call_timeout: time(self.call_timeout.map(Within::get), default.call_timeout),
            max_retry_after: time(
                self.max_retry_after.map(Within::get),
                default.max_retry_after,
            ),
            max_body: size(self.max_answer.map(Within::get), default.max_body),
            max_answers: size(self.answers_in_memory.map(Within::get), default.max_answers),
            max_line: size(self.max_event.map(Within::get), default.max_line),
            in_flight: self
                .requests_in_flight
                .map_or(default.in_flight, Within::get),
            watches: self.watches_in_flight.map_or(default.watches, Within::get),
            max_connections: self
                .max_connections
                .map_or(default.max_connections, Within::get),
            max_sockets: default.max_sockets,
            ping_after: default.ping_after,
            ping_grace: default.ping_grace,
            plugin_timeout: time(self.plugin_timeout.map(Within::get), default.plugin_timeout),
            rate: self.requests_per_second.map(|rate| RateLimit {
                per_second: f64::from(rate.get()),
                burst: rate.get(),
            }),
        }
    }
}
