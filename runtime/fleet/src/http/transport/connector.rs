//! Opens the stream of bytes to a server, directly or through its proxy. Entry points: [`Connector::new`] for API servers,
//! [`ProxiedConnector::new`] for others.
//!
//! A connector is a tower service, which its user wraps in TLS.
//!
//! Invariants:
//! * No socket is opened to an address that the kubeconfig's [`AllowServers`] refuses. Names are resolved for each connection, and the socket
//!   is opened to one of the addresses that were checked, so DNS cannot change in between.
//! * The proxy of a kubeconfig is checked in the same way, and the name of the server behind it. The environment's proxy is not checked: the
//!   operator named it.

use super::credentials::CredentialsError;
use super::proxy::{Origin, ProxyError, ServerProxy};
use super::stream::{OpenStream, Opened, Way};
use crate::http::config::AllowServers;
use crate::http::proxy::ProxyFromEnvironment;
use futures::future::BoxFuture;
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt as _};

/// A stream to a server: as it was opened, or TLS to its proxy.
pub(super) type ServerStream = MaybeHttpsStream<TokioIo<Opened>>;

/// Finds the addresses of a name.
pub(super) type Resolver = BoxCloneSyncService<Name, Vec<SocketAddr>, BoxError>;

/// Opens streams to one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    allow_servers: AllowServers,
    first_hop: FirstHop,
}

#[derive(Clone)]
enum FirstHop {
    Server(Way),
    Proxy(Box<ToProxy>),
}

/// The way to a proxy.
#[derive(Clone)]
struct ToProxy {
    proxy: ServerProxy,
    url: Uri,
    connector: HttpsConnector<Way>,
}

impl Connector {
    /// `proxy`: the server's proxy, with TLS for the connection to it. `timeout`: for a connection of TCP. `streams`: in place of TCP.
    ///
    /// # Errors
    /// [`CredentialsError::Proxy`].
    pub(super) fn new(
        allow_servers: AllowServers,
        proxy: Option<(ServerProxy, ClientConfig)>,
        resolver: Resolver,
        timeout: Duration,
        streams: Option<Arc<dyn OpenStream>>,
    ) -> Result<Self, CredentialsError> {
        let way = |allow_servers| {
            let resolver = CheckedResolver {
                allow_servers,
                resolver,
            };
            Way::new(streams, resolver, timeout)
        };
        let first_hop = match proxy {
            None => FirstHop::Server(way(allow_servers.clone())),
            Some((proxy, tls)) => {
                let checked = match proxy.origin() {
                    Origin::Kubeconfig => allow_servers.clone(),
                    Origin::Environment => AllowServers::any(),
                };
                // HTTP/1.1 only: `dial` takes ALPN's choice for the server's.
                let https = HttpsConnectorBuilder::new().with_tls_config(tls);
                let https = https.https_or_http().enable_http1();
                FirstHop::Proxy(Box::new(ToProxy {
                    url: proxy.url().map_err(|_| CredentialsError::Proxy)?,
                    connector: https.wrap_connector(way(checked)),
                    proxy,
                }))
            }
        };
        Ok(Self {
            allow_servers,
            first_hop,
        })
    }

    async fn open(self, server: Uri) -> Result<ServerStream, BoxError> {
        let host = server.host().unwrap_or_default();
        match self.first_hop {
            FirstHop::Server(way) => {
                // An address is not resolved, and so not seen by the resolver.
                self.allow_servers.check_host(host)?;
                Ok(MaybeHttpsStream::Http(way.oneshot(server).await?))
            }
            FirstHop::Proxy(to_proxy) => {
                let ToProxy {
                    proxy,
                    url,
                    connector,
                } = *to_proxy;
                self.allow_servers.check_behind_proxy(host)?;
                if proxy.origin() == Origin::Kubeconfig {
                    let host = url.host().unwrap_or_default();
                    self.allow_servers.check_host(host)?;
                }
                let stream = connector.oneshot(url).await;
                let mut stream = TokioIo::new(stream.map_err(ProxyError::unreachable)?);
                proxy.open_tunnel(&mut stream, &server).await?;
                Ok(stream.into_inner())
            }
        }
    }
}

