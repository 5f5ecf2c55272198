//! One API server: its connection, discovery and stores. Entry point: [`Backend::connect`].
//!
//! A cluster is a scope of a backend: the whole server, or a part of it. All parts of a server share its backend.

use crate::api::ApiError;
use crate::cache::continuity::Continuity;
use crate::cache::stores::Stores;
use crate::cache::watch::SharedOptions;
use crate::discovery::Discovery;
use crate::http::transport::Connection;
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

/// Asks groups again that did not answer discovery, until dropped.
async fn ask_again(discovery: Arc<Discovery>, connection: Connection, caches: SharedOptions) {
    loop {
        discovery.failed().await;
        tokio::time::sleep(caches.now().look_again).await;
        discovery.ask_again(&connection).await;
    }
}
