//! The way through a proxy: a tunnel, or for plain HTTP requests that the proxy forwards. Entry point: [`ServerProxy::open_tunnel`].
//!
//! kubectl's rules: over HTTP proxies a server with TLS gets a tunnel (CONNECT), and a server without TLS gets forwarded requests, since many
//! proxies refuse CONNECT to ports that are not of TLS. SOCKS5 proxies always make a tunnel. The proxy resolves the server's name.
//!
//! Invariants:
//! * At most [`MAX_ANSWER`] bytes of a proxy's answer are read, and none of the server's bytes.
//! * No error holds the proxy's user or password, or text of the proxy.
//!
//! The caller bounds the time.

mod http_connect;
mod socks5;

use super::root_cause;
use crate::http::config::Access;
use crate::http::proxy::{Login, Proxy, ProxyFromEnvironment, ProxyProtocol};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use std::fmt;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::BoxError;

/// Most bytes of a proxy's answer to CONNECT.
const MAX_ANSWER: usize = 8 << 10;

/// Where a proxy was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The kubeconfig's `proxy-url`, for which its policy counts.
    Kubeconfig,
    /// The environment of the process, which the operator is responsible for.
    Environment,
}

/// The proxy that a server is reached through.
#[derive(Debug, Clone)]
pub(super) struct ServerProxy {
    proxy: Proxy,
    origin: Origin,
    /// Whether the proxy is sent the server's requests, and makes no tunnel.
    forwards: bool,
}

/// Why a proxy gives no connection to a server. The text begins with the proxy as "it".
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyError {
    #[error("it cannot be reached: {reason}")]
    Unreachable {
        reason: String,
        #[source]
        source: BoxError,
    },
    #[error("its connection broke: {0}: check that the scheme in its URL is right, and its log")]
    Broken(#[source] io::Error),
    #[error("its answer is not one of {0}: correct the scheme or the port in its URL")]
    Foreign(&'static str),
    #[error("its answer to CONNECT has more than {MAX_ANSWER} bytes: correct the port in its URL")]
    TooLarge,
    #[error(
        "it demands a user and a password: write them into its URL, as in http://USER:PASSWORD@HOST:PORT"
    )]
    LoginDemanded,
    #[error("it rejects the user or the password in its URL: correct them")]
    LoginRejected,
    #[error(
        "it refuses a connection to {target} ({answer}): allow {target} in its rules, or reach the server without it"
    )]
    Refused { target: Target, answer: String },
    #[error(
        "it has no connection to {target} ({answer}): check that the proxy can reach the server"
    )]
    Failed { target: Target, answer: String },
    #[error("the server's name has {0} bytes, more than SOCKS5 allows: use its address")]
    LongName(usize),
}

impl ProxyError {
    /// No connection to the proxy could be made.
    pub(super) fn unreachable(source: BoxError) -> Self {
        Self::Unreachable {
            reason: root_cause(&*source),
            source,
        }
    }
}

impl From<io::Error> for ProxyError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl ServerProxy {
    /// The proxy of a server: that of its kubeconfig, else that of the environment.
    pub(super) fn choose(access: &Access, environment: &ProxyFromEnvironment) -> Option<Self> {
        let (proxy, origin) = match &access.proxy {
            Some(named) => (named.clone(), Origin::Kubeconfig),
            None => (environment.for_target(&access.url)?, Origin::Environment),
        };
        let is_plain = access.url.scheme_str() == Some("http");
        Some(Self {
            forwards: is_plain && proxy.protocol() != ProxyProtocol::Socks5,
            proxy,
            origin,
        })
    }

    /// A proxy of the environment that makes a tunnel, also to a server without TLS.
    pub(super) fn of_environment(proxy: Proxy) -> Self {
        Self {
            proxy,
            origin: Origin::Environment,
            forwards: false,
        }
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether the connection to the proxy has TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.proxy.protocol() == ProxyProtocol::Https
    }

    /// The URL of the proxy, to connect to.
    ///
    /// # Errors
    /// The proxy's host makes no URL.
    pub(super) fn url(&self) -> Result<Uri, http::uri::InvalidUri> {
        let text = self.proxy.to_string();
        text.replacen("socks5://", "http://", 1).parse()
    }

    /// How requests are forwarded; `None`: through a tunnel they are sent as to the server itself.
    pub(super) fn forwarding(&self) -> Option<Forwarding> {
        self.forwards.then(|| Forwarding {
            authorization: self.proxy.login().and_then(basic),
        })
    }

    /// Asks the proxy for a tunnel to a server, over a connection to the proxy. Does nothing if requests are forwarded.
    ///
    /// # Errors
    /// [`ProxyError`].
    pub(super) async fn open_tunnel<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        server: &Uri,
    ) -> Result<(), ProxyError> {
        if self.forwards {
            return Ok(());
        }
        let target = Target::of(server);
        match self.proxy.protocol() {
            ProxyProtocol::Socks5 => socks5::connect(stream, target, self.proxy.login()).await,
            ProxyProtocol::Http | ProxyProtocol::Https => {
                http_connect::connect(stream, target, self.proxy.login()).await
            }
        }
    }

    /// The error for a request that the proxy refused to forward, by the status of the answer.
    pub(super) fn refusal(&self, status: u16) -> Option<ProxyError> {
        let refused = self.forwards && status == LOGIN_NEEDED;
        refused.then(|| login_error(self.proxy.login()))
    }
}

impl fmt::Display for ServerProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.proxy.fmt(f)
    }
}

/// "Proxy Authentication Required".
const LOGIN_NEEDED: u16 = 407;

fn login_error(login: Option<&Login>) -> ProxyError {
    match login {
        Some(_) => ProxyError::LoginRejected,
        None => ProxyError::LoginDemanded,
    }
}

/// `Proxy-Authorization`, marked as sensitive. Base64 is always a valid value.
fn basic(login: &Login) -> Option<HeaderValue> {
    let pair = STANDARD.encode(format!("{}:{}", login.user, login.password));
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// What a request carries that a proxy forwards, beside the server's whole URL.
#[derive(Clone)]
pub(super) struct Forwarding {
    pub(super) authorization: Option<HeaderValue>,
}

/// Host and port of a server behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// As in a URL: IPv6 in brackets.
    host: String,
    port: u16,
}

impl Target {
    fn of(server: &Uri) -> Self {
        let default_port = match server.scheme_str() {
            Some("http") => 80,
            _ => 443,
        };
        Self {
            host: server.host().unwrap_or_default().to_owned(),
            port: server.port_u16().unwrap_or(default_port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
