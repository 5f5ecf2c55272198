//! The workspaces of the in-memory kcp, and their first objects. Entry point: [`fill`].

use super::{SHARDS, put};
use crate::seed::Workspaces;
use anyhow::{Context, Result, bail};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use windlass_apiserver::{Cluster, Server};

/// Kinds that others need, in the order in which all workspaces get them. Everything else comes last.
const ORDER: [&str; 8] = [
    "WorkspaceType",
    "Workspace",
    "CustomResourceDefinition",
    "Namespace",
    "APIResourceSchema",
    "APIExport",
    "APIExportEndpointSlice",
    "APIBinding",
];

/// Makes the workspaces of a seed and their objects. A workspace is of the type and on the shard that a Workspace in the seed says; without
/// one, every other workspace is on the second shard.
///
/// # Errors
/// When a workspace cannot be made, or refuses an object.
pub(super) fn fill(server: &Server, seed: &Workspaces) -> Result<()> {
    let declared: BTreeSet<String> = seed
        .iter()
        .flat_map(|(path, objects)| objects.iter().map(move |object| (path, object)))
        .filter(|(_, object)| object["kind"] == "Workspace")
        .filter_map(|(path, object)| {
            Some(format!("{path}:{}", object["metadata"]["name"].as_str()?))
        })
        .collect();
    let mut left: Vec<(&String, Vec<&Json>)> = seed
        .iter()
        .map(|(path, objects)| (path, objects.iter().collect()))
        .collect();
    for step in 0..=ORDER.len() {
        for (at, (path, objects)) in left.iter_mut().enumerate() {
            let Some(workspace) = open(server, path, at % SHARDS, &declared)? else {
                continue;
            };
            let (now, later) = objects.iter().partition(|object| rank(object) <= step);
            *objects = later;
            let now: Vec<&Json> = now;
            for object in now {
                put(&workspace, &format!("workspace {path}"), object)?;
            }
        }
        server.settle_workspaces();
    }
    match left.iter().find(|(_, objects)| !objects.is_empty()) {
        Some((path, _)) => bail!(
            "workspace {path} of the seed is not made: no shard or no type of its Workspace is there"
        ),
        None => Ok(()),
    }
}

/// A workspace of the seed; made, unless a Workspace in the seed makes it. `None`: that has not made it yet.
fn open(
    server: &Server,
    path: &str,
    shard: usize,
    declared: &BTreeSet<String>,
) -> Result<Option<Cluster>> {
    if let Some(found) = server.workspace(path) {
        return Ok(Some(found));
    }
    if declared
        .iter()
        .any(|one| path == one || path.starts_with(&format!("{one}:")))
    {
        return Ok(None);
    }
    let made = server.add_workspace_on(path, shard);
    made.map(Some).context("make the workspaces of the seed")
}

fn rank(object: &Json) -> usize {
    let kind = object["kind"].as_str().unwrap_or_default();
    let place = ORDER.iter().position(|one| *one == kind);
    place.unwrap_or(ORDER.len())
}
