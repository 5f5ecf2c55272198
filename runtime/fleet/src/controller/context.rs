//! The context of one run, which a reconciler is called with. Entry point: [`Context`].

use crate::cluster::call_scope::CallScope;
use crate::cluster::{Caller, Client, Cluster, Fleet, TypedClient};
use crate::grant::Grant;
use crate::outbound::{HttpClient, HttpGrant};
use crate::request::Request;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The id of a run, for logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReconcileId(u128);

impl ReconcileId {
    pub(crate) fn random() -> Self {
        Self(fastrand::u128(..))
    }
}

impl fmt::Display for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One run: the request, and clients whose calls belong to it. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The object to reconcile.
    pub request: Request,
    /// The id of this run.
    pub id: ReconcileId,
    pub(crate) attempt: u32,
    pub(crate) cluster: Arc<Cluster>,
    /// The controller's grant.
    pub(crate) grant: Arc<Grant>,
    pub(crate) fleet: Fleet,
    pub(crate) scope: Arc<CallScope>,
}

impl Context {
    /// A client for the request's own cluster and objects as Rust types, within the
    /// [controller's grant](super::Builder::grant). Its calls end with this run; see [`Client`] for writes.
    #[must_use]
    pub fn typed_client(&self) -> TypedClient {
        self.client(&self.grant).typed()
    }

    /// A client for the request's own cluster, within a grant. Its calls end with this run; see [`Client`] for writes.
    #[must_use]
    pub fn client(&self, grant: &Arc<Grant>) -> Client {
        Client::new(
            self.cluster.clone(),
            grant.clone(),
            self.scope.clone(),
            None,
        )
    }

    /// A client for any engaged cluster, within a grant. Rules without `clusters` are about the request's own cluster.
    #[must_use]
    pub fn client_for(&self, cluster: &Arc<Cluster>, grant: &Arc<Grant>) -> Client {
        let is_own = Arc::ptr_eq(cluster, &self.cluster);
        let home = (!is_own).then(|| self.cluster.clone());
        Client::new(cluster.clone(), grant.clone(), self.scope.clone(), home)
    }

    /// Calls servers that are no API servers, within a grant. Its calls end with this run; see [`HttpClient`] for those that change something.
    #[must_use]
    pub fn http(&self, grant: &Arc<HttpGrant>) -> HttpClient {
        let transports = self.fleet.transports().cloned();
        HttpClient::new(grant.clone(), transports, self.scope.clone())
    }

    /// The request's cluster.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// All engaged clusters.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The tenant and the controller of this run.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.scope.caller
    }

    /// Counts the runs of the key since it last succeeded. The first is 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Cancelled when the run should end: shortly before its deadline, when the cluster leaves, when a drain runs out of time.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.scope.token
    }

    /// When the run is dropped.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.scope.deadline
    }

    /// Whether the run's last call to a cluster failed through no fault of the reconciler.
    pub(crate) fn api_failed(&self) -> bool {
        self.scope.api_failed()
    }

    /// The largest Retry-After that an API server gave in this run.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.scope.retry_after()
    }
}
