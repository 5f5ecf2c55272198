//! A client that reads and writes Rust types. Entry point: [`TypedClient`], from [`Client::typed`].

use super::Client;
use crate::api::{
    ApiCode, ApiError, ApplyOptions, DeleteOptions, Event, EventType, GetOptions, Json,
    ListOptions, PatchType, ReadMode, WriteOptions,
};
use crate::request::ObjectKey;
use crate::typed::{Typed, decode, encode, value};
use serde::Serialize;
use serde_json::{Value, json};

/// A [`Client`] for objects as Rust types. Cheap to clone.
///
/// Reads are answered from the cache where it can answer, else live, so `None` always means absent. A write is in the cache
/// when it returns. Cancellation is that of [`Client`].
///
/// # Errors
/// As [`Client`]; also `invalid` when an object does not fit its type. [`ApiError::code`] is what to match on. The operator `?`
/// turns an error into a [`Failure`](crate::Failure) that is retried.
#[derive(Clone)]
pub struct TypedClient {
    client: Client,
}

impl Client {
    /// The same client, for objects as Rust types.
    #[must_use]
    pub fn typed(self) -> TypedClient {
        TypedClient { client: self }
    }
}

impl TypedClient {
    /// The client for objects as JSON text, with every option: batches, dry runs, subresources, events.
    #[must_use]
    pub fn raw(&self) -> &Client {
        &self.client
    }

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// See [`TypedClient`].
    pub async fn get<T: Typed>(&self, key: &ObjectKey) -> Result<Option<T>, ApiError> {
        self.read(key, ReadMode::Cached).await
    }

    /// Reads an object from the API server.
    ///
    /// # Errors
    /// See [`TypedClient`].
    pub async fn get_live<T: Typed>(&self, key: &ObjectKey) -> Result<Option<T>, ApiError> {
        self.read(key, ReadMode::Live).await
    }

    async fn read<T: Typed>(&self, key: &ObjectKey, mode: ReadMode) -> Result<Option<T>, ApiError> {
        let options = GetOptions {
            mode,
            ..GetOptions::default()
        };
        let object = self.client.get(&T::gvk(), key, &options).await?;
        object.map(|json| decode(&json)).transpose()
    }

    /// Lists every selected object, page by page. Where they may be too many to hold, ask [`Client::list`] for each page.
    ///
    /// # Errors
    /// See [`TypedClient`] and [`Client::list`].
    pub async fn list<T: Typed>(&self, options: &ListOptions) -> Result<Vec<T>, ApiError> {
        let (kind, mut options) = (T::gvk(), options.clone());
        let mut objects = Vec::new();
        loop {
            let page = self.client.list(&kind, &options).await?;
            for json in &page.items {
                objects.push(decode(json)?);
            }
            if page.continue_token.is_none() {
                return Ok(objects);
            }
            options.continue_token = page.continue_token;
        }
    }

    /// Creates an object and returns it as the server keeps it.
    ///
    /// # Errors
    /// See [`TypedClient`]; `already-exists`.
    pub async fn create<T: Typed>(&self, object: &T) -> Result<T, ApiError> {
        let (kind, object) = (T::gvk(), encode(object)?);
        written(
            &self
                .client
                .create(&kind, object, &WriteOptions::default())
                .await?,
        )
    }

    /// Replaces an object and returns it as the server keeps it. Fields that the type does not have are lost.
    ///
    /// # Errors
    /// See [`TypedClient`]; `conflict` when the object's resourceVersion is not the newest.
    pub async fn update<T: Typed>(&self, object: &T) -> Result<T, ApiError> {
        self.replace(object, &WriteOptions::default()).await
    }

    /// Replaces the status of an object, and nothing else of it.
    ///
    /// # Errors
    /// See [`TypedClient`]; `conflict` when the object's resourceVersion is not the newest.
    pub async fn update_status<T: Typed>(&self, object: &T) -> Result<T, ApiError> {
        self.replace(object, &status()).await
    }

