//! A place on a connection for one request and its answer. Entry point: [`Lease::send`].

use super::{Busy, Pool, Sender, Use};
use crate::http::transport::content::Content;
use crate::http::transport::{TransportError, root_cause};
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use hyper::body::Incoming;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Why there is no place for a request.
pub(in crate::http::transport) enum LeaseError {
    /// The pool was given up: newer credentials have one of their own.
    GivenUp,
    Transport(TransportError),
}

impl From<TransportError> for LeaseError {
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
    pub(in crate::http::transport) body: Content,
}

/// Why there is no answer.
pub(in crate::http::transport) struct Broken {
    pub(in crate::http::transport) reason: String,
    /// Whether the server certainly has not seen the request.
    pub(in crate::http::transport) unsent: bool,
}

/// A place on a connection for one request and its answer. It is free again when this is dropped.
pub(in crate::http::transport) struct Lease {
    pool: Arc<Pool>,
    /// `None` once the place is free again.
    sender: Option<Sender>,
    wanted: Use,
    reused: bool,
    /// The share of the process's sockets that a watch on a connection of its own takes.
    _room: Option<OwnedSemaphorePermit>,
}

impl Lease {
    pub(super) fn new(pool: &Arc<Pool>, sender: Sender, wanted: Use, reused: bool) -> Self {
        let pool = pool.clone();
        Self {
            pool,
            sender: Some(sender),
            wanted,
            reused,
            _room: None,
        }
    }

    /// Holds room for a watch as long as it lasts.
    pub(super) fn with(mut self, room: Option<OwnedSemaphorePermit>) -> Self {
        self._room = room;
        self
    }

    /// Whether others have used the connection before: it may have been closed without our knowing.
    pub(in crate::http::transport) fn is_reused(&self) -> bool {
        self.reused
    }

    pub(in crate::http::transport) async fn send(
        &mut self,
        outgoing: Outgoing,
    ) -> Result<Response<Incoming>, Broken> {
        let unusable = |reason: String| Broken {
            reason,
            unsent: true,
        };
        let target = self.pool.dialer.target();
        let (unsent, error) = match &mut self.sender {
            None => return Err(unusable("the connection is not leased any more".to_owned())),
            Some(Sender::Http1(send)) => {
                let request = over_http1(outgoing, target).map_err(|e| unusable(e.to_string()))?;
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
        Err(Broken {
            reason: root_cause(&error),
            unsent,
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.sender.take() {
            None => {}
            Some(Sender::Http2(connection)) => {
                self.pool.release(&connection);
                self.pool.freed.notify_waiters();
            }
            Some(Sender::Http1(mut send)) => {
                let busy = Busy::new(&self.pool, self.wanted);
                if self.wanted == Use::Watch || send.is_closed() {
                    return;
                }
                if send.is_ready() {
                    self.pool.put_back(send);
                    return;
                }
                // Ready a moment after its answer was read to the end; never, if it was not.
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

fn over_http1(outgoing: Outgoing, target: &Uri) -> Result<Request<Content>, http::Error> {
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

fn over_http2(outgoing: Outgoing, target: &Uri) -> Result<Request<Content>, http::Error> {
    let target = target.to_string();
    let mut request = Request::builder()
        .method(outgoing.method)
        .uri(format!("{}{}", target.trim_end_matches('/'), outgoing.path))
        .body(outgoing.body)?;
    *request.headers_mut() = outgoing.headers;
    Ok(request)
}
