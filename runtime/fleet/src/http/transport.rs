//! HTTP to API servers: limits, deadlines, credentials and shared connections. Entry point: [`Connection::send`].
//!
//! HTTP/2 is used where the server negotiates it. Clusters with the same server, TLS and credentials share connections.
//!
//! A call passes these layers:
//!
//! 1. [`connection`], one per cluster: the deadline, a slot (`slots`), the rate limit, metrics.
//! 2. [`client`], one per server and user: adds the credentials and renews them (`credentials`, `exec_plugin`, `tls`).
//! 3. [`pool`], one per server and client certificate: checks out a connection for the call.
//! 4. [`dial`]: makes a connection if the pool needs one, within the process's limit on sockets (`sockets`), over a stream of [`connector`],
//!    which checks addresses and goes through proxies (`proxy`). `stream` opens it.
//!
//! The answer comes back through `answer_body`, which keeps the connection checked out until the body is read, and `read_answer`, which
//! charges the bytes to `answer_memory`. [`registry`] finds the clients that clusters share. [`outside`] sends requests to servers that are no
//! API servers by layers 2 to 4.
//!
//! Invariants:
//! * Sockets are driven by the host's runtime only, so a busy guest thread never delays one.
//! * Every wait ends by the caller's deadline.
//! * A write is sent a second time only if the server certainly has not seen it.
//! * No error and no log line holds a header, a body or a token.
//! * No redirect is followed: an answer 3xx is an error.
//!
//! Not guaranteed: a write that timed out or whose connection broke may have happened.

mod answer_body;
mod answer_memory;
mod client;
mod connection;
mod connection_counts;
mod connector;
mod credentials;
mod dial;
mod error;
mod exec_plugin;
mod options;
mod outside;
mod pool;
mod proxy;
mod read_answer;
mod registry;
mod request_body;
mod retry_after;
mod single_flight;
mod slots;
mod sockets;
mod stream;
mod tls;

pub use answer_memory::{AnswerAccount, AnswerUse};
pub use connection_counts::{ConnectionCount, ConnectionCounts};
pub use connector::ProxiedConnector;
pub use error::TransportError;
pub use options::TransportOptions;
pub use sockets::SocketUse;
pub use stream::{OpenStream, Stream};

pub(crate) use answer_body::AnswerBody;
pub(crate) use answer_memory::{ADVANCE, Charge, Payer};
pub(crate) use connection::Connection;
pub(crate) use outside::{OutsideAnswer, OutsideRequest, OutsideServer};
pub(crate) use registry::Transports;

use crate::grant::Identity;
use crate::name::TenantName;
use crate::trace;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use std::sync::Arc;
use std::time::Duration;

/// The owner of a call. Its slots in a cluster are limited; the host's own calls have no owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    /// Code outside controllers.
    Program,
    Tenant(TenantName),
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query below the server's URL, already encoded.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    /// Content type and body.
    pub(crate) body: Option<(&'static str, Bytes)>,
    /// A header beside the usual ones.
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
    /// The user that the call impersonates; `None`: none beside the credentials' own user.
    pub(crate) identity: Option<Identity>,
    /// `None`: the host's own call, which takes a slot of the host.
    pub(crate) owner: Option<Owner>,
    /// Whether it takes no slot and no turn of the rate limit, such as the renewal of a Lease.
    pub(crate) is_apart: bool,
    /// `None`: the host's own call, whose answer is not charged.
    pub(crate) charge: Option<Charge>,
    /// The logical cluster that a call to a wildcard endpoint is for; `None`: all of them.
    pub(crate) workspace: Option<Arc<str>>,
    /// The trace that the call belongs to, for the server.
    pub(crate) traceparent: Option<HeaderValue>,
}

impl Call {
    /// A read of the host's own.
    pub(crate) fn get(path: String, accept: &'static str) -> Self {
        Self {
            method: Method::GET,
            path,
            accept,
            body: None,
            header: None,
            identity: None,
            owner: None,
            is_apart: false,
            charge: None,
            workspace: None,
            traceparent: None,
        }
    }

    /// Makes the call to one logical cluster of a wildcard endpoint.
    pub(crate) fn in_workspace(self, workspace: Option<&Arc<str>>) -> Self {
        Self {
            workspace: workspace.cloned(),
            ..self
        }
    }

    /// A write of the host's own.
    pub(crate) fn write(
        method: Method,
        path: String,
        content_type: &'static str,
        body: Bytes,
    ) -> Self {
        Self {
            method,
            body: Some((content_type, body)),
            ..Self::get(path, JSON)
        }
    }

    /// Charges the answer to `charge`.
    pub(crate) fn charged_to(self, charge: Charge) -> Self {
        Self {
            charge: Some(charge),
            ..self
        }
    }

    /// Makes the call for an owner, impersonating an identity if there is one. It belongs to the span that is current now, which notes its path.
    pub(crate) fn made_for(self, owner: Owner, identity: Option<&Identity>) -> Self {
        trace::asked(&self.path);
        Self {
            identity: identity.cloned(),
            owner: Some(owner),
            traceparent: trace::parent(),
            ..self
        }
    }
}

/// Plain JSON.
pub(crate) const JSON: &str = "application/json";

/// The answer to a call, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
    /// The charge for the body.
    pub(crate) charge: Option<Charge>,
}

/// The innermost cause: "Connection refused", not "client error (Connect)".
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
