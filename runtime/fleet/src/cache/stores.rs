//! The stores of one backend, shared by all controllers and tenants. Entry point: [`Stores::open`].
//!
//! A store and its watch start with the first user and end with the last one. A store that a read started is kept as if it were in
//! use, until it has not been read for [`CacheOptions::unread_life`].
//!
//! Rooms: `indexes` holds the indexes that every store of a kind has, `maintenance` ends unread stores and checks for drift.

mod indexes;
mod maintenance;
#[cfg(test)]
mod tests;

pub(crate) use indexes::IndexUse;

use super::continuity::Continuity;
use super::made::{self, Made};
use super::store::{LeftOut, Store, StoreKey};
use super::watch::{CacheOptions, Server, SharedOptions, Watcher};
use crate::http::transport::Connection;
use crate::kind::{GroupVersionKind, Resource};
use arc_swap::ArcSwap;
use indexes::Indexes;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Most stores of one backend. Further ones are refused, so that reads of ever other kinds cannot fill memory.
const MAX_STORES: usize = 1000;

/// One use of a running store.
pub(crate) type StoreUse = Arc<Running>;

/// A store and the task that feeds it; both end with the last [`StoreUse`].
pub(crate) struct Running {
    store: Arc<Store>,
    stores: Weak<Stores>,
    _stop: DropGuard,
}

impl Running {
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(stores) = self.stores.upgrade() {
            stores.forget_ended();
        }
    }
}

type ByKind = HashMap<GroupVersionKind, Vec<Arc<Store>>>;

