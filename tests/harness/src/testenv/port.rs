//! Ports for servers. Entry point: [`free`].

use std::net::TcpListener;

use anyhow::{Result, bail};

/// Below the range of ports for outgoing connections, so that the port of a stopped server is free when it restarts.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port on which nothing listens now. Another process may still take it first: callers must be able to try another port.
pub fn free() -> Result<u16> {
    for _ in 0..200 {
        let port = fastrand::u16(RANGE);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!(
        "found no free port between {} and {}",
        RANGE.start,
        RANGE.end
    )
}