    async fn replace<T: Typed>(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let (kind, object) = (T::gvk(), encode(object)?);
        written(&self.client.update(&kind, object, options).await?)
    }

    /// Server-side apply: creates or changes the object so that it has these fields, and drops fields that this controller
    /// applied before and no longer applies. Returns the object as the server keeps it.
    ///
    /// # Errors
    /// See [`TypedClient`]; `conflict` when another manager owns a field.
    pub async fn apply<T: Typed>(&self, object: &T) -> Result<T, ApiError> {
        self.apply_with(object, &ApplyOptions::default()).await
    }

    /// As [`TypedClient::apply`], and takes over fields that another manager owns.
    ///
    /// # Errors
    /// See [`TypedClient`].
    pub async fn force_apply<T: Typed>(&self, object: &T) -> Result<T, ApiError> {
        let options = ApplyOptions {
            force: true,
            ..ApplyOptions::default()
        };
        self.apply_with(object, &options).await
    }

    async fn apply_with<T: Typed>(
        &self,
        object: &T,
        options: &ApplyOptions,
    ) -> Result<T, ApiError> {
        let (kind, object) = (T::gvk(), encode(object)?);
        written(&self.client.apply(&kind, object, options).await?)
    }

    /// Merges a part of an object into the object (RFC 7386: null removes), and returns it as the server keeps it.
    ///
    /// # Errors
    /// See [`TypedClient`]; `not-found`.
    pub async fn patch<T: Typed>(
        &self,
        key: &ObjectKey,
        merge: &impl Serialize,
    ) -> Result<T, ApiError> {
        let merge = value(merge)?;
        self.merge(key, &merge, &WriteOptions::default()).await
    }

    /// Merges a part of a status into the status of an object, as [`TypedClient::patch`].
    ///
    /// # Errors
    /// See [`TypedClient`]; `not-found`.
    pub async fn patch_status<T: Typed>(
        &self,
        key: &ObjectKey,
        merge: &impl Serialize,
    ) -> Result<T, ApiError> {
        let merge = json!({"status": value(merge)?});
        self.merge(key, &merge, &status()).await
    }

    async fn merge<T: Typed>(
        &self,
        key: &ObjectKey,
        merge: &Value,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        let (kind, patch) = (T::gvk(), merge.to_string().into());
        let patched = self
            .client
            .patch(&kind, key, PatchType::Merge, patch, options);
        written(&patched.await?)
    }

    /// Deletes an object, and returns whether there was one.
    ///
    /// # Errors
    /// See [`TypedClient`].
    pub async fn delete<T: Typed>(&self, key: &ObjectKey) -> Result<bool, ApiError> {
        let options = DeleteOptions::default();
        match self.client.delete(&T::gvk(), key, &options).await {
            Ok(()) => Ok(true),
            Err(error) if error.code == ApiCode::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Records an event about an object, for people: shown by `kubectl describe` and `kubectl get events`. `reason` is one CamelCase word.
    /// Recorded in the background; never fails a reconcile.
    pub fn event<T: Typed>(&self, key: &ObjectKey, reason: &str, note: impl Into<String>) {
        self.record::<T>(key, EventType::Normal, reason, note.into());
    }

    /// As [`TypedClient::event`], with the type Warning.
    pub fn warn<T: Typed>(&self, key: &ObjectKey, reason: &str, note: impl Into<String>) {
        self.record::<T>(key, EventType::Warning, reason, note.into());
    }

    fn record<T: Typed>(&self, key: &ObjectKey, event_type: EventType, reason: &str, note: String) {
        self.client.record_event(Event {
            kind: T::gvk(),
            key: key.clone(),
            event_type,
            reason: reason.to_owned(),
            action: "Reconcile".to_owned(),
            note,
        });
    }
}

fn status() -> WriteOptions {
    WriteOptions {
        subresource: Some("status".into()),
        ..WriteOptions::default()
    }
}

/// What a server keeps after a write.
fn written<T: Typed>(json: &Json) -> Result<T, ApiError> {
    decode(json)
}
