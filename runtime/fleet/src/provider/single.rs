//! One cluster, for ever. Entry point: [`Single::new`].

use super::clusters::Clusters;
use super::{Problem, Provider, ProviderError};
use crate::engage::{ClusterSpec, Engage};
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Provides the one cluster that it was made with.
pub struct Single {
    clusters: Arc<Clusters>,
}

impl Single {
    /// Provides a cluster.
    #[must_use]
    pub fn new(spec: ClusterSpec) -> Self {
        let clusters = Clusters::new("single");
        clusters.put(spec);
        Self {
            clusters: Arc::new(clusters),
        }
    }
}

impl Provider for Single {
    fn name(&self) -> &str {
        self.clusters.name()
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        self.clusters.clone().run(engage, stop)
    }

    fn problems(&self) -> Vec<Problem> {
        self.clusters.problems()
    }
}
