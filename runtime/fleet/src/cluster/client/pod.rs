//! Calls a port of a pod through the API server. Entry point: [`Client::call_pod`].

use super::Client;
use super::target::{Awaited, check_segment};
use crate::api::{ApiCode, ApiError};
use crate::grant::Verb;
use crate::http::status::{Status, error};
use crate::http::transport::{Call, JSON};
use crate::kind::{GroupVersionKind, Resource};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use std::fmt;

/// An HTTP request to a port of a pod: `GET`, or `POST` of JSON if there is a body.
#[derive(Clone)]
pub struct PodCall {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The port, whether the pod declares it or not. It is called without TLS.
    pub port: u16,
    /// Path and query, already encoded. Begins with a slash.
    pub path: String,
    /// A header for the pod. The API server removes `Authorization`, which is for the API server itself.
    pub header: Option<(&'static str, String)>,
    /// JSON.
    pub body: Option<Bytes>,
}

impl fmt::Debug for PodCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, pod, port) = (&self.namespace, &self.pod, self.port);
        write!(f, "PodCall({namespace}/{pod}:{port})")
    }
}

/// The pod's answer, whatever its status.
#[derive(Debug, Clone)]
pub struct PodAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The whole body.
    pub body: Bytes,
}

impl Client {
    /// Calls a port of a pod through the API server, as `kubectl get --raw` does with a path below `pods/NAME:PORT/proxy`. Waits for a
    /// connection. The call counts as a read of `pods/proxy`, or as its creation if there is a body, and not as a write of an object.
    ///
    /// # Errors
    /// See [`Client`]; `invalid` for a name, path or header that no URL or request may have; and what the API server itself answers, such
    /// as `unavailable` if it cannot reach the pod. An error of the pod is an answer.
    pub async fn call_pod(&self, call: PodCall) -> Result<PodAnswer, ApiError> {
        let span = self.span("proxy", &GroupVersionKind::new("", "v1", "Pod"), None);
        self.scope.call(span, self.send_to_pod(call)).await
    }

    async fn send_to_pod(&self, call: PodCall) -> Result<PodAnswer, ApiError> {
        check_segment(&call.namespace)?;
        check_segment(&call.pod)?;
        let invalid = |message: &str| ApiError::host(ApiCode::Invalid, message);
        if !call.path.starts_with('/') {
            return Err(invalid("the path of a pod begins with a slash"));
        }
        let pods = Resource {
            kind: GroupVersionKind::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        };
        let (namespace, name) = (&*call.namespace, format!("{}:{}", call.pod, call.port));
        let (verb, method) = match call.body {
            Some(_) => (Verb::Create, Method::POST),
            None => (Verb::Get, Method::GET),
        };
        self.check(&pods, Some("proxy"), verb, Some(namespace), Some(&name))?;
        let proxy = pods.object_path(Some(namespace), &name, Some("proxy"));
        let header = match call.header {
            Some((name, value)) => {
                let mut value = HeaderValue::try_from(value)
                    .map_err(|_| invalid("a header has characters that no header may have"))?;
                value.set_sensitive(true);
                Some((HeaderName::from_static(name), value))
            }
            None => None,
        };
        let sent = Call {
            method,
            header,
            body: call.body.map(|body| (JSON, body)),
            ..Call::get(format!("{proxy}{}", call.path), JSON)
        };
        let backend = self
            .within(Awaited::Connection, self.cluster.connected())
            .await??;
        let timeout = backend.connection.options().call_timeout;
        let sent = sent.made_for(self.owner(), self.grant().identity());
        let answer = backend.connection.send(sent, timeout).await?;
        // The API server reports its own errors in a `Status`.
        match serde_json::from_slice::<Status>(&answer.body) {
            Ok(status) if answer.status >= 400 && status.kind == "Status" => {
                Err(error(answer.status, answer.retry_after, &answer.body))
            }
            _ => Ok(PodAnswer {
                status: answer.status,
                body: answer.body,
            }),
        }
    }
}
