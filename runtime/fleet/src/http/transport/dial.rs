//! Makes connections: a stream (see [`connector`](super::connector)), TLS, and HTTP/2 if the server negotiates it, else HTTP/1.1. Entry point:
//! [`Dialer::dial`].
//!
//! A dial takes one permit of the process's [`Sockets`] first, and the connection holds it until its socket is closed. An HTTP/2 connection
//! is returned only after the server's SETTINGS, because hyper would otherwise queue requests beyond the server's limit on streams.

use super::connector::{Connector, ServerStream, system_resolver};
use super::credentials::{CredentialsError, Tls};
use super::pool::Purpose;
use super::proxy::{Forwarding, ProxyError, ServerProxy};
use super::request_body::RequestBody;
use super::sockets::Sockets;
use super::{TransportError, TransportOptions, root_cause};
use crate::file::is_exhausted;
use crate::http::config::{Access, NotedAddress, ServerAddresses, ServerNotAllowed};
use futures::FutureExt as _;
use http::{StatusCode, Uri};
use hyper::client::conn::{http1, http2};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::TokioTimer;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

/// Bytes that a server may send before we read them: of one answer, and of all answers on a connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

type Io = MaybeHttpsStream<ServerStream>;
type TlsConnector = BoxCloneSyncService<Uri, Io, BoxError>;
type Driver = futures::future::BoxFuture<'static, Result<(), hyper::Error>>;

/// A new connection. Nothing is sent or received unless its driver is polled. The driver holds the permit for the socket.
pub(super) enum Dialed {
    Http1(http1::SendRequest<RequestBody>, Driver),
    Http2(http2::SendRequest<RequestBody>, Streams, Driver),
}

impl Dialed {
    /// Its driver holds this, until the connection is closed.
    fn holding<T: Send + 'static>(self, held: T) -> Self {
        let hold = |driver: Driver| -> Driver {
            Box::pin(async move {
                let _held = held;
                driver.await
            })
        };
        match self {
            Self::Http1(send, driver) => Self::Http1(send, hold(driver)),
            Self::Http2(send, streams, driver) => Self::Http2(send, streams, hold(driver)),
        }
    }
}

/// How many concurrent streams the server allows on an HTTP/2 connection, by its last SETTINGS.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<AtomicUsize>);

