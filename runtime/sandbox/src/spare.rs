//! What is kept for later and given up when it is needed now: idle instances. Entry points: [`Spare`] and [`Spares`].

use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Keeps instances for later calls.
pub(crate) trait Spare: Send + Sync {
    /// Gives one up, if it has any.
    fn give_up_one(&self) -> bool;

    /// Gives up those that are too old at this time. Returns whether some are left.
    fn give_up_old(&self, now: Instant) -> bool;
}

/// All that keep something, of a tenant or of the engine.
#[derive(Default)]
pub(crate) struct Spares {
    /// One for each guest that reuses instances; those of guests that are gone leave with the next one that comes.
    keepers: Mutex<Vec<Weak<dyn Spare>>>,
}

impl Spares {
    pub(crate) fn add(&self, keeper: Weak<dyn Spare>) {
        let mut keepers = self.keepers.lock();
        keepers.retain(|keeper| keeper.strong_count() > 0);
        keepers.push(keeper);
    }

    /// Has one given up, if any is kept.
    pub(crate) fn give_up_one(&self) -> bool {
        self.all().iter().any(|keeper| keeper.give_up_one())
    }

    /// Has all given up that is too old at this time. Returns whether some are left.
    pub(crate) fn give_up_old(&self, now: Instant) -> bool {
        let kept = self.all();
        let left = kept.iter().filter(|keeper| keeper.give_up_old(now));
        left.count() > 0
    }

    /// Nothing is given up under the lock: it may end in a call of something that is kept here.
    fn all(&self) -> Vec<Arc<dyn Spare>> {
        let keepers = self.keepers.lock();
        keepers.iter().filter_map(Weak::upgrade).collect()
    }
}

impl std::fmt::Debug for Spares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spares")
            .field("keepers", &self.keepers.lock().len())
            .finish()
    }
}
