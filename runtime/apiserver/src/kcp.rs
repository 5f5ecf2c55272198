//! A kcp in memory: [`Kcp`], a tree of workspaces on shards, with exports, bindings and virtual workspaces.
//!
//! Every workspace is a cluster whose store is part of its shard's. Controllers look, one object at a time, at what has changed
//! ([`Kcp::settle`]); requests through virtual workspaces are taken by [`window`].
//!
//! Not here: users and their permissions (everybody may do everything that bindings allow), partitions, mounts, quotas, conversion
//! rules, cached resources, moving workspaces between shards, and identities that are kept in Secrets.

mod conditions;
mod kinds;
mod queue;
mod shard;
mod seen;
mod export;
mod stage;
mod bindings;
mod slices;
mod workspaces;
mod deletion;
pub(crate) mod window;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::clusters::Clusters;
use crate::place::Place;
use crate::registry::Registry;
use crate::resource::CollectionId;
use crate::state::State;
use crate::store::{Store, key};
use crate::write::WriteOptions;
use bindings::Grant;
use export::{ExportId, Exported};
use queue::{Queue, Subject};
use shard::{Part, Shard};

pub use workspaces::WorkspaceError;

/// The logical cluster at the root of the tree, and its path.
pub(crate) const ROOT: &str = "root";

/// Makes a cluster of what it holds and runs its clean-up.
pub(crate) type Open = Box<dyn Fn(&str, State) -> Cluster + Send + Sync>;

/// A tree of workspaces.
pub(crate) struct Kcp {
    clusters: Arc<Clusters>,
    history: usize,
    open: Open,
    /// Where workspaces are reached, without a slash at the end.
    url: String,
    shards: Vec<Shard>,
    queue: Arc<Queue>,
    /// By the name of the logical cluster.
    members: RwLock<BTreeMap<Box<str>, Member>>,
    exports: RwLock<BTreeMap<ExportId, Arc<Exported>>>,
    /// Held while controllers work: one of them at a time.
    turn: Mutex<()>,
}

/// A workspace.
struct Member {
    cluster: Cluster,
    /// Index of its shard.
    shard: usize,
    path: Box<str>,
    /// What its bindings grant, by the binding's name.
    grants: BTreeMap<Box<str>, Arc<Grant>>,
    /// How many workspaces of a name there have been below it.
    named: BTreeMap<Box<str>, u64>,
}

impl Kcp {
    /// A tree with the root workspace alone, on the first of the shards whose base URLs are given. Workspaces are reached at the first
    /// URL too.
    pub(crate) fn new(
        clusters: Arc<Clusters>,
        urls: &[String],
        history: usize,
        open: Open,
    ) -> Arc<Self> {
        let shard = |(at, url): (usize, &String)| {
            let name = shard_name(at);
            let state = State::bare(Store::new(history), Registry::on([]));
            let all = open(&format!("shard:{name}"), state);
            Shard::new(name, url.clone(), all)
        };
        let shards = urls.iter().enumerate().map(shard).collect();
        let kcp = Arc::new(Self {
            clusters,
            history,
            url: urls.first().cloned().unwrap_or_default(),
            shards,
            queue: Arc::default(),
            members: RwLock::default(),
            exports: RwLock::default(),
            turn: Mutex::default(),
            open,
        });
        kcp.plant();
        kcp.settle();
        kcp
    }

