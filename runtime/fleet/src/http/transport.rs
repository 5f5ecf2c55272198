//! HTTP to API servers: shared connections, deadlines, caps. Entry point: [`Connection::send`].
//!
//! Connections of our own: HTTP/2 where the server negotiates it, shared by clusters of the same
//! server, TLS and credentials, dead peers found by PING. From the outside in: a [`Connection`] is one cluster's, with its limits; an
//! `Http` is one identity's on one server, and renews its credentials; a `Pool` holds the connections that were made with one
//! client certificate. Every call runs on the host's runtime, so that a socket never belongs to the guests' threads.

mod answers;
mod body;
mod connection;
mod content;
mod credentials;
mod dial;
mod exec;
mod http;
mod pool;
mod read;
mod registry;
mod retry_after;
mod single;
mod slots;
mod sockets;
mod tally;
mod throttle;
mod tls;

pub use answers::{AnswerAccount, AnswerUse};
pub use sockets::SocketUse;
pub use tally::{ConnectionCount, ConnectionCounts};
pub use throttle::{Bucket, RateLimit};

pub(crate) use answers::{ADVANCE, Charge, Payer};
pub(crate) use body::Body;
pub(crate) use connection::Connection;
pub(crate) use registry::Transports;

use crate::file::is_exhausted;
use crate::grant::Identity;
use crate::name::TenantName;
use ::http::Method;
use bytes::Bytes;
use std::time::Duration;
use tokio::runtime::Handle;

/// Bounds on every call. Defaults are in [`TransportOptions::default`].
#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// Time for TCP and TLS. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time for a whole call that is not a watch. Default: 30 s.
    pub call_timeout: Duration,
    /// Largest answer that is read, in bytes. Default: 64 MiB.
    pub max_body: usize,
    /// Bytes of answers to clients' calls that are held at once, of all clusters together. A tenant may hold as much as it leaves free;
    /// a call waits for room within its time. Lists that fill caches do not count. Default: 256 MiB.
    pub max_answers: usize,
    /// Largest line of a watch, in bytes. Default: 8 MiB.
    pub max_line: usize,
    /// Calls of controllers and other clients under way at once per cluster, watches apart; tenants share them. What the host asks for
    /// itself has a few slots of its own. Default: 128.
    pub in_flight: usize,
    /// Watches under way at once per cluster. Default: 512.
    pub watches: usize,
    /// Calls and watches that a cluster may begin per second; a wait for it counts against the call's deadline. Default: no limit,
    /// as controller-runtime has it.
    pub rate: Option<RateLimit>,
    /// Connections at once to one server as one identity; over HTTP/1.1 watches take at most four fifths. Default: 4,096.
    pub max_connections: usize,
    /// Connections at once to all servers together; over HTTP/1.1 watches take at most four fifths. A call that needs one more has an
    /// unused one closed, or waits as long as a connection may take. An eighth of them, at most four, is kept for calls of the local
    /// cluster. Default: no limit but the system's.
    pub max_sockets: Option<usize>,
    /// How long a peer may be silent over HTTP/2 before it is asked for a sign of life. Default: 20 s.
    pub ping_after: Duration,
    /// How long it may take to give one before its connection counts as dead. Default: 15 s.
    pub ping_grace: Duration,
    /// Time for a credential plugin. Default: 30 s.
    pub plugin_timeout: Duration,
    /// A Retry-After above this is cut to it. Default: 60 s.
    pub max_retry_after: Duration,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(30),
            max_body: 64 << 20,
            max_answers: 256 << 20,
            max_line: 8 << 20,
            in_flight: 128,
            watches: 512,
            rate: None,
            max_connections: 4096,
            max_sockets: None,
            ping_after: Duration::from_secs(20),
            ping_grace: Duration::from_secs(15),
            plugin_timeout: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(60),
        }
    }
}

