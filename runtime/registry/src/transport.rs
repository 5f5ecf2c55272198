//! HTTP to registries: TLS, proxies, redirects, bounded answers. Entry point: [`Http::send`].
//!
//! Invariants:
//! * Plain HTTP goes only to hosts that the operator allows, redirects and token servers included.
//! * A redirect to another origin takes no `Authorization` along.
//! * Every answer is read up to a limit that the caller names, and has its time.

use crate::error::RegistryError;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use std::time::Duration;
use windlass_fleet::cluster::{ProxiedConnector, ProxyFromEnvironment};

/// Time for the head of an answer, and for each piece of its body. The connection is within it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Redirects of one request.
const MAX_REDIRECTS: usize = 5;
const IDLE: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS: usize = 2;

/// What is trusted, and how registries are reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpOptions {
    /// Authorities besides those of the system.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    /// Hosts, with their ports, that may speak plain HTTP.
    pub(crate) plain: Vec<String>,
    /// The proxies of the environment.
    pub(crate) proxy: ProxyFromEnvironment,
}

/// A client for all registries.
pub(super) struct Http {
    client: Client<HttpsConnector<ProxiedConnector>, Full<Bytes>>,
    plain: Vec<String>,
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Uri,
    pub(super) accept: Option<&'static str>,
    pub(super) authorization: Option<HeaderValue>,
    /// The type and the body.
    pub(super) content: Option<(&'static str, Bytes)>,
}

impl Ask {
    pub(super) fn new(method: Method, url: Uri) -> Self {
        Self {
            method,
            url,
            accept: None,
            authorization: None,
            content: None,
        }
    }
}

/// The head of an answer, and a body that is not read yet.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Where it came from, after redirects.
    pub(super) url: Uri,
    host: String,
    body: Incoming,
}

impl Http {
    /// Reads the system's authorities. Blocks.
    pub(super) fn new(options: HttpOptions) -> Self {
        let mut roots = RootCertStore::empty();
        let own = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(own.certs);
        roots.add_parsable_certificates(options.authorities);
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let streams = ProxiedConnector::new(options.proxy, tls.clone(), PATIENCE);
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(streams);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self {
            client,
            plain: options.plain,
        }
    }

    /// The URL of a path at a host: HTTPS, unless plain HTTP is allowed there.
    ///
    /// # Errors
    /// When they make no URL.
    pub(super) fn url(&self, host: &str, path: &str) -> Result<Uri, RegistryError> {
        let scheme = if self.plain.iter().any(|plain| plain == host) {
            "http"
        } else {
            "https"
        };
        self.checked(host, &format!("{scheme}://{host}{path}"))
    }

    /// A URL that a host names: absolute, or a path there.
    ///
    /// # Errors
    /// When it is none, or one of plain HTTP to a host that is not allowed that.
    pub(super) fn resolve(&self, from: &Uri, location: &str) -> Result<Uri, RegistryError> {
        let host = authority(from);
        if location.starts_with('/') && !location.starts_with("//") {
            let scheme = from.scheme_str().unwrap_or("https");
            self.checked(host, &format!("{scheme}://{host}{location}"))
        } else {
            self.checked(host, location)
        }
    }

    fn checked(&self, host: &str, url: &str) -> Result<Uri, RegistryError> {
        let uri: Option<Uri> = url.parse().ok();
        let known = uri.filter(|uri| uri.authority().is_some());
        let Some(uri) = known else {
            let (host, reason) = (host.to_owned(), "it names a URL that is none".to_owned());
            return Err(RegistryError::Foreign { host, reason });
        };
        let to = authority(&uri);
        let is_allowed = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => self.plain.iter().any(|plain| plain == to),
            _ => false,
        };
        if is_allowed {
            Ok(uri)
        } else {
            Err(RegistryError::Plain {
                host: host.to_owned(),
                to: to.to_owned(),
            })
        }
    }

    /// Sends a request. One without a body follows redirects.
    ///
    /// # Errors
    /// When no answer comes. What the answer says is the caller's to judge.
    pub(super) async fn send(&self, ask: &Ask) -> Result<Answer, RegistryError> {
        let mut ask = ask.clone();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send_once(&ask).await?;
            let location = answer.headers.get(LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let follows = answer.status.is_redirection() && ask.content.is_none();
            let Some(location) = location.filter(|_| follows) else {
                return Ok(answer);
            };
            let next = self.resolve(&ask.url, location)?;
            if !is_same_origin(&ask.url, &next) {
                ask.authorization = None;
            }
            ask.url = next;
        }
        Err(RegistryError::Foreign {
            host: authority(&ask.url).to_owned(),
            reason: format!("it redirects more than {MAX_REDIRECTS} times"),
        })
    }

    async fn send_once(&self, ask: &Ask) -> Result<Answer, RegistryError> {
        let host = authority(&ask.url).to_owned();
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = ask.url.clone();
        let headers = request.headers_mut();
        let agent = concat!("windlass/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if let Some(accept) = ask.accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        if let Some(authorization) = &ask.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if let Some((kind, body)) = &ask.content {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            *request.body_mut() = Full::new(body.clone());
        }
        // A body of many megabytes takes its time before the answer.
        let patience = match &ask.content {
            Some((_, body)) => PATIENCE + Duration::from_secs(body.len() as u64 >> 17),
            None => PATIENCE,
        };
        let sent = tokio::time::timeout(patience, self.client.request(request)).await;
        let answer = match sent {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let reason = cause(&error);
                return Err(if error.is_connect() {
                    RegistryError::Unreachable { host, reason }
                } else {
                    RegistryError::Broken { host, reason }
                });
            }
            Err(_) => {
                let after = patience;
                return Err(RegistryError::Timeout { host, after });
            }
        };
        let (head, body) = answer.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            url: ask.url.clone(),
            host,
            body,
        })
    }
}

impl Answer {
    /// The next piece of the body; none: it is complete.
    ///
    /// # Errors
    /// When it breaks off, or does not come in time.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, RegistryError> {
        loop {
            let host = || self.host.clone();
            let frame = match tokio::time::timeout(PATIENCE, self.body.frame()).await {
                Ok(frame) => frame,
                Err(_) => {
                    let (host, after) = (host(), PATIENCE);
                    return Err(RegistryError::Timeout { host, after });
                }
            };
            match frame.transpose() {
                Ok(None) => return Ok(None),
                // What is no data is a trailer.
                Ok(Some(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Err(error) => {
                    let (host, reason) = (host(), cause(&error));
                    return Err(RegistryError::Broken { host, reason });
                }
            }
        }
    }

    /// The body, of at most so many bytes.
    ///
    /// # Errors
    /// When it is larger, or breaks off. `what` names it.
    pub(super) async fn read(mut self, what: &str, most: u64) -> Result<Vec<u8>, RegistryError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece().await? {
            if (bytes.len() + piece.len()) as u64 > most {
                return Err(RegistryError::TooLarge {
                    what: what.to_owned(),
                    most,
                    remedy: "no registry needs as much for it",
                });
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

/// `HOST[:PORT]` of a URL.
pub(super) fn authority(uri: &Uri) -> &str {
    uri.authority().map_or("", |authority| authority.as_str())
}

/// Whether a URL has the scheme and the authority of another.
pub(super) fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    one.scheme() == other.scheme() && one.authority() == other.authority()
}

/// The cause at the root of an error, with the remedy for a certificate that nobody vouches for.
fn cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    let text = last.to_string();
    if text.contains("UnknownIssuer") {
        format!("{text}: name its authority in spec.registries.certificateAuthority of the Manager")
    } else {
        text
    }
}
