//! Calls that run at the same time. Entry point: [`Cluster::batch`].

use super::Cluster;
use crate::error::ApiError;
use crate::resource::{Resource, Typed, decode};
use crate::types::{
    ApplyOptions, DeleteOptions, GetOptions, GroupVersionKind, ListOptions, ObjectKey, Operation,
    Reply, WriteOptions,
};

impl Cluster {
    /// Runs the operations concurrently in the host; the results are in the same order.
    ///
    /// ```no_run
    /// # use windlass_sdk::{ApiError, Cluster, Object, ObjectKey, Operation, Typed};
    /// # fn all<T: Typed>(cluster: &Cluster, keys: &[ObjectKey]) -> Result<Vec<Option<T>>, ApiError> {
    /// let reads: Vec<Operation> = keys.iter().map(Operation::get::<T>).collect();
    /// cluster.batch(&reads).into_iter().map(|answer| answer?.object()).collect()
    /// # }
    /// ```
    #[must_use]
    pub fn batch(&self, operations: &[Operation]) -> Vec<Result<Reply, ApiError>> {
        self.raw.batch(operations)
    }
}

impl Operation {
    /// Reads an object, as [`Cluster::get`].
    #[must_use]
    pub fn get<T: Typed>(key: &ObjectKey) -> Self {
        Self::Get((T::KIND.into(), key.clone(), GetOptions::default()))
    }

    /// Lists a page of objects.
    #[must_use]
    pub fn list<T: Typed>(options: ListOptions) -> Self {
        Self::List((T::KIND.into(), options))
    }

    /// Creates an object, as [`Cluster::create`].
    ///
    /// # Errors
    /// [`ApiError`] when the object cannot be written as JSON.
    pub fn create<T: Resource>(object: &T) -> Result<Self, ApiError> {
        Ok(Self::Create((
            object.kind(),
            object.encode()?,
            WriteOptions::default(),
        )))
    }

    /// Applies an object, as [`Cluster::apply_with`].
    ///
    /// # Errors
    /// [`ApiError`] when the object cannot be written as JSON.
    pub fn apply<T: Resource>(object: &T, options: ApplyOptions) -> Result<Self, ApiError> {
        Ok(Self::Apply((object.kind(), object.encode()?, options)))
    }

    /// Deletes an object; an absent one is the error `not-found`.
    #[must_use]
    pub fn delete<T: Typed>(key: &ObjectKey) -> Self {
        Self::Delete((T::KIND.into(), key.clone(), DeleteOptions::default()))
    }
}

impl Reply {
    /// The object of a get or a write; `None` for an absent object, a delete and a list.
    ///
    /// # Errors
    /// [`ApiError`] when the object is not of this type.
    pub fn object<T: Typed>(self) -> Result<Option<T>, ApiError> {
        match self {
            Self::Object(text) => decode(&GroupVersionKind::from(T::KIND), &text).map(Some),
            Self::Nothing | Self::Page(_) => Ok(None),
        }
    }

    /// The objects of a list's page; empty for anything else.
    ///
    /// # Errors
    /// [`ApiError`] when an object is not of this type.
    pub fn objects<T: Typed>(self) -> Result<Vec<T>, ApiError> {
        let kind: GroupVersionKind = T::KIND.into();
        match self {
            Self::Page(page) => page
                .items
                .iter()
                .map(|text| T::decode(&kind, text))
                .collect(),
            Self::Nothing | Self::Object(_) => Ok(Vec::new()),
        }
    }
}