/// Why there is no answer. Messages name the server, never a header or a body.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransportError {
    /// The connection could not be made or broke.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// The server's URL.
        server: String,
        /// What happened.
        reason: String,
    },
    /// All connections that the process may have are in use.
    #[error(
        "cannot connect to {server}: all {limit} connections that this process may have for this are in use: raise its limit of open files (ulimit -n, LimitNOFILE) or have fewer clusters"
    )]
    Crowded {
        /// The server's URL.
        server: String,
        /// How many it may have.
        limit: usize,
    },
    /// The process cannot open a file or a socket.
    #[error(
        "cannot connect to {server}: this process is out of file descriptors: raise its limit of open files (ulimit -n, LimitNOFILE) or have fewer clusters"
    )]
    NoDescriptors {
        /// The server's URL.
        server: String,
    },
    /// No answer in time.
    #[error("no answer from {server} within {after:?}")]
    Timeout {
        /// The server's URL.
        server: String,
        /// The deadline.
        after: Duration,
    },
    /// The answer is larger than it may be.
    #[error("answer of {server} is larger than {limit} bytes: use a page limit or a selector")]
    TooLarge {
        /// The server's URL.
        server: String,
        /// The cap.
        limit: usize,
    },
    /// Who pays for the answer does not admit one so large.
    #[error("an answer of {server} is not read to its end: {reason}")]
    NotAdmitted {
        /// The server's URL.
        server: String,
        /// Why not.
        reason: String,
    },
    /// There is no room for the answer beside others that are held.
    #[error("an answer of {server} finds no room: {bytes} bytes and more are needed")]
    NoRoom {
        /// The server's URL.
        server: String,
        /// How many are needed at least.
        bytes: usize,
    },
    /// The answer is compressed, and could unfold to any size.
    #[error(
        "answer of {server} is compressed, which was not asked for: have it, or a proxy before it, honour Accept-Encoding"
    )]
    Encoded {
        /// The server's URL.
        server: String,
    },
    /// The cluster's own rate of calls leaves no room in time.
    #[error("no call to {server} may begin within {after:?}: its rate limit is used up")]
    RateLimited {
        /// The server's URL.
        server: String,
        /// The deadline.
        after: Duration,
    },
    /// Other calls of the same owner, or of all owners, hold the slots of the cluster.
    #[error(
        "no call to {server} could begin within {after:?}: calls under way hold the slots for requests, of which a tenant has a share: find out why {server} is slow, make fewer calls at once, or raise the cluster's limit on requests in flight"
    )]
    Busy {
        /// The server's URL.
        server: String,
        /// The deadline.
        after: Duration,
    },
    /// The credentials or TLS files cannot be used.
    #[error("credentials for {server} cannot be used: {reason}")]
    Credentials {
        /// The server's URL.
        server: String,
        /// What is wrong.
        reason: String,
    },
}

/// Whose slots a call takes that is not the host's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// The user to impersonate; `None`: the owner of the credentials.
    pub(crate) identity: Option<Identity>,
    /// Whose slot it takes; none: one of the host's own.
    pub(crate) owner: Option<Owner>,
    /// What its answer is charged to; none: it is the host's own.
    pub(crate) charge: Option<Charge>,
}

impl Call {
    /// A read that the host makes for itself.
    pub(crate) fn get(path: String, accept: &'static str) -> Self {
        Self {
            method: Method::GET,
            path,
            accept,
            body: None,
            identity: None,
            owner: None,
            charge: None,
        }
    }

    /// A write that the host makes for itself.
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

    /// The same call, whose answer is charged.
    pub(crate) fn charged_to(self, charge: Charge) -> Self {
        Self {
            charge: Some(charge),
            ..self
        }
    }

    /// The same call, made for an owner and in the name of an identity.
    pub(crate) fn made_for(self, owner: Owner, identity: Option<&Identity>) -> Self {
        Self {
            identity: identity.cloned(),
            owner: Some(owner),
            ..self
        }
    }
}

/// Plain JSON.
pub(crate) const JSON: &str = "application/json";

/// What came back. A status that is an error is an answer too.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
    /// What the body is charged to. Dropped after it.
    pub(crate) charge: Option<Charge>,
}

/// Runs hyper's connection tasks on the host's runtime, whichever thread asks.
#[derive(Clone)]
struct OnHost(Handle);

impl<F> hyper::rt::Executor<F> for OnHost
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// Whether an error is a lack of descriptors.
fn is_for_want_of_descriptors(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(is_exhausted)
}

/// The innermost cause: "Connection refused", not "client error (Connect)".
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
