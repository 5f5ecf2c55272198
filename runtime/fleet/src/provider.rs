//! Providers discover clusters, and only discover. Entry point: [`Provider`].
//!
//! Each file is one source of clusters; [`prefixed`] is any of them, under names with a prefix,
//! and [`selected`] some of its clusters. Beside them: `engaged` and `problems`,
//! the state that many providers keep.

pub mod cluster_api;
pub mod cluster_profiles;
pub mod clusters;
mod engaged;
pub mod hub_source;
mod inventory;
pub mod kcp;
pub mod kind;
pub mod kubeconfig_files;
pub mod kubeconfig_secrets;
pub mod name_template;
pub mod namespaces;
pub mod none;
pub mod prefixed;
mod problems;
pub mod readiness;
#[cfg(test)]
mod recorder;
mod secret;
pub mod selected;
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
/// A program that learns of clusters in code of its own puts them into [`Clusters`](clusters::Clusters). A source that is polled or
/// watched is a provider of its own:
///
/// ```
/// use futures::future::BoxFuture;
/// use parking_lot::Mutex;
/// use std::collections::BTreeSet;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tokio_util::sync::CancellationToken;
/// use windlass_fleet::ClusterName;
/// use windlass_fleet::cluster::ClusterConfig;
/// use windlass_fleet::engage::{ClusterSpec, Engage};
/// use windlass_fleet::provider::{Problem, Provider, ProviderError};
///
/// /// Provides the clusters that a catalogue lists, by name and URL.
/// struct Catalogue {
///     problems: Mutex<Vec<Problem>>,
/// }
///
/// impl Catalogue {
///     /// Asks the catalogue: here a list, elsewhere a database or a service.
///     async fn list(&self) -> Result<Vec<(String, String)>, std::io::Error> {
///         Ok(vec![("prod-eu".to_owned(), "http://10.0.0.1:8001".to_owned())])
///     }
///
///     /// Engages what is listed, and disengages what is listed no more. One bad entry hides no other.
///     fn bring_in_line(
///         &self,
///         listed: Vec<(String, String)>,
///         known: &mut BTreeSet<ClusterName>,
///         engage: &dyn Engage,
///     ) -> Vec<Problem> {
///         let (mut problems, mut names) = (Vec::new(), BTreeSet::new());
///         for (subject, url) in listed {
///             // An entry that is bad now keeps its cluster as it was.
///             names.extend(ClusterName::new(&subject));
///             if let Err(error) = engage_one(&subject, &url, engage) {
///                 problems.push(Problem { subject, message: error.to_string() });
///             }
///         }
///         for gone in known.difference(&names) {
///             engage.disengage(gone);
///         }
///         *known = names;
///         problems
///     }
/// }
///
/// fn engage_one(name: &str, url: &str, engage: &dyn Engage) -> Result<(), Box<dyn std::error::Error>> {
///     let spec = ClusterSpec::new(ClusterName::new(name)?, ClusterConfig::from_url(url)?);
///     // Engaging again what is engaged already changes nothing, so there is no need to compare.
///     engage.engage(spec.label("env", "prod"))?;
///     Ok(())
/// }
///
/// impl Provider for Catalogue {
///     fn name(&self) -> &str {
///         "catalogue"
///     }
///
///     fn run(
///         self: Arc<Self>,
///         engage: Arc<dyn Engage>,
///         stop: CancellationToken,
///     ) -> BoxFuture<'static, Result<(), ProviderError>> {
///         Box::pin(async move {
///             let mut known = BTreeSet::new();
///             loop {
///                 *self.problems.lock() = match self.list().await {
///                     Ok(listed) => {
///                         let problems = self.bring_in_line(listed, &mut known, &*engage);
///                         engage.listed();
///                         problems
///                     }
///                     // What is not known to be gone stays.
///                     Err(error) => {
///                         vec![Problem { subject: "catalogue".to_owned(), message: error.to_string() }]
///                     }
///                 };
///                 tokio::select! {
///                     () = stop.cancelled() => return Ok(()),
///                     () = tokio::time::sleep(Duration::from_secs(30)) => {}
///                     () = engage.freed() => {}
///                 }
///             }
///         })
///     }
///
///     fn problems(&self) -> Vec<Problem> {
///         self.problems.lock().clone()
///     }
/// }
///
/// let catalogue = Catalogue { problems: Mutex::default() };
/// let builder = windlass_fleet::Manager::builder().provider(Arc::new(catalogue));
/// # drop(builder);
/// ```
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

    /// Whether it can ever provide a cluster. While no provider of a manager can, controllers engage the local cluster by default.
    fn provides_clusters(&self) -> bool {
        true
    }
}