impl Service<Uri> for Connector {
    type Response = ServerStream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ServerStream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        Box::pin(self.clone().open(server))
    }
}

/// Opens streams to servers that are no API servers, each through the proxy that the environment names for it. A proxy makes a tunnel, so
/// that it sees no request. Cheap to clone.
#[derive(Clone)]
pub struct ProxiedConnector {
    environment: ProxyFromEnvironment,
    tls: ClientConfig,
    timeout: Duration,
}

/// A failure at a proxy. Its text has the cause.
#[derive(Debug, thiserror::Error)]
#[error("through the proxy {proxy}: {cause}")]
struct ThroughProxy {
    proxy: String,
    cause: BoxError,
}

impl ProxiedConnector {
    /// `tls`: for connections to proxies. `timeout`: for a connection of TCP.
    #[must_use]
    pub fn new(environment: ProxyFromEnvironment, tls: ClientConfig, timeout: Duration) -> Self {
        Self {
            environment,
            tls,
            timeout,
        }
    }

    async fn open(self, server: Uri) -> Result<ServerStream, BoxError> {
        let proxy = self.environment.for_target(&server);
        let proxy = proxy.map(|proxy| (ServerProxy::of_environment(proxy), self.tls));
        let name = proxy.as_ref().map(|(proxy, _)| proxy.to_string());
        let any = AllowServers::any();
        let connector = Connector::new(any, proxy, system_resolver(), self.timeout, None)?;
        let opened = connector.open(server).await;
        opened.map_err(|cause| match name {
            Some(proxy) => ThroughProxy { proxy, cause }.into(),
            None => cause,
        })
    }
}

impl Service<Uri> for ProxiedConnector {
    type Response = ServerStream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ServerStream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        Box::pin(self.clone().open(server))
    }
}

/// The resolver of the system. It runs on the threads for blocking work.
pub(super) fn system_resolver() -> Resolver {
    let resolver = GaiResolver::new().map_response(|addresses| addresses.collect::<Vec<_>>());
    BoxCloneSyncService::new(resolver.map_err(BoxError::from))
}

