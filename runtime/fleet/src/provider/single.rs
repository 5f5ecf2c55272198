//! One cluster, for ever. Entry point: [`Single::new`].

use super::{Provider, ProviderError};
use crate::engage::{ClusterSpec, Engage};
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Provides the one cluster that it was made with.
pub struct Single {
    spec: ClusterSpec,
}

impl Single {
    /// Provides a cluster.
    #[must_use]
    pub fn new(spec: ClusterSpec) -> Self {
        Self { spec }
    }
}

impl Provider for Single {
    fn name(&self) -> &str {
        "single"
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(async move {
            let engaged = engage.engage(self.spec.clone());
            engaged.map_err(|error| ProviderError {
                provider: self.name().to_owned(),
                reason: error.to_string(),
            })?;
            engage.listed();
            stop.cancelled().await;
            Ok(())
        })
    }
}
