//! Calls to API servers: the only room that opens a socket. Entry point: [`transport::Connection::send`].
//!
//! * [`config`]: the address, TLS and credentials of a server, read from a kubeconfig.
//! * [`proxy`]: the proxies of kubeconfigs and of the environment; [`network`]: addresses and networks.
//! * [`transport`]: sends a call within its limits and deadline, over connections that clusters share.
//! * [`status`]: turns an error status into an [`ApiError`](crate::ApiError).
//! * [`lines`]: splits the body of a watch into lines of bounded length.
//! * [`service`]: takes the requests of other client libraries.
//! * [`fence`]: refuses writes once this process may have lost its lease.
//!
//! The invariants and limits stand at [`transport`] for calls, and at [`fence`] for writes of a leader.

pub(crate) mod network;
pub(crate) mod proxy;
pub(crate) mod config;
pub(crate) mod fence;
pub(crate) mod lines;
pub(crate) mod service;
pub(crate) mod status;
pub(crate) mod transport;
