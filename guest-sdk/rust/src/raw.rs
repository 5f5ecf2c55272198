//! The contract's functions one to one, objects as JSON text. Entry point: [`Cluster`]; most guests want
//! [`crate::Cluster`], which is typed.
//!
//! A component calls the host's functions, a native build calls those of [`crate::testing`].

#[cfg(target_arch = "wasm32")]
mod component;
#[cfg(not(target_arch = "wasm32"))]
mod native;

#[cfg(target_arch = "wasm32")]
use component as host;
#[cfg(not(target_arch = "wasm32"))]
use native as host;

use crate::error::ApiError;
use crate::http;
use crate::types::{
    ApplyOptions, ClusterInfo, DeleteOptions, Event, GetOptions, GroupVersionKind, Level,
    ListOptions, ListPage, ObjectKey, Operation, PatchType, Reply, Selection, WriteOptions,
};

pub(crate) use host::Handle;

/// A cluster's API without types: every function of the contract's resource `cluster`.
#[derive(Debug)]
pub struct Cluster(pub(crate) Handle);

/// The result of a call.
pub type Answer<T> = Result<T, ApiError>;

impl Cluster {
    /// The cluster's name; `""` is the local cluster.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Reads one object; `None` if there is none.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Answer<Option<String>> {
        self.0.get(kind, key, options)
    }

    /// Reads a page of objects.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn list(&self, kind: &GroupVersionKind, options: &ListOptions) -> Answer<ListPage> {
        self.0.list(kind, options)
    }

    /// Creates an object and returns it as stored.
    ///
    /// # Errors
    /// [`ApiError`]; `already-exists` when there is one of this name.
    pub fn create(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        self.0.create(kind, object, options)
    }

    /// Replaces an object and returns it as stored.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when its `metadata.resourceVersion` is not the current one.
    pub fn update(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        self.0.update(kind, object, options)
    }

    /// Patches an object and returns it as stored.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch_type: PatchType,
        patch: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        self.0.patch(kind, key, patch_type, patch, options)
    }

    /// Server-side apply; returns the object as stored.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when another manager owns a field and `force` is not set.
    pub fn apply(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &ApplyOptions,
    ) -> Answer<String> {
        self.0.apply(kind, object, options)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// [`ApiError`]; `not-found` when there is none.
    pub fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Answer<()> {
        self.0.delete(kind, key, options)
    }

    /// Deletes every selected object of a kind.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Answer<()> {
        self.0.delete_collection(kind, selection, options)
    }

    /// Records an event about an object, in the background.
    pub fn record_event(&self, event: &Event) {
        self.0.record_event(event);
    }

    /// Runs the operations concurrently in the host; the results are in the same order.
    #[must_use]
    pub fn batch(&self, operations: &[Operation]) -> Vec<Answer<Reply>> {
        self.0.batch(operations)
    }
}

/// The granted clusters whose labels match, sorted by name.
///
/// # Errors
/// [`ApiError`].
pub fn fleet_clusters(label_selector: Option<&str>) -> Answer<Vec<ClusterInfo>> {
    host::fleet_clusters(label_selector)
}

/// Opens a cluster; `""` is the local one.
///
/// # Errors
/// [`ApiError`].
pub fn fleet_open(name: &str) -> Answer<Cluster> {
    host::fleet_open(name).map(Cluster)
}

/// Runs operations concurrently, each in the cluster named with it; the results are in the same order.
#[must_use]
pub fn fleet_batch(operations: &[(String, Operation)]) -> Vec<Answer<Reply>> {
    host::fleet_batch(operations)
}

/// Sends a request to a server that is no API server.
///
/// # Errors
/// [`ApiError`].
pub fn http_send(request: &http::Request) -> Answer<http::Response> {
    host::http_send(request)
}

/// The reconciler's `config`, as JSON.
#[must_use]
pub fn config() -> String {
    host::config()
}

/// Wall time, RFC 3339, UTC, milliseconds.
#[must_use]
pub fn now() -> String {
    host::now()
}

/// Writes a line to the host's log.
pub fn log(level: Level, message: &str, fields: &[(String, String)]) {
    host::log(level, message, fields);
}
