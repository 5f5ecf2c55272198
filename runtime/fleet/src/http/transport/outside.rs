//! Requests to a server that is no API server. Entry point: [`OutsideServer::send`].
//!
//! They pass the pool, the limit on sockets and the check of addresses that calls to API servers pass. The caller judges every answer, and
//! bounds the time.

use super::answer_memory::Charge;
use super::client::AuthenticatedClient;
use super::pool::Outgoing;
use super::read_answer::{Unread, read};
use super::request_body::RequestBody;
use super::{TransportError, TransportOptions, root_cause};
use crate::http::fence::Pass;
use bytes::Bytes;
use http::{HeaderMap, Method};
use std::sync::Arc;
use tokio::runtime::Handle;

/// One server, as a rule allows it. Cheap to clone; its connections end with the last clone.
#[derive(Clone)]
pub(crate) struct OutsideServer {
    client: Arc<AuthenticatedClient>,
    host: Handle,
    max_body: usize,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct OutsideRequest {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct OutsideAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The charge for the body.
    pub(crate) charge: Charge,
}

impl OutsideServer {
    pub(super) fn new(
        client: Arc<AuthenticatedClient>,
        host: &Handle,
        options: &TransportOptions,
    ) -> Self {
        Self {
            client,
            host: host.clone(),
            max_body: options.max_body,
        }
    }

    /// The runtime that [`Self::send`] must run on.
    pub(crate) fn host(&self) -> &Handle {
        &self.host
    }

    /// Sends a request and reads its whole answer. The body is sent only while the pass, if there is one, is valid.
    ///
    /// # Errors
    /// When there is no answer, or one that is too large.
    pub(crate) async fn send(
        &self,
        request: OutsideRequest,
        mut charge: Charge,
        pass: Option<Pass>,
    ) -> Result<OutsideAnswer, TransportError> {
        let outgoing = Outgoing {
            method: request.method,
            path: request.path,
            headers: request.headers,
            body: RequestBody::new(request.body, pass),
        };
        let (head, body) = self.client.ask(outgoing).await?.into_parts();
        let read = read(body, self.max_body, Some(&mut charge), true).await;
        let body = read.map_err(|unread| self.unread(unread))?;
        Ok(OutsideAnswer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            charge,
        })
    }

    fn unread(&self, unread: Unread) -> TransportError {
        let server = self.client.server();
        match unread {
            Unread::Broken(error) => TransportError::Unreachable {
                server,
                reason: root_cause(&error),
            },
            Unread::TooLarge => TransportError::TooLarge {
                server,
                limit: self.max_body,
            },
            Unread::NotAdmitted(reason) => TransportError::NotAdmitted { server, reason },
            Unread::NoRoom(bytes) => TransportError::NoRoom { server, bytes },
        }
    }
}