    /// Lets the controllers work until `stop`.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.queue.pushed() => {}
            }
            while self.work_one() {
                // Requests get their turn between two pieces of work.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Lets the controllers work until nothing is left to do.
    pub(crate) fn settle(&self) {
        while self.work_one() {}
    }

    /// Looks at one object; returns whether there was one.
    fn work_one(&self) -> bool {
        let _turn = self.turn.lock();
        let Some(item) = self.queue.pop() else {
            return false;
        };
        let (cluster, name) = (&*item.cluster, &*item.name);
        match item.subject {
            Subject::Workspace => self.look_at_workspace(cluster, name),
            Subject::LogicalCluster => self.look_at_logical_cluster(cluster),
            Subject::WorkspaceType => self.look_at_type(cluster, name),
            Subject::Schema => self.look_at_exports_of(cluster),
            Subject::Export => self.look_at_export(cluster, name),
            Subject::Slice => self.look_at_slice(cluster, name),
            Subject::Binding => self.look_at_binding(cluster, name),
            Subject::Waiting => self.look_at_waiting(cluster),
        }
        true
    }

    pub(crate) fn shard(&self, index: usize) -> Option<&Shard> {
        self.shards.get(index)
    }

    /// A workspace's cluster, by its path or the name of its logical cluster.
    pub(crate) fn workspace(&self, path_or_name: &str) -> Option<Cluster> {
        let cluster = self.clusters.get(path_or_name)?;
        let members = self.members.read();
        members.contains_key(cluster.name()).then_some(cluster)
    }

    /// The path of a workspace and the shard that it is on, by its path or the name of its logical cluster.
    pub(crate) fn place(&self, path_or_name: &str) -> Option<(String, &Shard)> {
        let cluster = self.clusters.get(path_or_name)?;
        let (path, shard) = self.member(cluster.name(), |member| {
            (member.path.to_string(), member.shard)
        })?;
        Some((path, self.shard(shard)?))
    }

    /// The paths of all workspaces, sorted.
    pub(crate) fn paths(&self) -> Vec<String> {
        let members = self.members.read();
        let mut paths: Vec<String> = members.values().map(|one| one.path.to_string()).collect();
        paths.sort();
        paths
    }

    /// Which logical cluster a reference names; an empty one names the cluster it stands in.
    fn resolve(&self, path_or_name: &str, own: &str) -> Option<String> {
        if path_or_name.is_empty() {
            return Some(own.to_owned());
        }
        Some(self.workspace(path_or_name)?.name().to_owned())
    }

    fn member<R>(&self, cluster: &str, look: impl FnOnce(&Member) -> R) -> Option<R> {
        self.members.read().get(cluster).map(look)
    }

    fn cluster(&self, name: &str) -> Option<Cluster> {
        self.member(name, |member| member.cluster.clone())
    }

    /// One cluster-scoped object of a workspace.
    fn object(&self, cluster: &str, id: &CollectionId, name: &str) -> Option<Value> {
        self.cluster(cluster)?
            .with(|state| state.store.get(id, name).map(|object| object.value()))
    }

    /// Every object of a kind in all workspaces: the name of its logical cluster and itself.
    fn everywhere(&self, id: &CollectionId) -> Vec<(String, Value)> {
        let values = self.shards.iter().flat_map(|shard| {
            shard.all.with(|state| {
                let objects = state.store.range(id, "");
                objects.map(|object| object.value()).collect::<Vec<_>>()
            })
        });
        values
            .map(|value| (logical_cluster(&value), value))
            .collect()
    }

    /// Changes a cluster-scoped object where `change` makes a difference; one whose last finalizer goes is removed.
    fn amend(&self, cluster: &str, id: &CollectionId, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(cluster) = self.cluster(cluster) else {
            return;
        };
        cluster.with(|state| {
            let Some(before) = state.store.get(id, name).map(|object| object.value()) else {
                return;
            };
            let mut after = before.clone();
            change(&mut after);
            let metadata = &after["metadata"];
            let kept = metadata["finalizers"]
                .as_array()
                .is_some_and(|list| !list.is_empty());
            if metadata.get("deletionTimestamp").is_some() && !kept {
                state.discard(id, &key("", name));
            } else if before != after {
                state.commit(id, after);
            }
        });
    }

    /// Makes the cluster of a workspace and lets it be found by its path.
    fn admit(&self, name: &str, path: &str, shard: usize) -> Option<Cluster> {
        let part = Part {
            all: self.shards.get(shard)?.all.clone(),
            cluster: name.into(),
            queue: Arc::clone(&self.queue),
        };
        let place = Place {
            cluster: name.into(),
            path: path.into(),
            claims: Vec::new(),
        };
        let store = Store::below(Arc::new(part), self.history);
        let state = State::workspace(store, Registry::on(kinds::base()), place);
        let cluster = self.clusters.get_or_add(name, || (self.open)(name, state));
        self.clusters.also_at(path, name);
        let member = Member {
            cluster: cluster.clone(),
            shard,
            path: path.into(),
            grants: BTreeMap::new(),
            named: BTreeMap::new(),
        };
        self.members.write().insert(name.into(), member);
        Some(cluster)
    }
}

impl std::fmt::Debug for Kcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kcp")
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

/// As kcp names them: the first shard is called like the root workspace, which it holds.
pub(crate) fn shard_name(index: usize) -> String {
    match index {
        0 => ROOT.to_owned(),
        other => format!("shard-{other}"),
    }
}

/// The logical cluster that an object says it is in.
fn logical_cluster(object: &Value) -> String {
    text(&object["metadata"]["annotations"][crate::place::CLUSTER])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Adds a finalizer where it is not there yet.
fn hold(object: &mut Value, finalizer: &str) {
    let metadata = &mut object["metadata"];
    let mut held: Vec<Value> = items(&metadata["finalizers"]).cloned().collect();
    if held.iter().all(|one| one != finalizer) {
        held.push(finalizer.into());
        metadata["finalizers"] = held.into();
    }
}

/// Takes a finalizer off.
fn let_go(object: &mut Value, finalizer: &str) {
    let metadata = &mut object["metadata"];
    let held: Vec<Value> = items(&metadata["finalizers"])
        .filter(|one| *one != finalizer)
        .cloned()
        .collect();
    metadata["finalizers"] = held.into();
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// Creates an object of kcp with the status that it has, unless it is there.
fn put(cluster: &Cluster, group: &str, plural: &str, mut object: Value) {
    let Some(resource) = kinds::versions(group, plural).into_iter().next() else {
        return;
    };
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_str().into();
    let status = object["status"].clone();
    let id = resource.collection();
    cluster.with(|state| {
        let made = state.create(&resource, "", object, &WriteOptions::default());
        match made {
            Ok(outcome) if !status.is_null() => {
                let mut object = outcome.object;
                object["status"] = status;
                state.commit(&id, object);
            }
            Ok(_) => {}
            Err(error) => tracing::trace!(%error, plural, "an object of kcp was not made"),
        }
    });
}
