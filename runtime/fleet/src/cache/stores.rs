//! The stores of one backend, shared by all controllers and tenants. Entry point: [`Stores::open`].
//!
//! A store starts with its first user and stops after its last. A store that only reads brought up counts as used until it
//! has been unread for [`CacheOptions::unread_life`].

mod indexes;
mod maintenance;
#[cfg(test)]
mod tests;

pub(crate) use indexes::IndexUse;

use super::continuity::Continuity;
use super::store::{Store, StoreKey};
use super::watch::{CacheOptions, ServerFeatures, SharedOptions, Watcher};
use crate::http::transport::Connection;
use crate::kind::{GroupVersionKind, Resource};
use arc_swap::ArcSwap;
use indexes::Indexes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Most stores of one backend; further ones are refused, so that reads of ever other kinds cannot fill memory.
const MAX_STORES: usize = 1000;

/// A user's hold on a running store.
pub(crate) type StoreUse = Arc<Running>;

/// A store and the task that feeds it; both end with the last [`StoreUse`].
pub(crate) struct Running {
    store: Arc<Store>,
    registry: Weak<Stores>,
    _stop: DropGuard,
}

impl Running {
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.forget_ended();
        }
    }
}

type ByKind = HashMap<GroupVersionKind, Vec<Arc<Store>>>;

pub(crate) struct Stores {
    connection: Connection,
    continuity: Arc<Continuity>,
    options: SharedOptions,
    features: Arc<ServerFeatures>,
    token: CancellationToken,
    tasks: TaskTracker,
    /// Told whenever a store starts, syncs or has a problem.
    changed: Arc<Notify>,
    running: Mutex<HashMap<StoreKey, Weak<Running>>>,
    /// What `running` holds, for readers: never locked.
    by_kind: ArcSwap<ByKind>,
    /// Stores that reads brought up, and when they were last read.
    read: Mutex<HashMap<StoreKey, (StoreUse, Instant)>>,
    /// Indexes that hold for every store of a kind, also of stores to come.
    indexes: Mutex<Indexes>,
    /// Counts what is in `by_kind`, for who waits for another store.
    published: watch::Sender<u64>,
}

/// Too many stores.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the cluster has {MAX_STORES} caches already: watch or read fewer kinds or namespaces")]
pub(crate) struct TooManyStores;

impl Stores {
    pub(crate) fn new(
        connection: Connection,
        continuity: Arc<Continuity>,
        options: SharedOptions,
        token: CancellationToken,
        tasks: TaskTracker,
        changed: Arc<Notify>,
    ) -> Arc<Self> {
        let stores = Arc::new(Self {
            connection,
            continuity,
            options,
            features: Arc::default(),
            token,
            tasks,
            changed,
            running: Mutex::default(),
            by_kind: ArcSwap::default(),
            read: Mutex::default(),
            indexes: Mutex::default(),
            published: watch::channel(0).0,
        });
        let (stop, chores) = (stores.token.clone(), maintenance::keep(&stores));
        stores.tasks.spawn_on(
            async move { stop.run_until_cancelled(chores).await },
            stores.connection.host(),
        );
        stores
    }

    /// The store of a key, started if nobody uses it yet.
    ///
    /// # Errors
    /// [`TooManyStores`].
    pub(crate) fn open(
        self: &Arc<Self>,
        key: StoreKey,
        resource: &Arc<Resource>,
    ) -> Result<StoreUse, TooManyStores> {
        let mut running = self.running.lock();
        if let Some(user) = running.get(&key).and_then(Weak::upgrade) {
            return Ok(user);
        }
        if running.len() >= MAX_STORES {
            return Err(TooManyStores);
        }
        let user = self.start(key.clone(), resource.clone());
        running.insert(key, Arc::downgrade(&user));
        let held = self.publish(&running);
        drop(running);
        drop(held);
        self.changed.notify_one();
        Ok(user)
    }

