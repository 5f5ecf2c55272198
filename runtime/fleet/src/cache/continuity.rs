//! Whether the server at the other end is still the one that the caches were filled from. Entry point: [`Continuity::confirm`].
//!
//! Two things end what caches hold. Another server may answer under the same address: then the cluster is engaged anew. Or the
//! server's history was taken back, as by an etcd restored from a backup: then every cache of the backend is rebuilt, not only
//! the one that proved it, because objects of both histories can have the same version.
//!
//! A server that does not say who it is, is compared by nothing: its address and certificate authority are all that identifies it.

use crate::api::ApiError;
use crate::discovery::Discovery;
use crate::http::answer::refusal;
use crate::http::transport::{Call, Connection, JSON};
use crate::kind::GroupVersionKind;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What a backend's server has shown of its continuity, shared by the cluster and all its watches.
pub(crate) struct Continuity {
    connection: Connection,
    /// The object whose UID is the server's identity.
    path: &'static str,
    /// The identity that was given first. `None` while the server gives none.
    identity: Mutex<Option<String>>,
    /// When the last check that found the same server began. Locked while a check is under way: of those who wait for the lock, the
    /// first asks for all.
    checked: tokio::sync::Mutex<Instant>,
    verdict: watch::Sender<Verdict>,
}

/// What ended, if anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Another server answers under the address, for good.
    pub(crate) replaced: bool,
    /// How often the server's history was found to be taken back.
    pub(crate) histories_lost: u64,
}

/// Another server answers under the cluster's address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotConfirmed {
    #[error("another server answers under this address")]
    Replaced,
    #[error(transparent)]
    Unknown(#[from] ApiError),
}

impl Continuity {
    /// Asks the server who it is.
    ///
    /// # Errors
    /// When the server cannot be reached; not when it refuses to say.
    pub(crate) async fn begin(
        connection: Connection,
        discovery: &Discovery,
    ) -> Result<Self, ApiError> {
        let path = identity_path(discovery);
        let began = Instant::now();
        let identity = ask(&connection, path).await?;
        Ok(Self::new(connection, path, identity, began))
    }

    pub(crate) fn new(
        connection: Connection,
        path: &'static str,
        identity: Option<String>,
        checked: Instant,
    ) -> Self {
        Self {
            connection,
            path,
            identity: Mutex::new(identity),
            checked: tokio::sync::Mutex::new(checked),
            verdict: watch::channel(Verdict::default()).0,
        }
    }

    /// Whether the server has said who it is.
    pub(crate) fn is_identified(&self) -> bool {
        self.identity.lock().is_some()
    }

    /// Makes sure that the server is still the same, by a question that was asked at most `allowance` before this call.
    ///
    /// # Errors
    /// [`NotConfirmed`]: another server, or no answer.
    ///
    /// # Cancellation
    /// Dropping the future leaves the question to whoever asks next.
    pub(crate) async fn confirm(&self, allowance: Duration) -> Result<(), NotConfirmed> {
        let called = Instant::now();
        let mut checked = self.checked.lock().await;
        if self.verdict.borrow().replaced {
            return Err(NotConfirmed::Replaced);
        }
        if *checked + allowance >= called {
            return Ok(());
        }
        let began = Instant::now();
        let now = ask(&self.connection, self.path).await?;
        if !self.is_same(now) {
            self.verdict.send_modify(|verdict| verdict.replaced = true);
            return Err(NotConfirmed::Replaced);
        }
        *checked = began;
        Ok(())
    }

    fn is_same(&self, now: Option<String>) -> bool {
        let mut known = self.identity.lock();
        match (&*known, now) {
            (Some(known), Some(now)) => *known == now,
            // It may be forbidden to say, for a while.
            (_, None) => true,
            (None, now) => {
                *known = now;
                true
            }
        }
    }

    /// Notes that the server's history was taken back: every cache is to be rebuilt.
    pub(crate) fn lose_history(&self) {
        self.connection.metrics().history_lost();
        self.verdict
            .send_modify(|verdict| verdict.histories_lost += 1);
    }

    /// How often the server's history was found to be lost: what was asked before such a time says nothing of the caches after it.
    pub(crate) fn histories_lost(&self) -> u64 {
        self.verdict.borrow().histories_lost
    }

    /// What has ended so far, and a way to wait for more.
    pub(crate) fn verdict(&self) -> watch::Receiver<Verdict> {
        self.verdict.subscribe()
    }
}

/// A workspace of kcp has no kube-system namespace: its logical cluster identifies it.
fn identity_path(discovery: &Discovery) -> &'static str {
    let logical = GroupVersionKind::new("core.kcp.io", "v1alpha1", "LogicalCluster");
    if discovery.get(&logical).is_some() {
        "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    } else {
        "/api/v1/namespaces/kube-system"
    }
}

async fn ask(connection: &Connection, path: &str) -> Result<Option<String>, ApiError> {
    let call = Call::get(path.to_owned(), JSON);
    let answer = connection
        .send(call, connection.options().call_timeout)
        .await?;
    match refusal(answer) {
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
