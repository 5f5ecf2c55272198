//! The server: [`Server`], many clusters behind one port.

mod access;
mod opening;
mod tls;
mod workspaces;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::clusters;
use crate::hook::Hook;
use crate::http::{self, Door, Served};
use crate::origin::{Budget, Origin, Source};
use crate::state::State;
use crate::status::ApiError;
use access::Access;
use opening::Opening;
use tls::Tls;
pub use tls::{ClientCertificate, TlsError};

/// Streams that a client may have open at once on one HTTP/2 connection, by default.
const STREAMS: u32 = 1_000;

/// Changes kept per resource by default; a watch that falls further behind gets 410.
const HISTORY: usize = 4_096;

/// The address in the URLs of a server without sockets: one of those for documentation, where nobody listens.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 80);

/// Bytes that wait in each direction of a stream within the process.
const STREAM_BYTES: usize = 64 << 10;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: choose another address, or port 0 for a free one")]
    Listen {
        /// As given.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// TLS was asked for and cannot be set up.
    #[error("tls cannot be set up")]
    Tls(#[from] TlsError),
}

/// Connections of a [`Server`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Open now.
    pub open: usize,
    /// Accepted since the server began.
    pub accepted: u64,
}

/// Settings of a [`Server`], made by [`Server::builder`].
#[derive(Default)]
pub struct Builder {
    clusters: Vec<String>,
    history: Option<usize>,
    paged_lists_only: bool,
    without_controllers: bool,
    hook: Option<Arc<dyn Hook>>,
    tls: bool,
    http1_only: bool,
    max_streams: Option<u32>,
    shards: Option<usize>,
}

impl Builder {
    /// Adds a cluster; more can be added while the server runs.
    #[must_use]
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.clusters.push(name.into());
        self
    }

    /// Changes kept per resource and cluster for watches to resume from. Default: 4,096.
    #[must_use]
    pub fn history(mut self, changes: usize) -> Self {
        self.history = Some(changes);
        self
    }

    /// Refuses streaming lists, as a kube-apiserver does whose `WatchList` feature is off. Default: they are served.
    #[must_use]
    pub fn paged_lists_only(mut self) -> Self {
        self.paged_lists_only = true;
        self
    }

    /// Runs neither the garbage collector nor the namespace controller, as a kube-apiserver alone: dependents stay, and so does a deleted
    /// namespace until a client finalizes it. Default: both run.
    #[must_use]
    pub fn without_controllers(mut self) -> Self {
        self.without_controllers = true;
        self
    }

    /// Asks `hook` about every request and watch frame. Default: none, everything is served.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Serves TLS with a certificate authority of its own, HTTP/2 and HTTP/1.1 by ALPN. Default: plain HTTP, where clients
    /// that know HTTP/2 is there may use it.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Offers no HTTP/2 in TLS. Default: both.
    #[must_use]
    pub fn http1_only(mut self) -> Self {
        self.http1_only = true;
        self
    }

    /// Streams that a client may have open at once on one HTTP/2 connection. Default: 1,000.
    #[must_use]
    pub fn max_streams(mut self, streams: u32) -> Self {
        self.max_streams = Some(streams);
        self
    }

    /// Listens on `address` (`127.0.0.1:0` for a free port) and serves from now on, on the current Tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be listened on, or TLS cannot be set up.
    pub async fn bind(self, address: &str) -> Result<Server, BindError> {
        let (listener, bound) = listen(address).await?;
        let tls = if self.tls {
            Some(Tls::new(bound, !self.http1_only)?)
        } else {
            None
        };
        let opening = self.opening();
        let (mut served, mut listeners) = (Served::default(), Vec::new());
        if let Some(shards) = self.shards {
            let scheme = scheme(tls.as_ref());
            let planted =
                workspaces::plant(shards, scheme, bound, &served.clusters, &opening).await?;
            served.kcp = Some(planted.0);
            listeners = planted.1;
        }
        let server = self.server(served, opening, tls, bound);
        let main = accept(listener, Arc::clone(&server.shared), Door::Main);
        server.shared.opening.tasks.spawn(main);
        workspaces::serve(&server, listeners);
        Ok(server)
    }

    /// Serves within this process from now on, over the streams of its [`Entrance`]: plain HTTP, without sockets and without kcp's
    /// workspaces.
    #[must_use]
    pub fn in_process(self) -> Server {
        let opening = self.opening();
        self.server(Served::default(), opening, None, NOWHERE)
    }

    fn opening(&self) -> Opening {
        Opening {
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            history: self.history.unwrap_or(HISTORY),
            streaming_lists: !self.paged_lists_only,
            controllers: !self.without_controllers,
            hook: self.hook.clone(),
        }
    }

    fn server(
        self,
        served: Served,
        opening: Opening,
        tls: Option<Tls>,
        address: SocketAddr,
    ) -> Server {
        let shared = Arc::new(Shared {
            served,
            opening,
            tls,
            max_streams: self.max_streams.unwrap_or(STREAMS),
            access: Access::default(),
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
        });
        let server = Server { shared, address };
        for name in &self.clusters {
            server.add_cluster(name);
        }
        server
    }
}

