//! The types of a client's calls: options, operations, pages and errors. Entry points: [`Operation`] and [`ApiError`].
//!
//! They mirror the guests' contract (`wit/client.wit`, `wit/types.wit`) one to one.

use crate::kind::GroupVersionKind;
use crate::outcome::{Blame, Failure};
use crate::request::ObjectKey;
use bytes::Bytes;
use std::time::Duration;

/// One object, patch or configuration as JSON text, shared and never copied on a read.
pub type Json = Bytes;

/// What answers a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// The cluster's cache; the API server if the cache cannot.
    #[default]
    Cached,
    /// The API server.
    Live,
}

/// Which part of an object is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Projection {
    /// All of it, without managedFields on cached reads.
    #[default]
    Full,
    /// `apiVersion`, `kind` and `metadata`.
    Metadata,
}

/// The patch types of the Kubernetes API; server-side apply is [`Operation::Apply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, by list keys.
    StrategicMerge,
}

impl PatchType {
    /// The request's content type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
        }
    }
}

/// What happens to dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes them afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    /// The word in `DeleteOptions`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Options of a get.
#[derive(Debug, Clone, Default)]
pub struct GetOptions {
    /// Where it is answered. A subresource is always read live. Default: cached.
    pub mode: ReadMode,
    /// Which part is returned. Default: all.
    pub projection: Projection,
    /// `status`, `scale`, … Default: none.
    pub subresource: Option<String>,
}

/// Options of a list.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// `None`: all namespaces that are granted.
    pub namespace: Option<String>,
    /// As kubectl's `-l`.
    pub label_selector: Option<String>,
    /// As kubectl's `--field-selector`; cached: `metadata.name`, `metadata.namespace` and declared indexes.
    pub field_selector: Option<String>,
    /// Name and value of a declared index; cached reads only.
    pub index: Option<(String, String)>,
    /// Most items in a page; 0: the host's page size, 500.
    pub limit: u32,
    /// From the page before.
    pub continue_token: Option<String>,
    /// Where it is answered. Default: cached.
    pub mode: ReadMode,
    /// Which part of each object is returned. Default: all.
    pub projection: Projection,
}

/// One page of a list.
#[derive(Debug, Clone, Default)]
pub struct ListPage {
    /// The objects, each with its `apiVersion` and `kind`.
    pub items: Vec<Json>,
    /// Passed to the next call; `None` on the last page.
    pub continue_token: Option<String>,
    /// Version of the snapshot.
    pub resource_version: String,
}

/// Options of create, update and patch.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// `status`, `scale`, … Default: none.
    pub subresource: Option<String>,
    /// Whether the server only checks the call (`dryRun`). Default: false.
    pub dry_run: bool,
}

/// Options of a server-side apply.
#[derive(Debug, Clone, Default)]
pub struct ApplyOptions {
    /// `status`, `scale`, … Default: none.
    pub subresource: Option<String>,
    /// Whether conflicting fields are taken over. Default: false.
    pub force: bool,
    /// Whether the server only checks the call (`dryRun`). Default: false.
    pub dry_run: bool,
}

/// Options of a delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Precondition: the object's uid.
    pub uid: Option<String>,
    /// Precondition: the object's version.
    pub resource_version: Option<String>,
    /// What happens to dependents. Default: the server's, which is background for most kinds.
    pub propagation: Option<Propagation>,
    /// In seconds. Default: the kind's.
    pub grace_period_seconds: Option<u32>,
    /// Whether the server only checks the call (`dryRun`). Default: false.
    pub dry_run: bool,
}

/// What a delete-collection deletes.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// `None`: every granted namespace, one after the other.
    pub namespace: Option<String>,
    /// As kubectl's `-l`.
    pub label_selector: Option<String>,
    /// As kubectl's `--field-selector`.
    pub field_selector: Option<String>,
}

/// Type of a recorded event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Everything is as expected.
    Normal,
    /// A person should investigate.
    Warning,
}

impl EventType {
    /// The word in the Event object.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event about an object, for `kubectl describe` and `kubectl get events`.
#[derive(Debug, Clone)]
pub struct Event {
    /// Kind of the object it is about.
    pub kind: GroupVersionKind,
    /// The object it is about.
    pub key: ObjectKey,
    /// Normal or warning.
    pub event_type: EventType,
    /// CamelCase, for programs; at most 128 bytes.
    pub reason: String,
    /// What was done; at most 128 bytes.
    pub action: String,
    /// For people; at most 1024 bytes.
    pub note: String,
}

/// One call of a batch.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Reads an object.
    Get(GroupVersionKind, ObjectKey, GetOptions),
    /// Creates an object.
    Create(GroupVersionKind, Json, WriteOptions),
    /// Replaces an object.
    Update(GroupVersionKind, Json, WriteOptions),
    /// Patches an object.
    Patch(GroupVersionKind, ObjectKey, PatchType, Json, WriteOptions),
    /// Applies an object.
    Apply(GroupVersionKind, Json, ApplyOptions),
    /// Deletes an object.
    Delete(GroupVersionKind, ObjectKey, DeleteOptions),
    /// Lists objects.
    List(GroupVersionKind, ListOptions),
}