pub(crate) struct Stores {
    server: Server,
    /// Makes the objects of a kind that the server does not have.
    made: Option<Arc<dyn Made>>,
    token: CancellationToken,
    tasks: TaskTracker,
    /// Notified whenever a store starts, ends, or changes its progress.
    changed: Arc<Notify>,
    /// Locked before `indexes`. An upgraded [`StoreUse`] must be dropped without this lock, because the last drop takes it.
    running: Mutex<HashMap<StoreKey, Weak<Running>>>,
    /// The stores of `running`, for readers, who take no lock.
    by_kind: ArcSwap<ByKind>,
    /// Stores that a read started, and when they were last read.
    read: Mutex<HashMap<StoreKey, (StoreUse, Instant)>>,
    indexes: Mutex<Indexes>,
    left_out: LeftOut,
    /// Number of changes of `by_kind`.
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
        made: Option<Arc<dyn Made>>,
        token: CancellationToken,
        tasks: TaskTracker,
        changed: Arc<Notify>,
    ) -> Arc<Self> {
        let server = Server {
            connection,
            continuity,
            options,
            features: Arc::default(),
            drift_check_requested: Arc::default(),
        };
        let stores = Arc::new(Self {
            server,
            made,
            token,
            tasks,
            changed,
            running: Mutex::default(),
            by_kind: ArcSwap::default(),
            read: Mutex::default(),
            indexes: Mutex::default(),
            left_out: LeftOut::default(),
            published: watch::channel(0).0,
        });
        stores.spawn(stores.token.clone(), maintenance::run(&stores));
        stores
    }

    /// Runs a task on the host's runtime until its token ends it.
    fn spawn(&self, stop: CancellationToken, task: impl Future<Output = ()> + Send + 'static) {
        crate::task::spawn(&self.tasks, self.server.connection.host(), stop, task);
    }

    /// The store of a key, started if it does not run yet.
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
        let upgraded = self.publish(&running);
        drop(running);
        drop(upgraded);
        self.changed.notify_one();
        Ok(user)
    }

    fn start(self: &Arc<Self>, key: StoreKey, resource: Arc<Resource>) -> StoreUse {
        let made = self.made(&key.kind).cloned();
        let of_workspaces = made.is_none() && self.server.connection.is_wildcard();
        let store = Store::new(key, resource, self.left_out.clone(), of_workspaces);
        let store = Arc::new(store);
        self.indexes.lock().add_to(&store);
        let token = self.token.child_token();
        match made {
            Some(made) => self.spawn(token.clone(), made::feed(made, store.clone())),
            None => {
                let watcher = Watcher::new(store.clone(), self.server.clone());
                self.spawn(token.clone(), watcher.run());
            }
        }
        let (mut progress, changed) = (store.progress(), self.changed.clone());
        self.spawn(token.clone(), async move {
            while progress.changed().await.is_ok() {
                changed.notify_one();
            }
        });
        Arc::new(Running {
            store,
            stores: Arc::downgrade(self),
            _stop: token.drop_guard(),
        })
    }

    /// As [`Self::open`], for a read: the store is kept for a while after the last read.
    pub(crate) fn open_for_read(
        self: &Arc<Self>,
        key: StoreKey,
        resource: &Arc<Resource>,
    ) -> Result<StoreUse, TooManyStores> {
        let user = self.open(key.clone(), resource)?;
        self.read.lock().insert(key, (user.clone(), Instant::now()));
        Ok(user)
    }

    /// Records a read, if a read started this store.
    pub(crate) fn touch(&self, key: &StoreKey) {
        let mut read = self.read.lock();
        if let Some((_, at)) = read.get_mut(key) {
            *at = Instant::now();
        }
    }

    /// Ends the stores that have not been read for too long.
    pub(crate) fn drop_unread(&self, now: Instant) {
        let life = self.options().unread_life;
        let is_unread = |_: &StoreKey, entry: &mut (StoreUse, Instant)| {
            now.saturating_duration_since(entry.1) >= life
        };
        let unread: Vec<_> = self.read.lock().extract_if(is_unread).collect();
        // Without the lock: the last drop of a store takes other locks.
        drop(unread);
    }

    pub(crate) fn has_read_stores(&self) -> bool {
        !self.read.lock().is_empty()
    }

    /// Sets the namespaces whose objects are not kept. Those that are kept again are listed.
    pub(crate) fn leave_out(&self, namespaces: HashSet<Arc<str>>) {
        let before = self.left_out.set(namespaces.clone());
        if *before == namespaces {
            return;
        }
        let is_kept_again = !before.is_subset(&namespaces);
        let is_left_out = !namespaces.is_subset(&before);
        for store in self.all() {
            if is_left_out {
                store.remove_left_out();
            }
            if is_kept_again && store.resource.namespaced {
                store.list_again();
            }
        }
    }

    fn forget_ended(&self) {
        let mut running = self.running.lock();
        running.retain(|_, user| user.strong_count() > 0);
        let upgraded = self.publish(&running);
        drop(running);
        drop(upgraded);
        self.changed.notify_one();
    }

    /// Shows the running stores to readers. Returns the upgraded uses, to be dropped without the lock on `running`.
    #[must_use]
    fn publish(&self, running: &HashMap<StoreKey, Weak<Running>>) -> Vec<StoreUse> {
        let upgraded: Vec<StoreUse> = running.values().filter_map(Weak::upgrade).collect();
        let mut by_kind = ByKind::new();
        for user in &upgraded {
            by_kind
                .entry(user.store.key.kind.clone())
                .or_default()
                .push(user.store.clone());
        }
        self.by_kind.store(Arc::new(by_kind));
        self.published.send_modify(|count| *count += 1);
        upgraded
    }

    /// Changes whenever a store starts or ends.
    pub(crate) fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    pub(crate) fn options(&self) -> Arc<CacheOptions> {
        self.server.options.now()
    }

    /// What makes the objects of a kind, if the host does.
    pub(crate) fn made(&self, kind: &GroupVersionKind) -> Option<&Arc<dyn Made>> {
        self.made.as_ref().filter(|made| made.is_of(kind))
    }

    /// The stores of a kind.
    pub(crate) fn of_kind(&self, kind: &GroupVersionKind) -> Vec<Arc<Store>> {
        self.with_kind(kind, <[_]>::to_vec)
    }

    /// Calls `f` with the stores of a kind, without a copy.
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
