//! Spreads: keeps a copy of every ConfigMap of the local cluster labelled `hub.windlass.dev/spread` in all other clusters. Entry
//! point: [`Spread`].
//!
//! A request belongs to the cluster that gets the copy, so an unreachable cluster delays only its own requests.
//! A request names a ConfigMap, or the Namespace `default` for a new cluster.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;
use windlass_sdk::{ClusterScope, GroupVersionKind, Mapper, Operation, fleet};

/// The label of originals, in the local cluster. Its value does not matter.
const SPREAD: &str = "hub.windlass.dev/spread";
/// The label of copies. Objects without it are never changed.
const COPY: &str = "hub.windlass.dev/copy";
/// Operations of a batch; the host takes up to 1000.
const BATCH: usize = 100;

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

    /// Whether it has the label of originals.
    fn is_original(&self) -> bool {
        self.is_labelled(SPREAD) && !self.metadata.is_deleting()
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
        // Every cluster has this Namespace, so its event announces a new cluster.
        let default = Watch::of(GroupVersionKind::new("v1", "Namespace"))
            .fields("metadata.name=default")
            .metadata_only();
        Ok(
            Description::new("keeps ConfigMaps of the hub in all clusters")
                .primary_watch(copies.clusters(ClusterScope::Provider))
                .watch(
                    originals
                        .clusters(ClusterScope::Local)
                        .enqueue(Enqueue::Mapped),
                )
                .watch(
                    default
                        .clusters(ClusterScope::Provider)
                        .enqueue(Enqueue::Mapped),
                ),
        )
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        match request.key.namespace {
            Some(_) => bring_in_line(&request.key, cluster)?,
            None => fill(cluster)?,
        }
        Ok(Action::Done)
    }
}

impl Mapper for Spread {
    fn map(cluster: &Cluster, _: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let Some(key) = objects.first().map(Object::key) else {
            return Ok(Vec::new());
        };
        let own = cluster.name();
        let ask = |cluster: String| Request {
            cluster,
            key: key.clone(),
        };
        if !own.is_empty() {
            return Ok(vec![ask(own)]);
        }
        let all = fleet::clusters()?.into_iter().map(|info| info.name);
        Ok(all.filter(|name| !name.is_empty()).map(ask).collect())
    }
}

/// Makes one ConfigMap of a cluster equal to the hub's.
fn bring_in_line(key: &ObjectKey, cluster: &Cluster) -> Result<()> {
    let original = fleet::local()?.get::<ConfigMap>(key)?;
    let wanted = original.filter(ConfigMap::is_original);
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

/// Copies the missing ConfigMaps to a cluster. Wrong copies have their own requests.
fn fill(cluster: &Cluster) -> Result<()> {
    let originals = fleet::local()?.list::<ConfigMap>(&ListOptions::default().labels(SPREAD))?;
    let originals: Vec<_> = originals
        .into_iter()
        .filter(ConfigMap::is_original)
        .collect();
    let mut failures = Vec::new();
    for some in originals.chunks(BATCH) {
        let reads: Vec<_> = some
            .iter()
            .map(|original| Operation::get::<ConfigMap>(&original.key()))
            .collect();
        let mut creates = Vec::new();
        for (original, read) in some.iter().zip(cluster.batch(&reads)) {
            match read?.object::<ConfigMap>()? {
                None => creates.push(Operation::create(&original.copy())?),
                Some(there) if there.is_labelled(COPY) => {}
                Some(_) => failures.push(in_the_way(&original.key()).to_string()),
            }
        }
        let refused = cluster.batch(&creates).into_iter().filter_map(Result::err);
        failures.extend(refused.map(|error| error.to_string()));
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(Error::retry(format!(
            "{} of {} are not copied yet: {first}",
            failures.len(),
            originals.len()
        ))),
    }
}

/// Another ConfigMap has the name. The reconcile is retried, because no event reports its deletion.
fn in_the_way(key: &ObjectKey) -> Error {
    Error::retry(format!(
        "{key} is there and no copy: delete it, or label it {COPY} to have it overwritten"
    ))
}

#[cfg(test)]
mod tests;
