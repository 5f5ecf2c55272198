//! Providers discover clusters, and only discover. Entry point: [`Provider`].

pub mod clusters;
mod engaged;
pub mod kubeconfig_files;
pub mod name_template;
mod problems;
#[cfg(test)]
mod recorder;
pub mod single;

use crate::engage::Engage;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Why a provider stopped. The manager starts it again with growing delay.
#[derive(Debug, thiserror::Error)]
#[error("provider {provider} failed: {reason}")]
pub struct ProviderError {
    /// The provider's name.
    pub provider: String,
    /// What went wrong, and what to do.
    pub reason: String,
}

/// A part of a provider that cannot be used at the moment. The rest works on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The file, context or cluster.
    pub subject: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Discovers clusters.
///
/// # Contract
/// * [`Provider::run`] engages and disengages until `stop` is cancelled, and then returns without disengaging: the manager ends
///   the clusters. It may be called again after it has failed, and then engages every cluster that it knows again.
/// * It calls [`Engage::listed`] once it has engaged every cluster that it knows.
/// * A cluster that cannot be used is a [`Problem`], not an error: one bad cluster hides no other.
pub trait Provider: Send + Sync {
    /// Its name, which clusters are reported under. Unique in a manager.
    fn name(&self) -> &str;

    /// Discovers until stopped.
    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>>;

    /// Its problems at the moment.
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
}