/// A running server. Dropping it stops it without waiting; [`Server::shutdown`] waits.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    served: Served,
    opening: Opening,
    tls: Option<Tls>,
    max_streams: u32,
    access: Access,
    open: AtomicUsize,
    accepted: AtomicU64,
}

impl Server {
    /// Starts with the settings of a server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Serves one more cluster, empty but for its namespaces; the one of that name if it exists.
    /// Names are path segments: letters, digits, `-`, `_`, `.` and `:` need no encoding.
    pub fn add_cluster(&self, name: &str) -> Cluster {
        let opening = &self.shared.opening;
        let state = || State::new(opening.history);
        self.shared
            .served
            .clusters
            .get_or_add(name, || opening.open(name, state()))
    }

    /// Serves a fork of another cluster, which reads through `origin` what it is asked for, once, and keeps every write to itself; the
    /// one of that name if it exists. What it holds is taken from `budget` for as long as there is a handle of it.
    pub fn fork(&self, name: &str, origin: Arc<dyn Origin>, budget: Arc<Budget>) -> Cluster {
        let opening = &self.shared.opening;
        let source = Source::new(origin, budget);
        let open = || opening.open_as(name, State::fork(opening.history), Some(source));
        self.shared.served.clusters.get_or_add(name, open)
    }

    /// Stops serving a cluster and forgets its objects; its watches break. Returns whether there was one.
    pub fn remove_cluster(&self, name: &str) -> bool {
        let removed = self.shared.served.clusters.remove(name);
        removed
            .inspect(|cluster| cluster.inner.closed.cancel())
            .is_some()
    }

    /// The handle of a cluster.
    pub fn cluster(&self, name: &str) -> Option<Cluster> {
        self.shared.served.clusters.get(name)
    }

    /// The clusters' names, sorted.
    pub fn clusters(&self) -> Vec<String> {
        self.shared.served.clusters.names()
    }

    /// The way in from within the process.
    pub fn entrance(&self) -> Entrance {
        Entrance(Arc::clone(&self.shared))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves a cluster at the root of a port of its own too, for clients that know no path prefix, until the server or the
    /// cluster ends.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn expose(&self, cluster: &str, address: &str) -> Result<SocketAddr, BindError> {
        let (listener, bound) = listen(address).await?;
        let door = Door::Cluster(cluster.into());
        self.shared
            .opening
            .tasks
            .spawn(accept(listener, Arc::clone(&self.shared), door));
        Ok(bound)
    }

    /// The base URL of a cluster, whether or not it is served.
    pub fn url(&self, cluster: &str) -> String {
        let scheme = scheme(self.shared.tls.as_ref());
        format!("{scheme}://{}{}", self.address, clusters::path(cluster))
    }

    /// The certificate of its authority, PEM; `None` without TLS.
    pub fn ca(&self) -> Option<String> {
        self.shared.tls.as_ref().map(Tls::ca_pem)
    }

    /// Puts another authority and server certificate in place for connections from now on; those that stand are left alone.
    /// Does nothing without TLS.
    ///
    /// # Errors
    /// When certificates cannot be made; then nothing has changed.
    pub fn rotate_ca(&self) -> Result<(), TlsError> {
        self.shared.tls.as_ref().map_or(Ok(()), Tls::rotate)
    }

