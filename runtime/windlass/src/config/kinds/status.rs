//! The `status` of the objects in a cluster: what the process that leads says of each. Entry points: [`ReconcilerStatus`],
//! [`TenantStatus`] and [`ProviderStatus`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition, as the kinds of Kubernetes have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    /// What it is about: `Accepted`, `Loaded` or `Ready`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: String,
    /// Why, in a word.
    pub(crate) reason: String,
    /// Why, and what to do.
    pub(crate) message: String,
    /// When `status` changed last.
    pub(crate) last_transition_time: String,
    /// The generation that it is about.
    pub(crate) observed_generation: i64,
}

/// The status of a Reconciler.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReconcilerStatus {
    /// The generation that the status is about.
    pub(crate) observed_generation: i64,
    /// When the process that leads was here last: a few minutes ago, or none runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) last_heartbeat_time: String,
    /// Who handles it: the Lease of its processes, `NAMESPACE/NAME`, or one process, which is in no election.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) owner: String,
    /// Accepted: its document is valid and its tenant is known. Loaded: its guest serves as the document asks. Ready: it reconciles.
    pub(crate) conditions: Vec<Condition>,
    /// The Tenant that claims its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) tenant: String,
    /// The digest of the revision that serves.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) revision: String,
    /// The image of that revision, with the digest of its manifest. Absent: it is a guest of the platform.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) image: String,
    /// The digest of the revision that served before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) previous_revision: String,
    /// The image of that one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) previous_image: String,
    /// The rollback that an operator asked for, while it is in effect: every process serves its revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rollback: Option<RollbackStatus>,
    /// The clusters in which it watches.
    pub(crate) clusters: i64,
    /// Its keys.
    pub(crate) keys: KeyCounts,
    /// The last failure, as long as the last run of any key failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_failure: Option<LastFailure>,
}

/// A rollback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RollbackStatus {
    /// The digest of the revision that serves.
    pub(crate) revision: String,
    /// The image of that revision, with the digest of its manifest. Absent: it was a file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) image: String,
    /// The digest of the revision in place of which it serves. The rollback ends when the guest of `spec` is another one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) instead_of: String,
}

/// Keys by their states.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KeyCounts {
    /// They could run now.
    pub(crate) ready: i64,
    /// They run.
    pub(crate) running: i64,
    /// They asked to run later.
    pub(crate) delayed: i64,
    /// They failed and run again later.
    pub(crate) backoff: i64,
    /// They failed and wait for an event.
    pub(crate) terminal: i64,
}

/// A failure of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastFailure {
    /// What failed, in the words of the party at fault.
    pub(crate) message: String,
    /// The party at fault: `guest`, `host` or `api`.
    pub(crate) blame: String,
}

/// The status of a Tenant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TenantStatus {
    /// The generation that the status is about.
    pub(crate) observed_generation: i64,
    /// When the process that leads was here last: a few minutes ago, or none runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) last_heartbeat_time: String,
    /// Who handles it: the Lease of its processes, `NAMESPACE/NAME`, or one process, which is in no election.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) owner: String,
    /// Accepted: its document is valid and in effect. Ready: the same, and it has each namespace that it claims.
    pub(crate) conditions: Vec<Condition>,
    /// The namespaces that it has and that exist.
    pub(crate) namespaces: i64,
    /// Its Reconcilers, of files and of the cluster.
    pub(crate) reconcilers: i64,
}

/// The status of a Provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProviderStatus {
    /// The generation that the status is about.
    pub(crate) observed_generation: i64,
    /// When the process that leads was here last: a few minutes ago, or none runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) last_heartbeat_time: String,
    /// Who handles it: the Lease of its processes, `NAMESPACE/NAME`, or one process, which is in no election.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) owner: String,
    /// Accepted: its document is valid and in effect. Ready: it has read its source, and can use all of it.
    pub(crate) conditions: Vec<Condition>,
    /// Clusters that it found and could name.
    pub(crate) found: i64,
    /// Clusters that are engaged.
    pub(crate) engaged: i64,
    /// Clusters that are not engaged because another provider's cluster has the name.
    pub(crate) refused: i64,
    /// What it cannot use, the first twenty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<ProviderProblem>,
}

/// Something that a Provider cannot use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProviderProblem {
    /// The file, object or cluster.
    pub(crate) subject: String,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}