/// Answer to one call of a batch.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A get of an absent object, or a delete.
    Nothing,
    /// An object.
    Object(Json),
    /// A page.
    Page(ListPage),
}

/// Why a call failed. A closed set, frozen with the guests' contract: new meanings go to `Other` with the HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApiCode {
    /// The object does not exist (404).
    NotFound,
    /// An object of this name exists (409).
    AlreadyExists,
    /// The object has changed, or another manager owns a field (409).
    Conflict,
    /// The object or the call is not valid (400, 422).
    Invalid,
    /// The host's credentials were refused (401).
    Unauthorized,
    /// Refused by the API server (403).
    Forbidden,
    /// Refused by the host: no rule grants it.
    Denied,
    /// The cluster does not serve this kind.
    UnknownKind,
    /// Too many requests (429).
    Throttled,
    /// A version or continue token is too old (410).
    Expired,
    /// No answer within the deadline.
    Timeout,
    /// The server cannot be reached or is failing (5xx).
    Unavailable,
    /// A limit of the host was hit.
    LimitExceeded,
    /// The cluster left the fleet.
    ClusterGone,
    /// The host is ending this call.
    Cancelled,
    /// Anything else; see the HTTP status.
    Other,
}

impl ApiCode {
    /// The word in logs and metrics, as in the guests' contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::AlreadyExists => "already-exists",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Denied => "denied",
            Self::UnknownKind => "unknown-kind",
            Self::Throttled => "throttled",
            Self::Expired => "expired",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::LimitExceeded => "limit-exceeded",
            Self::ClusterGone => "cluster-gone",
            Self::Cancelled => "cancelled",
            Self::Other => "other",
        }
    }
}

/// A call that failed. Absence on a get is not a failure: it is `None`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct ApiError {
    /// What to match on.
    pub code: ApiCode,
    /// 0 if there was no answer.
    pub http_status: u16,
    /// The API server's machine-readable reason, or the host's.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The API server's `details` as JSON: field errors, causes.
    pub details: Option<String>,
    /// How long the server asked to wait.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// An error that the host itself makes: no HTTP status, the code's word as reason.
    #[must_use]
    pub fn host(code: ApiCode, message: impl Into<String>) -> Self {
        Self {
            code,
            http_status: 0,
            reason: code.as_str().to_owned(),
            message: message.into(),
            details: None,
            retry_after: None,
        }
    }

    /// Whose fault it is: the reconciler's, if the call was denied, invalid or beyond a limit; else the API server's.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self.code {
            ApiCode::Denied | ApiCode::Invalid | ApiCode::LimitExceeded => Blame::Guest,
            _ => Blame::Api,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    /// Retried. Blames as the [`ApiError`] that is the error or one of its causes, if there is one.
    fn from(error: E) -> Self {
        let error: anyhow::Error = error.into();
        let failure = Self::retry(format!("{error:#}"));
        match error
            .chain()
            .find_map(|cause| cause.downcast_ref::<ApiError>())
        {
            Some(cause) => failure.blame(cause.blame()).reason("api"),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[derive(Debug, thiserror::Error)]
    #[error("the website cannot be read")]
    struct Unreadable(#[source] ApiError);

    fn refused() -> ApiError {
        ApiError::host(ApiCode::Denied, "no rule grants it")
    }

    #[test]
    fn an_error_of_any_kind_is_a_failure_that_is_retried() {
        let of_std = || -> Result<u16, Failure> { Ok("x".parse()?) };
        let failure = of_std().unwrap_err();
        assert_eq!(failure, Failure::retry("invalid digit found in string"));
        let of_anyhow = || -> Result<u16, Failure> { Ok("x".parse().context("the port")?) };
        let failure = of_anyhow().unwrap_err();
        assert_eq!(failure.message, "the port: invalid digit found in string");
    }

    #[test]
    fn a_call_that_failed_is_found_among_the_causes() {
        let failures = [
            Failure::from(refused()),
            Failure::from(Unreadable(refused())),
            Failure::from(anyhow::Error::from(refused()).context("reading")),
        ];
        for failure in failures {
            assert_eq!((failure.blame, failure.reason), (Blame::Guest, "api"));
            assert!(failure.message.ends_with("denied: no rule grants it"));
        }
    }
}
