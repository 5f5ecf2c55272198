//! Spreads: keeps a copy of every ConfigMap of the local cluster labelled `hub.windlass.dev/spread` in all other clusters, or in those
//! that it selects. Entry point: [`Spread`].
//!
//! A request belongs to the cluster that gets the copy, so an unreachable cluster delays only its own requests.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;
use windlass_sdk::{Change, ClusterScope, FleetCluster, GroupVersionKind, Mapper, fleet};

/// The label of originals, in the local cluster. Its value does not matter.
const SPREAD: &str = "hub.windlass.dev/spread";
/// The annotation of originals with the labels of their clusters, as `kubectl -l` has them. Without it they are for all.
const CLUSTERS: &str = "hub.windlass.dev/clusters";
/// The label of copies. Objects without it are never changed.
const COPY: &str = "hub.windlass.dev/copy";

/// The parts of a ConfigMap that matter here.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default)]
    binary_data: BTreeMap<String, String>,
}
windlass_sdk::kind!(ConfigMap, "v1", "ConfigMap");

impl ConfigMap {
    fn is_labelled(&self, label: &str) -> bool {
        self.metadata.labels.contains_key(label)
    }

    /// Whether it is an original that the cluster should have a copy of.
    fn is_for(&self, cluster: &str) -> Result<bool> {
        if !self.is_labelled(SPREAD) || self.metadata.is_deleting() {
            return Ok(false);
        }
        let selector = self.metadata.annotations.get(CLUSTERS);
        let clusters = fleet::clusters_labelled(selector.map_or("", String::as_str))?;
        Ok(clusters.iter().any(|to| to.name == cluster))
    }

    /// The copy for other clusters.
    fn copy(&self) -> Self {
        Self {
            metadata: Metadata::of(&self.key()).label(COPY, "yes"),
            data: self.data.clone(),
            binary_data: self.binary_data.clone(),
        }
    }

    fn holds_what(&self, other: &Self) -> bool {
        self.data == other.data && self.binary_data == other.binary_data
    }
}

/// The guest.
struct Spread;
windlass_sdk::guest!(Spread, mapper);

impl Reconciler for Spread {
    fn describe() -> Result<Description> {
        let copies = Watch::new::<ConfigMap>().labels(COPY);
        let originals = Watch::new::<ConfigMap>().labels(SPREAD);
        // What happens to a cluster's state afterwards asks for nothing.
        let clusters = Watch::new::<FleetCluster>().on(Change::Labels);
        Ok(
            Description::new("keeps ConfigMaps of the hub in all clusters")
                .primary_watch(copies.clusters(ClusterScope::Provider))
                .watch(
                    originals
                        .clusters(ClusterScope::Local)
                        .enqueue(Enqueue::Mapped),
                )
                .watch(clusters.enqueue(Enqueue::Mapped)),
        )
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        bring_in_line(&request.key, cluster)?;
        Ok(Action::Done)
    }
}

impl Mapper for Spread {
    /// The objects are the hub's: an original asks for a copy in each cluster, a cluster for a copy of each original.
    fn map(hub: &Cluster, kind: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let Some(object) = objects.last() else {
            return Ok(Vec::new());
        };
        if *kind == FleetCluster::KIND.into() {
            let cluster = object.text_at("/spec/name").unwrap_or_default();
            let originals = hub.list::<ConfigMap>(&ListOptions::default().labels(SPREAD))?;
            return Ok(originals.iter().map(|of| ask(cluster, of.key())).collect());
        }
        let all = fleet::clusters()?.into_iter();
        let others = all.filter(|cluster| !cluster.name.is_empty());
        Ok(others.map(|to| ask(&to.name, object.key())).collect())
    }
}

fn ask(cluster: &str, key: ObjectKey) -> Request {
    let cluster = cluster.to_owned();
    Request { cluster, key }
}

/// Makes one ConfigMap of a cluster equal to the hub's.
fn bring_in_line(key: &ObjectKey, cluster: &Cluster) -> Result<()> {
    let wanted = match fleet::local()?.get::<ConfigMap>(key)? {
        Some(original) if original.is_for(&cluster.name())? => Some(original),
        _ => None,
    };
    let present = cluster.get::<ConfigMap>(key)?;
    match (wanted, present) {
        (None, Some(there)) if there.is_labelled(COPY) => {
            cluster.delete_object(&there)?;
            info!("deleted", key = key);
        }
        (None, _) => {}
        (Some(_), Some(there)) if !there.is_labelled(COPY) => return Err(in_the_way(key)),
        (Some(wanted), Some(there)) if wanted.holds_what(&there) => {}
        (Some(wanted), Some(there)) => {
            // Replaced as a whole: an apply would keep the fields of other writers.
            let mut copy = wanted.copy();
            copy.metadata.resource_version = there.metadata.resource_version;
            cluster.update(&copy)?;
            info!("repaired", key = key);
        }
        (Some(wanted), None) => {
            cluster.create(&wanted.copy())?;
            info!("copied", key = key);
        }
    }
    Ok(())
}

/// Another ConfigMap has the name. The reconcile is retried, because no event reports its deletion.
fn in_the_way(key: &ObjectKey) -> Error {
    Error::retry(format!(
        "{key} is there and no copy: delete it, or label it {COPY} to have it overwritten"
    ))
}

#[cfg(test)]
mod tests;
