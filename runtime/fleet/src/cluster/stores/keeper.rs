//! The chores of a backend's stores: stopping those that nobody reads, and comparing all with the server. Entry point: [`keep`].

use super::Stores;
use crate::cluster::compare::compare;
use crate::cluster::store::{Store, StoreKey};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Longest and shortest time between two looks at what is due.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// Does the chores until the stores are gone.
pub(super) fn keep(stores: &Arc<Stores>) -> impl Future<Output = ()> + Send + 'static {
    let options = &stores.options;
    let shortest = if options.compare_every.is_zero() {
        options.unread_life
    } else {
        options.compare_every.min(options.unread_life)
    };
    let look = (shortest / 10).clamp(LOOK.0, LOOK.1);
    let mut keeper = Keeper {
        stores: Arc::downgrade(stores),
        due: HashMap::new(),
        rng: fastrand::Rng::new(),
    };
    async move {
        while keeper.look().await {
            tokio::time::sleep(look).await;
        }
    }
}

struct Keeper {
    stores: Weak<Stores>,
    /// When each running store is to be compared.
    due: HashMap<StoreKey, Instant>,
    rng: fastrand::Rng,
}

impl Keeper {
    /// Does what is due; `false` once the stores are gone.
    async fn look(&mut self) -> bool {
        let Some(stores) = self.stores.upgrade() else {
            return false;
        };
        if stores.has_read_stores() {
            stores.drop_unread(Instant::now());
        }
        for store in self.due(&stores) {
            // One after the other, so that no server is asked for many kinds at once.
            check(&stores, &store).await;
        }
        true
    }

    fn due(&mut self, stores: &Stores) -> Vec<Arc<Store>> {
        let every = stores.options.compare_every;
        if every.is_zero() {
            return Vec::new();
        }
        let (now, running) = (Instant::now(), stores.all());
        let mut next = HashMap::with_capacity(running.len());
        let mut due = Vec::new();
        for store in running {
            let later = now + every.mul_f64(1.0 + 0.2 * self.rng.f64());
            let mut at = self.due.remove(&store.key).unwrap_or(later);
            if at <= now {
                at = later;
                due.push(store.clone());
            }
            next.insert(store.key.clone(), at);
        }
        self.due = next;
        due
    }
}

/// Compares a store that is believed to be in step.
async fn check(stores: &Stores, store: &Store) {
    let progress = store.progress().borrow().clone();
    if !progress.watching || progress.problem.is_some() {
        return;
    }
    let (server, kind) = (stores.connection.server(), &store.key.kind);
    match compare(store, &stores.connection, stores.options.page).await {
        Ok(false) => {}
        Ok(true) => {
            tracing::warn!(server, %kind, namespace = store.key.namespace.as_deref(), "cache differs from its server, which never told: listed anew");
            stores.connection.metrics().repaired();
            store.ask_relist();
        }
        Err(error) => {
            tracing::debug!(server, %kind, error = &error as &dyn std::error::Error, "cache not compared with its server");
        }
    }
}
