//! Waits for a kind that a cluster does not serve yet. Entry point: [`CrdArrival::wait`].
//!
//! A change of a CustomResourceDefinition of the kind's group ends the wait at once. Where definitions cannot be watched, and for
//! kinds of aggregated servers, discovery is asked at intervals.

use super::Backend;
use crate::api::Projection;
use crate::cache::store::{Change, Sink, StoreKey};
use crate::cache::stores::StoreUse;
use crate::kind::GroupVersionKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The first wait after a definition has changed: a server serves a kind a little later than it shows the definition.
const FIRST: Duration = Duration::from_millis(250);

/// A wait for one kind, until dropped.
pub(crate) struct CrdArrival {
    backend: Arc<Backend>,
    changes: Arc<DefinitionChanges>,
    /// The watched definitions, and the subscription to them; `None` where they cannot be watched.
    definitions: Option<(StoreUse, u64)>,
    /// Time until discovery is asked again.
    pause: Duration,
}

/// Notifies of changed definitions of one group.
struct DefinitionChanges {
    /// The end of their names, which are `<plural>.<group>`.
    suffix: String,
    notify: Notify,
}

impl Sink for DefinitionChanges {
    fn changed(&self, change: &Change) {
        let object = change.object();
        if object.is_some_and(|object| object.name().ends_with(&self.suffix)) {
            self.notify.notify_one();
        }
    }
}

impl CrdArrival {
    pub(crate) fn new(backend: &Arc<Backend>, kind: &GroupVersionKind) -> Self {
        let changes = Arc::new(DefinitionChanges {
            suffix: format!(".{}", kind.group),
            notify: Notify::new(),
        });
        let definitions = open_definitions(backend).map(|user| {
            let id = user.store().subscribe(changes.clone());
            (user, id)
        });
        Self {
            backend: backend.clone(),
            changes,
            definitions,
            pause: backend.stores.options().look_again,
        }
    }

    /// Returns when discovery should be asked for the kind again.
    pub(crate) async fn wait(&mut self) {
        let longest = self.backend.stores.options().look_again;
        let changed = tokio::time::timeout(self.pause, self.changes.notify.notified()).await;
        self.pause = match changed {
            Ok(()) => FIRST.min(longest),
            Err(_) => (self.pause * 2).min(longest),
        };
        let discovery = &self.backend.discovery;
        if changed.is_ok() || self.pause < longest {
            discovery.learn(&self.backend.connection).await;
        }
    }
}

impl Drop for CrdArrival {
    fn drop(&mut self) {
        if let Some((user, id)) = &self.definitions {
            user.store().unsubscribe(*id);
        }
    }
}

fn open_definitions(backend: &Backend) -> Option<StoreUse> {
    let kind = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = backend.discovery.get(&kind)?;
    let key = StoreKey::whole(kind, None, Projection::Metadata);
    backend.stores.open(key, &resource).ok()
}
