//! A connection, or a stream of one, that is checked out for one request and its answer. Entry point: [`Checkout::send`].

use super::{Busy, Pool, Purpose, Sender};
use crate::http::transport::proxy::Forwarding;
use crate::http::transport::request_body::RequestBody;
use crate::http::transport::{TransportError, root_cause};
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Why no connection was checked out.
pub(in crate::http::transport) enum CheckoutError {
    /// The pool was closed because the client certificate was replaced. Use the new pool.
    Closed,
    Transport(TransportError),
}

impl From<TransportError> for CheckoutError {
    fn from(error: TransportError) -> Self {
        Self::Transport(error)
    }
}

/// A request that can be sent more than once.
#[derive(Clone)]
pub(in crate::http::transport) struct Outgoing {
    pub(in crate::http::transport) method: Method,
    pub(in crate::http::transport) path: String,
    pub(in crate::http::transport) headers: HeaderMap,
    pub(in crate::http::transport) body: RequestBody,
}

/// Why a request has no answer.
pub(in crate::http::transport) struct SendError {
    pub(in crate::http::transport) reason: String,
    /// Whether the server certainly has not seen the request.
    pub(in crate::http::transport) unsent: bool,
}

/// A connection for one request and its answer. Dropping it frees the connection.
pub(in crate::http::transport) struct Checkout {
    pool: Arc<Pool>,
    /// `None` only while this is dropped.
    sender: Option<Sender>,
    purpose: Purpose,
    reused: bool,
    /// The permit of a watch over HTTP/1.1.
    _watch_socket: Option<OwnedSemaphorePermit>,
}

impl Checkout {
    pub(super) fn new(pool: &Arc<Pool>, sender: Sender, purpose: Purpose, reused: bool) -> Self {
        let pool = pool.clone();
        Self {
            pool,
            sender: Some(sender),
            purpose,
            reused,
            _watch_socket: None,
        }
    }

    /// Holds the permit of a watch over HTTP/1.1.
    pub(super) fn holding(mut self, watch_socket: Option<OwnedSemaphorePermit>) -> Self {
        self._watch_socket = watch_socket;
        self
    }

    /// Whether the connection was in the pool: the server may have closed it without our knowledge.
    pub(in crate::http::transport) fn is_reused(&self) -> bool {
        self.reused
    }

    /// The error for an answer that comes from a proxy in place of the server.
    pub(in crate::http::transport) fn refusal_of_proxy(
        &self,
        status: StatusCode,
    ) -> Option<TransportError> {
        self.pool.dialer.refusal_of_proxy(status)
    }

    pub(in crate::http::transport) async fn send(
        &mut self,
        outgoing: Outgoing,
    ) -> Result<Response<Incoming>, SendError> {
        let unusable = |reason: String| SendError {
            reason,
            unsent: true,
        };
        let target = self.pool.dialer.target();
        let (unsent, error) = match &mut self.sender {
            None => {
                return Err(unusable(
                    "the connection is not checked out any more".to_owned(),
                ));
            }
            Some(Sender::Http1(send)) => {
                let request = match self.pool.dialer.forwarding() {
                    Some(forwarding) => forwarded(outgoing, target, forwarding),
                    None => over_http1(outgoing, target),
                };
                let request = request.map_err(|e| unusable(e.to_string()))?;
                match send.try_send_request(request).await {
                    Ok(response) => return Ok(response),
                    Err(error) => (error.message().is_some(), error.into_error()),
                }
            }
            Some(Sender::Http2(connection)) => {
                let request = over_http2(outgoing, target).map_err(|e| unusable(e.to_string()))?;
                match connection.send.clone().try_send_request(request).await {
                    Ok(response) => return Ok(response),
                    Err(error) => (error.message().is_some(), error.into_error()),
                }
            }
        };
        Err(SendError {
            reason: root_cause(&error),
            unsent,
        })
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        match self.sender.take() {
            None => {}
            Some(Sender::Http2(connection)) => {
                self.pool.release(&connection);
                self.pool.freed.notify_waiters();
            }
            Some(Sender::Http1(mut send)) => {
                let busy = Busy::new(&self.pool, self.purpose);
                if self.purpose == Purpose::Watch || send.is_closed() {
                    return;
                }
                if send.is_ready() {
                    self.pool.put_back(send);
                    return;
                }
                // Becomes ready once the answer was read to its end, else fails.
                let pool = self.pool.clone();
                self.pool.host.spawn(async move {
                    if send.ready().await.is_ok() {
                        pool.put_back(send);
                    }
                    drop(busy);
                });
            }
        }
    }
}

fn over_http1(outgoing: Outgoing, target: &Uri) -> Result<Request<RequestBody>, http::Error> {
    let mut request = Request::builder()
        .method(outgoing.method)
        .uri(outgoing.path)
        .body(outgoing.body)?;
    *request.headers_mut() = outgoing.headers;
    let authority = target.authority().map_or("", |a| a.as_str());
    request
        .headers_mut()
        .insert(HOST, HeaderValue::try_from(authority)?);
    Ok(request)
}

/// A request for a proxy that forwards it: with the server's whole URL, and the proxy's credentials.
fn forwarded(
    outgoing: Outgoing,
    target: &Uri,
    forwarding: &Forwarding,
) -> Result<Request<RequestBody>, http::Error> {
    let mut request = over_http1(outgoing, target)?;
    let url = format!(
        "{}{}",
        target.to_string().trim_end_matches('/'),
        request.uri()
    );
    *request.uri_mut() = url.parse()?;
    if let Some(value) = &forwarding.authorization {
        request
            .headers_mut()
            .insert(PROXY_AUTHORIZATION, value.clone());
    }
    Ok(request)
}

fn over_http2(outgoing: Outgoing, target: &Uri) -> Result<Request<RequestBody>, http::Error> {
    let target = target.to_string();
    let mut request = Request::builder()
        .method(outgoing.method)
        .uri(format!("{}{}", target.trim_end_matches('/'), outgoing.path))
        .body(outgoing.body)?;
    *request.headers_mut() = outgoing.headers;
    Ok(request)
}
