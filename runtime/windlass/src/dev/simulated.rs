//! The in-memory fleet of `dev`. Entry point: [`Simulated::start`].
//!
//! Its clusters stand in for those of every Provider, whatever its source is. A provider gives its clusters labels and properties,
//! which reconcilers select by; a document of kind `Cluster` in the seed gives them to a stand-in.

use crate::config::kinds::API_VERSION;
use crate::dev::guest_build::state_folder;
use crate::dev::seed::{LOCAL, Seed};
use anyhow::{Context, Result, bail};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_apiserver::Server;
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{ClusterConfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::clusters::Clusters;

/// In-memory clusters with their first objects.
pub(crate) struct Simulated {
    /// Serves the clusters until it is dropped.
    server: Server,
    /// The kubeconfig file, a context for each cluster.
    pub(crate) kubeconfig: PathBuf,
    /// The fleet's clusters, each with the number of changes that filled it.
    clusters: BTreeMap<String, u64>,
    /// Replaces the Manager's local cluster.
    pub(crate) local: Option<ClusterSpec>,
    /// Replaces the Providers; none, if the seed has no cluster but the local one.
    pub(crate) provider: Option<Arc<dyn Provider>>,
}

impl Simulated {
    /// Starts the clusters of a seed on 127.0.0.1, fills them, and writes the kubeconfig into `folder/.windlass`.
    ///
    /// # Errors
    /// When the port is taken, an object of the seed is rejected, or the kubeconfig cannot be written.
    pub(crate) async fn start(seed: &Seed, port: u16, folder: &Path) -> Result<Self> {
        let local = seed.local.iter().map(|objects| (LOCAL, objects));
        let contents: Vec<(&str, &Vec<Json>)> = seed
            .clusters
            .iter()
            .map(|(name, objects)| (name.as_str(), objects))
            .chain(local)
            .collect();
        let builder = contents
            .iter()
            .fold(Server::builder(), |builder, (name, _)| {
                builder.cluster(*name)
            });
        let address = format!("127.0.0.1:{port}");
        let server = builder.bind(&address).await.with_context(|| {
            format!(
                "cannot serve the in-memory fleet at {address}: choose another port with --port"
            )
        })?;
        let text = server.kubeconfig();
        let config = |context: &str| {
            ClusterConfig::from_kubeconfig_text(
                &text,
                Some(context),
                None,
                &KubeconfigPolicy::file(),
            )
        };
        let mut clusters = BTreeMap::new();
        let provider = Clusters::new("in-memory");
        for (name, objects) in contents {
            let changes = fill(&server, name, objects)?;
            if name == LOCAL {
                continue;
            }
            provider.put(ClusterSpec {
                labels: described(name, objects, "labels", |it| &it["metadata"]["labels"])?.into(),
                properties: described(name, objects, "properties", |it| &it["properties"])?.into(),
                ..ClusterSpec::new(ClusterName::new(name)?, config(name)?)
            });
            clusters.insert(name.to_owned(), changes);
        }
        let provider: Arc<dyn Provider> = Arc::new(provider);
        let local = match seed.local {
            Some(_) => Some(ClusterSpec::new(ClusterName::local(), config(LOCAL)?)),
            None => None,
        };
        let kubeconfig = write_kubeconfig(folder, &text)?;
        Ok(Self {
            provider: Some(provider).filter(|_| !clusters.is_empty()),
            server,
            kubeconfig,
            clusters,
            local,
        })
    }

    /// The names of the fleet's clusters, without the local one.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.clusters.keys().cloned().collect()
    }

    /// The server's side of a cluster; `local` is the local one.
    pub(crate) fn cluster(&self, name: &str) -> Option<windlass_apiserver::Cluster> {
        self.server.cluster(name)
    }

    /// The number of changes in a cluster since it was filled.
    pub(crate) fn changes(&self, name: &str) -> Option<u64> {
        let filled = self.clusters.get(name)?;
        Some(self.server.cluster(name)?.version().saturating_sub(*filled))
    }
}

/// Creates a cluster's first objects and returns the number of changes.
fn fill(server: &Server, name: &str, objects: &[Json]) -> Result<u64> {
    let Some(cluster) = server.cluster(name) else {
        bail!("cluster {name} is not served");
    };
    for object in objects.iter().filter(|object| !describes_cluster(object)) {
        let what = || {
            let text = |field: &Json| field.as_str().unwrap_or_default().to_owned();
            format!(
                "{} {}",
                text(&object["kind"]),
                text(&object["metadata"]["name"])
            )
        };
        let applied = cluster.apply(object.clone());
        applied.with_context(|| format!("cluster {name} refuses {} of the seed", what()))?;
    }
    Ok(cluster.version())
}

/// Whether a document of the seed describes its cluster, as a provider does, and is no object in it.
fn describes_cluster(object: &Json) -> bool {
    object["apiVersion"] == API_VERSION && object["kind"] == "Cluster"
}

/// The labels or properties of a cluster: of the seed's documents that describe it. A later one wins.
fn described(
    cluster: &str,
    objects: &[Json],
    what: &str,
    field: fn(&Json) -> &Json,
) -> Result<BTreeMap<String, String>> {
    let mut described = BTreeMap::new();
    for object in objects.iter().filter(|object| describes_cluster(object)) {
        for (name, value) in field(object).as_object().into_iter().flatten() {
            let Some(value) = value.as_str() else {
                bail!(
                    "{name} among the {what} of cluster {cluster} is not a text: put it in quotes"
                );
            };
            described.insert(name.clone(), value.to_owned());
        }
    }
    Ok(described)
}

/// Writes the kubeconfig in one step: kubectl may be reading it.
fn write_kubeconfig(folder: &Path, text: &str) -> Result<PathBuf> {
    let write = || {
        let path = state_folder(folder)?.join("kubeconfig");
        let fresh = path.with_extension(std::process::id().to_string());
        std::fs::write(&fresh, text)?;
        std::fs::rename(&fresh, &path)?;
        std::io::Result::Ok(path)
    };
    write().with_context(|| {
        format!(
            "cannot write the kubeconfig into {}",
            folder.join(".windlass").display()
        )
    })
}
