//! Which Provider has which clusters, and reads which hub. Entry point: [`Recorded::wrap`].

use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::engage::{ClusterSpec, Engage, EngageError};
use windlass_fleet::hub::{Hub, HubError};
use windlass_fleet::provider::{Problem, Provider, ProviderError};

/// The Provider of each engaged cluster, and the hub that each Provider reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Origins(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    clusters: BTreeMap<ClusterName, String>,
    /// By Provider. Held, so that a hub can be asked when its Provider has failed.
    hubs: BTreeMap<String, Hub>,
}

impl Origins {
    /// The Provider of a cluster. `None`: the local cluster.
    pub(super) fn of(&self, cluster: &ClusterName) -> Option<String> {
        self.0.lock().clusters.get(cluster).cloned()
    }

    /// The hub that a Provider reads, once it has looked for it.
    pub(super) fn hub(&self, provider: &str) -> Option<Hub> {
        self.0.lock().hubs.get(provider).cloned()
    }
}

/// A provider that records the clusters which it engages, and its hub.
pub(super) struct Recorded {
    provider: Arc<dyn Provider>,
    origins: Origins,
}

impl Recorded {
    /// Records the clusters of a provider.
    pub(super) fn wrap(provider: Arc<dyn Provider>, origins: &Origins) -> Arc<dyn Provider> {
        let origins = origins.clone();
        Arc::new(Self { provider, origins })
    }
}

impl Provider for Recorded {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        let engage = Arc::new(RecordedEngage {
            engage,
            provider: self.name().to_owned(),
            origins: self.origins.clone(),
        });
        self.provider.clone().run(engage, stop)
    }

    fn problems(&self) -> Vec<Problem> {
        self.provider.problems()
    }
}

struct RecordedEngage {
    engage: Arc<dyn Engage>,
    provider: String,
    origins: Origins,
}

impl Engage for RecordedEngage {
    fn engage(&self, spec: ClusterSpec) -> Result<(), EngageError> {
        let name = spec.name.clone();
        self.engage.engage(spec)?;
        let mut seen = self.origins.0.lock();
        seen.clusters.insert(name, self.provider.clone());
        Ok(())
    }

    fn disengage(&self, name: &ClusterName) {
        self.engage.disengage(name);
    }

    fn keep(&self, name: &ClusterName) {
        self.engage.keep(name);
    }

    fn listed(&self) {
        self.engage.listed();
    }

    fn hub(&self, config: Option<ClusterConfig>) -> Result<Hub, HubError> {
        let hub = self.engage.hub(config)?;
        let mut seen = self.origins.0.lock();
        seen.hubs.insert(self.provider.clone(), hub.clone());
        Ok(hub)
    }

    fn freed(&self) -> BoxFuture<'_, ()> {
        self.engage.freed()
    }
}
