//! What a guest did in one run: its calls with their answers, and its log lines. Entry point: [`Step`].
//!
//! The names are those of the contract (`wit/`), in camelCase. A cluster is written by its name; `""` is the local one.

use super::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Step {
    /// A call of a host function.
    Call {
        /// The function and its arguments.
        asked: Box<Asked>,
        /// What the guest got.
        answer: Answer,
    },
    /// A line of the guest's log, of the contract's function or of a standard stream. Nothing is compared with it.
    Log {
        /// `debug`, `info`, `warn` or `error`.
        level: String,
        /// The line.
        message: String,
        /// Names and values.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fields: Vec<(String, String)>,
    },
}

/// A call of a host function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Asked {
    /// `get`, `list`, `create`, `update`, `patch`, `apply` or `delete`.
    Do {
        /// Its cluster.
        cluster: String,
        /// What it asks for.
        operation: Operation,
    },
    /// `delete-collection`.
    DeleteCollection {
        /// Its cluster.
        cluster: String,
        /// The kind to delete.
        kind: Kind,
        /// Which objects.
        selection: Selection,
        /// How.
        options: DeleteOptions,
    },
    /// `record-event`.
    RecordEvent {
        /// Its cluster.
        cluster: String,
        /// The event.
        event: Event,
    },
    /// `batch` of a cluster.
    Batch {
        /// Its cluster.
        cluster: String,
        /// What it asks for, in order.
        operations: Vec<Operation>,
    },
    /// `fleet.clusters`.
    Clusters {
        /// Which clusters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label_selector: Option<String>,
    },
    /// `fleet.open`.
    Open {
        /// The cluster.
        cluster: String,
    },
    /// `fleet.batch`.
    FleetBatch {
        /// What it asks for, in order, each with its cluster.
        operations: Vec<(String, Operation)>,
    },
    /// `http.send`.
    Http(HttpRequest),
}

/// A call of a server that is no API server, without the headers that the rule adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRequest {
    /// As `GET`.
    pub method: String,
    /// Where to.
    pub url: String,
    /// Names and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(default, skip_serializing_if = "HttpBody::is_empty")]
    pub body: HttpBody,
    /// The caller's limit, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
}

/// The body of a request or of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum HttpBody {
    /// A text.
    Text(String),
    /// Bytes that are no text, in base64.
    Base64(String),
}

impl HttpBody {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl Default for HttpBody {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// What a call asks of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Operation {
    /// Reads an object.
    Get {
        /// Its kind.
        kind: Kind,
        /// Its name.
        key: Key,
        /// How.
        options: GetOptions,
    },
    /// Reads a page of objects.
    List {
        /// Their kind.
        kind: Kind,
        /// Which, and how.
        options: ListOptions,
    },
    /// Creates an object.
    Create {
        /// Its kind.
        kind: Kind,
        /// The object.
        object: Text,
        /// How.
        options: WriteOptions,
    },
    /// Replaces an object.
    Update {
        /// Its kind.
        kind: Kind,
        /// The object.
        object: Text,
        /// How.
        options: WriteOptions,
    },
    /// Patches an object.
    Patch {
        /// Its kind.
        kind: Kind,
        /// Its name.
        key: Key,
        /// How the patch is written.
        patch_type: PatchType,
        /// The patch.
        patch: Text,
        /// How.
        options: WriteOptions,
    },
    /// Applies an object.
    Apply {
        /// Its kind.
        kind: Kind,
        /// The object.
        object: Text,
        /// How.
        options: ApplyOptions,
    },
    /// Deletes an object.
    Delete {
        /// Its kind.
        kind: Kind,
        /// Its name.
        key: Key,
        /// How.
        options: DeleteOptions,
    },
}

/// A kind, with its group and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// `""` for the core group.
    pub group: String,
    /// As `v1`.
    pub version: String,
    /// As `ConfigMap`.
    pub kind: String,
}

/// The name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Where a read is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// From the host's cache, if that can.
    Cached,
    /// From the API server.
    Live,
}

/// How much of an object is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Projection {
    /// All of it.
    Full,
    /// `apiVersion`, `kind` and `metadata`.
    Metadata,
}

/// How a patch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PatchType {
    /// RFC 6902.
    JsonPatch,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own.
    StrategicMerge,
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

/// How one object is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetOptions {
    /// Where it is answered.
    pub mode: Mode,
    /// How much is wanted.
    pub projection: Projection,
    /// As `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
}

/// Which objects are read, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListOptions {
    /// Absent: all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Which, by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Which, by fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// Name and value of an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<(String, String)>,
    /// 0: the host's page size.
    pub limit: u32,
    /// Of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// Where it is answered.
    pub mode: Mode,
    /// How much is wanted.
    pub projection: Projection,
}

/// Which objects are deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selection {
    /// Absent: every one that is granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Which, by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Which, by fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
}

/// How an object is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteOptions {
    /// As `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Whether nothing is kept.
    pub dry_run: bool,
}

/// How an object is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyOptions {
    /// As `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Whether fields of others are taken.
    pub force: bool,
    /// Whether nothing is kept.
    pub dry_run: bool,
}

/// How an object is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteOptions {
    /// Only this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Only this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// What happens to its dependents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Propagation>,
    /// In seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<u32>,
    /// Whether nothing is kept.
    pub dry_run: bool,
}

/// An Event about an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    /// The object's kind.
    pub kind: Kind,
    /// The object's name.
    pub key: Key,
    /// Whether somebody should look.
    pub warning: bool,
    /// Why, in CamelCase.
    pub reason: String,
    /// What was done, in CamelCase.
    pub action: String,
    /// For people.
    pub note: String,
}

/// What a guest got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Answer {
    /// Nothing: an object that is absent, or the end of what has no value.
    Nothing,
    /// An object.
    Object(Text),
    /// A page of objects.
    Page {
        /// The objects.
        items: Vec<Text>,
        /// For the next page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continue_token: Option<String>,
        /// The version of the list.
        resource_version: String,
    },
    /// Clusters of the fleet.
    Clusters(Vec<ClusterInfo>),
    /// One answer for each operation of a batch.
    Batch(Vec<Answer>),
    /// Of a server that is no API server.
    Http {
        /// As 200.
        status: u16,
        /// Names and values.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<(String, String)>,
        /// The body.
        #[serde(default, skip_serializing_if = "HttpBody::is_empty")]
        body: HttpBody,
    },
    /// An error.
    Error(ApiError),
    /// The run ended while it waited for the answer.
    Unanswered,
}

/// A cluster of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterInfo {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// What its Provider says of it.
    pub properties: Vec<(String, String)>,
    /// Whether it is ready.
    pub ready: bool,
}

/// An error of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiError {
    /// What to do about it.
    pub code: Code,
    /// 0 where there was no answer.
    pub http_status: u16,
    /// For machines.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Field errors, causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Text>,
    /// When to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
}

/// The sort of an error, as in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the contract explains them: wit/types.wit")]
pub enum Code {
    NotFound,
    AlreadyExists,
    Conflict,
    Invalid,
    Unauthorized,
    Forbidden,
    Denied,
    UnknownKind,
    Throttled,
    Expired,
    Timeout,
    Unavailable,
    LimitExceeded,
    ClusterGone,
    Cancelled,
    Other,
}