/// Gives only the addresses that may be connected to.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    allow_servers: AllowServers,
    resolver: Resolver,
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = this.resolver.oneshot(name).await?;
            Ok(this.allow_servers.filter(&host, found)?.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::config::Access;
    use crate::http::proxy::{Proxy, ProxyFromEnvironment};
    use crate::http::transport::tls::{Trust, client_config};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// A resolver that gives the same addresses for every name.
    fn resolver(addresses: &[&str]) -> Resolver {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        let addresses: Vec<SocketAddr> = addresses.map(|ip| SocketAddr::new(ip, 0)).collect();
        BoxCloneSyncService::new(tower::service_fn(move |_: Name| {
            let addresses = addresses.clone();
            async move { Ok(addresses) }
        }))
    }

    fn connector(
        allow: &AllowServers,
        proxy: Option<ServerProxy>,
        addresses: &[&str],
    ) -> Connector {
        let tls = client_config(&Trust::Anyone, None).unwrap();
        let proxy = proxy.map(|proxy| (proxy, tls));
        let timeout = Duration::from_secs(10);
        Connector::new(allow.clone(), proxy, resolver(addresses), timeout, None).unwrap()
    }

    /// The error of a connection that must not be made.
    async fn refusal(connector: &Connector, url: &str) -> String {
        let stream = connector.clone().oneshot(url.parse().unwrap()).await;
        let Err(error) = stream else {
            panic!("connected to {url}");
        };
        let mut causes = std::iter::successors(
            Some(&*error as &(dyn std::error::Error + 'static)),
            |cause| cause.source(),
        );
        let refused =
            causes.find_map(|cause| cause.downcast_ref::<crate::http::config::ServerNotAllowed>());
        refused.map_or_else(|| format!("{error:?}"), ToString::to_string)
    }

    /// The proxy of a kubeconfig, or of the environment.
    fn proxy(origin: Origin, url: &str) -> Option<ServerProxy> {
        let mut access = Access::of_url("https://api.example.com".parse().unwrap());
        let environment = match origin {
            Origin::Kubeconfig => {
                access.proxy = Some(Proxy::parse(url).unwrap());
                ProxyFromEnvironment::default()
            }
            Origin::Environment => {
                let variable = |name: &str| (name == "HTTPS_PROXY").then(|| url.to_owned());
                ProxyFromEnvironment::read(variable).unwrap()
            }
        };
        ServerProxy::choose(&access, &environment)
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_an_address_of_this_machine_is_refused_at_connect() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://rebound.example.com:{}",
            listener.local_addr().unwrap().port()
        );
        for addresses in [
            &["127.0.0.1"][..],
            &["0.0.0.0"],
            &["::ffff:127.0.0.1", "169.254.169.254"],
        ] {
            let connector = connector(&AllowServers::default(), None, addresses);
            let refused = refusal(&connector, &url).await;
            assert!(
                refused.contains("rebound.example.com, which resolves to"),
                "{refused}"
            );
        }
        let accepted = futures::poll!(Box::pin(listener.accept()));
        assert!(accepted.is_pending(), "a connection was made");
    }

    #[tokio::test]
    async fn a_connection_is_made_to_an_allowed_address_among_those_of_a_name() {
        let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let url = format!(
            "http://a.example.com:{}",
            listener.local_addr().unwrap().port()
        );
        let allow = AllowServers::parse(&["127.0.0.2"]).unwrap();
        let connector = connector(&allow, None, &["127.0.0.1", "127.0.0.2"]);
        let opened = connector.oneshot(url.parse().unwrap()).await;
        assert!(opened.is_ok(), "{:?}", opened.err());
        let (stream, _) = listener.accept().await.unwrap();
        assert_eq!(stream.local_addr().unwrap().ip().to_string(), "127.0.0.2");
    }

    #[tokio::test]
    async fn an_address_in_the_url_is_checked_at_connect_too() {
        let connector = connector(&AllowServers::default(), None, &[]);
        for url in [
            "http://127.0.0.1:1",
            "http://[::ffff:127.0.0.1]:1",
            "http://localhost:1",
        ] {
            let refused = refusal(&connector, url).await;
            assert!(
                refused.contains("is not allowed by allowServers"),
                "{refused}"
            );
        }
    }

    #[tokio::test]
    async fn a_kubeconfigs_proxy_is_checked_as_a_server_is() {
        let allow = AllowServers::default();
        for url in [
            "http://proxy.example.com:1",
            "socks5://127.0.0.1:1",
            "https://localhost",
        ] {
            let proxied = connector(&allow, proxy(Origin::Kubeconfig, url), &["127.0.0.1"]);
            let refused = refusal(&proxied, "https://api.example.com").await;
            assert!(
                refused.contains("is not allowed by allowServers"),
                "{refused}"
            );
        }
    }

    #[tokio::test]
    async fn the_environments_proxy_may_be_anywhere_and_the_server_behind_it_is_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://proxy.example.com:{}",
            listener.local_addr().unwrap().port()
        );
        let proxy = proxy(Origin::Environment, &url);
        let proxied = connector(&AllowServers::default(), proxy, &["127.0.0.1"]);
        for url in [
            "https://127.0.0.1",
            "https://localhost",
            "https://169.254.169.254",
        ] {
            let refused = refusal(&proxied, url).await;
            assert!(
                refused.contains("is not allowed by allowServers"),
                "{refused}"
            );
        }
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            request.truncate(read);
            (String::from_utf8(request).unwrap(), stream)
        };
        let opened = proxied.oneshot("https://api.example.com".parse().unwrap());
        let ((request, _stream), opened) = tokio::join!(serve, opened);
        assert!(opened.is_ok(), "{:?}", opened.err());
        assert!(
            request.starts_with("CONNECT api.example.com:443 HTTP/1.1\r\n"),
            "{request}"
        );
    }
}
