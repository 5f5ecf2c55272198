//! The server: [`Server`], many clusters behind one port.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::clusters::{self, Clusters};
use crate::hook::Hook;
use crate::http;

/// Changes kept per resource by default; a watch that falls further behind gets 410.
const HISTORY: usize = 4_096;

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
}

/// Settings of a [`Server`], made by [`Server::builder`].
#[derive(Default)]
pub struct Builder {
    clusters: Vec<String>,
    history: Option<usize>,
    hook: Option<Arc<dyn Hook>>,
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

    /// Asks `hook` about every request and watch frame. Default: none, everything is served.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Listens on `address` (`127.0.0.1:0` for a free port) and serves from now on, on the current Tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(self, address: &str) -> Result<Server, BindError> {
        let listen = |source| BindError::Listen {
            address: address.to_owned(),
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let bound = listener.local_addr().map_err(listen)?;
        let shared = Arc::new(Shared {
            clusters: Arc::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            history: self.history.unwrap_or(HISTORY),
            hook: self.hook,
        });
        let server = Server {
            shared,
            address: bound,
        };
        for name in &self.clusters {
            server.add_cluster(name);
        }
        server
            .shared
            .tasks
            .spawn(accept(listener, Arc::clone(&server.shared), None));
        Ok(server)
    }
}

/// A running server. Dropping it stops it without waiting; [`Server::shutdown`] waits.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    clusters: Arc<Clusters>,
    stop: CancellationToken,
    tasks: TaskTracker,
    history: usize,
    hook: Option<Arc<dyn Hook>>,
}

impl Server {
    /// Starts with the settings of a server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Serves one more cluster, empty but for its namespaces; the one of that name if it exists.
    /// Names are path segments: letters, digits, `-`, `_`, `.` and `:` need no encoding.
    pub fn add_cluster(&self, name: &str) -> Cluster {
        let shared = &self.shared;
        shared.clusters.get_or_add(name, || {
            let stop = shared.stop.child_token();
            let cluster = Cluster::new(name, shared.history, shared.hook.clone(), stop);
            shared.tasks.spawn(cluster.clone().clean_up());
            cluster
        })
    }

    /// Stops serving a cluster and forgets its objects; its watches break. Returns whether there was one.
    pub fn remove_cluster(&self, name: &str) -> bool {
        let removed = self.shared.clusters.remove(name);
        removed
            .inspect(|cluster| cluster.inner.closed.cancel())
            .is_some()
    }

    /// The handle of a cluster.
    pub fn cluster(&self, name: &str) -> Option<Cluster> {
        self.shared.clusters.get(name)
    }

    /// The clusters' names, sorted.
    pub fn clusters(&self) -> Vec<String> {
        self.shared.clusters.names()
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
        let listen = |source| BindError::Listen {
            address: address.to_owned(),
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let bound = listener.local_addr().map_err(listen)?;
        let only: Arc<str> = cluster.into();
        self.shared
            .tasks
            .spawn(accept(listener, Arc::clone(&self.shared), Some(only)));
        Ok(bound)
    }

    /// The base URL of a cluster, whether or not it is served.
    pub fn url(&self, cluster: &str) -> String {
        format!("http://{}{}", self.address, clusters::path(cluster))
    }

    /// A kubeconfig with one context per cluster, named like it; the first one is current.
    pub fn kubeconfig(&self) -> String {
        let names = self.clusters();
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut yaml = String::from("apiVersion: v1\nkind: Config\n");
        if let Some(first) = names.first() {
            yaml += &format!("current-context: {}\n", quoted(first));
        }
        let section = |title: &str, entry: &dyn Fn(&str) -> String| {
            let lines: Vec<String> = names.iter().map(|name| entry(name)).collect();
            if lines.is_empty() {
                format!("{title}: []\n")
            } else {
                format!("{title}:\n{}", lines.concat())
            }
        };
        yaml += &section("clusters", &|name| {
            format!(
                "- name: {}\n  cluster:\n    server: {}\n",
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
        yaml += "users:\n- name: admin\n  user: {}\n";
        yaml
    }

    /// Stops accepting, ends watches, lets requests in flight finish and returns when all tasks have ended.
    pub async fn shutdown(self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Accepts connections; `only` is the cluster that all of them are for.
async fn accept(listener: TcpListener, shared: Arc<Shared>, only: Option<Arc<str>>) {
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // A frame of a watch must not wait for the next one.
                let _ = stream.set_nodelay(true);
                shared
                    .tasks
                    .spawn(connection(stream, Arc::clone(&shared), only.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: tokio::net::TcpStream, shared: Arc<Shared>, only: Option<Arc<str>>) {
    let clusters = Arc::clone(&shared.clusters);
    let service = hyper::service::service_fn(move |request| {
        http::handle(Arc::clone(&clusters), only.clone(), request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(1_000);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shared.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
