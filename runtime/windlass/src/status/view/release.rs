//! What callers ask about finalizers, and the answer. Entry points: [`ReleaseRequest`] and [`ReleaseReply`].

use serde::{Deserialize, Serialize};

/// Asks for the objects that finalizers of a reconciler hold, or that they are let go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReleaseRequest {
    /// The reconciler, which may be gone.
    pub(crate) reconciler: String,
    /// Its tenant; none: that of its document, or `default`. One of an object needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// Only in this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<String>,
    /// Only in this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// Only these kinds, as `ConfigMap` and `Deployment.apps`; empty: those that its rules let it write, or all if it is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) kinds: Vec<String>,
    /// Only objects that are being deleted.
    pub(crate) deleting: bool,
    /// Whether they are let go.
    pub(crate) release: bool,
    /// From the answer before.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// The objects that finalizers of a reconciler hold: those of the clusters that were read in this call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReleaseReply {
    /// The field manager whose finalizers these are.
    pub(crate) manager: String,
    /// The objects, up to a thousand.
    pub(crate) items: Vec<HeldView>,
    /// How many there are.
    pub(crate) count: u64,
    /// How many of them are being deleted.
    pub(crate) deleting: u64,
    /// How many were let go.
    pub(crate) released: u64,
    /// How many could not be let go.
    pub(crate) failed: u64,
    /// How many lists were read to their end: of a kind in a cluster, or in a namespace of it.
    pub(crate) lists: u64,
    /// What was not read.
    pub(crate) unread: Vec<UnreadView>,
    /// How many more clusters and kinds were not read.
    pub(crate) more_unread: u64,
    /// Kinds that the credentials of some cluster may not list, where all kinds are looked at.
    pub(crate) not_allowed: Vec<String>,
    /// Asked for again with this, the search goes on; none at its end.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// An object that finalizers of a reconciler hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HeldView {
    /// The cluster; empty: the local one.
    pub(crate) cluster: String,
    /// As `ConfigMap` and `Deployment.apps`.
    pub(crate) kind: String,
    /// Empty without one.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
    /// The finalizers of the reconciler.
    pub(crate) finalizers: Vec<String>,
    /// Other field managers that have applied one of these too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) also_of: Vec<String>,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
    /// Whether it was let go.
    pub(crate) released: bool,
    /// Why it was not; empty: it was, or that was not asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) problem: String,
}

/// A cluster, or some kinds of it, that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UnreadView {
    /// The cluster; empty: the local one.
    pub(crate) cluster: String,
    /// The kinds; empty: what was left of the cluster.
    pub(crate) kinds: Vec<String>,
    /// How many more kinds.
    pub(crate) more: u64,
    /// Why the first one could not be read.
    pub(crate) why: String,
}
