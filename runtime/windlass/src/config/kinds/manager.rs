//! Kind `Manager`: the process. Entry point: [`ManagerSpec`].

use crate::config::kinds::admin::AdminSpec;
use crate::config::kinds::caches::CachesSpec;
use crate::config::kinds::leader_election::LeaderElectionSpec;
use crate::config::kinds::registries::RegistriesSpec;
use crate::config::kinds::{
    AccessProviderSpec, Authentication, Bytes, Interval, Refusal, at_least_one, within,
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
    pub(crate) drain_timeout: Option<Interval>,
    /// Whether clusters that are one server under several names are all worked on. Default: false.
    pub(crate) duplicate_clusters: bool,
    /// Bounds on calls to API servers.
    pub(crate) transport: TransportSpec,
    /// How caches follow their servers.
    pub(crate) caches: CachesSpec,
    /// Bounds on metrics.
    pub(crate) metrics: MetricsSpec,
    /// One of several processes leads, the others wait.
    pub(crate) leader_election: LeaderElectionSpec,
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
    pub(crate) global: Option<usize>,
    /// In one cluster, of all reconcilers together. Default: 128.
    pub(crate) per_cluster: Option<usize>,
    /// Of each reconciler by its primary kind, as `Deployment.apps`, unless its `spec.limits.concurrency` is set. Default: none.
    pub(crate) kinds: BTreeMap<String, usize>,
}

/// Bounds on calls to API servers, each cluster counting for itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TransportSpec {
    /// Time for a connection: DNS, TCP, the proxy and TLS, 100ms to 5m. Default: 10s.
    pub(crate) connect_timeout: Option<Interval>,
    /// Time for a whole call that is not a watch, 1s to 10m. Default: 30s.
    pub(crate) call_timeout: Option<Interval>,
    /// Calls of reconcilers in flight, without watches; tenants share them. The manager has 16 more for itself. Default: 128.
    pub(crate) requests_in_flight: Option<usize>,
    /// Watches in flight. Default: 512.
    pub(crate) watches_in_flight: Option<usize>,
    /// Calls and watches that begin per second, up to 1000000; after a pause, as many at once. Default: no limit.
    pub(crate) requests_per_second: Option<u32>,
    /// Connections at once to one server as one identity. Default: 4096.
    pub(crate) max_connections: Option<usize>,
    /// Time for a credential plugin, 1s to 10m. Default: 30s.
    pub(crate) plugin_timeout: Option<Interval>,
    /// Largest answer that is read, 1Mi to 1Gi. Default: 64Mi.
    pub(crate) max_answer: Option<Bytes>,
    /// Answers to reconcilers' calls held at once, of all clusters together, 64Mi to 64Gi. Default: 256Mi.
    pub(crate) answers_in_memory: Option<Bytes>,
    /// Largest event of a watch, 1Mi to 256Mi. Default: 8Mi.
    pub(crate) max_event: Option<Bytes>,
    /// Longest `Retry-After` of a server that is honoured, up to 1h. Default: 1m.
    pub(crate) max_retry_after: Option<Interval>,
}

/// Bounds on metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct MetricsSpec {
    /// Clusters with series of their own, up to 100000; further ones are counted together. Default: 1000.
    pub(crate) clusters: Option<usize>,
    /// Pairs of a reconciler and a cluster with series of their own, up to 1000000. Default: 10000.
    pub(crate) pairs: Option<usize>,
}

impl ManagerSpec {
    /// How much runs at once, the defaults filled in.
    pub(crate) fn concurrency(&self) -> Concurrency {
        let default = Concurrency::default();
        Concurrency {
            global: self.concurrency.global.unwrap_or(default.global),
            per_cluster: self.concurrency.per_cluster.unwrap_or(default.per_cluster),
            // What is no kind has been refused.
            kinds: self
                .concurrency
                .kinds
                .iter()
                .filter_map(|(kind, limit)| Some((kind.parse().ok()?, *limit)))
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

    /// How long a stop waits for what is running, the default filled in.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.drain_timeout.unwrap_or(Self::DEFAULT_DRAIN).0
    }

    /// Bounds on series, the defaults filled in.
    pub(crate) fn metric_limits(&self) -> MetricLimits {
        let default = MetricLimits::default();
        MetricLimits {
            clusters: self.metrics.clusters.unwrap_or(default.clusters),
            pairs: self.metrics.pairs.unwrap_or(default.pairs),
        }
    }

    /// What differs from another, of what is read at the start alone. By its path.
    pub(crate) fn fixed_at_start(&self, other: &Self) -> Vec<&'static str> {
        let differs = [
            ("spec.local", self.local != other.local),
            (
                "spec.duplicateClusters",
                self.duplicate_clusters != other.duplicate_clusters,
            ),
            ("spec.transport", self.transport != other.transport),
            (
                "spec.leaderElection",
                self.leader_election != other.leader_election,
            ),
            ("spec.registries", self.registries != other.registries),
        ];
        let differs = differs.into_iter().filter(|(_, differs)| *differs);
        differs.map(|(path, _)| path).collect()
    }

