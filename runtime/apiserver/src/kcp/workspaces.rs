//! The tree of workspaces: the controllers of Workspace, LogicalCluster and WorkspaceType, and [`Kcp::make_workspace`].

use serde_json::{Value, json};
use sha2::{Digest, Sha224};

use super::kinds::{self, CORE, TENANCY};
use super::queue::Subject;
use super::stage::Stage;
use super::{Kcp, ROOT, conditions, hold, is_deleting, items, put, shard_name, text};
use crate::cluster::Cluster;
use crate::resource::CollectionId;
use crate::status::ApiError;

/// A Workspace and its LogicalCluster stay until what is inside is gone.
pub(super) const FINALIZER: &str = "core.kcp.io/logicalcluster";
/// Tells the logical cluster that was chosen for a workspace.
const CHOSEN: &str = "internal.tenancy.kcp.io/cluster";
/// Tells the shard that was chosen for a workspace.
const SHARD: &str = "internal.tenancy.kcp.io/shard";
/// Types that the root workspace has from the beginning.
const TYPES: [&str; 4] = ["root", "organization", "team", "universal"];
/// The one LogicalCluster of a workspace.
pub(super) const CLUSTER: &str = "cluster";
/// How many characters the name of a logical cluster has.
const NAME_LENGTH: usize = 16;
/// How many types a type may extend, its own extensions included.
const TYPE_LIMIT: usize = 32;

/// Why a workspace could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The server has no workspaces.
    #[error("the server has no workspaces: call kcp_shards on its builder")]
    NoKcp,
    /// The path is not below the root.
    #[error("{path:?} is no path of a workspace: begin it with root:")]
    Path {
        /// As given.
        path: String,
    },
    /// The server refused the Workspace object.
    #[error("the workspace {path:?} was refused")]
    Refused {
        /// As given, or that of a workspace above.
        path: String,
        /// What the server answered.
        source: ApiError,
    },
    /// The workspace was made and does not become ready.
    #[error(
        "the workspace {path:?} is not ready: its type has initializers, or there is no such type or shard"
    )]
    NotReady {
        /// As given, or that of a workspace above.
        path: String,
    },
}

pub(super) fn workspaces() -> CollectionId {
    kinds::collection(TENANCY, "workspaces")
}

pub(super) fn types() -> CollectionId {
    kinds::collection(TENANCY, "workspacetypes")
}

pub(super) fn logical_clusters() -> CollectionId {
    kinds::collection(CORE, "logicalclusters")
}

impl Kcp {
    /// Makes the root workspace.
    pub(super) fn plant(&self) {
        let Some(root) = self.admit(ROOT, ROOT, 0) else {
            return;
        };
        let shards: Vec<Value> = self
            .shards
            .iter()
            .map(|shard| {
                json!({"metadata": {"name": *shard.name, "labels": {"name": *shard.name}},
                    "spec": {"baseURL": shard.url, "externalURL": self.url, "virtualWorkspaceURL": shard.url}})
            })
            .collect();
        let own = json!({"metadata": {"name": CLUSTER}, "status": {"phase": "Ready"}});
        put(&root, CORE, "logicalclusters", own);
        for shard in shards {
            put(&root, CORE, "shards", shard);
        }
        for name in TYPES {
            put(
                &root,
                TENANCY,
                "workspacetypes",
                json!({"metadata": {"name": name}, "spec": {}}),
            );
        }
    }

    /// Makes a workspace and those above it, on a shard by its index (default: that of the workspace above), and waits for none: what
    /// controllers have to do for it is done on return.
    pub(crate) fn make_workspace(
        &self,
        path: &str,
        shard: Option<usize>,
    ) -> Result<Cluster, WorkspaceError> {
        if let Some(found) = self.workspace(path) {
            return Ok(found);
        }
        let Some((above, name)) = path.rsplit_once(':') else {
            let path = path.to_owned();
            return Err(WorkspaceError::Path { path });
        };
        let parent = self.make_workspace(above, None)?;
        let mut workspace = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": {}});
        if let Some(shard) = shard {
            workspace["spec"]["location"] =
                json!({"selector": {"matchLabels": {"name": shard_name(shard)}}});
        }
        if let Err(source) = parent.create(workspace) {
            let path = path.to_owned();
            return Err(WorkspaceError::Refused { path, source });
        }
        self.settle();
        let ready = |workspace: &Value| workspace["status"]["phase"] == "Ready";
        let made = self.object(parent.name(), &workspaces(), name);
        made.filter(ready)
            .and_then(|_| self.workspace(path))
            .ok_or_else(|| WorkspaceError::NotReady {
                path: path.to_owned(),
            })
    }

