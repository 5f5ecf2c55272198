//! Limits the process's sockets to API servers, in all clusters together. Entry point: [`Sockets::take`].
//!
//! A process without file descriptors cannot open a file, answer a probe or start a compiler, so there may be a limit below that of the
//! system. At the limit, [`Sockets::take`] closes the connection that is idle for longest. If none is idle, it waits as long as a
//! connection may take to be made, and fails.
//!
//! Invariants:
//! * A few sockets are reserved for calls of the local cluster, so that its Lease never waits for other clusters.
//! * Watches over HTTP/1.1, which need a socket each, take at most four fifths.
//!
//! Cost: a permit per connection. Only at the limit, each wait looks at every pool. Not guaranteed: fairness between clusters at the limit.

use super::pool::four_fifths;
use super::{TransportError, TransportOptions};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The sockets of a process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sockets {
    limit: Option<usize>,
    patience: Duration,
    /// Sockets for everybody.
    general: Arc<Semaphore>,
    /// Sockets for calls of the local cluster.
    reserved: Arc<Semaphore>,
    /// Watches over HTTP/1.1. They take a permit here and one above.
    watches: Arc<Semaphore>,
    pools: Arc<Pools>,
}

/// A pool that may have idle connections.
pub(super) trait HasIdle: Send + Sync {
    /// Since when the oldest idle connection is idle.
    fn oldest_idle(&self) -> Option<Instant>;
    /// Closes that connection.
    fn close_oldest_idle(&self);
}

#[derive(Default)]
struct Pools {
    /// Dropped pools are removed when the next one is added.
    all: Mutex<Vec<Weak<dyn HasIdle>>>,
    /// How many wait for a socket. While there are any, pools close each connection that becomes idle.
    waiting: AtomicUsize,
    /// Whether a pool may hold an idle connection. Spares waits the look at every pool.
    may_have_idle: AtomicBool,
}

impl Pools {
    /// Closes the connection that is idle for longest.
    fn close_oldest_idle(&self) {
        if !self.may_have_idle.swap(false, Ordering::SeqCst) {
            return;
        }
        // Nothing is closed under the lock.
        let pools: Vec<_> = self.all.lock().iter().filter_map(Weak::upgrade).collect();
        let idle = pools
            .iter()
            .filter_map(|pool| Some((pool.oldest_idle()?, pool)));
        if let Some((_, pool)) = idle.min_by_key(|(since, _)| *since) {
            self.may_have_idle.store(true, Ordering::SeqCst);
            pool.close_oldest_idle();
        }
    }
}

/// Counts one wait for a socket.
struct Waiting<'a>(&'a Pools);

impl<'a> Waiting<'a> {
    fn new(pools: &'a Pools) -> Self {
        pools.waiting.fetch_add(1, Ordering::SeqCst);
        Self(pools)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many of `limit` sockets are reserved for the local cluster.
fn reserved(limit: usize) -> usize {
    (limit / 8).min(4)
}

/// Sockets in use, and their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketUse {
    /// Sockets that are open or being opened.
    pub used: usize,
    /// Most sockets.
    pub limit: usize,
    /// Sockets of watches over HTTP/1.1, which carry nothing else.
    pub watches: usize,
    /// Most sockets of such watches.
    pub watch_limit: usize,
}

impl Sockets {
    pub(super) fn new(options: &TransportOptions) -> Self {
        let limit = options.max_sockets.map(|limit| limit.max(2));
        let part_of_limit = |part: fn(usize) -> usize| {
            let permits = limit.map_or(Semaphore::MAX_PERMITS, part);
            Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
        };
        Self {
            limit,
            patience: options.connect_timeout,
            general: part_of_limit(|limit| limit - reserved(limit)),
            reserved: part_of_limit(reserved),
            watches: part_of_limit(four_fifths),
            pools: Arc::default(),
        }
    }

    /// From now on closes idle connections of this pool when a socket is needed.
    pub(super) fn register(&self, pool: Weak<dyn HasIdle>) {
        let mut pools = self.pools.all.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(pool);
    }

    /// A permit for one socket. `may_use_reserve`: a reserved one will do.
    ///
    /// # Errors
    /// [`TransportError::Crowded`] after a wait of `connect_timeout`.
    pub(super) async fn take(
        &self,
        server: &str,
        may_use_reserve: bool,
    ) -> Result<OwnedSemaphorePermit, TransportError> {
        if let Ok(permit) = self.general.clone().try_acquire_owned() {
            return Ok(permit);
        }
        if may_use_reserve && let Ok(permit) = self.reserved.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let _waiting = Waiting::new(&self.pools);
        self.pools.close_oldest_idle();
        self.wait(&self.general, self.limit, server).await
    }

    /// A permit for one watch over HTTP/1.1, beside the permit for its socket.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(super) async fn take_watch(
        &self,
        server: &str,
    ) -> Result<OwnedSemaphorePermit, TransportError> {
        self.wait(&self.watches, self.limit.map(four_fifths), server)
            .await
    }

