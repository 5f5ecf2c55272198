//! Counts open connections and all connections made. Entry point: [`ConnectionCounter`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Connections of one version of HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ConnectionCount {
    /// Open connections.
    pub open: usize,
    /// Made since the first cluster that shares them was engaged.
    pub made: u64,
}

/// The connections that a cluster uses. Clusters of the same server, TLS and credentials share theirs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ConnectionCounts {
    /// Over HTTP/1.1.
    pub http1: ConnectionCount,
    /// Over HTTP/2.
    pub http2: ConnectionCount,
    /// How many engaged clusters share them. To add up the connections of a fleet, divide by this.
    pub shared_by: usize,
}

/// Counts connections.
#[derive(Debug, Default)]
pub(super) struct ConnectionCounter {
    http1: Count,
    http2: Count,
}

#[derive(Debug, Default)]
struct Count {
    open: AtomicUsize,
    made: AtomicU64,
}

impl Count {
    fn count(&self) -> ConnectionCount {
        ConnectionCount {
            open: self.open.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
        }
    }
}

impl ConnectionCounter {
    fn of(&self, protocol: Protocol) -> &Count {
        match protocol {
            Protocol::Http1 => &self.http1,
            Protocol::Http2 => &self.http2,
        }
    }

    pub(super) fn counts(&self, shared_by: usize) -> ConnectionCounts {
        ConnectionCounts {
            http1: self.http1.count(),
            http2: self.http2.count(),
            shared_by,
        }
    }
}

/// Counts one connection as open until it is dropped.
pub(super) struct Open {
    counter: Arc<ConnectionCounter>,
    protocol: Protocol,
}

impl Open {
    pub(super) fn new(counter: &Arc<ConnectionCounter>, protocol: Protocol) -> Self {
        let count = counter.of(protocol);
        count.open.fetch_add(1, Ordering::Relaxed);
        count.made.fetch_add(1, Ordering::Relaxed);
        Self {
            counter: counter.clone(),
            protocol,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let count = self.counter.of(self.protocol);
        count.open.fetch_sub(1, Ordering::Relaxed);
    }
}
