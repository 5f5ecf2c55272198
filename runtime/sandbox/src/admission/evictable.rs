//! Idle instances that are evicted when their slots or their memory are needed. Entry points: [`Evictable`] and
//! [`EvictableInstances`].

use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Keeps idle instances for later calls.
pub(crate) trait Evictable: Send + Sync {
    /// Evicts one instance, if there is any.
    fn evict_one(&self) -> bool;

    /// Evicts the instances that are too old at this time. Returns whether some are left.
    fn evict_old(&self, now: Instant) -> bool;
}

/// The idle instances of a tenant, or of the engine.
#[derive(Default)]
pub(crate) struct EvictableInstances {
    /// One for each guest that reuses instances. Those of guests that are gone leave when the next one is added.
    keepers: Mutex<Vec<Weak<dyn Evictable>>>,
}

impl EvictableInstances {
    pub(crate) fn add(&self, keeper: Weak<dyn Evictable>) {
        let mut keepers = self.keepers.lock();
        keepers.retain(|keeper| keeper.strong_count() > 0);
        keepers.push(keeper);
    }

    /// Evicts one instance, if there is any.
    pub(crate) fn evict_one(&self) -> bool {
        self.all().iter().any(|keeper| keeper.evict_one())
    }

    /// Evicts all instances that are too old at this time. Returns whether some are left.
    pub(crate) fn evict_old(&self, now: Instant) -> bool {
        let kept = self.all();
        let left = kept.iter().filter(|keeper| keeper.evict_old(now));
        left.count() > 0
    }

    /// Nothing is evicted under the lock: dropping an instance may end up here again.
    fn all(&self) -> Vec<Arc<dyn Evictable>> {
        let keepers = self.keepers.lock();
        keepers.iter().filter_map(Weak::upgrade).collect()
    }
}

impl std::fmt::Debug for EvictableInstances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvictableInstances")
            .field("keepers", &self.keepers.lock().len())
            .finish()
    }
}
