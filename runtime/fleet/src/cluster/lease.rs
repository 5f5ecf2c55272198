//! Calls about one Lease, for elections. Entry point: [`LeaseCalls`].
//!
//! They bypass caches, discovery and the limits that other calls share, because a renewal must not wait for the work that depends on
//! it.

use super::Cluster;
use crate::api::{ApiCode, ApiError, Json};
use crate::http::status::error_for_status;
use crate::http::transport::{Call, JSON};
use crate::kind::{GroupVersionKind, Resource};
use http::Method;
use std::sync::Arc;
use std::time::Duration;

/// The calls about one Lease of the API group `coordination.k8s.io`.
#[derive(Debug, Clone)]
pub(crate) struct LeaseCalls {
    collection: String,
    object: String,
}

impl LeaseCalls {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        let leases = Resource {
            kind: GroupVersionKind::new("coordination.k8s.io", "v1", "Lease"),
            plural: "leases".into(),
            namespaced: true,
        };
        Self {
            collection: leases.collection_path(Some(namespace)),
            object: leases.object_path(Some(namespace), name, None),
        }
    }

    /// Reads the Lease; `None` when it is absent.
    ///
    /// # Errors
    /// The server's refusal, or `timeout`. Dropping the future cancels the call.
    pub(crate) async fn read(
        &self,
        cluster: &Arc<Cluster>,
        timeout: Duration,
    ) -> Result<Option<Json>, ApiError> {
        let call = Call::get(self.object.clone(), JSON);
        match self.send(cluster, call, timeout).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.code == ApiCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the Lease.
    ///
    /// # Errors
    /// As [`LeaseCalls::read`]; `already-exists`.
    pub(crate) async fn create(
        &self,
        cluster: &Arc<Cluster>,
        lease: Json,
        timeout: Duration,
    ) -> Result<Json, ApiError> {
        let call = call(Method::POST, &self.collection, lease);
        self.send(cluster, call, timeout).await
    }

    /// Replaces the Lease.
    ///
    /// # Errors
    /// As [`LeaseCalls::read`]; `conflict` when the object's resourceVersion is not the newest; `not-found`.
    pub(crate) async fn update(
        &self,
        cluster: &Arc<Cluster>,
        lease: Json,
        timeout: Duration,
    ) -> Result<Json, ApiError> {
        let call = call(Method::PUT, &self.object, lease);
        self.send(cluster, call, timeout).await
    }

    async fn send(
        &self,
        cluster: &Arc<Cluster>,
        call: Call,
        timeout: Duration,
    ) -> Result<Json, ApiError> {
        let late = || {
            let now = cluster.status();
            let state = now.state.as_str();
            let message = format!("the local cluster is {state}: {}", now.reason);
            ApiError::host(ApiCode::Timeout, message)
        };
        let sent = async {
            let backend = cluster.connected().await?;
            let call = Call {
                is_apart: true,
                ..call
            };
            let answer = backend.connection.send_here(call, timeout, None).await?;
            Ok(error_for_status(answer)?.body)
        };
        tokio::time::timeout(timeout, sent)
            .await
            .unwrap_or_else(|_| Err(late()))
    }
}

fn call(method: Method, path: &str, lease: Json) -> Call {
    let path = format!("{path}?fieldManager=windlass");
    Call::write(method, path, JSON, lease)
}
