//! Connections to registries, direct or through a proxy of the environment. Entry point: [`Dialer`].
//!
//! Through HTTP proxies every registry gets a tunnel, so that a proxy sees no request.

use crate::credentials::basic;
use futures::future::BoxFuture;
use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt as _};
use windlass_fleet::cluster::{Proxy, ProxyFromEnvironment};

/// A TCP connection, to a proxy also with TLS.
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Connects to the host of a URL. TLS with the registry itself is made over its connections.
#[derive(Clone)]
pub(super) struct Dialer {
    direct: HttpConnector,
    /// To proxies.
    to_proxy: HttpsConnector<HttpConnector>,
    environment: ProxyFromEnvironment,
}

/// A failure at the proxy.
#[derive(Debug, thiserror::Error)]
#[error("through the proxy {proxy}: {reason}")]
struct ProxyFailure {
    proxy: String,
    reason: String,
}

impl Dialer {
    pub(super) fn new(environment: ProxyFromEnvironment, tls: ClientConfig) -> Self {
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        direct.set_nodelay(true);
        let to_proxy = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(direct.clone());
        Self {
            direct,
            to_proxy,
            environment,
        }
    }

    async fn through(self, proxy: Proxy, target: Uri) -> Result<Stream, BoxError> {
        let shown = proxy.to_string();
        let connected = async {
            let login = proxy.user_and_password();
            if let Some(address) = shown.strip_prefix("socks5://") {
                let url: Uri = format!("http://{address}").parse()?;
                let mut socks = SocksV5::new(url, self.to_proxy);
                if let Some((user, password)) = login {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                return Ok::<_, BoxError>(socks.oneshot(target).await?);
            }
            let mut tunnel = Tunnel::new(shown.parse()?, self.to_proxy);
            if let Some((user, password)) = login {
                tunnel = tunnel.with_auth(basic(user, password)?);
            }
            Ok(tunnel.oneshot(target).await?)
        };
        connected.await.map_err(|error: BoxError| {
            let proxy = proxy.to_string();
            let reason = error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string);
            ProxyFailure { proxy, reason }.into()
        })
    }
}

impl Service<Uri> for Dialer {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            match this.environment.for_target(&target) {
                Some(proxy) => this.through(proxy, target).await,
                None => {
                    let connected = this.direct.oneshot(target).await?;
                    Ok(MaybeHttpsStream::Http(connected))
                }
            }
        })
    }
}