    async fn wait(
        &self,
        permits: &Arc<Semaphore>,
        limit: Option<usize>,
        server: &str,
    ) -> Result<OwnedSemaphorePermit, TransportError> {
        // The semaphore is never closed, so this waits or succeeds.
        match tokio::time::timeout(self.patience, permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(TransportError::Crowded {
                server: server.to_owned(),
                limit: limit.unwrap_or(Semaphore::MAX_PERMITS),
            }),
        }
    }

    /// Whether a pool may keep a connection that has become idle. It must close the connection if not: somebody waits for a socket.
    pub(super) fn may_keep_idle(&self) -> bool {
        // Set before the load: a wait that begins in between finds the connection.
        self.pools.may_have_idle.store(true, Ordering::SeqCst);
        self.pools.waiting.load(Ordering::SeqCst) == 0
    }

    /// `None`: there is no limit.
    pub(super) fn in_use(&self) -> Option<SocketUse> {
        self.limit.map(|limit| SocketUse {
            used: limit.saturating_sub(
                self.general.available_permits() + self.reserved.available_permits(),
            ),
            limit,
            watches: four_fifths(limit).saturating_sub(self.watches.available_permits()),
            watch_limit: four_fifths(limit),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five sockets, and little time to wait for one.
    fn five() -> TransportOptions {
        TransportOptions {
            max_sockets: Some(5),
            connect_timeout: Duration::from_millis(50),
            ..TransportOptions::default()
        }
    }

    #[tokio::test]
    async fn without_a_free_socket_a_dial_fails_after_the_connect_timeout() {
        let sockets = Sockets::new(&five());
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(sockets.take("server", false).await.unwrap());
        }
        let in_use = sockets
            .in_use()
            .map(|now| (now.used, now.watches, now.watch_limit));
        assert_eq!(in_use, Some((5, 0, 4)));
        let began = Instant::now();
        let refused = sockets.take("server", true).await.unwrap_err();
        assert!(began.elapsed() >= five().connect_timeout);
        assert!(matches!(refused, TransportError::Crowded { limit: 5, .. }));
        held.pop();
        assert!(sockets.take("server", false).await.is_ok());
    }

    #[tokio::test]
    async fn a_few_sockets_are_reserved_for_the_local_cluster() {
        let sockets = Sockets::new(&TransportOptions {
            max_sockets: Some(16),
            ..five()
        });
        let mut held = Vec::new();
        for _ in 0..14 {
            held.push(sockets.take("server", false).await.unwrap());
        }
        assert!(sockets.take("server", false).await.is_err());
        for _ in 0..2 {
            held.push(sockets.take("local", true).await.unwrap());
        }
        assert_eq!(sockets.in_use().map(|now| now.used), Some(16));
        assert!(sockets.take("local", true).await.is_err());
    }

    /// A pool with one connection, which is idle since a time.
    struct One(Instant, Mutex<Option<OwnedSemaphorePermit>>);

    impl HasIdle for One {
        fn oldest_idle(&self) -> Option<Instant> {
            self.1.lock().as_ref().map(|_| self.0)
        }

        fn close_oldest_idle(&self) {
            *self.1.lock() = None;
        }
    }

    #[tokio::test]
    async fn a_wait_closes_the_connection_that_is_idle_for_longest() {
        let sockets = Sockets::new(&five());
        let mut pools = Vec::new();
        for age in [3, 5, 4] {
            let permit = sockets.take("server", false).await.unwrap();
            let since = Instant::now().checked_sub(Duration::from_secs(age));
            let pool = Arc::new(One(since.unwrap(), Mutex::new(Some(permit))));
            assert!(sockets.may_keep_idle());
            let weak: Weak<One> = Arc::downgrade(&pool);
            sockets.register(weak);
            pools.push(pool);
        }
        let mut held = Vec::new();
        for unused in [3, 3, 2, 1, 0] {
            held.push(sockets.take("server", false).await.unwrap());
            let left = pools.iter().filter(|pool| pool.oldest_idle().is_some());
            assert_eq!(left.count(), unused);
            assert_eq!(
                pools[1].oldest_idle().is_some(),
                unused == 3,
                "the oldest first"
            );
        }
        let waits = sockets.take("server", false);
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending() && !sockets.may_keep_idle());
        held.pop();
        assert!(waits.await.is_ok() && sockets.may_keep_idle());
    }

    #[tokio::test]
    async fn watches_over_http1_leave_the_last_fifth_to_calls() {
        let sockets = Sockets::new(&five());
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(sockets.take_watch("server").await.unwrap());
        }
        let refused = sockets.take_watch("server").await.unwrap_err();
        assert!(matches!(refused, TransportError::Crowded { limit: 4, .. }));
        assert_eq!(sockets.in_use().map(|now| now.watches), Some(4));
    }
}