    /// Where the admin endpoints listen when nothing else is said.
    pub(crate) const DEFAULT_ADMIN: SocketAddr =
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
    /// The name of the Lease when nothing else is said.
    pub(crate) const DEFAULT_LEASE: &str = LeaderElectionSpec::DEFAULT;
    /// How long a stop waits when nothing else is said.
    pub(crate) const DEFAULT_DRAIN: Interval = Interval::seconds(30);

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if let Some(local) = &self.local {
            local.check()?;
        }
        at_least_one("spec.concurrency.global", self.concurrency.global)?;
        at_least_one("spec.concurrency.perCluster", self.concurrency.per_cluster)?;
        for (kind, limit) in &self.concurrency.kinds {
            if let Err(error) = kind.parse::<GroupKind>() {
                return Err(Refusal::new("spec.concurrency.kinds", error.to_string()));
            }
            at_least_one(&format!("spec.concurrency.kinds.{kind}"), Some(*limit))?;
        }
        self.transport.check()?;
        self.caches.check()?;
        self.metrics.check()?;
        self.registries.check()?;
        if let Some(timeout) = self.drain_timeout {
            within(
                "spec.drainTimeout",
                timeout,
                &(Interval::seconds(0)..=Interval::seconds(3600)),
            )?;
        }
        self.admin.check()?;
        let nameless = |provider: &&AccessProviderSpec| provider.exec_config.is_none();
        if let Some(provider) = self.access_providers.iter().find(nameless) {
            let message = format!("{:?} has no execConfig: name its program", provider.name);
            return Err(Refusal::new("spec.accessProviders", message));
        }
        self.leader_election.check()
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
        let size = |given: Option<Bytes>, otherwise| {
            given.map_or(otherwise, |size| {
                usize::try_from(size.0).unwrap_or(usize::MAX)
            })
        };
        TransportOptions {
            proxy: default.proxy,
            connect_timeout: time(self.connect_timeout, default.connect_timeout),
            call_timeout: time(self.call_timeout, default.call_timeout),
            max_retry_after: time(self.max_retry_after, default.max_retry_after),
            max_body: size(self.max_answer, default.max_body),
            max_answers: size(self.answers_in_memory, default.max_answers),
            max_line: size(self.max_event, default.max_line),
            in_flight: self.requests_in_flight.unwrap_or(default.in_flight),
            watches: self.watches_in_flight.unwrap_or(default.watches),
            max_connections: self.max_connections.unwrap_or(default.max_connections),
            max_sockets: default.max_sockets,
            ping_after: default.ping_after,
            ping_grace: default.ping_grace,
            plugin_timeout: time(self.plugin_timeout, default.plugin_timeout),
            rate: self.requests_per_second.map(|rate| RateLimit {
                per_second: f64::from(rate),
                burst: rate,
            }),
        }
    }

    fn check(&self) -> Result<(), Refusal> {
        let times = [
            (
                "spec.transport.connectTimeout",
                self.connect_timeout,
                Interval::millis(100)..=Interval::seconds(300),
            ),
            (
                "spec.transport.callTimeout",
                self.call_timeout,
                Interval::seconds(1)..=Interval::seconds(600),
            ),
            (
                "spec.transport.pluginTimeout",
                self.plugin_timeout,
                Interval::seconds(1)..=Interval::seconds(600),
            ),
            (
                "spec.transport.maxRetryAfter",
                self.max_retry_after,
                Interval::seconds(0)..=Interval::seconds(3600),
            ),
        ];
        for (path, time, range) in times {
            time.map_or(Ok(()), |time| within(path, time, &range))?;
        }
        let sizes = [
            ("spec.transport.maxAnswer", self.max_answer, 1..=1024),
            (
                "spec.transport.answersInMemory",
                self.answers_in_memory,
                64..=65_536,
            ),
            ("spec.transport.maxEvent", self.max_event, 1..=256),
        ];
        for (path, size, range) in sizes {
            let range = Bytes::mebibytes(*range.start())..=Bytes::mebibytes(*range.end());
            size.map_or(Ok(()), |size| within(path, size, &range))?;
        }
        if let Some(rate) = self.requests_per_second {
            within("spec.transport.requestsPerSecond", rate, &(1..=1_000_000))?;
        }
        at_least_one("spec.transport.requestsInFlight", self.requests_in_flight)?;
        at_least_one("spec.transport.watchesInFlight", self.watches_in_flight)?;
        at_least_one("spec.transport.maxConnections", self.max_connections)
    }
}

impl MetricsSpec {
    fn check(&self) -> Result<(), Refusal> {
        for (path, value, most) in [
            ("spec.metrics.clusters", self.clusters, 100_000),
            ("spec.metrics.pairs", self.pairs, 1_000_000),
        ] {
            value.map_or(Ok(()), |value| within(path, value, &(0..=most)))?;
        }
        Ok(())
    }
}