    fn start(self: &Arc<Self>, key: StoreKey, resource: Arc<Resource>) -> StoreUse {
        let store = Arc::new(Store::new(key, resource));
        self.indexes.lock().add_to(&store);
        let token = self.token.child_token();
        let watcher = Watcher::new(
            store.clone(),
            self.connection.clone(),
            self.continuity.clone(),
            self.options.clone(),
            self.features.clone(),
        );
        let stop = token.clone();
        self.tasks.spawn_on(
            async move { stop.run_until_cancelled(watcher.run()).await },
            self.connection.host(),
        );
        let mut progress = store.progress();
        let (changed, stop) = (self.changed.clone(), token.clone());
        let forward = async move {
            while progress.changed().await.is_ok() {
                changed.notify_one();
            }
        };
        self.tasks.spawn_on(
            async move { stop.run_until_cancelled(forward).await },
            self.connection.host(),
        );
        Arc::new(Running {
            store,
            registry: Arc::downgrade(self),
            _stop: token.drop_guard(),
        })
    }

    /// A store that a read needs; it lives on for a while after the last read.
    pub(crate) fn open_for_read(
        self: &Arc<Self>,
        key: StoreKey,
        resource: &Arc<Resource>,
    ) -> Result<StoreUse, TooManyStores> {
        let user = self.open(key.clone(), resource)?;
        self.read.lock().insert(key, (user.clone(), Instant::now()));
        Ok(user)
    }

    /// Keeps a store that reads brought up alive, if this is one.
    pub(crate) fn touch(&self, key: &StoreKey) {
        let mut read = self.read.lock();
        if let Some((_, at)) = read.get_mut(key) {
            *at = Instant::now();
        }
    }

    /// Stops the stores that have been unread for too long.
    pub(crate) fn drop_unread(&self, now: Instant) {
        let mut dropped = Vec::new();
        let life = self.options.now().unread_life;
        self.read.lock().retain(|_, (user, at)| {
            let keep = now.saturating_duration_since(*at) < life;
            if !keep {
                dropped.push(user.clone());
            }
            keep
        });
        // Dropped outside the lock: ending a store takes others.
        drop(dropped);
    }

    /// Whether any store is there for reads only, and so may have to be dropped.
    pub(crate) fn has_read_stores(&self) -> bool {
        !self.read.lock().is_empty()
    }

    fn forget_ended(&self) {
        let mut running = self.running.lock();
        running.retain(|_, user| user.strong_count() > 0);
        let held = self.publish(&running);
        drop(running);
        drop(held);
        self.changed.notify_one();
    }

    /// Shows readers what runs. Returns its holds on the stores, to be dropped once `running` is let go: the last hold of a store
    /// locks it again.
    #[must_use]
    fn publish(&self, running: &HashMap<StoreKey, Weak<Running>>) -> Vec<StoreUse> {
        let held: Vec<StoreUse> = running.values().filter_map(Weak::upgrade).collect();
        let mut by_kind = ByKind::new();
        for user in &held {
            by_kind
                .entry(user.store.key.kind.clone())
                .or_default()
                .push(user.store.clone());
        }
        self.by_kind.store(Arc::new(by_kind));
        self.published.send_modify(|count| *count += 1);
        held
    }

    /// Told whenever a store starts or ends.
    pub(crate) fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    pub(crate) fn options(&self) -> Arc<CacheOptions> {
        self.options.now()
    }

    /// Stores of a kind, without a lock.
    pub(crate) fn of_kind(&self, kind: &GroupVersionKind) -> Vec<Arc<Store>> {
        self.by_kind.load().get(kind).cloned().unwrap_or_default()
    }

    /// Calls `f` with the stores of a kind, without a lock and without a copy.
    pub(crate) fn with_kind<R>(
        &self,
        kind: &GroupVersionKind,
        f: impl FnOnce(&[Arc<Store>]) -> R,
    ) -> R {
        let by_kind = self.by_kind.load();
        f(by_kind.get(kind).map_or(&[], Vec::as_slice))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Store>> {
        self.by_kind.load().values().flatten().cloned().collect()
    }
}
