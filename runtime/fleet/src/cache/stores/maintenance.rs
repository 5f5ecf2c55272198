//! Periodic work on a backend's stores: ending those that are not read, and checking all for drift. Entry point: [`run`].

use super::Stores;
use crate::cache::drift::{self, Drift};
use crate::cache::store::{Store, StoreKey};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Shortest and longest time between two rounds.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));
/// Rounds in the shortest interval that is configured, so that work is late by a tenth of it at most.
const ROUNDS: u32 = 10;
/// Time from the first request for a drift check to the round: watches that broke together request theirs within it.
const TOGETHER: Duration = Duration::from_secs(1);
/// Most drift checks of a store by request in one regular interval, because watches may break often.
const MAX_REQUESTED: u32 = 10;

/// Works until the stores are gone.
pub(super) fn run(stores: &Arc<Stores>) -> impl Future<Output = ()> + Send + 'static {
    let requested = stores.server.drift_check_requested.clone();
    let mut maintenance = Maintenance {
        stores: Arc::downgrade(stores),
        due: HashMap::new(),
        rng: fastrand::Rng::new(),
    };
    async move {
        while let Some(pause) = maintenance.round().await {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = requested.notified() => tokio::time::sleep(pause.min(TOGETHER)).await,
            }
        }
    }
}

struct Maintenance {
    stores: Weak<Stores>,
    due: HashMap<StoreKey, Due>,
    rng: fastrand::Rng,
}

/// When a store's next drift check is due.
#[derive(Clone, Copy)]
struct Due {
    /// Without a request.
    regular: Instant,
    /// With a request.
    requested: Instant,
}

impl Maintenance {
    /// Does what is due. Returns the time to the next round; `None` once the stores are gone.
    async fn round(&mut self) -> Option<Duration> {
        let stores = self.stores.upgrade()?;
        if stores.has_read_stores() {
            stores.drop_unread(Instant::now());
        }
        for store in self.due(&stores) {
            // One after the other, so that a server lists one kind at a time.
            check_drift(&stores, &store).await;
        }
        let options = stores.options();
        let shortest = if options.compare_every.is_zero() {
            options.unread_life
        } else {
            options.compare_every.min(options.unread_life)
        };
        Some((shortest / ROUNDS).clamp(PAUSE.0, PAUSE.1))
    }

    /// The stores whose drift check is due.
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
                requested: now,
            });
            // The interval may have become shorter since.
            at.regular = at.regular.min(later);
            if at.regular <= now || at.requested <= now && store.take_drift_check_request() {
                at = Due {
                    regular: later,
                    requested: now + every / MAX_REQUESTED,
                };
                due.push(store.clone());
            }
            next.insert(store.key.clone(), at);
        }
        self.due = next;
        due
    }
}

/// Checks a store whose watch runs; another one is about to be listed or confirmed anyway.
async fn check_drift(stores: &Stores, store: &Store) {
    let progress = store.progress().borrow().clone();
    if !progress.watching || progress.problem.is_some() {
        return;
    }
    let connection = &stores.server.connection;
    let (server, kind) = (connection.server(), &store.key.kind);
    let namespace = store.key.namespace.as_deref();
    match drift::check(store, connection, stores.options().page).await {
        Ok(Drift::None) => {}
        Ok(Drift::HistoryLost) => {
            tracing::warn!(server, %kind, namespace, "server lost its history: it has older states of objects than the cache");
            stores.server.continuity.lose_history();
        }
        Ok(Drift::Differs) => {
            tracing::warn!(server, %kind, namespace, "cache differs from its server, which sent no event: it is listed again");
            connection.metrics().repaired();
            store.request_relist();
        }
        Err(error) => {
            tracing::debug!(server, %kind, error = &error as &dyn std::error::Error, "drift check failed");
        }
    }
}
