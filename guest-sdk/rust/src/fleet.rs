//! The other clusters. Entry points: [`clusters`] and [`open`].
//!
//! A guest that calls a function of this module imports `windlass:runtime/fleet`. The host links it only if a rule of the
//! reconciler names clusters. Other guests stay in the world `reconcile`.

use crate::cluster::Cluster;
use crate::error::ApiError;
use crate::raw;
use crate::resource::{Condition, Metadata};
use crate::types::{ClusterInfo, Operation, Reply};
use serde::{Deserialize, Serialize};

/// The granted clusters, sorted by name.
///
/// # Errors
/// [`ApiError`].
pub fn clusters() -> Result<Vec<ClusterInfo>, ApiError> {
    raw::fleet_clusters(None)
}

/// The granted clusters whose labels match, as kubectl's `-l`, sorted by name.
///
/// # Errors
/// [`ApiError`].
pub fn clusters_labelled(selector: &str) -> Result<Vec<ClusterInfo>, ApiError> {
    raw::fleet_clusters(Some(selector))
}

/// Opens a cluster until the current call ends.
///
/// # Errors
/// [`ApiError`]; `denied` when no rule opens it, `cluster-gone` when there is none.
pub fn open(name: &str) -> Result<Cluster, ApiError> {
    raw::fleet_open(name).map(Cluster::from_raw)
}

/// Opens the local (hub) cluster.
///
/// # Errors
/// [`ApiError`]; `denied` when no rule opens it, `cluster-gone` when there is none.
pub fn local() -> Result<Cluster, ApiError> {
    open("")
}

/// Runs operations concurrently in the host, each in the cluster named with it; the results are in the same order.
#[must_use]
pub fn batch(operations: &[(String, Operation)]) -> Vec<Result<Reply, ApiError>> {
    raw::fleet_batch(operations)
}

/// A cluster as an object of the local cluster, which a guest watches and lists as it does any kind: one for each cluster that a rule
/// opens. The host makes it, and nobody writes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetCluster {
    /// Labels of the cluster, and its properties as annotations.
    pub metadata: Metadata,
    /// Which cluster it is.
    #[serde(default)]
    pub spec: FleetClusterSpec,
    /// How the cluster is.
    #[serde(default)]
    pub status: FleetClusterStatus,
}
crate::kind!(FleetCluster, "fleet.windlass.dev/v1alpha1", "Cluster");

/// Which cluster a [`FleetCluster`] is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetClusterSpec {
    /// Its name in requests and for [`open`]. The name of the object differs only where it could not be one.
    pub name: String,
    /// The Provider that found it.
    #[serde(default)]
    pub provider: Option<String>,
}

/// How the cluster of a [`FleetCluster`] is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetClusterStatus {
    /// `Connecting`, `Syncing`, `Ready` or `Degraded`.
    #[serde(default)]
    pub state: String,
    /// Whether it answers and its caches are filled.
    #[serde(default)]
    pub ready: bool,
    /// Why it is in that state, for people.
    #[serde(default)]
    pub reason: String,
    /// The condition `Ready`, for what reads conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
