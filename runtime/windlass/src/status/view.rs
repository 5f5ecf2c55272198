//! What the admin endpoints tell, as both sides of them see it. Entry points: the four views.

mod release;
mod shards;

pub(crate) use release::{HeldView, ReleaseReply, ReleaseRequest, UnreadView};
pub(crate) use shards::{DrainReply, MemberView, ShardsView};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_fleet::cluster::ReplacementStatus;
use windlass_fleet::provider::Problem;

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
    /// In how many seconds a connection, list or watch that failed is tried again, while one waits for that.
    #[serde(default)]
    pub(crate) next_attempt_seconds: Option<u64>,
    /// The process that works on it; empty without shards, and while none does.
    #[serde(default)]
    pub(crate) owner: String,
    /// Whether the process that answers works on it: the others have no caches of it.
    #[serde(default)]
    pub(crate) is_own: bool,
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
    /// Its pause, or that of its provider, with its end and its reason; empty: none.
    #[serde(default)]
    pub(crate) paused: String,
    /// The server that its provider names now, while this one goes on because that one cannot take over yet.
    #[serde(default)]
    pub(crate) replacement: Option<ReplacementView>,
}

impl ClusterView {
    /// The state of a provider's entry that cannot become a cluster.
    pub(crate) const UNUSABLE: &'static str = "Unusable";
}

/// A server that waits to take over a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplacementView {
    /// The API server's URL.
    pub(crate) server: String,
    /// Its state: Connecting, Syncing, Ready or Degraded.
    pub(crate) state: String,
    /// Why it is in this state; empty when it only has caches to fill.
    pub(crate) reason: String,
}

impl From<ReplacementStatus> for ReplacementView {
    fn from(status: ReplacementStatus) -> Self {
        Self {
            server: status.server,
            state: status.state.as_str().to_owned(),
            reason: status.reason,
        }
    }
}

/// A provider, and what it has found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProviderView {
    /// Its name.
    pub(crate) name: String,
    /// The field of its document that is its source of clusters; `inMemory` for the clusters of `dev`.
    pub(crate) source: String,
    /// Clusters that it found and could name: those engaged and those refused.
    pub(crate) found: u64,
    /// Clusters that are engaged, whatever their state is.
    pub(crate) engaged: u64,
    /// Clusters that are not engaged because another provider's cluster has the name.
    pub(crate) refused: u64,
    /// How long ago it last read its source to the end; none: it has not yet.
    pub(crate) listed_seconds: Option<u64>,
    /// What it cannot use at the moment. The rest works.
    pub(crate) problems: Vec<ProblemView>,
}

/// Something that a provider cannot use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProblemView {
    /// The file, object or cluster.
    pub(crate) subject: String,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl From<Problem> for ProblemView {
    fn from(problem: Problem) -> Self {
        Self {
            subject: problem.subject,
            message: problem.message,
        }
    }
}

/// A reconciler, whether it runs or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReconcilerView {
    /// Its tenant; while it is refused to another, the one that it serves.
    pub(crate) tenant: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether some revision of it reconciles.
    pub(crate) serves: bool,
    /// The digest of the revision that serves; empty when none does.
    pub(crate) revision: String,
    /// The digest of the previous revision, which a rollback would serve; empty if there is none.
    #[serde(default)]
    pub(crate) previous: String,
    /// Whether the revision serves because somebody rolled back to it: until the guest's file changes, or that is undone.
    #[serde(default)]
    pub(crate) rolled_back: bool,
    /// Its pause, with its end and its reason; empty: none.
    #[serde(default)]
    pub(crate) paused: String,
    /// Where the component was read.
    pub(crate) guest: String,
    /// Why the newest guest or document is not in effect; empty when it is.
    pub(crate) problem: String,
    /// Whether a newer guest or document is being loaded.
    #[serde(default)]
    pub(crate) loading: bool,
    /// For how long, in seconds; 0 when none is.
    #[serde(default)]
    pub(crate) loading_seconds: u64,
    /// Clusters that it watches.
    pub(crate) clusters: u64,
    /// Watches that do not run, and why.
    pub(crate) watch_problems: Vec<String>,
    /// Keys that could run now.
    pub(crate) ready: u64,
    /// Keys that run.
    pub(crate) running: u64,
    /// Keys that asked to run later.
    pub(crate) delayed: u64,
    /// Keys that failed and run again later.
    pub(crate) backoff: u64,
    /// Keys that pauses hold.
    #[serde(default)]
    pub(crate) paused_keys: u64,
    /// Keys that failed and wait for an event.
    pub(crate) terminal: u64,
    /// Reconciles that ended.
    pub(crate) attempts: u64,
    /// Reconciles that ended well.
    pub(crate) succeeded: u64,
    /// Reconciles that failed.
    pub(crate) failed: u64,
    /// The error that came last, while any key of it fails; empty when none does.
    pub(crate) last_error: String,
    /// What its calls used and hit.
    #[serde(default)]
    pub(crate) usage: UsageView,
    /// Rules that were missing for calls that were denied, as YAML list items: the first that differ.
    #[serde(default)]
    pub(crate) missing_rules: Vec<String>,
    /// For how long the revision and configuration that serve have.
    #[serde(default)]
    pub(crate) serves_seconds: u64,
    /// How the last change of its document or guest went; none when it is as it was started.
    #[serde(default)]
    pub(crate) reload: Option<ReloadView>,
}

