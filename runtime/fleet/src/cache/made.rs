//! A kind whose objects the host makes. No server has them, but they have a store as other kinds have. Entry point: [`Made`].

use super::store::Store;
use crate::kind::{GroupVersionKind, Resource};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Shortest time between two changes of a store, so that a burst is one change.
const PACE: Duration = Duration::from_millis(100);

/// Makes the objects of one kind.
pub(crate) trait Made: Send + Sync {
    /// The kind, as discovery would describe it.
    fn resource(&self) -> &Arc<Resource>;

    /// Brings a store of the kind in step with the objects as they are now.
    fn fill(&self, store: &Store);

    /// Brings a store of the kind in step with the kind's other stores.
    fn catch_up(&self, store: &Store);

    /// Changes whenever objects may have changed.
    fn changes(&self) -> watch::Receiver<()>;
}

impl dyn Made {
    pub(crate) fn is_of(&self, kind: &GroupVersionKind) -> bool {
        self.resource().kind == *kind
    }
}

/// Keeps a store in step until dropped.
pub(super) async fn feed(made: Arc<dyn Made>, store: Arc<Store>) {
    let mut changes = made.changes();
    loop {
        changes.mark_unchanged();
        made.fill(&store);
        let next = Instant::now() + PACE;
        if changes.changed().await.is_err() {
            return;
        }
        tokio::time::sleep_until(next).await;
    }
}
