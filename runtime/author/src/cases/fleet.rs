//! The objects of a layout, as a fleet has them. Entry points: [`each`] and [`find`].

use super::identity::Identity;
use crate::seed::{LOCAL, Layout};
use crate::simulated::Simulated;
use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

/// All objects of a layout.
pub(super) fn objects(layout: &Layout) -> impl Iterator<Item = &Json> {
    let own = layout.clusters.values().flatten();
    let workspaces = layout.workspaces.iter().flatten();
    layout
        .everywhere
        .iter()
        .chain(own)
        .chain(layout.local.iter().flatten())
        .chain(workspaces.flat_map(|(_, objects)| objects))
}

/// Every object of a layout with its cluster.
pub(super) fn each(layout: Option<&Layout>, fleet: &Simulated) -> Vec<(String, Json)> {
    let mut all = Vec::new();
    let Some(layout) = layout else { return all };
    for name in fleet.names() {
        let objects = layout.everywhere.iter().cloned();
        all.extend(objects.map(|object| (name.clone(), object)));
    }
    // Also of those that have left.
    for (name, own) in &layout.clusters {
        all.extend(own.iter().map(|object| (name.clone(), object.clone())));
    }
    let local = layout.local.iter().flatten().cloned();
    all.extend(local.map(|object| (LOCAL.to_owned(), object)));
    for (path, objects) in layout.workspaces.iter().flatten() {
        let objects = objects.iter().cloned();
        all.extend(objects.map(|object| (path.clone(), object)));
    }
    all
}

/// The cluster's object of that kind and name. Without a namespace, the object of a namespaced kind is in `default`.
pub(super) fn find(fleet: &Simulated, cluster: &str, object: &Json) -> Result<Option<Json>> {
    let server = fleet
        .cluster(cluster)
        .with_context(|| format!("cluster {cluster} is not served"))?;
    let Identity {
        version,
        kind,
        namespace,
        name,
    } = Identity::of(object);
    if name.is_empty() {
        bail!("an expected {kind} has no metadata.name");
    }
    let get = |namespace: &str| {
        server
            .get(&version, &kind, namespace, &name)
            .with_context(|| format!("cluster {cluster}: {kind} {name} is expected"))
    };
    match get(&namespace)? {
        None if namespace.is_empty() => get("default"),
        found => Ok(found),
    }
}