    /// A client certificate of its authority, valid from now on for `valid`; `None` without TLS.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn issue_certificate(
        &self,
        name: &str,
        valid: Duration,
    ) -> Result<Option<ClientCertificate>, TlsError> {
        let tls = self.shared.tls.as_ref();
        tls.map(|tls| tls.issue(name, valid)).transpose()
    }

    /// From now on answers 401 to requests with neither one of these bearer tokens nor a client certificate of its authority.
    /// `None`: everybody is admitted, as at the beginning.
    pub fn set_tokens(&self, tokens: Option<&[&str]>) {
        let owned = |tokens: &[&str]| tokens.iter().map(|token| (*token).to_owned()).collect();
        self.shared.access.set(tokens.map(owned));
    }

    /// How many connections there are and have been.
    pub fn connections(&self) -> Connections {
        Connections {
            open: self.shared.open.load(Ordering::SeqCst),
            accepted: self.shared.accepted.load(Ordering::SeqCst),
        }
    }

    /// A kubeconfig with one context per cluster, named like it, and one per workspace, named by its path. The first cluster is current,
    /// or the root workspace where there is none. It holds the authority's certificate and a token where there are such.
    pub fn kubeconfig(&self) -> String {
        let is_cluster = |name: &String| self.workspace(name).is_none();
        let mut names: Vec<String> = self.clusters().into_iter().filter(is_cluster).collect();
        names.extend(self.workspaces());
        self.kubeconfig_of(&names)
    }

    /// The same with these clusters and workspaces alone, whether they are served or not. The first is current.
    pub fn kubeconfig_of(&self, names: &[impl AsRef<str>]) -> String {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut yaml = String::from("apiVersion: v1\nkind: Config\n");
        if let Some(first) = names.first() {
            yaml += &format!("current-context: {}\n", quoted(first));
        }
        let section = |title: &str, entry: &dyn Fn(&str) -> String| {
            let lines: Vec<String> = names.iter().copied().map(entry).collect();
            if lines.is_empty() {
                format!("{title}: []\n")
            } else {
                format!("{title}:\n{}", lines.concat())
            }
        };
        yaml += &section("clusters", &|name| {
            let ca = self.ca().map_or_else(String::new, |pem| {
                let data = crate::base64::encode(pem.as_bytes());
                format!("    certificate-authority-data: {data}\n")
            });
            format!(
                "- name: {}\n  cluster:\n    server: {}\n{ca}",
                quoted(name),
                quoted(&self.url(name))
            )
        });
        yaml += &section("contexts", &|name| {
            format!(
                "- name: {0}\n  context:\n    cluster: {0}\n    user: admin\n",
                quoted(name)
            )
        });
        let user = self.shared.access.any_token().map_or_else(
            || "{}".to_owned(),
            |token| format!("{{token: {}}}", quoted(&token)),
        );
        yaml += &format!("users:\n- name: admin\n  user: {user}\n");
        yaml
    }

    /// Stops accepting, ends watches, lets requests in flight finish and returns when all tasks have ended.
    pub async fn shutdown(self) {
        self.shared.opening.stop.cancel();
        self.shared.opening.tasks.close();
        self.shared.opening.tasks.wait().await;
    }
}

/// Opens connections to a [`Server`] within the process, as sockets to its address would be. Cheap to clone.
#[derive(Clone)]
pub struct Entrance(Arc<Shared>);

impl Entrance {
    /// Opens a connection. Once the server has stopped, it ends at once.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = duplex(STREAM_BYTES);
        let serving = connection(theirs, Arc::clone(&self.0), Door::Main);
        self.0.opening.tasks.spawn(serving);
        ours
    }
}

impl std::fmt::Debug for Entrance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entrance").finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.opening.stop.cancel();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn scheme(tls: Option<&Tls>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}

async fn listen(address: &str) -> Result<(TcpListener, SocketAddr), BindError> {
    let failed = |source| BindError::Listen {
        address: address.to_owned(),
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Accepts connections.
async fn accept(listener: TcpListener, shared: Arc<Shared>, door: Door) {
    loop {
        let accepted = tokio::select! {
            () = shared.opening.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // A frame of a watch must not wait for the next one.
                let _ = stream.set_nodelay(true);
                shared
                    .opening
                    .tasks
                    .spawn(connection(stream, Arc::clone(&shared), door.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Counts a connection as open while it is held.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    shared: Arc<Shared>,
    door: Door,
) {
    let _open = Open::new(Arc::clone(&shared));
    let Some(tls) = &shared.tls else {
        return serve(stream, &shared, door, false).await;
    };
    let stream = tokio::select! {
        () = shared.opening.stop.cancelled() => return,
        stream = tls.accept(stream) => stream,
    };
    match stream {
        Ok(stream) => {
            let certificate = stream.get_ref().1.peer_certificates().is_some();
            serve(stream, &shared, door, certificate).await;
        }
        Err(error) => tracing::debug!(%error, "a tls handshake failed"),
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    shared: &Arc<Shared>,
    door: Door,
    has_certificate: bool,
) {
    let of_service = Arc::clone(shared);
    let service = hyper::service::service_fn(move |request| {
        let (shared, door) = (Arc::clone(&of_service), door.clone());
        async move {
            if !shared.access.admits(request.headers(), has_certificate) {
                return Ok(http::failure(&ApiError::new(
                    401,
                    "Unauthorized",
                    "Unauthorized",
                )));
            }
            http::handle(&shared.served, &door, request).await
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(shared.max_streams);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shared.opening.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
