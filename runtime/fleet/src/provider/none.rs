//! No clusters, for a process that works on its local cluster only. Entry point: [`NoClusters::new`].

use super::{Provider, ProviderError};
use crate::engage::Engage;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Provides nothing. Beside it alone, controllers engage the local cluster by default, as without a provider.
pub struct NoClusters {
    name: String,
}

impl NoClusters {
    /// A provider of nothing.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl Provider for NoClusters {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(async move {
            engage.listed();
            stop.cancelled().await;
            Ok(())
        })
    }

    fn provides_clusters(&self) -> bool {
        false
    }
}
