//! Calls of other client libraries, such as kube's. Entry point: [`Client::http_service`].

use super::Client;
use super::target::Awaited;
use super::write::{APPLY, WRITE_DEADLINE};
use crate::api::{ApiCode, ApiError, PatchType};
use crate::cluster::Backend;
use crate::http::service::{HttpService, ServiceBody};
use crate::http::transport::{Answer, Call, JSON};
use crate::kind::GroupVersionKind;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use std::sync::Arc;

impl Client {
    /// A service that sends HTTP requests to the API server, for code that needs another client library. It is a `tower::Service`, of which
    /// kube makes a client: `kube::Client::new(service, "default")`.
    ///
    /// The requests share the cluster's connections, credentials, slots and rate limit, and writes the deadline and the fence of this client.
    /// No cache answers them, and a write is in the cache only with its event. The URL is the path below the server's, and bodies are JSON.
    /// Of an answer's headers `Retry-After` alone is handed on, but for watches and logs that are followed, which go on until they are dropped. Connections that are upgraded, such as `exec`, are `invalid`.
    ///
    /// # Errors
    /// `denied` unless the client has all rights, because no rule decides about these requests. `invalid` for a cluster that is a namespace.
    pub fn http_service(&self) -> Result<HttpService, ApiError> {
        if self.policy.is_some() || self.cached_only || !self.grant.is_all() {
            let message =
                "an HTTP service has all rights: take the client of a controller without a grant";
            return Err(ApiError::host(ApiCode::Denied, message));
        }
        if self.part().is_namespace() {
            let message = "the cluster is a namespace of its server: use the typed client";
            return Err(invalid(message));
        }
        let client = self.clone();
        Ok(HttpService::new(move |request| {
            let client = client.clone();
            Box::pin(async move {
                let any = GroupVersionKind::new("", "*", "*");
                let span = client.span("http", &any, None);
                client.scope.call(span, client.forward(request)).await
            })
        }))
    }

    async fn forward(&self, request: Request<Bytes>) -> Result<Response<ServiceBody>, ApiError> {
        let call = call(request)?
            .made_for(self.owner(), self.grant.identity())
            .in_workspace(self.part().workspace());
        let connected = self.cluster.connected();
        let backend = self.within(Awaited::Connection, connected).await??;
        if call.method != Method::GET {
            return whole(self.forward_write(backend, call).await?);
        }
        let connection = &backend.connection;
        if is_stream(&call.path) {
            let opened = connection.open(call);
            let (head, body) = self.within(Awaited::Answer, opened).await??.into_parts();
            let body = body.map_err(Into::into).boxed_unsync();
            return Ok(Response::from_parts(head, body));
        }
        let limit = self.scope.time_left(connection.options().call_timeout);
        let sent = connection.send(call, limit);
        whole(self.within(Awaited::Answer, sent).await??)
    }

    /// Sends a write, which goes on until its deadline even if its caller ends.
    async fn forward_write(&self, backend: Arc<Backend>, call: Call) -> Result<Answer, ApiError> {
        let _under_way = self.scope.writes.token();
        self.scope.check()?;
        let pass = self.scope.enter()?;
        let limit = pass
            .as_ref()
            .map_or(WRITE_DEADLINE, |pass| pass.time_left().min(WRITE_DEADLINE));
        let host = backend.connection.host().clone();
        let write = async move { backend.connection.send_here(call, limit, pass).await };
        let task = self.scope.writes.spawn_on(write, &host);
        let answer = self.within(Awaited::Answer, task).await?;
        let ended =
            |error: tokio::task::JoinError| ApiError::host(ApiCode::Unavailable, error.to_string());
        Ok(answer.map_err(ended)??)
    }
}

/// The call that a request asks for.
fn call(request: Request<Bytes>) -> Result<Call, ApiError> {
    let (head, body) = request.into_parts();
    if head.headers.contains_key(UPGRADE) {
        return Err(invalid("a connection cannot be upgraded here"));
    }
    let path = head.uri.path_and_query().map(ToString::to_string);
    let content = Some(body).filter(|body| !body.is_empty());
    let typed = |body| Ok::<_, ApiError>((content_type(&head.headers)?, body));
    let body = content.map(typed).transpose()?;
    let accept = head.headers.get(ACCEPT).cloned();
    Ok(Call {
        method: head.method,
        body,
        header: accept.map(|accept| (ACCEPT, accept)),
        ..Call::get(path.ok_or_else(|| invalid("the URL has no path"))?, JSON)
    })
}

fn content_type(headers: &HeaderMap) -> Result<&'static str, ApiError> {
    let patches = [PatchType::Json, PatchType::Merge, PatchType::StrategicMerge];
    let mut known = patches
        .into_iter()
        .map(PatchType::content_type)
        .chain([JSON, APPLY]);
    let named = match headers.get(CONTENT_TYPE) {
        Some(named) => named.to_str().unwrap_or_default(),
        None => JSON,
    };
    // Parameters, such as a charset, say nothing about JSON.
    let named = named.split(';').next().unwrap_or_default().trim();
    let found = known.find(|known| *known == named);
    found.ok_or_else(|| {
        invalid("the content type of the body is none of the Kubernetes API in JSON")
    })
}

/// Whether the answer to a call goes on: a watch, or a log that is followed.
fn is_stream(path: &str) -> bool {
    let (_, query) = path.split_once('?').unwrap_or_default();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| matches!(name, "watch" | "follow") && matches!(value, "true" | "1"))
}

fn whole(answer: Answer) -> Result<Response<ServiceBody>, ApiError> {
    let body = Full::new(answer.body).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    let status = StatusCode::from_u16(answer.status);
    *response.status_mut() = status.map_err(|_| invalid("the server's status is none of HTTP"))?;
    if let Some(after) = answer.retry_after {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, after.as_secs().into());
    }
    Ok(response)
}

fn invalid(message: &str) -> ApiError {
    ApiError::host(ApiCode::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: http::request::Builder, body: &'static str) -> Result<Call, ApiError> {
        call(request.body(Bytes::from_static(body.as_bytes())).unwrap())
    }

    #[test]
    fn a_request_keeps_its_method_its_path_and_its_types() {
        let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=me";
        let patch = Request::patch(path)
            .header(CONTENT_TYPE, format!("{APPLY}; charset=utf-8"))
            .header(ACCEPT, "application/json;as=Table");
        let call = asked(patch, "{}").unwrap();
        assert_eq!((call.method, &*call.path), (Method::PATCH, path));
        assert_eq!(call.body, Some((APPLY, Bytes::from_static(b"{}"))));
        assert_eq!(call.header.unwrap().1, "application/json;as=Table");
    }

    #[test]
    fn what_the_connection_cannot_carry_is_refused() {
        let upgrade = Request::get("/api/v1/namespaces/a/pods/b/exec").header(UPGRADE, "websocket");
        let protobuf =
            Request::post("/api").header(CONTENT_TYPE, "application/vnd.kubernetes.protobuf");
        for refused in [asked(upgrade, ""), asked(protobuf, "x")] {
            assert_eq!(refused.unwrap_err().code, ApiCode::Invalid);
        }
    }

    #[test]
    fn watches_and_followed_logs_are_streams() {
        assert!(is_stream("/api/v1/pods?&watch=true&timeoutSeconds=290"));
        assert!(is_stream("/api/v1/namespaces/a/pods/b/log?follow=1"));
        assert!(!is_stream("/api/v1/pods?watch=false"));
        assert!(!is_stream("/api/v1/pods"));
    }
}
