//! Takes connections to the admin endpoints, also when the process has no descriptor left. Entry point: [`Listener`].
//!
//! An operator asks most when things are wrong. A few descriptors are kept in reserve: when none is left for a connection, one of
//! these is given up for it, and taken back once the connection has ended.

use crate::process::is_exhausted;
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// Descriptors in reserve.
const RESERVE: usize = 4;
/// Connections at once; further ones wait.
const CONNECTIONS: usize = 64;
/// Pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// The admin endpoints' listener.
pub(super) struct Listener {
    tcp: TcpListener,
    reserve: Arc<Reserve>,
    connections: Arc<Semaphore>,
}

impl Listener {
    pub(super) fn new(tcp: TcpListener) -> Self {
        let reserve = Arc::new(Reserve::default());
        reserve.refill();
        Self {
            tcp,
            reserve,
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
        }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // Never closed, so this waits or succeeds.
        let permit = self.connections.clone().acquire_owned().await.ok();
        loop {
            match self.tcp.accept().await {
                Ok((stream, peer)) => {
                    let connection = Connection {
                        stream: Some(stream),
                        reserve: self.reserve.clone(),
                        _permit: permit,
                    };
                    return (connection, peer);
                }
                Err(error) if is_exhausted(&error) && self.reserve.give_up_one() => {}
                Err(error) => {
                    tracing::debug!(%error, "a connection to the admin endpoints was not taken");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

/// Descriptors that are there to be given up.
#[derive(Default)]
struct Reserve {
    /// At most [`RESERVE`].
    held: Mutex<Vec<File>>,
}

impl Reserve {
    fn give_up_one(&self) -> bool {
        self.held.lock().pop().is_some()
    }

    fn refill(&self) {
        let mut held = self.held.lock();
        while held.len() < RESERVE {
            match File::open("/dev/null") {
                Ok(file) => held.push(file),
                Err(_) => return,
            }
        }
    }
}

/// A connection to the admin endpoints.
pub(super) struct Connection {
    /// `None` only while this is dropped.
    stream: Option<TcpStream>,
    reserve: Arc<Reserve>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // First the descriptor, so that it is there to be taken back.
        drop(self.stream.take());
        self.reserve.refill();
    }
}

impl Connection {
    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let stream = self.stream.as_mut().map(Pin::new);
        stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}
