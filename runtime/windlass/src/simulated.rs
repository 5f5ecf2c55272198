//! The in-memory fleet of `dev`. Entry point: [`Simulated::start`].

use crate::guest_build::state_folder;
use crate::seed::Seed;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_apiserver::Server;
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{ClusterConfig, Provenance};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::clusters::Clusters;

/// The name of the local cluster's context, as its folder below `seed`.
const LOCAL: &str = "local";

/// Clusters in this process, filled.
pub(crate) struct Simulated {
    /// Serves the clusters until it is dropped.
    #[expect(dead_code, reason = "held for its lifetime")]
    server: Server,
    /// The kubeconfig file, a context for each cluster.
    pub(crate) kubeconfig: PathBuf,
    /// The fleet's clusters.
    pub(crate) names: BTreeSet<String>,
    /// Stands in for the Manager's local cluster.
    pub(crate) local: Option<ClusterSpec>,
    /// Stands in for the Providers.
    pub(crate) provider: Arc<dyn Provider>,
}

impl Simulated {
    /// Starts the clusters of a seed on 127.0.0.1, fills them, and writes the kubeconfig into `folder/.windlass`.
    ///
    /// # Errors
    /// When the port is taken, an object of the seed is refused, or the kubeconfig cannot be written.
    pub(crate) async fn start(seed: &Seed, port: u16, folder: &Path) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut builder = Server::builder();
        for name in seed.clusters.keys().map(String::as_str).chain(seed.local.iter().map(|_| LOCAL)) {
            builder = builder.cluster(name);
        }
        let server = builder
            .bind(address)
            .await
            .with_context(|| format!("cannot serve the in-memory fleet at {address}: choose another port with --port"))?;
        let objects = seed.clusters.iter().map(|(name, objects)| (name.as_str(), objects));
        for (name, objects) in objects.chain(seed.local.iter().map(|objects| (LOCAL, objects))) {
            for object in objects {
                fill(&server, name, object).await?;
            }
        }
        let text = server.kubeconfig();
        let kubeconfig = write_kubeconfig(folder, &text)?;
        let config = |context: &str| ClusterConfig::from_kubeconfig_text(&text, Some(context), None, Provenance::Program);
        let mut specs = Vec::new();
        for name in seed.clusters.keys() {
            specs.push(ClusterSpec::new(ClusterName::new(name)?, config(name)?));
        }
        let local = match seed.local {
            Some(_) => Some(ClusterSpec::new(ClusterName::local(), config(LOCAL)?)),
            None => None,
        };
        let provider = Clusters::new("in-memory");
        for spec in specs {
            provider.add(spec);
        }
        Ok(Self { server, kubeconfig, names: seed.clusters.keys().cloned().collect(), local, provider: Arc::new(provider) })
    }
}
