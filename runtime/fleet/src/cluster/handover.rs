//! Prepares a cluster that replaces another one of the same name: its caches are filled first, so that work goes on without a gap.
//! Entry point: [`Cluster::fill_like`].

use super::{Backend, Cluster, StoreUse};
use crate::api::ApiCode;
use crate::cache::store::{Progress, Store};
use std::sync::Arc;
use std::time::Duration;

/// Time between two attempts to resolve a kind.
const RETRY: Duration = Duration::from_secs(1);

impl Cluster {
    /// Sets the cluster that replaces this one once it is ready, for status.
    pub(crate) fn set_replacement(&self, replacement: Option<Arc<Self>>) {
        self.replacement.store(replacement);
    }

    /// Whether its caches were in sync once. If not, there is no work that a handover could keep going.
    pub(crate) fn has_served(&self) -> bool {
        self.lifecycle.has_served()
    }

    /// Whether both have reached the same server, by the identity that it gives.
    pub(crate) fn is_server_of(&self, other: &Self) -> bool {
        let (Some(this), Some(other)) = (self.backend(), other.backend()) else {
            return false;
        };
        let identity = this.continuity.server_uid();
        identity.is_some() && identity == other.continuity.server_uid()
    }

    /// Fills the caches that another cluster has, except those that this one's server does not serve or refuses. Returns them once all
    /// are filled, and waits for that without a limit.
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
            // Cannot fail: the sender lives as long as the store, which `users` keeps.
            let _ = progress.wait_for(Progress::is_decided).await;
        }
        users
    }
}

async fn open_like(backend: &Backend, store: &Store) -> Option<StoreUse> {
    loop {
        let resolved = backend.resolve(&store.key.kind).await;
        match resolved {
            Ok(resource) => return backend.stores.open(store.key.clone(), &resource).ok(),
            Err(error) if error.code == ApiCode::UnknownKind => return None,
            // A controller that watches the kind waits for its group. The rest of the cluster need not.
            Err(_) if backend.discovery.failure_of(&store.key.kind).is_some() => return None,
            Err(_) => backend.connection.pause(RETRY).await,
        }
    }
}