/// What a reconciler did in the last hour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryView {
    /// Its tenant.
    pub(crate) tenant: String,
    /// Its name.
    pub(crate) reconciler: String,
    /// One entry a minute, the newest last: that minute is not over.
    pub(crate) minutes: Vec<MinuteView>,
}

/// A minute of a reconciler.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MinuteView {
    /// Reconciles that ended.
    pub(crate) attempts: u64,
    /// Reconciles that failed.
    pub(crate) failed: u64,
    /// The time that they took together.
    pub(crate) seconds: f64,
}

/// A tenant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TenantView {
    /// Its name.
    pub(crate) name: String,
    /// Its pause, with its end and its reason; empty: none.
    #[serde(default)]
    pub(crate) paused: String,
    /// Its share of the queue.
    pub(crate) weight: u32,
    /// How many of its reconciles run at once; none: as the manager allows.
    pub(crate) concurrency: Option<u64>,
    /// Bytes that its instances may have together.
    pub(crate) memory: u64,
    /// Bytes that they have.
    #[serde(default)]
    pub(crate) memory_used: u64,
    /// Processors that its calls may use together; none: its share, and what others leave.
    #[serde(default)]
    pub(crate) cpu: Option<f64>,
    /// Calls to API servers under way.
    #[serde(default)]
    pub(crate) requests_in_flight: u64,
    /// What its reconcilers' calls used and hit, all together; of those that serve now.
    #[serde(default)]
    pub(crate) usage: UsageView,
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyView {
    /// `cluster://<cluster>/<namespace>/<name>`.
    pub(crate) key: String,
    /// The tenant.
    pub(crate) tenant: String,
    /// The reconciler.
    pub(crate) reconciler: String,
    /// ready, held (its cluster is not ready), running, delayed, backoff, throttled, paused or terminal.
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
    /// The pause that holds it, with its end and its reason; empty: none does.
    #[serde(default)]
    pub(crate) paused: String,
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

/// What calls used and hit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UsageView {
    /// Time that they had a processor.
    pub(crate) cpu_seconds: f64,
    /// Time that they could have computed and waited for their tenant's turn.
    pub(crate) cpu_waited_seconds: f64,
    /// Most bytes of memory that an instance had.
    pub(crate) memory_peak: u64,
    /// Instances that wait for another call.
    pub(crate) idle_instances: u64,
    /// Limits that were hit, and how often; each named as the field that sets it.
    pub(crate) limit_hits: BTreeMap<String, u64>,
    /// Calls that no rule grants.
    pub(crate) denials: u64,
    /// Reconciles that failed, by whose fault it was.
    pub(crate) failed_by: BlameView,
}

/// Failures by whose fault they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BlameView {
    /// The guest's: it answered an error, trapped, or hit a limit.
    pub(crate) guest: u64,
    /// This process's.
    pub(crate) host: u64,
    /// An API server's.
    pub(crate) api: u64,
}

impl UsageView {
    /// Adds what other calls used.
    pub(crate) fn add(&mut self, other: &Self) {
        self.cpu_seconds += other.cpu_seconds;
        self.cpu_waited_seconds += other.cpu_waited_seconds;
        self.memory_peak = self.memory_peak.max(other.memory_peak);
        self.idle_instances += other.idle_instances;
        self.denials += other.denials;
        self.failed_by.guest += other.failed_by.guest;
        self.failed_by.host += other.failed_by.host;
        self.failed_by.api += other.failed_by.api;
        for (limit, count) in &other.limit_hits {
            *self.limit_hits.entry(limit.clone()).or_default() += count;
        }
    }
}

/// How the last change of a reconciler's document or guest went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReloadView {
    /// How long ago.
    pub(crate) ago_seconds: u64,
    /// How long it took to read, compile, link and describe what is new.
    pub(crate) took_seconds: f64,
    /// Whether what is asked for now is in effect; `problem` says why not. What was refused and taken back is.
    pub(crate) in_effect: bool,
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

/// Asks for a pause, or for its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PauseRequest {
    /// The key of one object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// With a key: the reconciler whose object it is. Otherwise: the whole reconciler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reconciler: Option<String>,
    /// The whole tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<String>,
    /// How long; none: until it is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u64>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Whether objects that are being deleted wait too.
    pub(crate) deletions: bool,
}

/// What is paused or resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PauseReply {
    /// What was meant, for people.
    pub(crate) subject: String,
    /// `is paused until …` or `is resumed`.
    pub(crate) state: String,
    /// The end of the pause: a time, or `resumed`; empty: there is no pause any more.
    pub(crate) until: String,
}

/// How many reconcilers took the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequeueReply {
    /// The count.
    pub(crate) requeued: u64,
}

/// The reconcilers whose next runs are recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordReply {
    /// Their names.
    pub(crate) reconcilers: Vec<String>,
}

/// A recording of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordingView {
    /// The run's id.
    pub(crate) id: String,
    /// The owner of the reconciler.
    pub(crate) tenant: String,
    /// The reconciler.
    pub(crate) reconciler: String,
    /// What was reconciled.
    pub(crate) key: String,
    /// When the run began: RFC 3339, UTC.
    pub(crate) time: String,
    /// `asked`, `failure` or `sample`.
    pub(crate) why: String,
    /// Whether the run failed.
    pub(crate) failed: bool,
    /// How it ended.
    pub(crate) outcome: String,
    /// Its calls.
    pub(crate) calls: u64,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Why there is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
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
    /// Why the next process may not know of it; empty: it does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
}
