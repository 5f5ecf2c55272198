//! One cluster's API with types. Entry point: [`Cluster`].

mod applied;
mod desired;
mod dynamic;
mod events;
mod fingerprint;
mod finalizers;
mod operation;
mod written;

pub(crate) use applied::Desired;
pub(crate) use desired::status_fields;
pub use dynamic::OfKind;
#[cfg(test)]
pub(crate) use fingerprint::fingerprint;
pub use written::{Effect, Written};

use crate::error::ApiError;
use crate::raw;
use crate::resource::{Resource, Typed, decode};
use crate::types::{
    ApplyOptions, DeleteOptions, GetOptions, GroupVersionKind, ListOptions, ObjectKey, PatchType,
    Selection, WriteOptions,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;

/// A cluster, within the grants of the operator. Valid until the call that received it ends.
///
/// Reads come from the host's cache, or from the API server if the cache cannot answer, so `None` always means absent.
/// A call that no rule grants fails with [`crate::ApiCode::Denied`]; the message contains the missing rule.
#[derive(Debug)]
pub struct Cluster {
    raw: raw::Cluster,
}

impl Cluster {
    pub(crate) fn from_handle(handle: raw::Handle) -> Self {
        Self {
            raw: raw::Cluster(handle),
        }
    }

    pub(crate) fn from_raw(raw: raw::Cluster) -> Self {
        Self { raw }
    }

    /// The cluster's name; `""` is the local cluster.
    #[must_use]
    pub fn name(&self) -> String {
        self.raw.name()
    }

    /// The contract's functions, without types.
    #[must_use]
    pub fn raw(&self) -> &raw::Cluster {
        &self.raw
    }

    /// Objects of a kind that has no type.
    #[must_use]
    pub fn of(&self, kind: GroupVersionKind) -> OfKind<'_> {
        OfKind::new(self, kind)
    }

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn get<T: Typed>(&self, key: &ObjectKey) -> Result<Option<T>, ApiError> {
        self.get_with(&T::KIND.into(), key, &GetOptions::default())
    }

    /// Reads an object from the API server.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn get_live<T: Typed>(&self, key: &ObjectKey) -> Result<Option<T>, ApiError> {
        self.get_with(&T::KIND.into(), key, &GetOptions::live())
    }

    /// Reads an object of a kind known at run time, or a part of one, with every option.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn get_with<T: DeserializeOwned>(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<T>, ApiError> {
        match self.raw.get(kind, key, options)? {
            Some(text) => decode(kind, &text).map(Some),
            None => Ok(None),
        }
    }

    /// Lists every selected object, page by page. Use [`Self::iterate`] if they may be too many for the memory.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn list<T: Typed>(&self, options: &ListOptions) -> Result<Vec<T>, ApiError> {
        self.iterate(options.clone()).collect()
    }

    /// Iterates over every selected object. Reads a page only when it is needed. Ends after an error.
    pub fn iterate<T: Typed>(&self, options: ListOptions) -> Objects<'_, T> {
        self.iterate_with(T::KIND.into(), options)
    }

    /// As [`Self::iterate`], for a kind known at run time.
    pub fn iterate_with<T: DeserializeOwned>(
        &self,
        kind: GroupVersionKind,
        options: ListOptions,
    ) -> Objects<'_, T> {
        Objects {
            cluster: self,
            kind,
            next: Some(options),
            page: Vec::new().into_iter(),
            of: PhantomData,
        }
    }

    /// Creates an object and returns it as stored.
    ///
    /// # Errors
    /// [`ApiError`]; `already-exists` when there is one of this name.
    pub fn create<T: Resource>(&self, object: &T) -> Result<T, ApiError> {
        let kind = object.kind();
        T::decode(
            &kind,
            &self
                .raw
                .create(&kind, &object.encode()?, &WriteOptions::default())?,
        )
    }

    /// Replaces an object and returns it as stored. Fields that its type does not have are lost, so apply or patch
    /// an object whose type comes from [`crate::kind`].
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when its `metadata.resourceVersion` is not the current one.
    pub fn update<T: Resource>(&self, object: &T) -> Result<T, ApiError> {
        self.update_with(object, &WriteOptions::default())
    }

    /// Replaces only the status of an object.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when its `metadata.resourceVersion` is not the current one.
    pub fn update_status<T: Resource>(&self, object: &T) -> Result<T, ApiError> {
        self.update_with(object, &WriteOptions::status())
    }

    /// As [`Self::update`], with every option.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when its `metadata.resourceVersion` is not the current one.
    pub fn update_with<T: Resource>(
        &self,
        object: &T,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        let kind = object.kind();
        T::decode(&kind, &self.raw.update(&kind, &object.encode()?, options)?)
    }

    /// Server-side apply: creates or changes the object so that it has these fields, and drops those that this reconciler
    /// applied before and are no longer there. Returns the object as stored.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when another manager owns a field.
    pub fn apply<T: Resource>(&self, object: &T) -> Result<T, ApiError> {
        self.apply_with(object, &ApplyOptions::default())
    }

    /// As [`Self::apply`], and takes over fields that another manager owns.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn force_apply<T: Resource>(&self, object: &T) -> Result<T, ApiError> {
        self.apply_with(object, &ApplyOptions::forced())
    }

    /// As [`Self::apply`], with every option.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when another manager owns a field and `force` is not set.
    pub fn apply_with<T: Resource>(
        &self,
        object: &T,
        options: &ApplyOptions,
    ) -> Result<T, ApiError> {
        let kind = object.kind();
        T::decode(&kind, &self.raw.apply(&kind, &object.encode()?, options)?)
    }

    /// Merges a partial object into an object; null removes. Returns it as stored.
    ///
    /// # Errors
    /// [`ApiError`]; `not-found` when there is none.
    pub fn patch<T: Typed>(&self, key: &ObjectKey, merge: &Value) -> Result<T, ApiError> {
        self.patch_with(
            &T::KIND.into(),
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
    pub fn patch_status<T: Typed>(&self, key: &ObjectKey, status: &Value) -> Result<T, ApiError> {
        let merge = serde_json::json!({"status": status});
        self.patch_with(
            &T::KIND.into(),
            key,
            PatchType::Merge,
            &merge,
            &WriteOptions::status(),
        )
    }

    /// Patches with any type of patch and every option.
    ///
    /// # Errors
    /// [`ApiError`]; `not-found` when there is none.
    pub fn patch_with<T: DeserializeOwned>(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch_type: PatchType,
        patch: &Value,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        decode(
            kind,
            &self
                .raw
                .patch(kind, key, patch_type, &patch.to_string(), options)?,
        )
    }

    /// Deletes an object; returns whether there was one.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn delete<T: Typed>(&self, key: &ObjectKey) -> Result<bool, ApiError> {
        self.delete_with(&T::KIND.into(), key, &DeleteOptions::default())
    }

    /// Deletes exactly this object, and not a newer one of the same name; returns whether it existed.
    ///
    /// # Errors
    /// [`ApiError`]; `conflict` when another object has its name now.
    pub fn delete_object<T: Resource>(&self, object: &T) -> Result<bool, ApiError> {
        let uid = object.identity().uid.map(str::to_owned);
        self.delete_with(
            &object.kind(),
            &object.key(),
            &DeleteOptions {
                uid,
                ..DeleteOptions::default()
            },
        )
    }

    /// Deletes with every option; returns whether there was an object.
    ///
    /// # Errors
    /// [`ApiError`], never for an absent object.
    pub fn delete_with(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<bool, ApiError> {
        match self.raw.delete(kind, key, options) {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes every selected object of a kind.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn delete_collection<T: Typed>(&self, selection: &Selection) -> Result<(), ApiError> {
        self.delete_collection_with(&T::KIND.into(), selection, &DeleteOptions::default())
    }

    /// Deletes every selected object of a kind, with every option.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn delete_collection_with(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        self.raw.delete_collection(kind, selection, options)
    }
}

/// Objects of a list, page by page. Made by [`Cluster::iterate`].
#[derive(Debug)]
pub struct Objects<'a, T> {
    cluster: &'a Cluster,
    kind: GroupVersionKind,
    /// The options of the next page; `None` after the last page and after an error.
    next: Option<ListOptions>,
    page: std::vec::IntoIter<String>,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Objects<'_, T> {
    type Item = Result<T, ApiError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(text) = self.page.next() {
                return Some(decode(&self.kind, &text));
            }
            let mut options = self.next.take()?;
            match self.cluster.raw.list(&self.kind, &options) {
                Ok(page) => {
                    self.page = page.items.into_iter();
                    self.next = page.continue_token.map(|token| {
                        options.continue_token = Some(token);
                        options
                    });
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
