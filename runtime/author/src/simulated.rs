//! The in-memory fleet of `dev`. Entry point: [`Simulated::start`].
//!
//! Its clusters stand in for those of every Provider, whatever its source is. Workspaces of kcp alone are provided by the real Provider,
//! which reads the in-memory kcp. A provider gives its clusters labels and properties,
//! which reconcilers select by; a document of kind `Cluster` in the seed gives them to a stand-in.

mod changes;
mod kubeconfig;
mod seeds;
mod workspaces;
mod world;

pub(crate) use changes::Description;
pub use changes::{Failure, Membership};
pub use world::SeenEvent;
pub(crate) use world::{CONDITION, SOMEBODY};

use crate::seed::{LOCAL, Seed};
use anyhow::{Context, Result, bail};
use changes::Members;
use kubeconfig::KubeconfigFile;
use parking_lot::Mutex;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Cluster, Server};
use windlass_files::API_VERSION;
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{ClusterConfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::clusters::Clusters;
use world::World;

/// How often the workspaces are looked at for the kubeconfig.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// What ends the prefix that a Provider puts before the names of its clusters.
const PREFIX_END: char = '#';

/// How many shards an in-memory kcp has: with two of them, what works here works with any number.
const SHARDS: usize = 2;

/// In-memory clusters with their first objects.
pub struct Simulated {
    /// Serves the clusters until it is dropped.
    server: Server,
    world: Arc<World>,
    /// A context for each cluster and workspace.
    kubeconfig: KubeconfigFile,
    stand_ins: Arc<Clusters>,
    /// The fleet's clusters but workspaces.
    members: Mutex<Members>,
    /// Replaces the Manager's local cluster.
    pub local: Option<ClusterSpec>,
    /// Replaces the Providers of clusters; none: there are only the local one and workspaces.
    pub provider: Option<Arc<dyn Provider>>,
}

impl Simulated {
    /// Starts the clusters of a seed on 127.0.0.1, fills them, and writes the kubeconfig into `folder/.windlass`.
    ///
    /// # Errors
    /// When the port is taken, an object of the seed is rejected, or the kubeconfig cannot be written.
    pub async fn start(seed: &Seed, port: u16, folder: &Path) -> Result<Self> {
        let world = Arc::new(World::default());
        let server = serve(seed, port, world.clone()).await?;
        if let Some(objects) = &seed.workspaces {
            workspaces::fill(&server, objects)?;
        }
        let local = match &seed.local {
            Some(objects) => {
                fill(&server, LOCAL, objects)?;
                Some(ClusterSpec::new(
                    ClusterName::local(),
                    config(&server, LOCAL)?,
                ))
            }
            None => None,
        };
        let stand_ins = Arc::new(Clusters::new("in-memory"));
        let provider = (!seed.closed).then(|| stand_ins.clone() as Arc<dyn Provider>);
        let fleet = Self {
            kubeconfig: KubeconfigFile::take(folder)?,
            server,
            world,
            stand_ins,
            members: Mutex::default(),
            local,
            provider,
        };
        for (name, objects) in &seed.clusters {
            fleet.admit(name, objects, Description::default())?;
        }
        fleet.write_kubeconfig()?;
        Ok(fleet)
    }

    /// The kubeconfig file.
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// The server of all clusters and workspaces.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The paths of all workspaces of the kcp, if there is one.
    pub fn workspaces(&self) -> Vec<String> {
        self.server.workspaces()
    }

    /// Keeps a context for each workspace in the kubeconfig while workspaces come and go. Never ends.
    pub async fn follow_workspaces(&self) {
        let mut known = self.workspaces();
        loop {
            tokio::time::sleep(FOLLOW_EVERY).await;
            let now = self.workspaces();
            if now == known {
                continue;
            }
            match self.write_kubeconfig() {
                Ok(()) => known = now,
                Err(error) => tracing::warn!(
                    error = format!("{error:#}"),
                    "the kubeconfig misses new workspaces"
                ),
            }
        }
    }

    fn write_kubeconfig(&self) -> Result<()> {
        self.kubeconfig.write(&self.server.kubeconfig())
    }

    /// The names of all clusters that are served, the local one and the paths of workspaces among them.
    pub(crate) fn everywhere(&self) -> BTreeSet<String> {
        let clusters = self.server.clusters().into_iter();
        let others = clusters.filter(|name| self.server.workspace_path(name).is_none());
        others.chain(self.workspaces()).collect()
    }

    /// What steps call a cluster that is engaged under this name: a workspace by its path, whatever its Provider names it by. One that is
    /// gone is called as it was engaged.
    #[must_use]
    pub fn called(&self, engaged: &str) -> String {
        // Providers of workspaces alone may have a prefix here.
        let own = engaged.rsplit(PREFIX_END).next().unwrap_or(engaged);
        let path = self.server.workspace_path(own);
        path.unwrap_or_else(|| engaged.to_owned())
    }

    /// Lets kcp do what it has to do for its workspaces by now.
    pub(crate) fn settle_workspaces(&self) {
        self.server.settle_workspaces();
    }

    /// Begins to note the events that watches send. These are to come late, and not at all if their object has changed once more by then.
    pub fn watch_events(self: &Arc<Self>, late: Vec<SeenEvent>) {
        self.world.watch_events(late, Arc::downgrade(self));
    }

    /// Ends that, and returns the events since then.
    pub fn events(&self) -> Vec<SeenEvent> {
        self.world.events()
    }

    /// Makes the caches of the next run begin so many changes ago, those of one cluster, or one of them.
    pub fn begin_in_the_past(&self, cluster: &str, resource: Option<&str>, behind: u64) {
        // Caches have all workspaces of a shard together.
        let shard = self.server.shard_of(cluster);
        let listed = shard.as_ref().map_or(cluster, |shard| shard.name());
        self.world.begin_in_the_past(listed, resource, behind);
    }

    /// How long caches that have begun in the past are still there. None: no cache is.
    pub fn behind(&self) -> Option<Duration> {
        self.world.behind()
    }

    /// The name that faults know an object by: that of its generated name, else its own.
    pub fn name_of(&self, cluster: &str, object: &str) -> Option<String> {
        let found = world::find(&self.cluster(cluster)?, object)?;
        let prefix = found["metadata"]["generateName"].as_str()?;
        Some(format!("{prefix}*"))
    }

    /// Whether an object is there, as `v1/ConfigMap default/a`.
    pub fn has(&self, cluster: &str, object: &str) -> bool {
        let cluster = self.cluster(cluster);
        cluster.is_some_and(|cluster| world::find(&cluster, object).is_some())
    }

    /// Changes an object as somebody else would. Returns in how many places; 0: it is not there.
    pub fn change_as_somebody(&self, cluster: &str, object: &str) -> usize {
        let cluster = self.cluster(cluster);
        cluster.map_or(0, |cluster| world::change(&cluster, object))
    }

    /// Deletes an object as somebody else would. Returns whether it was there.
    pub fn delete_as_somebody(&self, cluster: &str, object: &str) -> bool {
        let cluster = self.cluster(cluster);
        cluster.is_some_and(|cluster| world::delete(&cluster, object))
    }

    /// The server's side of a cluster, or of a workspace by its path; `local` is the local one.
    pub(crate) fn cluster(&self, name: &str) -> Option<Cluster> {
        self.server.cluster(name)
    }
}

/// How the fleet reaches a cluster that is served.
fn config(server: &Server, name: &str) -> Result<ClusterConfig> {
    // Of this cluster alone: a fleet of a thousand would be read a thousand times.
    let (text, policy) = (server.kubeconfig_of(&[name]), KubeconfigPolicy::file());
    let config = ClusterConfig::from_kubeconfig_text(&text, Some(name), None, &policy)?;
    Ok(config)
}

/// Serves the clusters of a seed, empty.
async fn serve(seed: &Seed, port: u16, world: Arc<World>) -> Result<Server> {
    let local = seed.local.iter().map(|_| LOCAL);
    let names = seed.clusters.keys().map(String::as_str).chain(local);
    let mut builder = names.fold(Server::builder().hook(world), |builder, name| {
        builder.cluster(name)
    });
    if seed.workspaces.is_some() {
        builder = builder.kcp_shards(SHARDS);
    }
    let address = format!("127.0.0.1:{port}");
    builder.bind(&address).await.with_context(|| {
        format!("cannot serve the in-memory fleet at {address}: choose another port with --port")
    })
}

/// Creates a cluster's first objects and returns the number of changes.
fn fill(server: &Server, name: &str, objects: &[Json]) -> Result<u64> {
    let Some(cluster) = server.cluster(name) else {
        bail!("cluster {name} is not served");
    };
    for object in objects.iter().filter(|object| !describes_cluster(object)) {
        put(&cluster, &format!("cluster {name}"), object)?;
    }
    Ok(cluster.version())
}

/// Puts an object of the seed into a cluster.
fn put(cluster: &Cluster, called: &str, object: &Json) -> Result<()> {
    let what = || {
        let text = |field: &Json| field.as_str().unwrap_or_default().to_owned();
        let name = text(&object["metadata"]["name"]);
        format!("{} {name}", text(&object["kind"]))
    };
    let applied = cluster.apply(object.clone());
    applied.with_context(|| format!("{called} refuses {} of the seed", what()))?;
    Ok(())
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
