//! Limits of every call. Entry point: [`TransportOptions`].

use super::stream::OpenStream;
use crate::http::proxy::ProxyFromEnvironment;
use crate::rate_limit::RateLimit;
use std::sync::Arc;
use std::time::Duration;

/// Limits of every call. Defaults are in [`TransportOptions::default`].
#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// Proxies for servers whose kubeconfig names none. Default: none.
    pub proxy: ProxyFromEnvironment,
    /// Opens streams in place of sockets, for clusters in memory. Default: none.
    pub streams: Option<Arc<dyn OpenStream>>,
    /// Time for a connection: DNS, TCP, the proxy and TLS. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time for a whole call that is not a watch. Default: 30 s.
    pub call_timeout: Duration,
    /// Largest answer that is read, in bytes. Default: 64 MiB.
    pub max_body: usize,
    /// Bytes of answers to clients' calls that are held at once, in all clusters together. A tenant may hold as much as it leaves free.
    /// A call waits for free bytes until its deadline. Lists that fill caches do not count. Default: 256 MiB.
    pub max_answers: usize,
    /// Largest line of a watch, in bytes. Default: 8 MiB.
    pub max_line: usize,
    /// Calls of controllers and other clients in flight per cluster, without watches. Tenants share them. The host's own calls have 16
    /// further slots. Default: 128.
    pub in_flight: usize,
    /// Open watches per cluster. Default: 512.
    pub watches: usize,
    /// Calls and watches that begin per second in one cluster. A call waits for its turn until its deadline. Default: no limit, as in
    /// controller-runtime.
    pub rate: Option<RateLimit>,
    /// Open connections to one server with one client certificate. Over HTTP/1.1 watches take at most four fifths. Default: 4,096.
    pub max_connections: usize,
    /// Open connections to all servers together. Over HTTP/1.1 watches take at most four fifths. If a call needs one more, the connection
    /// that is idle for longest is closed; if none is idle, the call waits for up to `connect_timeout`. An eighth of the connections, at most
    /// four, is reserved for calls of the local cluster. Default: no limit but the system's.
    pub max_sockets: Option<usize>,
    /// An HTTP/2 connection that received nothing for this long sends a PING. Default: 20 s.
    pub ping_after: Duration,
    /// A connection whose PING is not answered within this time is closed. Default: 15 s.
    pub ping_grace: Duration,
    /// Time for a credential plugin. Default: 30 s.
    pub plugin_timeout: Duration,
    /// A longer Retry-After is shortened to this. Default: 60 s.
    pub max_retry_after: Duration,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            proxy: ProxyFromEnvironment::default(),
            streams: None,
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
