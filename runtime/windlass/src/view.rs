//! What the admin endpoints tell, as both sides of them see it. Entry points: the four views.

use serde::{Deserialize, Serialize};

/// An engaged cluster, or what a provider cannot make one of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterView {
    /// Its name; empty for the local cluster.
    pub(crate) name: String,
    /// Connecting, Syncing, Ready, Degraded or Gone; Unusable for a file or context that a provider cannot use.
    pub(crate) state: String,
    /// Why it is in this state; empty when all is well.
    pub(crate) reason: String,
    /// For how long it is in this state.
    pub(crate) since_seconds: u64,
    /// The API server's URL.
    pub(crate) server: String,
    /// Open connections to its server, which clusters of the same server and credentials share.
    #[serde(default)]
    pub(crate) connections: u64,
    /// Objects in its stores.
    pub(crate) objects: u64,
    /// Bytes in its stores.
    pub(crate) bytes: u64,
    /// Stores.
    pub(crate) stores: u64,
}

/// A reconciler, whether it runs or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReconcilerView {
    /// Its tenant.
    pub(crate) tenant: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether some revision of it reconciles.
    pub(crate) serves: bool,
    /// The digest of the revision that serves; empty when none does.
    pub(crate) revision: String,
    /// The digest of the revision that served before it and can be gone back to; empty when there is none.
    #[serde(default)]
    pub(crate) previous: String,
    /// Whether the revision serves because somebody rolled back to it: until the guest's file changes, or that is undone.
    #[serde(default)]
    pub(crate) rolled_back: bool,
    /// Where the component was read.
    pub(crate) guest: String,
    /// Why the newest guest or document is not in effect; empty when it is.
    pub(crate) problem: String,
    /// Clusters that it watches.
    pub(crate) clusters: u64,
    /// Watches that do not run, and why.
    pub(crate) watch_problems: Vec<String>,
    /// Keys that could run now.
    pub(crate) waiting: u64,
    /// Keys that run.
    pub(crate) running: u64,
    /// Keys that asked to run later.
    pub(crate) delayed: u64,
    /// Keys that failed and run again later.
    pub(crate) backoff: u64,
    /// Keys that failed and wait for an event.
    pub(crate) terminal: u64,
    /// Reconciles that ended.
    pub(crate) attempts: u64,
    /// Reconciles that ended well.
    pub(crate) succeeded: u64,
    /// Reconciles that failed.
    pub(crate) failed: u64,
    /// Why some key of it fails now; empty when none does.
    pub(crate) last_error: String,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TenantView {
    /// Its name.
    pub(crate) name: String,
    /// Its share of the queue.
    pub(crate) weight: u32,
    /// How many of its reconciles run at once; none: as the manager allows.
    pub(crate) concurrency: Option<u64>,
    /// Bytes that its running calls may have together.
    pub(crate) memory: u64,
    /// Whether a ceiling bounds its reconcilers' rules.
    pub(crate) ceiling: bool,
    /// How many reconcilers it has.
    pub(crate) reconcilers: u64,
    /// Keys of its reconcilers that run.
    pub(crate) running: u64,
    /// Reconciles that ended.
    pub(crate) attempts: u64,
    /// Reconciles that failed.
    pub(crate) failed: u64,
}

/// A key that the queue knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyView {
    /// `cluster://<cluster>/<namespace>/<name>`.
    pub(crate) key: String,
    /// The tenant.
    pub(crate) tenant: String,
    /// The reconciler.
    pub(crate) reconciler: String,
    /// ready, held (its cluster is not ready), running, delayed, backoff or terminal.
    pub(crate) state: String,
    /// Runs that failed since the last one that did not.
    pub(crate) attempts: u64,
    /// For how long it is in this state; none while it waits for a time.
    pub(crate) since_seconds: Option<f64>,
    /// When it runs next, in seconds from now; none: when its turn or an event comes.
    pub(crate) runs_in_seconds: Option<f64>,
    /// Why its last run failed; empty when it did not.
    pub(crate) last_error: String,
    /// The same in a word.
    pub(crate) reason: String,
    /// Whose fault that was: guest, host or api; empty when it did not fail.
    pub(crate) blame: String,
    /// What enqueued it.
    pub(crate) cause: String,
    /// The kind of the object whose event that was, or that began what it is tried again for; empty for what no object is behind.
    #[serde(default)]
    pub(crate) source: String,
    /// Its priority.
    pub(crate) priority: i64,
}

/// What one reconciler makes of a key that somebody asks about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplanationView {
    /// The key.
    pub(crate) key: String,
    /// The tenant.
    pub(crate) tenant: String,
    /// The reconciler.
    pub(crate) reconciler: String,
    /// Its state in the queue; idle when there is nothing to do for it.
    pub(crate) state: String,
    /// Why it is not reconciled, or what it waits for.
    pub(crate) why: String,
    /// Runs that failed since the last one that did not.
    pub(crate) attempts: u64,
    /// When it runs next, in seconds from now; none: when its turn or an event comes.
    pub(crate) runs_in_seconds: Option<f64>,
    /// Why its last run failed; empty when it did not.
    pub(crate) last_error: String,
    /// Whose fault that was: guest, host or api; empty when it did not fail.
    pub(crate) blame: String,
    /// What enqueued it; empty when nothing did.
    pub(crate) cause: String,
    /// The kind of the object whose event that was, or that began what it is tried again for; empty for what no object is behind.
    #[serde(default)]
    pub(crate) source: String,
    /// How its last run ended, if that was lately: success, requeue_after or error.
    pub(crate) last_result: String,
    /// How long ago that was.
    pub(crate) last_ended_seconds: Option<f64>,
}

/// What became of the documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigurationView {
    /// Kind and name of each that is in effect, perhaps in an earlier version.
    pub(crate) documents: Vec<String>,
    /// What is not in effect as it is now, and why.
    pub(crate) problems: Vec<String>,
    /// Fields of the Manager that have changed and take effect with the next start.
    pub(crate) needs_restart: Vec<String>,
}

/// A list of views.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Items<T> {
    /// The views.
    pub(crate) items: Vec<T>,
    /// Asked for again with this, the list goes on; none at its end.
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

impl<T> Items<T> {
    /// All that there are.
    pub(crate) fn all(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

/// Asks for a key to be reconciled now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequeueRequest {
    /// The key.
    pub(crate) key: String,
    /// Only for this reconciler; none: for every one that knows the key.
    #[serde(default)]
    pub(crate) reconciler: Option<String>,
}

/// How many reconcilers took the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequeueReply {
    /// The count.
    pub(crate) requeued: u64,
}

/// Asks for a reconciler to go back to a revision that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RollbackRequest {
    /// The reconciler.
    pub(crate) reconciler: String,
    /// The digest of the revision, or its beginning; none: the one that served before.
    #[serde(default)]
    pub(crate) to: Option<String>,
    /// Serve what the guest's file holds again.
    #[serde(default)]
    pub(crate) undo: bool,
}

/// What serves after that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RollbackReply {
    /// The reconciler.
    pub(crate) reconciler: String,
    /// The digest of the revision that serves.
    pub(crate) revision: String,
    /// The digest of the one that served before; empty when there is none.
    pub(crate) previous: String,
    /// Whether that is a roll back: until the guest's file changes, or it is undone.
    pub(crate) rolled_back: bool,
}
