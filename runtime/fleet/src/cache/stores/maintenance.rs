//! The chores of a backend's stores: stopping those that nobody reads, and comparing all with the server. Entry point: [`keep`].

use super::Stores;
use crate::cache::drift::{Outcome, compare};
use crate::cache::store::{Store, StoreKey};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Longest and shortest time between two looks at what is due.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// Does the chores until the stores are gone.
pub(super) fn keep(stores: &Arc<Stores>) -> impl Future<Output = ()> + Send + 'static {
    let features = stores.features.clone();
    let mut maintenance = Maintenance {
        stores: Arc::downgrade(stores),
        due: HashMap::new(),
        rng: fastrand::Rng::new(),
    };
    async move {
        while let Some(pause) = maintenance.look().await {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The other watches that broke with it ask within moments.
                () = features.comparison_asked.notified() => tokio::time::sleep(pause.min(TOGETHER)).await,
            }
        }
    }
}

/// How long to wait after one store asked to be compared, for others that will.
const TOGETHER: Duration = Duration::from_secs(1);
/// A store that asks to be compared is not compared more often than so many times in the usual interval: watches may break often.
const MOST_ASKED: u32 = 10;

struct Maintenance {
    stores: Weak<Stores>,
    due: HashMap<StoreKey, Due>,
    rng: fastrand::Rng,
}

/// When a running store is to be compared.
#[derive(Clone, Copy)]
struct Due {
    /// At the latest.
    regular: Instant,
    /// At the earliest, if the store asks for it.
    earliest: Instant,
}

impl Maintenance {
    /// Does what is due, and returns when to look again; `None` once the stores are gone.
    async fn look(&mut self) -> Option<Duration> {
        let stores = self.stores.upgrade()?;
        if stores.has_read_stores() {
            stores.drop_unread(Instant::now());
        }
        for store in self.due(&stores) {
            // One after the other, so that no server is asked for many kinds at once.
            check(&stores, &store).await;
        }
        let options = stores.options();
        let shortest = if options.compare_every.is_zero() {
            options.unread_life
        } else {
            options.compare_every.min(options.unread_life)
        };
        Some((shortest / 10).clamp(LOOK.0, LOOK.1))
    }

    fn due(&mut self, stores: &Stores) -> Vec<Arc<Store>> {
        let every = stores.options().compare_every;
        if every.is_zero() {
            return Vec::new();
        }
        let (now, running) = (Instant::now(), stores.all());
        let mut next = HashMap::with_capacity(running.len());
        let mut due = Vec::new();
        for store in running {
            let later = now + every.mul_f64(1.0 + 0.2 * self.rng.f64());
            let mut at = self.due.remove(&store.key).unwrap_or(Due {
                regular: later,
                earliest: now,
            });
            // No later than from now on, where comparisons have become more frequent.
            at.regular = at.regular.min(later);
            if at.regular <= now || at.earliest <= now && store.take_drift_check_request() {
                at = Due {
                    regular: later,
                    earliest: now + every / MOST_ASKED,
                };
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
    match compare(store, &stores.connection, stores.options().page).await {
        Ok(Outcome::InStep) => {}
        Ok(Outcome::HistoryLost) => {
            tracing::warn!(server, %kind, namespace = store.key.namespace.as_deref(), "server lost its history: it has older states of objects than the cache");
            stores.continuity.lose_history();
        }
        Ok(Outcome::Differs) => {
            tracing::warn!(server, %kind, namespace = store.key.namespace.as_deref(), "cache differs from its server, which never told: listed anew");
            stores.connection.metrics().repaired();
            store.request_relist();
        }
        Err(error) => {
            tracing::debug!(server, %kind, error = &error as &dyn std::error::Error, "cache not compared with its server");
        }
    }
}