impl Streams {
    pub(super) fn allowed(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes connections to one server.
pub(super) struct Dialer {
    connector: TlsConnector,
    proxy: Option<ServerProxy>,
    /// How the proxy forwards requests, if it does.
    forwarding: Option<Forwarding>,
    /// Scheme and authority.
    target: Uri,
    server: String,
    host: Handle,
    timeout: Duration,
    ping_after: Duration,
    ping_grace: Duration,
    sockets: Sockets,
    /// Whether the local cluster uses this server and these credentials.
    is_local: Arc<AtomicBool>,
    /// Where the server's addresses are noted. `None`: it is no API server.
    server_addresses: Option<ServerAddresses>,
}

impl Dialer {
    /// # Errors
    /// [`CredentialsError`] if a field of the configuration cannot be used.
    pub(super) fn new(
        access: &Access,
        tls: Tls,
        host: &Handle,
        options: &TransportOptions,
        sockets: Sockets,
        is_local: Arc<AtomicBool>,
    ) -> Result<Self, CredentialsError> {
        let proxy = tls.proxy.as_ref().map(|(proxy, _)| proxy.clone());
        let allowed = access.allow_servers.clone();
        let timeout = options.connect_timeout;
        let streams = options.streams.clone();
        let connector = Connector::new(allowed, tls.proxy, system_resolver(), timeout, streams)?;
        let url = &access.url;
        let authority = url.authority().map_or("", |a| a.as_str());
        let target = format!("{}://{authority}", url.scheme_str().unwrap_or("https"));
        Ok(Self {
            connector: over_tls(access, tls.server, connector)?,
            forwarding: proxy.as_ref().and_then(ServerProxy::forwarding),
            proxy,
            target: target.parse().map_err(|_| CredentialsError::Url)?,
            server: url.to_string(),
            host: host.clone(),
            timeout,
            ping_after: options.ping_after,
            ping_grace: options.ping_grace,
            sockets,
            is_local,
            server_addresses: None,
        })
    }

    /// The same, which notes the addresses that the server has.
    pub(super) fn noting(self, server_addresses: Option<ServerAddresses>) -> Self {
        Self {
            server_addresses,
            ..self
        }
    }

    pub(super) fn target(&self) -> &Uri {
        &self.target
    }

    /// How the proxy forwards requests; `None`: they go to the server itself.
    pub(super) fn forwarding(&self) -> Option<&Forwarding> {
        self.forwarding.as_ref()
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Connects within the connect timeout. Before that, waits up to the same time for a socket permit. Calls of the local cluster may take a
    /// reserved permit.
    ///
    /// # Errors
    /// [`TransportError::Unreachable`], [`TransportError::NotAllowed`], [`TransportError::Proxy`], [`TransportError::NoDescriptors`],
    /// [`TransportError::Timeout`] and [`TransportError::Crowded`].
    pub(super) async fn dial(&self, purpose: Purpose) -> Result<Dialed, TransportError> {
        let may_use_reserve = purpose == Purpose::Call && self.is_local.load(Ordering::Relaxed);
        let socket = self.sockets.take(&self.server, may_use_reserve).await?;
        match tokio::time::timeout(self.timeout, self.connect()).await {
            Ok(Ok(dialed)) => Ok(dialed.holding(socket)),
            Ok(Err(error)) => Err(self.failure(&*error)),
            Err(_) => Err(self.no_answer()),
        }
    }

    fn failure(&self, error: &(dyn std::error::Error + 'static)) -> TransportError {
        let server = self.server.clone();
        if lacks_descriptors(error) {
            return TransportError::NoDescriptors { server };
        }
        if let Some(refusal) = cause::<ServerNotAllowed>(error) {
            let refusal = refusal.clone();
            return TransportError::NotAllowed { server, refusal };
        }
        match (&self.proxy, cause::<ProxyError>(error)) {
            (Some(proxy), Some(error)) => TransportError::Proxy {
                server,
                proxy: proxy.to_string(),
                reason: error.to_string(),
            },
            _ => TransportError::Unreachable {
                server,
                reason: root_cause(error),
            },
        }
    }

    fn no_answer(&self) -> TransportError {
        let (server, after) = (self.server.clone(), self.timeout);
        match &self.proxy {
            None => TransportError::Timeout { server, after },
            Some(proxy) => TransportError::Proxy {
                server,
                proxy: proxy.to_string(),
                reason: format!(
                    "no connection within {after:?}: check that the proxy is up and can reach the server"
                ),
            },
        }
    }

    /// The error for an answer of the proxy, which forwards requests and refused this one.
    pub(super) fn refusal_of_proxy(&self, status: StatusCode) -> Option<TransportError> {
        let proxy = self.proxy.as_ref()?;
        let error = proxy.refusal(status.as_u16())?;
        Some(TransportError::Proxy {
            server: self.server.clone(),
            proxy: proxy.to_string(),
            reason: error.to_string(),
        })
    }

    async fn connect(&self) -> Result<Dialed, BoxError> {
        let io = self.connector.clone().oneshot(self.target.clone()).await?;
        let noted = self.note_address(&io);
        Ok(Box::pin(self.speak(io)).await?.holding(noted))
    }

    /// Notes the address of an API server. Behind a proxy it has none here.
    fn note_address(&self, io: &Io) -> Option<NotedAddress> {
        let server_addresses = self.server_addresses.as_ref()?;
        let stream = match io {
            MaybeHttpsStream::Http(stream) => stream,
            MaybeHttpsStream::Https(tls) => tls.inner().get_ref().0.inner(),
        };
        let MaybeHttpsStream::Http(stream) = stream else {
            return None;
        };
        let address = stream.inner().peer()?;
        self.proxy.is_none().then(|| server_addresses.note(address))
    }

    async fn speak(&self, io: Io) -> Result<Dialed, BoxError> {
        if io.connected().is_negotiated_h2() {
            let mut builder = http2::Builder::new(OnHost(self.host.clone()));
            builder
                .timer(TokioTimer::new())
                .keep_alive_interval(self.ping_after)
                .keep_alive_timeout(self.ping_grace)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW);
            // No request may be sent before the server's SETTINGS: hyper would accept it, and hold it back if the limit is smaller.
            builder.initial_max_send_streams(0);
            let (send, connection) = builder.handshake(io).await?;
            let streams = Streams::default();
            let mut driver = drive(connection, streams.clone());
            // hyper gives no notice of SETTINGS, so this polls.
            let mut pause = Duration::from_millis(1);
            while streams.allowed() == 0 {
                if let Some(ended) = driver.as_mut().now_or_never() {
                    ended?;
                    return Err("the server closed the connection at once".into());
                }
                if streams.allowed() == 0 {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
            }
            return Ok(Dialed::Http2(send, streams, driver));
        }
        let (send, driver) = http1::Builder::new().handshake(io).await?;
        Ok(Dialed::Http1(send, Box::pin(driver)))
    }
}

/// Runs a connection and records the server's limit on streams, which the pool reads for each checkout.
fn drive(connection: http2::Connection<Io, RequestBody, OnHost>, streams: Streams) -> Driver {
    let mut connection = Box::pin(connection);
    Box::pin(std::future::poll_fn(move |cx| {
        let polled = connection.as_mut().poll(cx);
        let allowed = connection.current_max_send_streams();
        streams.0.store(allowed, Ordering::Relaxed);
        polled
    }))
}

/// Spawns hyper's tasks on the host's runtime, whichever thread connects.
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

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |cause| cause.source())
}

/// The first cause of a type.
fn cause<'a, E: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Whether one of the causes is that the process has no file descriptor left.
fn lacks_descriptors(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(is_exhausted)
}

fn over_tls(
    access: &Access,
    tls: ClientConfig,
    connector: Connector,
) -> Result<TlsConnector, CredentialsError> {
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = access.tls_server_name.clone() {
        let name = ServerName::try_from(name).map_err(|_| CredentialsError::TlsServerName)?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = https.enable_all_versions().wrap_connector(connector);
    Ok(BoxCloneSyncService::new(https))
}
