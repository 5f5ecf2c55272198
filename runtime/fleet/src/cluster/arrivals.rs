//! Waits for kinds that a cluster does not serve yet. Entry point: [`Arrivals::wait`].
//!
//! The cluster's CustomResourceDefinitions tell at once when a kind may have come; where they cannot be watched, and for kinds of
//! aggregated servers, it is looked for from time to time.

use super::Backend;
use crate::api::Projection;
use crate::cache::store::{Change, Sink, StoreKey};
use crate::cache::stores::StoreUse;
use crate::kind::GroupVersionKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long after a definition has changed it is first looked for its kind again: definitions come before what they define.
const FIRST: Duration = Duration::from_millis(250);

/// One kind that is waited for, until dropped.
pub(crate) struct Arrivals {
    backend: Arc<Backend>,
    bell: Arc<Bell>,
    /// Held, so that the definitions are watched; none where they cannot be.
    definitions: Option<(StoreUse, u64)>,
    /// Time to the next look.
    pause: Duration,
}

/// Rings when a definition of a group changes.
struct Bell {
    /// What the names of its definitions end in: they are called `<plural>.<group>`.
    suffix: String,
    ring: Notify,
}

impl Sink for Bell {
    fn changed(&self, change: &Change) {
        let object = change.object();
        if object.is_some_and(|object| object.name().ends_with(&self.suffix)) {
            self.ring.notify_one();
        }
    }
}

impl Arrivals {
    pub(crate) fn new(backend: &Arc<Backend>, kind: &GroupVersionKind) -> Self {
        let bell = Arc::new(Bell {
            suffix: format!(".{}", kind.group),
            ring: Notify::new(),
        });
        let definitions = definitions(backend).map(|user| {
            let id = user.store().subscribe(bell.clone());
            (user, id)
        });
        Self {
            backend: backend.clone(),
            bell,
            definitions,
            pause: backend.stores.options().look_again,
        }
    }

    /// Returns when it is worth to ask discovery for the kind again.
    pub(crate) async fn wait(&mut self) {
        let longest = self.backend.stores.options().look_again;
        let rung = tokio::time::timeout(self.pause, self.bell.ring.notified()).await;
        self.pause = match rung {
            Ok(()) => FIRST.min(longest),
            Err(_) => (self.pause * 2).min(longest),
        };
        let discovery = &self.backend.discovery;
        if rung.is_ok() || self.pause < longest {
            discovery.learn(&self.backend.connection).await;
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        if let Some((user, id)) = &self.definitions {
            user.store().unsubscribe(*id);
        }
    }
}

fn definitions(backend: &Backend) -> Option<StoreUse> {
    let kind = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = backend.discovery.get(&kind)?;
    let key = StoreKey::whole(kind, None, Projection::Metadata);
    backend.stores.open(key, &resource).ok()
}