    pub(super) fn look_at_workspace(&self, cluster: &str, name: &str) {
        let Some(workspace) = self.object(cluster, &workspaces(), name) else {
            return;
        };
        let chosen = text(&workspace["spec"]["cluster"]);
        if is_deleting(&workspace) {
            return self.delete_workspace(cluster, name, &chosen);
        }
        if chosen.is_empty() {
            return self.schedule(cluster, name, &workspace);
        }
        let Some(inside) = self.object(&chosen, &logical_clusters(), CLUSTER) else {
            return;
        };
        self.amend(cluster, &workspaces(), name, |workspace| {
            for field in ["phase", "initializers", "terminators"] {
                copy(&inside["status"], &mut workspace["status"], field);
            }
            let waiting = items(&inside["status"]["initializers"]).count() > 0;
            let message = format!(
                "Initializers still exist: {}",
                inside["status"]["initializers"]
            );
            let met = if waiting {
                Err(("Info", "InitializerExists", message.as_str()))
            } else {
                Ok(())
            };
            conditions::set(workspace, "WorkspaceInitialized", met);
        });
    }

    /// Chooses a shard and a name for a new workspace, and makes its logical cluster.
    fn schedule(&self, cluster: &str, name: &str, workspace: &Value) {
        let Some((above, parent)) =
            self.member(cluster, |member| (member.path.clone(), member.shard))
        else {
            return;
        };
        let spec = &workspace["spec"];
        let kind = match spec["type"]["name"].as_str() {
            Some(_) => spec["type"].clone(),
            None => json!({"name": "universal", "path": ROOT}),
        };
        let shard = match spec["location"]["selector"]["matchLabels"]["name"].as_str() {
            Some(wanted) => self.shards.iter().position(|shard| *shard.name == *wanted),
            None => Some(parent),
        };
        let types = self.types_of(cluster, &kind);
        let (Some(shard), Some(types)) = (shard, types) else {
            let message = if shard.is_none() {
                "No available shards to schedule the workspace".to_owned()
            } else {
                self.missing_type(cluster, &kind).unwrap_or_default()
            };
            return self.amend(cluster, &workspaces(), name, |workspace| {
                workspace["status"]["phase"] = "Scheduling".into();
                let why = Err(("Error", "Unschedulable", message.as_str()));
                conditions::set(workspace, "WorkspaceScheduled", why);
            });
        };
        let (path, chosen) = (format!("{above}:{name}"), self.new_name(cluster, name));
        let Some(inside) = self.admit(&chosen, &path, shard) else {
            return;
        };
        let all = |flag: &str| -> Vec<Value> {
            let with = types.iter().filter(|(_, kind)| kind["spec"][flag] == true);
            with.map(|(name, _)| name.as_str().into()).collect()
        };
        let (initializers, terminators) = (all("initializer"), all("terminator"));
        let owner = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", "name": name, "cluster": cluster,
            "uid": workspace["metadata"]["uid"]});
        let annotations = json!({"internal.tenancy.kcp.io/type": format!("{}:{}", text(&kind["path"]), text(&kind["name"])),
            "internal.core.kcp.io/shard": shard_name(shard)});
        let own = json!({"metadata": {"name": CLUSTER, "finalizers": [FINALIZER], "annotations": annotations},
            "spec": {"owner": owner, "initializers": initializers, "terminators": terminators},
            "status": {"phase": "Initializing", "initializers": initializers, "terminators": terminators, "URL": format!("{}/clusters/{path}", self.url)}});
        put(&inside, CORE, "logicalclusters", own);
        let url = format!("{}/clusters/{path}", self.url);
        self.amend(cluster, &workspaces(), name, |workspace| {
            hold(workspace, FINALIZER);
            workspace["metadata"]["annotations"][CHOSEN] = chosen.as_str().into();
            workspace["metadata"]["annotations"][SHARD] = shard_name(shard).into();
            workspace["spec"]["type"] = kind;
            workspace["spec"]["cluster"] = chosen.as_str().into();
            workspace["spec"]["URL"] = url.into();
            workspace["status"]["phase"] = "Initializing".into();
            conditions::set(workspace, "WorkspaceScheduled", Ok(()));
        });
    }

    /// A name for the logical cluster of a new workspace.
    fn new_name(&self, parent: &str, name: &str) -> String {
        let mut members = self.members.write();
        let had = members.get_mut(parent).map(|member| {
            let had = member.named.entry(name.into()).or_default();
            *had += 1;
            *had - 1
        });
        opaque(parent, name, had.unwrap_or_default())
    }

    /// A type and those that it extends, each with its full name `<logical cluster>:<name>`; `None` where one is missing.
    fn types_of(&self, cluster: &str, kind: &Value) -> Option<Vec<(String, Value)>> {
        let mut found: Vec<(String, Value)> = Vec::new();
        let mut wanted = vec![kind.clone()];
        while let Some(kind) = wanted.pop() {
            let name = text(&kind["name"]);
            let at = match kind["path"].as_str().unwrap_or_default() {
                "" => self.nearest_type(cluster, &name)?,
                path => self.resolve(path, cluster)?,
            };
            let full = format!("{at}:{name}");
            if found.iter().any(|(known, _)| *known == full) || found.len() == TYPE_LIMIT {
                continue;
            }
            let object = self.object(&at, &types(), &name)?;
            wanted.extend(items(&object["spec"]["extend"]["with"]).cloned());
            found.push((full, object));
        }
        Some(found)
    }

    /// The logical cluster of the first type of a name, looking from a workspace up to the root.
    fn nearest_type(&self, cluster: &str, name: &str) -> Option<String> {
        let mut at = self.cluster(cluster)?;
        loop {
            if self.object(at.name(), &types(), name).is_some() {
                return Some(at.name().to_owned());
            }
            let path = self.member(at.name(), |member| member.path.clone())?;
            at = self.workspace(path.rsplit_once(':')?.0)?;
        }
    }

    /// Says which type is not there, if any.
    pub(super) fn missing_type(&self, cluster: &str, kind: &Value) -> Option<String> {
        let missing = kind["name"].is_string() && self.types_of(cluster, kind).is_none();
        let full = || format!("{}:{}", text(&kind["path"]), text(&kind["name"]));
        missing.then(|| format!("workspace type {} does not exist", full()))
    }

    pub(super) fn look_at_logical_cluster(&self, cluster: &str) {
        let Some(own) = self.object(cluster, &logical_clusters(), CLUSTER) else {
            return;
        };
        let left = |field: &str| items(&own["status"][field]).count();
        let phase = match (is_deleting(&own), left("terminators"), left("initializers")) {
            (true, 0, _) => "Deleting",
            (true, ..) => "Terminating",
            (false, _, 0) => "Ready",
            (false, ..) => "Initializing",
        };
        self.amend(cluster, &logical_clusters(), CLUSTER, |own| {
            let mut labels = json!({ "tenancy.kcp.io/phase": phase });
            for stage in [Stage::Initializing, Stage::Terminating] {
                if stage == Stage::Initializing && phase != "Initializing" {
                    continue;
                }
                for name in items(&own["status"][stage.list()]).map(text) {
                    let (key, value) = stage.label(&name);
                    labels[&*key] = (*value).into();
                }
            }
            own["metadata"]["labels"] = labels;
            own["status"]["phase"] = phase.into();
        });
        if phase == "Deleting" {
            self.queue.push(cluster, Subject::Waiting, "");
        }
        let owner = &own["spec"]["owner"];
        let (above, name) = (text(&owner["cluster"]), text(&owner["name"]));
        self.queue.push(&above, Subject::Workspace, &name);
    }

    /// A type tells where its initializer and terminator find their workspaces.
    pub(super) fn look_at_type(&self, cluster: &str, name: &str) {
        let shards = &self.shards;
        self.amend(cluster, &types(), name, |object| {
            let mut urls = Vec::new();
            for shard in shards {
                for kind in ["initializing", "terminating"] {
                    let url = format!("{}/services/{kind}workspaces/{cluster}:{name}", shard.url);
                    urls.push(json!({"type": kind, "url": url}));
                }
            }
            object["status"]["virtualWorkspaces"] = urls.into();
            conditions::set(object, "VirtualWorkspaceURLsReady", Ok(()));
            conditions::set(object, "Ready", Ok(()));
        });
    }
}

/// Gives a field the value, or the absence, that it has elsewhere.
pub(super) fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            if let Some(fields) = to.as_object_mut() {
                fields.remove(field);
            }
        }
    }
}

/// A name of a logical cluster for the workspace of a name below another one, which had so many of that name before it. It is opaque, no
/// server gives it twice, and equal servers give the same: tests compare one run with the next.
fn opaque(parent: &str, name: &str, before: u64) -> String {
    const ALPHABET: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    // Neither a logical cluster nor a workspace has a slash in its name.
    let digest = Sha224::digest(format!("{parent}/{name}/{before}"));
    let bytes = digest.into_iter().take(NAME_LENGTH);
    bytes
        .map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::opaque;

    #[test]
    fn a_name_is_the_same_in_equal_servers_and_another_one_for_any_other_workspace() {
        assert_eq!(opaque("root", "blue", 0), opaque("root", "blue", 0));
        let all = [
            ("root", "blue", 1),
            ("root", "green", 0),
            ("other", "blue", 0),
        ];
        for (parent, name, before) in all {
            assert_ne!(opaque("root", "blue", 0), opaque(parent, name, before));
        }
    }
}
