//! A server's tree of workspaces, as kcp has it: [`Builder::kcp_shards`], and the controls that tests have over it.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::opening::Opening;
use super::{BindError, Builder, Server, accept};
use crate::cluster::Cluster;
use crate::clusters::Clusters;
use crate::http::Door;
use crate::kcp::{Kcp, WorkspaceError};

impl Builder {
    /// Serves a kcp too: a tree of workspaces, at first `root` alone, on so many shards (at least one). Workspaces are clusters at
    /// `/clusters/<path or logical cluster>`, whichever their shard is. The first shard serves its virtual workspaces on the
    /// server's own port, each further one on a port of its own, on the same host. Default: no kcp.
    #[must_use]
    pub fn kcp_shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards.max(1));
        self
    }
}

/// Makes the tree, and the listeners of shards but the first.
pub(super) async fn plant(
    shards: usize,
    scheme: &str,
    first: SocketAddr,
    clusters: &Arc<Clusters>,
    opening: &Opening,
) -> Result<(Arc<Kcp>, Vec<TcpListener>), BindError> {
    let mut urls = vec![format!("{scheme}://{first}")];
    let mut listeners = Vec::new();
    for _ in 1..shards {
        let (listener, bound) = super::listen(&SocketAddr::new(first.ip(), 0).to_string()).await?;
        urls.push(format!("{scheme}://{bound}"));
        listeners.push(listener);
    }
    let how = opening.clone();
    let open = Box::new(move |name: &str, state| how.open(name, state));
    let kcp = Kcp::new(Arc::clone(clusters), &urls, opening.history, open);
    opening
        .tasks
        .spawn(Arc::clone(&kcp).run(opening.stop.clone()));
    Ok((kcp, listeners))
}

/// Serves the shards that have listeners of their own.
pub(super) fn serve(server: &Server, listeners: Vec<TcpListener>) {
    for (at, listener) in listeners.into_iter().enumerate() {
        let shared = Arc::clone(&server.shared);
        let door = Door::Shard(at + 1);
        server
            .shared
            .opening
            .tasks
            .spawn(accept(listener, shared, door));
    }
}

impl Server {
    fn kcp(&self) -> Option<&Arc<Kcp>> {
        self.shared.served.kcp.as_ref()
    }

    /// Makes the workspace of a path such as `root:org:team`, and those above it, each on the shard of the one above it. On return it
    /// is ready. The one of that path if it exists.
    ///
    /// # Errors
    /// When the server has no kcp, for a path that is not below the root, and for a name that a Workspace cannot have.
    pub fn add_workspace(&self, path: &str) -> Result<Cluster, WorkspaceError> {
        let kcp = self.kcp().ok_or(WorkspaceError::NoKcp)?;
        kcp.make_workspace(path, None)
    }

    /// As [`Server::add_workspace`], on the shard of an index. Over HTTP that is `spec.location.selector.matchLabels.name` of the
    /// Workspace: `root`, `shard-1` and so on.
    ///
    /// # Errors
    /// As [`Server::add_workspace`], and when there is no such shard.
    pub fn add_workspace_on(&self, path: &str, shard: usize) -> Result<Cluster, WorkspaceError> {
        let kcp = self.kcp().ok_or(WorkspaceError::NoKcp)?;
        kcp.make_workspace(path, Some(shard))
    }

    /// Deletes the workspace of a path as a client would, by its Workspace object: what holds it there keeps it. Returns whether there
    /// was one.
    pub fn remove_workspace(&self, path: &str) -> bool {
        self.kcp().is_some_and(|kcp| kcp.delete_workspace_at(path))
    }

    /// A workspace, by its path or the name of its logical cluster.
    pub fn workspace(&self, path_or_name: &str) -> Option<Cluster> {
        self.kcp()?.workspace(path_or_name)
    }

    /// The path of a workspace, by itself or the name of its logical cluster.
    pub fn workspace_path(&self, path_or_name: &str) -> Option<String> {
        Some(self.kcp()?.place(path_or_name)?.0)
    }

    /// The [shard](Self::shard) that a workspace is on, by its path or the name of its logical cluster.
    pub fn shard_of(&self, path_or_name: &str) -> Option<Cluster> {
        Some(self.kcp()?.place(path_or_name)?.1.all.clone())
    }

    /// The paths of all workspaces, sorted.
    pub fn workspaces(&self) -> Vec<String> {
        self.kcp().map(|kcp| kcp.paths()).unwrap_or_default()
    }

    /// Does what kcp's controllers have to do by now: on return bindings that can be bound are bound. They also work by themselves.
    pub fn settle_workspaces(&self) {
        if let Some(kcp) = self.kcp() {
            kcp.settle();
        }
    }

    /// Everything on a shard: counts and logs what was asked of all its workspaces at once (`clusters/*`), and cuts those watches.
    /// Making it unreachable makes all virtual workspaces of the shard so. It cannot be written.
    /// To hooks and faults it is the cluster `shard:root`, `shard:shard-1` and so on.
    pub fn shard(&self, index: usize) -> Option<Cluster> {
        Some(self.kcp()?.shard(index)?.all.clone())
    }

    /// Where the virtual workspaces of a shard are served, without `/services` and what follows.
    pub fn shard_url(&self, index: usize) -> Option<&str> {
        Some(self.kcp()?.shard(index)?.url.as_str())
    }

    /// Lets every request through virtual workspaces of a shard be answered with this status (403 or 404), as it is while they begin
    /// to serve. `None`: they are served, as at the beginning.
    pub fn refuse_at_shard(&self, index: usize, status: Option<u16>) {
        if let Some(shard) = self.kcp().and_then(|kcp| kcp.shard(index)) {
            shard.refuse(status);
        }
    }
}
