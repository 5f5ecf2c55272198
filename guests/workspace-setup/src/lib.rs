//! Fills new workspaces of kcp before anybody uses them, and cleans up after they are deleted. Entry point: [`Setup`].
//!
//! A workspace of a type waits at its beginning for every entry in `status.initializers`, and at its end for every one in
//! `status.terminators`. The entry of the type is this guest's. It takes that out when its own work is done, and leaves the others.
//!
//! What is in the workspace goes with it. What is outside does not: here a ConfigMap in the local cluster, which registers the workspace.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_sdk::fleet;
use windlass_sdk::prelude::*;

/// The annotations by which kcp says which workspace it is.
const NAME: &str = "kcp.io/cluster";
const PATH: &str = "kcp.io/path";

/// The required configuration. Its schema is in `config.schema.json`.
#[derive(Deserialize)]
struct Config {
    /// The WorkspaceType.
    #[serde(rename = "type")]
    workspace_type: String,
    /// The namespace of the local cluster where workspaces are registered.
    register: String,
    /// What every new workspace gets, in this order.
    objects: Vec<Value>,
}

/// What kcp says of a workspace, in the workspace itself.
#[derive(Serialize, Deserialize)]
struct LogicalCluster {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}
windlass_sdk::kind!(LogicalCluster, "core.kcp.io/v1alpha1", "LogicalCluster");

#[derive(Default, Serialize, Deserialize)]
struct Status {
    #[serde(default)]
    initializers: Vec<String>,
    #[serde(default)]
    terminators: Vec<String>,
}

/// The register's entry for a workspace.
#[derive(Serialize, Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}
windlass_sdk::kind!(ConfigMap, "v1", "ConfigMap");

/// The guest.
struct Setup;
windlass_sdk::guest!(Setup);

impl Reconciler for Setup {
    fn describe() -> Result<Description> {
        config::<Config>()?;
        Ok(
            Description::new("fills new workspaces and cleans up after them")
                .primary_watch(Watch::new::<LogicalCluster>()),
        )
    }

    fn reconcile(request: &Request, workspace: &Cluster) -> Result<Action> {
        let config = config::<Config>()?;
        let Some(cluster) = workspace.get::<LogicalCluster>(&request.key)? else {
            return Ok(Action::Done);
        };
        let ends = cluster.metadata.is_deleting();
        let (stage, all) = if ends {
            ("terminators", &cluster.status.terminators)
        } else {
            ("initializers", &cluster.status.initializers)
        };
        let Some(left) = without(all, &config.workspace_type) else {
            return Ok(Action::Done);
        };
        if ends {
            unregister(&config, &cluster)?
        } else {
            fill(&config, workspace, &cluster)?
        }
        workspace.patch_status::<LogicalCluster>(&request.key, &json!({stage: left}))?;
        let path = cluster.metadata.annotations.get(PATH).cloned();
        info!(
            "done with a workspace",
            stage = stage,
            path = path.unwrap_or_default()
        );
        Ok(Action::Done)
    }
}

/// The entries but that of a type, which is `<logical cluster of the type>:<type>`. `None`: it is not among them.
fn without<'a>(entries: &'a [String], workspace_type: &str) -> Option<Vec<&'a String>> {
    let is_own = |entry: &&String| {
        let own = entry.split_once(':').map(|(_, own)| own);
        own == Some(workspace_type)
    };
    let left: Vec<_> = entries.iter().filter(|entry| !is_own(entry)).collect();
    (left.len() < entries.len()).then_some(left)
}

/// Gives a new workspace its objects, and registers it.
fn fill(config: &Config, workspace: &Cluster, cluster: &LogicalCluster) -> Result<()> {
    for object in &config.objects {
        workspace.force_apply(&Object(object.clone()))?;
    }
    let annotations = &cluster.metadata.annotations;
    let path = annotations.get(PATH).cloned().unwrap_or_default();
    let entry = ConfigMap {
        metadata: Metadata::of(&entry(config, cluster)?),
        data: BTreeMap::from([("path".to_owned(), path)]),
    };
    fleet::local()?.force_apply(&entry)?;
    Ok(())
}

/// Takes a workspace out of the register.
fn unregister(config: &Config, cluster: &LogicalCluster) -> Result<()> {
    fleet::local()?.delete::<ConfigMap>(&entry(config, cluster)?)?;
    Ok(())
}

/// Names of logical clusters are not used again, so none is registered under another's name.
fn entry(config: &Config, cluster: &LogicalCluster) -> Result<ObjectKey> {
    match cluster.metadata.annotations.get(NAME) {
        Some(name) => Ok(ObjectKey::namespaced(&*config.register, &**name)),
        None => Err(Error::terminal("kcp does not say which workspace it is")),
    }
}

#[cfg(test)]
mod tests;
