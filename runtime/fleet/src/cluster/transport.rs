//! HTTP to API servers: shared connections, deadlines, caps. Entry point: [`Connection::send`].
//!
//! kube's configuration, authentication and TLS on our own stack: HTTP/2 where the server negotiates it, connections shared
//! by clusters of the same server, TLS and credentials, dead peers found by PING. Every call runs on the host's runtime, so
//! that a socket never belongs to the guests' threads.

use super::config::ClusterConfig;
use crate::metrics::ClusterMetrics;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioTimer;
use kube_client::client::ConfigExt;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, ServiceExt};

/// Bounds on every call. Defaults are in [`TransportOptions::default`].
#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// Time for TCP and TLS. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time for a whole call that is not a watch. Default: 30 s.
    pub call_timeout: Duration,
    /// Largest answer that is read, in bytes. Default: 64 MiB.
    pub max_body: usize,
    /// Largest line of a watch, in bytes. Default: 8 MiB.
    pub max_line: usize,
    /// Calls under way at once per cluster, watches apart. Default: 128.
    pub in_flight: usize,
    /// A Retry-After above this is cut to it. Default: 60 s.
    pub max_retry_after: Duration,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(30),
            max_body: 64 << 20,
            max_line: 8 << 20,
            in_flight: 128,
            max_retry_after: Duration::from_secs(60),
        }
    }
}

/// Why there is no answer. Messages name the server, never a header or a body.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransportError {
    /// The connection could not be made or broke.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// The server's URL.
        server: String,
        /// What happened.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer from {server} within {after:?}")]
    Timeout {
        /// The server's URL.
        server: String,
        /// The deadline.
        after: Duration,
    },
    /// The answer is larger than it may be.
    #[error("answer of {server} is larger than {limit} bytes: use a page limit or a selector")]
    TooLarge {
        /// The server's URL.
        server: String,
        /// The cap.
        limit: usize,
    },
    /// The credentials or TLS files cannot be used.
    #[error("credentials for {server} cannot be used: {reason}")]
    Credentials {
        /// The server's URL.
        server: String,
        /// What is wrong.
        reason: String,
    },
}

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query below the server's URL, already encoded.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    /// Content type and body.
    pub(crate) body: Option<(&'static str, Bytes)>,
}

impl Call {
    pub(crate) fn get(path: String, accept: &'static str) -> Self {
        Self {
            method: Method::GET,
            path,
            accept,
            body: None,
        }
    }
}

/// Plain JSON.
pub(crate) const JSON: &str = "application/json";

/// What came back. A status that is an error is an answer too.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
}

type Stack = BoxCloneSyncService<Request<Full<Bytes>>, Response<Incoming>, BoxError>;

/// The HTTP client of one (server, TLS, credentials), shared by its clusters.
pub(crate) struct Http {
    stack: Stack,
}

/// Connections by what they are shared by. Entries vanish with their last user.
pub(crate) struct Transports {
    host: Handle,
    options: TransportOptions,
    /// Holds no connection alive: each user holds its own `Arc`. Dead entries are dropped whenever one is added.
    shared: Mutex<HashMap<[u8; 32], Weak<Http>>>,
}

impl Transports {
    pub(crate) fn new(host: Handle, options: TransportOptions) -> Self {
        Self {
            host,
            options,
            shared: Mutex::default(),
        }
    }

    /// The connection to a server; nothing is sent yet.
    ///
    /// # Errors
    /// [`TransportError::Credentials`] when TLS or authentication cannot be set up.
    pub(crate) fn connect(
        &self,
        config: &ClusterConfig,
        metrics: Arc<ClusterMetrics>,
    ) -> Result<Connection, TransportError> {
        let digest = config.connection_digest();
        let there = self.shared.lock().get(&digest).and_then(Weak::upgrade);
        let http = match there {
            Some(http) => http,
            None => {
                // Not under the lock: a plugin for credentials takes as long as it likes, and others must not wait for it.
                let made = Arc::new(Http {
                    stack: build(config, &self.host, &self.options)?,
                });
                let mut shared = self.shared.lock();
                shared.retain(|_, http| http.strong_count() > 0);
                let first = shared.get(&digest).and_then(Weak::upgrade);
                first.unwrap_or_else(|| {
                    shared.insert(digest, Arc::downgrade(&made));
                    made
                })
            }
        };
        let url = &config.kube().cluster_url;
        let authority = url.authority().map(|a| a.as_str()).unwrap_or_default();
        let base = format!(
            "{}://{}{}",
            url.scheme_str().unwrap_or("https"),
            authority,
            url.path().trim_end_matches('/')
        );
        Ok(Connection {
            inner: Arc::new(ConnectionInner {
                http,
                base,
                server: config.server(),
                host: self.host.clone(),
                in_flight: Arc::new(Semaphore::new(self.options.in_flight)),
                options: self.options.clone(),
                metrics,
            }),
        })
    }
}

fn build(
    config: &ClusterConfig,
    host: &Handle,
    options: &TransportOptions,
) -> Result<Stack, TransportError> {
    let kube = config.kube();
    let refused = |error: &dyn std::fmt::Display| TransportError::Credentials {
        server: config.server(),
        reason: error.to_string(),
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(options.connect_timeout));
    tcp.set_keepalive(Some(Duration::from_secs(30)));
    let tls = kube.rustls_client_config().map_err(|e| refused(&e))?;
    let mut https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = kube.tls_server_name.clone() {
        let name = rustls::pki_types::ServerName::try_from(name).map_err(|e| refused(&e))?;
        https = https.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let https = https.enable_all_versions().wrap_connector(tcp);
    let client = HttpClient::builder(OnHost(host.clone()))
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(90))
        .pool_max_idle_per_host(32)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .http2_keep_alive_timeout(Duration::from_secs(15))
        .http2_keep_alive_while_idle(true)
        .http2_adaptive_window(true)
        .build(https);
    let headers = kube.extra_headers_layer().map_err(|e| refused(&e))?;
    let service = headers.layer(client.map_err(BoxError::from));
    Ok(match kube.auth_layer().map_err(|e| refused(&e))? {
        Some(auth) => BoxCloneSyncService::new(auth.layer(service).map_err(BoxError::from)),
        None => BoxCloneSyncService::new(service),
    })
}

