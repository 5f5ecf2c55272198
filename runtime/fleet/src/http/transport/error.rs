//! Why a call has no answer. Entry point: [`TransportError`].

use crate::http::config::ServerNotAllowed;
use std::time::Duration;

/// Why a call has no answer. Messages name the server, never a header or a body.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransportError {
    /// No connection could be made, or it broke.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// The server's URL.
        server: String,
        /// What failed.
        reason: String,
    },
    /// The server's proxy gives no connection to it.
    #[error("cannot reach {server} through the proxy {proxy}: {reason}")]
    Proxy {
        /// The server's URL.
        server: String,
        /// The proxy's URL, without its credentials.
        proxy: String,
        /// What failed, with "it" for the proxy.
        reason: String,
    },
    /// The kubeconfig may not name this server, its proxy, or what it resolves to.
    #[error("cannot connect to {server}: {refusal}")]
    NotAllowed {
        /// The server's URL.
        server: String,
        /// The host, and the remedy.
        refusal: ServerNotAllowed,
    },
    /// The server wants to know whose the request is, and the kubeconfig does not say.
    #[error(
        "{server} answers 401 (Unauthorized) to requests without credentials: give the kubeconfig's context a user that has some"
    )]
    Anonymous {
        /// The server's URL.
        server: String,
    },
    /// The server is only read, and this call might change something.
    #[error("{server} is only read here: nothing is written")]
    OnlyRead {
        /// The server's URL.
        server: String,
    },
    /// All connections that the process may have are in use.
    #[error(
        "cannot connect to {server}: all {limit} connections that this process may have for this are in use: raise its limit of open files (ulimit -n, LimitNOFILE) or have fewer clusters"
    )]
    Crowded {
        /// The server's URL.
        server: String,
        /// How many sockets the process may have for this.
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
        /// The limit, in bytes.
        limit: usize,
    },
    /// The account that the answer is charged to admits none of this size.
    #[error("an answer of {server} is not read to its end: {reason}")]
    NotAdmitted {
        /// The server's URL.
        server: String,
        /// Why not.
        reason: String,
    },
    /// The answers that are held leave too little memory for this one.
    #[error("an answer of {server} finds no room: {bytes} bytes and more are needed")]
    NoRoom {
        /// The server's URL.
        server: String,
        /// How many bytes it needs at least.
        bytes: usize,
    },
    /// The answer is compressed and could decompress to any size.
    #[error(
        "answer of {server} is compressed, which was not requested: make the server, or the proxy before it, honour Accept-Encoding"
    )]
    Encoded {
        /// The server's URL.
        server: String,
    },
    /// The cluster's rate limit allows no call before the deadline.
    #[error("no call to {server} may begin within {after:?}: its rate limit is used up")]
    RateLimited {
        /// The server's URL.
        server: String,
        /// The deadline.
        after: Duration,
    },
    /// Calls of the same owner, or of all owners, hold the cluster's slots until the deadline.
    #[error(
        "no call to {server} could begin within {after:?}: calls in flight hold the cluster's slots, which tenants share: find out why {server} is slow, make fewer calls at once, or raise the cluster's limit on requests in flight"
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
        /// Why not.
        reason: String,
    },
}

impl TransportError {
    /// The same of another server: clusters that share their connections have URLs of their own.
    pub(super) fn of_server(mut self, url: &str) -> Self {
        match &mut self {
            Self::Unreachable { server, .. }
            | Self::OnlyRead { server }
            | Self::Proxy { server, .. }
            | Self::NotAllowed { server, .. }
            | Self::Anonymous { server }
            | Self::Crowded { server, .. }
            | Self::NoDescriptors { server }
            | Self::Timeout { server, .. }
            | Self::TooLarge { server, .. }
            | Self::NotAdmitted { server, .. }
            | Self::NoRoom { server, .. }
            | Self::Encoded { server }
            | Self::RateLimited { server, .. }
            | Self::Busy { server, .. }
            | Self::Credentials { server, .. } => url.clone_into(server),
        }
        self
    }
}
