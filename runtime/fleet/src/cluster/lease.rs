//! Calls about Leases, for elections and shards. Entry points: [`LeaseCalls`] for one, [`list`] for many.
//!
//! They bypass caches, discovery and the limits that other calls share, because a renewal must not wait for the work that depends on
//! it.

use super::Cluster;
use crate::api::{ApiCode, ApiError, Json};
use crate::http::status::error_for_status;
use crate::http::transport::{Call, JSON};
use crate::kind::{GroupVersionKind, Resource};
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
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
        let leases = leases();
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

    /// Deletes the Lease if it has this resourceVersion.
    ///
    /// # Errors
    /// As [`LeaseCalls::read`]; `conflict` when it has another one; `not-found`.
    pub(crate) async fn delete(
        &self,
        cluster: &Arc<Cluster>,
        version: &str,
        timeout: Duration,
    ) -> Result<Json, ApiError> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": version}});
        let body = options.to_string().into_bytes().into();
        let call = Call::write(Method::DELETE, self.object.clone(), JSON, body);
        self.send(cluster, call, timeout).await
    }

    async fn send(
        &self,
        cluster: &Arc<Cluster>,
        call: Call,
        timeout: Duration,
    ) -> Result<Json, ApiError> {
        send(cluster, call, timeout).await
    }
}

/// Lists the Leases with some labels, as new as the server's own store has them.
///
/// # Errors
/// As [`LeaseCalls::read`].
pub(crate) async fn list(
    cluster: &Arc<Cluster>,
    namespace: &str,
    labels: &str,
    timeout: Duration,
) -> Result<Json, ApiError> {
    let path = leases().collection_path(Some(namespace));
    let labels = utf8_percent_encode(labels, NON_ALPHANUMERIC);
    let call = Call::get(format!("{path}?labelSelector={labels}"), JSON);
    send(cluster, call, timeout).await
}

fn leases() -> Resource {
    Resource {
        kind: GroupVersionKind::new("coordination.k8s.io", "v1", "Lease"),
        plural: "leases".into(),
        namespaced: true,
    }
}

async fn send(cluster: &Arc<Cluster>, call: Call, timeout: Duration) -> Result<Json, ApiError> {
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

fn call(method: Method, path: &str, lease: Json) -> Call {
    let path = format!("{path}?fieldManager=windlass");
    Call::write(method, path, JSON, lease)
}
