//! The other clusters. Entry points: [`clusters`] and [`open`].
//!
//! A guest that calls a function of this module imports `windlass:runtime/fleet`. The host links it only if a rule of the
//! reconciler names clusters. Other guests stay in the world `reconcile`.

use crate::cluster::Cluster;
use crate::error::ApiError;
use crate::raw;
use crate::types::{ClusterInfo, Operation, Reply};

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
