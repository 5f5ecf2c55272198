//! How a cluster gets ready to take another's place. Entry point: [`Cluster::fill_like`].

use super::{Backend, Cluster, ClusterState, StoreUse};
use crate::api::ApiCode;
use crate::cache::store::{Progress, Store};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait before a kind that could not be looked up is looked up again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Cluster {
    /// Names the cluster that takes this one's place once it is ready, for status.
    pub(crate) fn set_replacement(&self, replacement: Option<Arc<Self>>) {
        self.replacement.store(replacement);
    }

    /// Whether its caches have been in step once, so that there is something to go on with.
    pub(crate) fn has_served(&self) -> bool {
        matches!(self.state(), ClusterState::Ready | ClusterState::Degraded)
    }

    /// Fills the caches that another cluster has, as far as this one's server serves them and lets us. Returns holds on them once
    /// all are filled; waits for that without end.
    pub(crate) async fn fill_like(&self, other: &Self) -> Vec<StoreUse> {
        let Ok(backend) = self.connected().await else {
            return Vec::new();
        };
        let wanted = other.backend().map(|backend| backend.stores.all());
        let mut users = Vec::new();
        for store in wanted.unwrap_or_default() {
            users.extend(open_like(&backend, &store).await);
        }
        for user in &users {
            let mut progress = user.store().progress();
            // The sender lives as long as the store, which is held here.
            let _ = progress.wait_for(Progress::is_decided).await;
        }
        users
    }
}

async fn open_like(backend: &Backend, store: &Store) -> Option<StoreUse> {
    loop {
        let resolved = backend
            .discovery
            .resolve(&backend.connection, &store.key.kind)
            .await;
        match resolved {
            Ok(resource) => return backend.stores.open(store.key.clone(), &resource).ok(),
            Err(error) if error.code == ApiCode::UnknownKind => return None,
            Err(_) => backend.connection.pause(LOOK_AGAIN).await,
        }
    }
}
