//! One API server: its connection, discovery and stores. Entry point: [`Backend::connect`].
//!
//! A cluster is a scope of a backend: the whole server, or a part of it. All parts of a server share its backend.

use crate::api::{ApiCode, ApiError};
use crate::cache::continuity::Continuity;
use crate::cache::made::Made;
use crate::cache::stores::Stores;
use crate::cache::watch::SharedOptions;
use crate::discovery::Discovery;
use crate::http::transport::Connection;
use crate::kind::{GroupVersionKind, Resource};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) struct Backend {
    pub(crate) connection: Connection,
    pub(crate) discovery: Arc<Discovery>,
    pub(crate) stores: Arc<Stores>,
    pub(crate) continuity: Arc<Continuity>,
}

impl Backend {
    /// Reads the server's kinds and its identity.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses discovery.
    pub(crate) async fn connect(
        connection: Connection,
        caches: SharedOptions,
        made: Option<Arc<dyn Made>>,
        token: CancellationToken,
        tasks: TaskTracker,
        changed: Arc<Notify>,
    ) -> Result<Self, ApiError> {
        let discovery = Arc::new(Discovery::new(changed.clone()));
        discovery.load(&connection).await?;
        let continuity = Continuity::begin(connection.clone(), &discovery).await?;
        let continuity = Arc::new(continuity);
        let again = ask_again(discovery.clone(), connection.clone(), caches.clone());
        crate::task::spawn(&tasks, connection.host(), token.clone(), again);
        let stores = Stores::new(
            connection.clone(),
            continuity.clone(),
            caches,
            made,
            token,
            tasks,
            changed,
        );
        Ok(Self {
            connection,
            discovery,
            stores,
            continuity,
        })
    }
}

impl Backend {
    /// The resource of a kind, as far as it is known.
    pub(crate) fn resource(&self, kind: &GroupVersionKind) -> Option<Arc<Resource>> {
        let made = self.stores.made(kind);
        made.map(|made| made.resource().clone())
            .or_else(|| self.discovery.get(kind))
    }

    /// The resource of a kind; the server is asked if it is not known.
    ///
    /// # Errors
    /// `unknown-kind`; else as [`Discovery::resolve`].
    pub(crate) async fn resolve(&self, kind: &GroupVersionKind) -> Result<Arc<Resource>, ApiError> {
        if let Some(known) = self.resource(kind) {
            return Ok(known);
        }
        if kind.is_of_host() {
            let message = format!(
                "{kind} is no kind of this cluster: {} is one of the local cluster, which the name \"\" opens",
                GroupVersionKind::of_clusters()
            );
            return Err(ApiError::host(ApiCode::UnknownKind, message));
        }
        self.discovery.resolve(&self.connection, kind).await
    }
}

/// Asks groups again that did not answer discovery, until dropped.
async fn ask_again(discovery: Arc<Discovery>, connection: Connection, caches: SharedOptions) {
    loop {
        discovery.failed().await;
        tokio::time::sleep(caches.now().look_again).await;
        discovery.ask_again(&connection).await;
    }
}
