//! Detects that a server is not the one, or not in the history, that the caches were filled from.
//! Entry points: [`Continuity::confirm`] and [`Continuity::lose_history`].
//!
//! * Another server may answer under the same address. Then the cluster ends and is engaged again.
//! * The server's history may be lost, for example if etcd was restored from a backup. Then every cache of the backend is rebuilt, and
//!   not only the one that found it, because objects of both histories can have the same version.
//!
//! Invariants: a changed identity is final. The number of lost histories only grows.
//!
//! Cost: one small request after each break of a watch. Watches that break together share it.
//!
//! Not guaranteed: a server that does not give its identity counts as the same server. Only its address and its certificate authority
//! identify it then.

use crate::api::ApiError;
use crate::discovery::Discovery;
use crate::http::status::error_for_status;
use crate::http::transport::{Call, Connection, JSON};
use crate::kind::GroupVersionKind;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The identity of a backend's server, and what has changed about it. Shared by the cluster and all its watches.
pub(crate) struct Continuity {
    connection: Connection,
    /// The object whose UID is the server's identity.
    path: &'static str,
    /// The first identity that the server gave. `None` while it gives none.
    server_uid: Mutex<Option<String>>,
    /// When the last successful check began. Locked during a check, so that callers that wait for the lock share its result.
    checked: tokio::sync::Mutex<Instant>,
    changes: watch::Sender<ServerChanges>,
}

/// What has changed about a server since it was connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServerChanges {
    /// Another server answers under the address, for good.
    pub(crate) identity_changed: bool,
    /// How often the server's history was found to be lost.
    pub(crate) histories_lost: u64,
}

/// Why a server is not confirmed to be the same.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotConfirmed {
    #[error("another server answers under this address")]
    IdentityChanged,
    #[error(transparent)]
    NoAnswer(#[from] ApiError),
}

impl Continuity {
    /// Reads the server's identity.
    ///
    /// # Errors
    /// When the server cannot be reached; not when it refuses to give its identity.
    pub(crate) async fn begin(
        connection: Connection,
        discovery: &Discovery,
    ) -> Result<Self, ApiError> {
        let path = identity_path(discovery);
        let began = Instant::now();
        let server_uid = read_uid(&connection, path).await?;
        Ok(Self::new(connection, path, server_uid, began))
    }

    pub(crate) fn new(
        connection: Connection,
        path: &'static str,
        server_uid: Option<String>,
        checked: Instant,
    ) -> Self {
        Self {
            connection,
            path,
            server_uid: Mutex::new(server_uid),
            checked: tokio::sync::Mutex::new(checked),
            changes: watch::channel(ServerChanges::default()).0,
        }
    }

    /// The identity that the server gave; `None` while it gives none.
    pub(crate) fn server_uid(&self) -> Option<String> {
        self.server_uid.lock().clone()
    }

    /// Confirms that the server is still the same, by a check that began at most `max_age` before this call.
    ///
    /// # Errors
    /// [`NotConfirmed`]: another server, or no answer.
    ///
    /// # Cancellation
    /// Dropping the future ends its check; the next caller begins another one.
    pub(crate) async fn confirm(&self, max_age: Duration) -> Result<(), NotConfirmed> {
        let called = Instant::now();
        let mut checked = self.checked.lock().await;
        if self.changes.borrow().identity_changed {
            return Err(NotConfirmed::IdentityChanged);
        }
        if *checked + max_age >= called {
            return Ok(());
        }
        let began = Instant::now();
        let now = read_uid(&self.connection, self.path).await?;
        if !self.is_same(now) {
            self.changes
                .send_modify(|changes| changes.identity_changed = true);
            return Err(NotConfirmed::IdentityChanged);
        }
        *checked = began;
        Ok(())
    }

    fn is_same(&self, now: Option<String>) -> bool {
        let mut known = self.server_uid.lock();
        match (&*known, now) {
            (Some(known), Some(now)) => *known == now,
            // For a while, the credentials may lack the right to read it.
            (_, None) => true,
            (None, now) => {
                *known = now;
                true
            }
        }
    }

    /// Records that the server's history is lost: every cache is rebuilt.
    pub(crate) fn lose_history(&self) {
        self.connection.metrics().history_lost();
        self.changes
            .send_modify(|changes| changes.histories_lost += 1);
    }

    /// How often the server's history was found to be lost. An answer from before the last time is not valid for the caches after it.
    pub(crate) fn histories_lost(&self) -> u64 {
        self.changes.borrow().histories_lost
    }

    /// The changes so far, and a way to wait for more.
    pub(crate) fn changes(&self) -> watch::Receiver<ServerChanges> {
        self.changes.subscribe()
    }
}

/// The object whose UID is the identity: kube-system, or a kcp workspace's logical cluster, because it has no kube-system.
fn identity_path(discovery: &Discovery) -> &'static str {
    let logical = GroupVersionKind::new("core.kcp.io", "v1alpha1", "LogicalCluster");
    if discovery.get(&logical).is_some() {
        "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    } else {
        "/api/v1/namespaces/kube-system"
    }
}

/// The identity; `None` if the server refuses to give it.
async fn read_uid(connection: &Connection, path: &str) -> Result<Option<String>, ApiError> {
    let call = Call::get(path.to_owned(), JSON);
    let answer = connection
        .send(call, connection.options().call_timeout)
        .await?;
    match error_for_status(answer) {
        Ok(answer) => Ok(uid(&answer.body)),
        Err(error) if (400..500).contains(&error.http_status) && error.http_status != 429 => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn uid(body: &bytes::Bytes) -> Option<String> {
    let object = crate::json::Object::parse(body.clone()).ok()?;
    Some(object.uid().into_owned()).filter(|uid| !uid.is_empty())
}