/// Runs hyper's connection tasks on the host's runtime, whichever thread asks.
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

/// One cluster's way to its server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: Arc<ConnectionInner>,
}

struct ConnectionInner {
    http: Arc<Http>,
    /// URL of the server without a slash at its end.
    base: String,
    server: String,
    host: Handle,
    /// One permit per call under way, watches apart.
    in_flight: Arc<Semaphore>,
    options: TransportOptions,
    metrics: Arc<ClusterMetrics>,
}

impl Connection {
    pub(crate) fn metrics(&self) -> &ClusterMetrics {
        &self.inner.metrics
    }

    pub(crate) fn host(&self) -> &Handle {
        &self.inner.host
    }

    pub(crate) fn options(&self) -> &TransportOptions {
        &self.inner.options
    }

    /// Sends a call and reads its whole answer, within `timeout`. Dropping the future cancels the call.
    pub(crate) async fn send(
        &self,
        call: Call,
        timeout: Duration,
    ) -> Result<Answer, TransportError> {
        let this = self.clone();
        let task = AbortOnDrop(
            self.inner
                .host
                .spawn(async move { this.send_here(call, timeout).await }),
        );
        task.join()
            .await
            .unwrap_or_else(|reason| Err(self.unreachable(reason)))
    }

    /// As [`Self::send`], but the caller is on the host's runtime already (a detached write).
    pub(crate) async fn send_here(
        &self,
        call: Call,
        timeout: Duration,
    ) -> Result<Answer, TransportError> {
        match tokio::time::timeout(timeout, self.exchange(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(TransportError::Timeout {
                server: self.inner.server.clone(),
                after: timeout,
            }),
        }
    }

    async fn exchange(&self, call: Call) -> Result<Answer, TransportError> {
        // The semaphore is never closed, so this waits or succeeds.
        let _permit = self.inner.in_flight.acquire().await;
        let response = self.open(call).await?;
        let status = response.status().as_u16();
        let retry_after = self.retry_after(&response);
        let body = self.collect(response.into_body()).await?;
        Ok(Answer {
            status,
            retry_after,
            body,
        })
    }

    /// Sends a call and returns once the headers are there: the start of a watch.
    pub(crate) async fn open(&self, call: Call) -> Result<Response<Incoming>, TransportError> {
        let request = self.request(call)?;
        let mut counted = self.inner.metrics.request(request.method());
        let response = self
            .inner
            .http
            .stack
            .clone()
            .oneshot(request)
            .await
            .map_err(|e| self.unreachable(root_cause(&*e)))?;
        counted.answered(response.status().as_u16());
        Ok(response)
    }

    fn request(&self, call: Call) -> Result<Request<Full<Bytes>>, TransportError> {
        let (content_type, body) = match call.body {
            Some((content_type, body)) => (Some(content_type), body),
            None => (None, Bytes::new()),
        };
        let mut builder = Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.inner.base, call.path))
            .header(ACCEPT, call.accept)
            .header(
                USER_AGENT,
                HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION"))),
            );
        if let Some(content_type) = content_type {
            builder = builder.header(CONTENT_TYPE, content_type);
        }
        builder
            .body(Full::new(body))
            .map_err(|e| self.unreachable(e.to_string()))
    }

    pub(crate) fn retry_after(&self, response: &Response<Incoming>) -> Option<Duration> {
        let seconds: u64 = response
            .headers()
            .get(RETRY_AFTER)?
            .to_str()
            .ok()?
            .trim()
            .parse()
            .ok()?;
        Some(Duration::from_secs(seconds).min(self.inner.options.max_retry_after))
    }

    /// Reads a whole body within the cap.
    pub(crate) async fn collect(&self, mut body: Incoming) -> Result<Bytes, TransportError> {
        let limit = self.inner.options.max_body;
        let mut whole = BytesMut::new();
        let mut first: Option<Bytes> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| self.unreachable(root_cause(&e)))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let so_far = whole.len() + first.as_ref().map_or(0, Bytes::len);
            if so_far + data.len() > limit {
                return Err(TransportError::TooLarge {
                    server: self.inner.server.clone(),
                    limit,
                });
            }
            match (first.take(), whole.is_empty()) {
                (None, true) => first = Some(data),
                (Some(head), _) => {
                    whole.extend_from_slice(&head);
                    whole.extend_from_slice(&data);
                }
                (None, false) => whole.extend_from_slice(&data),
            }
        }
        Ok(first.unwrap_or_else(|| whole.freeze()))
    }

    pub(crate) fn unreachable(&self, reason: String) -> TransportError {
        TransportError::Unreachable {
            server: self.inner.server.clone(),
            reason,
        }
    }

    pub(crate) fn server(&self) -> &str {
        &self.inner.server
    }
}

/// The innermost cause: "Connection refused", not "client error (Connect)".
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// A task that ends with its handle.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, String> {
        (&mut self.0).await.map_err(|error| error.to_string())
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
