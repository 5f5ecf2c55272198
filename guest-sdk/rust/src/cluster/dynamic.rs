//! Objects of a kind known only at run time. Entry point: [`OfKind`].

use super::{Cluster, Objects};
use crate::error::ApiError;
use crate::resource::Object;
use crate::types::{
    DeleteOptions, GetOptions, GroupVersionKind, ListOptions, ObjectKey, PatchType, Selection,
    WriteOptions,
};
use serde_json::Value;

/// The calls that need a kind, with the kind given once. Writes of an [`Object`] are not here: an object names its kind.
#[derive(Debug)]
pub struct OfKind<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) kind: GroupVersionKind,
}

impl<'a> OfKind<'a> {
    pub(super) fn new(cluster: &'a Cluster, kind: GroupVersionKind) -> Self {
        Self { cluster, kind }
    }

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Object>, ApiError> {
        self.cluster
            .get_with(&self.kind, key, &GetOptions::default())
    }

    /// Reads an object from the API server.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn get_live(&self, key: &ObjectKey) -> Result<Option<Object>, ApiError> {
        self.cluster.get_with(&self.kind, key, &GetOptions::live())
    }

    /// Lists every selected object, page by page.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn list(&self, options: &ListOptions) -> Result<Vec<Object>, ApiError> {
        self.iterate(options.clone()).collect()
    }

    /// Iterates over every selected object, page by page.
    #[must_use]
    pub fn iterate(&self, options: ListOptions) -> Objects<'a, Object> {
        self.cluster.iterate_with(self.kind.clone(), options)
    }

    /// Merges a partial object into an object; null removes. Returns it as stored.
    ///
    /// # Errors
    /// [`ApiError`]; `not-found` when there is none.
    pub fn patch(&self, key: &ObjectKey, merge: &Value) -> Result<Object, ApiError> {
        self.cluster.patch_with(
            &self.kind,
            key,
            PatchType::Merge,
            merge,
            &WriteOptions::default(),
        )
    }

    /// Merges `status` into the status of an object; null removes.
    ///
    /// # Errors
    /// [`ApiError`]; `not-found` when there is none.
    pub fn patch_status(&self, key: &ObjectKey, status: &Value) -> Result<Object, ApiError> {
        let merge = serde_json::json!({"status": status});
        self.cluster.patch_with(
            &self.kind,
            key,
            PatchType::Merge,
            &merge,
            &WriteOptions::status(),
        )
    }

    /// Deletes an object; returns whether there was one.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn delete(&self, key: &ObjectKey) -> Result<bool, ApiError> {
        self.cluster
            .delete_with(&self.kind, key, &DeleteOptions::default())
    }

    /// Deletes every selected object.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn delete_collection(&self, selection: &Selection) -> Result<(), ApiError> {
        self.cluster
            .delete_collection_with(&self.kind, selection, &DeleteOptions::default())
    }
}
