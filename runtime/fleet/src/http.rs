//! Calls to API servers: the only room that opens a socket. Entry point: [`transport::Connection::send`].
//!
//! * [`config`]: how to reach a server, and as whom.
//! * [`transport`]: shared connections, deadlines, limits.
//! * [`answer`]: a server's refusals as errors.
//! * [`lines`]: the lines of a stream, none longer than a limit.
//! * [`fence`]: refuses writes of a process that may no longer be the leader.

pub(crate) mod answer;
pub(crate) mod config;
pub(crate) mod fence;
pub(crate) mod lines;
pub(crate) mod transport;
