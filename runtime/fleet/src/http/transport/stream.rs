//! The stream of bytes to a server or to its proxy. Entry point: [`Way`], which opens one.
//!
//! It is a socket, unless the program gives streams of its own: clusters in the memory of the same process need no sockets, and tests of them
//! no real time.

use super::connector::CheckedResolver;
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::{BoxError, Service};

/// A stream of bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens streams in place of sockets.
pub trait OpenStream: fmt::Debug + Send + Sync {
    /// Opens a stream to the host and port of a URL. It is awaited for as long as a connection of TCP may take, and dropped then.
    fn open(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}

/// How streams are opened.
#[derive(Clone)]
pub(super) enum Way {
    Tcp(HttpConnector<CheckedResolver>),
    Given(Arc<dyn OpenStream>),
}

impl Way {
    /// `timeout`: for a connection of TCP.
    pub(super) fn new(
        given: Option<Arc<dyn OpenStream>>,
        resolver: CheckedResolver,
        timeout: Duration,
    ) -> Self {
        if let Some(given) = given {
            return Self::Given(given);
        }
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        Self::Tcp(tcp)
    }
}

impl Service<Uri> for Way {
    type Response = TokioIo<Opened>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_ready(cx).map_err(BoxError::from),
            Self::Given(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        match self {
            Self::Tcp(tcp) => {
                let connecting = tcp.call(server);
                Box::pin(async move {
                    let tcp = connecting.await?;
                    Ok(TokioIo::new(Opened::Tcp(tcp.into_inner())))
                })
            }
            Self::Given(streams) => {
                let opening = streams.open(server);
                Box::pin(async move { Ok(TokioIo::new(Opened::Given(opening.await?))) })
            }
        }
    }
}

/// A stream that is open.
pub enum Opened {
    /// A socket.
    Tcp(TcpStream),
    /// A stream of the program.
    Given(Box<dyn Stream>),
}

impl Opened {
    /// The address at its other end, if it is a socket.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(tcp) => tcp.peer_addr().ok().map(|address| address.ip()),
            Self::Given(_) => None,
        }
    }
}

impl Connection for Opened {
    fn connected(&self) -> Connected {
        match self {
            Self::Tcp(tcp) => tcp.connected(),
            Self::Given(_) => Connected::new(),
        }
    }
}

impl AsyncRead for Opened {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, into),
            Self::Given(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Opened {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Given(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, parts),
            Self::Given(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_write_vectored(),
            Self::Given(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Given(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Given(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
