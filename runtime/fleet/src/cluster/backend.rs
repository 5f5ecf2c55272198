//! One API server as clusters see it: its connection, discovery and stores. Entry point: [`Backend::connect`].
//!
//! A cluster is a scope over a backend. Today each backend has one scope, the whole server; endpoints that serve many clusters
//! at once (namespaces as clusters, wildcard endpoints) put many scopes over one.

use super::answer::refusal;
use super::discovery::Discovery;
use super::stores::Stores;
use super::transport::{Call, Connection, JSON};
use super::watch::CacheOptions;
use crate::api::ApiError;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) struct Backend {
    pub(crate) connection: Connection,
    pub(crate) discovery: Discovery,
    pub(crate) stores: Arc<Stores>,
}

impl Backend {
    /// Loads what the server at the other end serves.
    ///
    /// # Errors
    /// What the server answered, or that it could not be reached. Nothing is kept.
    pub(crate) async fn connect(
        connection: Connection,
        caches: Arc<CacheOptions>,
        token: CancellationToken,
        tasks: TaskTracker,
        changed: Arc<Notify>,
    ) -> Result<Self, ApiError> {
        let discovery = Discovery::new();
        discovery.load(&connection).await?;
        let stores = Stores::new(connection.clone(), caches, token, tasks, changed);
        Ok(Self {
            connection,
            discovery,
            stores,
        })
    }

    /// What tells this server from another under the same address: the UID of its kube-system namespace. `None` where it does not
    /// tell, for good or for a while.
    ///
    /// # Errors
    /// When the server cannot be reached; not when it refuses to tell.
    pub(crate) async fn identity(&self) -> Result<Option<String>, ApiError> {
        let call = Call::get("/api/v1/namespaces/kube-system".to_owned(), JSON);
        let answer = self
            .connection
            .send(call, self.connection.options().call_timeout)
            .await?;
        match refusal(answer) {
            Ok(answer) => Ok(uid(&answer.body)),
            Err(error) if (400..500).contains(&error.http_status) && error.http_status != 429 => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn uid(body: &bytes::Bytes) -> Option<String> {
    let object = crate::json::Object::parse(body.clone()).ok()?;
    Some(object.uid().into_owned()).filter(|uid| !uid.is_empty())
}
