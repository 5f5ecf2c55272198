//! Makes connections: TCP, TLS, and the HTTP version that both sides speak. Entry point: [`Dialer::dial`].

use super::content::Content;
use super::pool::Use;
use super::sockets::Sockets;
use super::{OnHost, TransportError, TransportOptions, is_for_want_of_descriptors, root_cause};
use crate::http::config::Access;
use futures::FutureExt as _;
use http::Uri;
use hyper::client::conn::{http1, http2};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

/// Bytes that a server may send ahead of what was read: of one answer, and of all on a connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

type Io = MaybeHttpsStream<TokioIo<TcpStream>>;
type Connector = BoxCloneSyncService<Uri, Io, BoxError>;
type Driver = futures::future::BoxFuture<'static, Result<(), hyper::Error>>;

/// A connection that was just made. The driver must run for anything to happen, and holds the room for the socket.
pub(super) enum Dialed {
    Http1(http1::SendRequest<Content>, Driver),
    Http2(http2::SendRequest<Content>, Streams, Driver),
}

impl Dialed {
    fn holding(self, room: OwnedSemaphorePermit) -> Self {
        let hold = |driver: Driver| -> Driver {
            Box::pin(async move {
                let _room = room;
                driver.await
            })
        };
        match self {
            Self::Http1(send, driver) => Self::Http1(send, hold(driver)),
            Self::Http2(send, streams, driver) => Self::Http2(send, streams, hold(driver)),
        }
    }
}

/// How many streams the peer of an HTTP/2 connection allows at once, as it last said.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<AtomicUsize>);

impl Streams {
    pub(super) fn allowed(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes connections to one server.
pub(super) struct Dialer {
    connector: Connector,
    /// Scheme and authority.
    target: Uri,
    server: String,
    host: Handle,
    timeout: Duration,
    ping_after: Duration,
    ping_grace: Duration,
    sockets: Sockets,
    /// Whether calls of the local cluster go this way.
    vital: Arc<AtomicBool>,
}

impl Dialer {
    /// # Errors
    /// What in the configuration cannot be used, for people.
    pub(super) fn new(
        access: &Access,
        tls: ClientConfig,
        host: &Handle,
        options: &TransportOptions,
        sockets: Sockets,
        vital: Arc<AtomicBool>,
    ) -> Result<Self, String> {
        // Not passed over in silence: what is meant to go through a proxy may not be meant to go any other way.
        if access.proxy_url.is_some() {
            return Err("proxy-url is not supported: give the server's own address".to_owned());
        }
        let connector = over_tls(access, tls, tcp(options))?;
        let url = &access.url;
        let authority = url.authority().map_or("", |a| a.as_str());
        let target = format!("{}://{authority}", url.scheme_str().unwrap_or("https"));
        Ok(Self {
            connector,
            target: target
                .parse()
                .map_err(|_| "the server's url is none".to_owned())?,
            server: url.to_string(),
            host: host.clone(),
            timeout: options.connect_timeout,
            ping_after: options.ping_after,
            ping_grace: options.ping_grace,
            sockets,
            vital,
        })
    }

    pub(super) fn target(&self) -> &Uri {
        &self.target
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Connects, within the connect timeout; waits as long for room for a socket, but for calls of the local cluster.
    ///
    /// # Errors
    /// [`TransportError::Unreachable`], [`TransportError::NoDescriptors`], [`TransportError::Timeout`] and [`TransportError::Crowded`].
    pub(super) async fn dial(&self, wanted: Use) -> Result<Dialed, TransportError> {
        let vital = wanted == Use::Call && self.vital.load(Ordering::Relaxed);
        let room = self.sockets.take(&self.server, vital).await?;
        match tokio::time::timeout(self.timeout, self.connect()).await {
            Ok(Ok(dialed)) => Ok(dialed.holding(room)),
            Ok(Err(error)) if is_for_want_of_descriptors(&*error) => {
                let server = self.server.clone();
                Err(TransportError::NoDescriptors { server })
            }
            Ok(Err(error)) => Err(TransportError::Unreachable {
                server: self.server.clone(),
                reason: root_cause(&*error),
            }),
            Err(_) => Err(TransportError::Timeout {
                server: self.server.clone(),
                after: self.timeout,
            }),
        }
    }

    async fn connect(&self) -> Result<Dialed, BoxError> {
        let io = self.connector.clone().oneshot(self.target.clone()).await?;
        if io.connected().is_negotiated_h2() {
            let mut builder = http2::Builder::new(OnHost(self.host.clone()));
            builder
                .timer(TokioTimer::new())
                .keep_alive_interval(self.ping_after)
                .keep_alive_timeout(self.ping_grace)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW);
            // Unknown until the peer has said: nothing is sent before, lest it be stuck behind a limit.
            builder.initial_max_send_streams(0);
            let (send, connection) = builder.handshake(io).await?;
            let streams = Streams::default();
            let mut driver = drive(connection, streams.clone());
            // hyper does not tell when it has heard.
            let mut look = Duration::from_millis(1);
            while streams.allowed() == 0 {
                if let Some(ended) = driver.as_mut().now_or_never() {
                    ended?;
                    return Err("the server closed the connection at once".into());
                }
                if streams.allowed() == 0 {
                    tokio::time::sleep(look).await;
                    look = (look * 2).min(Duration::from_millis(50));
                }
            }
            return Ok(Dialed::Http2(send, streams, driver));
        }
        let (send, driver) = http1::Builder::new().handshake(io).await?;
        Ok(Dialed::Http1(send, Box::pin(driver)))
    }
}

/// Runs a connection and notes what its peer says about streams, which is looked at whenever a request is sent.
fn drive(connection: http2::Connection<Io, Content, OnHost>, streams: Streams) -> Driver {
    let mut connection = Box::pin(connection);
    Box::pin(std::future::poll_fn(move |cx| {
        let polled = connection.as_mut().poll(cx);
        let allowed = connection.current_max_send_streams();
        streams.0.store(allowed, Ordering::Relaxed);
        polled
    }))
}

fn tcp(options: &TransportOptions) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(options.connect_timeout));
    tcp.set_keepalive(Some(Duration::from_secs(30)));
    tcp
}

fn over_tls(access: &Access, tls: ClientConfig, tcp: HttpConnector) -> Result<Connector, String> {
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = access.tls_server_name.clone() {
        let name =
            ServerName::try_from(name).map_err(|_| "tls-server-name is no name".to_owned())?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = https.enable_all_versions().wrap_connector(tcp);
    Ok(BoxCloneSyncService::new(https))
}
