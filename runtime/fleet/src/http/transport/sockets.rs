//! How many sockets the process may have to API servers, of all clusters together. Entry point: [`Sockets::take`].
//!
//! A process that has used up its descriptors cannot open a file, answer a probe or start a compiler either. So there may be a cap
//! below that limit; who finds no room under it has the connection closed that is unused for longest, or waits as long as a
//! connection may take, and is told why. A few are kept for calls of the local cluster: its lease does not wait for other clusters.

use super::pool::most;
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
    all: Arc<Semaphore>,
    /// Those that are kept for what is vital.
    kept: Arc<Semaphore>,
    /// Those that watches over HTTP/1.1 may have: each keeps one for itself, and calls need the rest.
    watches: Arc<Semaphore>,
    unused: Arc<Unused>,
}

/// Who has connections, of which some may be unused.
pub(super) trait Idle: Send + Sync {
    /// Since when the one is unused that is unused for longest.
    fn since(&self) -> Option<Instant>;
    /// Closes that one.
    fn close(&self);
}

#[derive(Default)]
struct Unused {
    /// Those that are gone leave with the next one that comes.
    pools: Mutex<Vec<Weak<dyn Idle>>>,
    /// Who waits for a socket. While somebody does, a connection is closed as soon as it is unused.
    waiting: AtomicUsize,
    /// Whether one was kept, unused, since all were looked at last.
    some: AtomicBool,
}

impl Unused {
    /// Closes the connection that is unused for longest.
    fn close_one(&self) {
        if !self.some.swap(false, Ordering::SeqCst) {
            return;
        }
        // Nothing is closed under the lock.
        let pools: Vec<_> = self.pools.lock().iter().filter_map(Weak::upgrade).collect();
        let idle = pools.iter().filter_map(|pool| Some((pool.since()?, pool)));
        if let Some((_, pool)) = idle.min_by_key(|(since, _)| *since) {
            self.some.store(true, Ordering::SeqCst);
            pool.close();
        }
    }
}

/// A caller that waits for a socket.
struct Waits<'a>(&'a Unused);

impl<'a> Waits<'a> {
    fn new(unused: &'a Unused) -> Self {
        unused.waiting.fetch_add(1, Ordering::SeqCst);
        Self(unused)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many of so many sockets are kept for what is vital.
fn kept(limit: usize) -> usize {
    (limit / 8).min(4)
}

/// How many sockets there are, and may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketUse {
    /// Open, or being made.
    pub used: usize,
    /// At most.
    pub limit: usize,
    /// Those of them that watches over HTTP/1.1 have for themselves.
    pub watches: usize,
    /// At most.
    pub watch_limit: usize,
}

impl Sockets {
    pub(super) fn new(options: &TransportOptions) -> Self {
        let limit = options.max_sockets.map(|limit| limit.max(2));
        let most_of = |part: fn(usize) -> usize| {
            let permits = limit.map_or(Semaphore::MAX_PERMITS, part);
            Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
        };
        Self {
            limit,
            patience: options.connect_timeout,
            all: most_of(|limit| limit - kept(limit)),
            kept: most_of(kept),
            watches: most_of(most),
            unused: Arc::default(),
        }
    }

    /// Has unused connections of these closed when somebody needs a socket.
    pub(super) fn watch_over(&self, pool: Weak<dyn Idle>) {
        let mut pools = self.unused.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(pool);
    }

    /// Room for one socket, which lasts as long as what is returned. `vital`: one of those that are kept will do.
    ///
    /// # Errors
    /// [`TransportError::Crowded`], when there was none for as long as a connection may take.
    pub(super) async fn take(
        &self,
        server: &str,
        vital: bool,
    ) -> Result<OwnedSemaphorePermit, TransportError> {
        if let Ok(permit) = self.all.clone().try_acquire_owned() {
            return Ok(permit);
        }
        if vital && let Ok(permit) = self.kept.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let _waits = Waits::new(&self.unused);
        self.unused.close_one();
        self.wait(&self.all, self.limit, server).await
    }

    /// Room for one watch over HTTP/1.1.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(super) async fn take_watch(
        &self,
        server: &str,
    ) -> Result<OwnedSemaphorePermit, TransportError> {
        self.wait(&self.watches, self.limit.map(most), server).await
    }

    async fn wait(
        &self,
        of: &Arc<Semaphore>,
        limit: Option<usize>,
        server: &str,
    ) -> Result<OwnedSemaphorePermit, TransportError> {
        // Never closed, so it waits or succeeds.
        match tokio::time::timeout(self.patience, of.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(TransportError::Crowded {
                server: server.to_owned(),
                limit: limit.unwrap_or(Semaphore::MAX_PERMITS),
            }),
        }
    }

    /// Whether somebody waits for a socket that may be open and unused. If not, the caller keeps one that is.
    pub(super) fn are_wanted(&self) -> bool {
        self.unused.some.store(true, Ordering::SeqCst);
        self.unused.waiting.load(Ordering::SeqCst) > 0
    }

    /// `None` where there is no cap.
    pub(super) fn now(&self) -> Option<SocketUse> {
        self.limit.map(|limit| SocketUse {
            used: limit
                .saturating_sub(self.all.available_permits() + self.kept.available_permits()),
            limit,
            watches: most(limit).saturating_sub(self.watches.available_permits()),
            watch_limit: most(limit),
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
    async fn who_finds_no_room_is_told_so_in_the_time_that_a_connection_may_take() {
        let sockets = Sockets::new(&five());
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(sockets.take("server", false).await.unwrap());
        }
        let now = sockets
            .now()
            .map(|now| (now.used, now.watches, now.watch_limit));
        assert_eq!(now, Some((5, 0, 4)));
        let began = Instant::now();
        let refused = sockets.take("server", true).await.unwrap_err();
        assert!(began.elapsed() >= five().connect_timeout);
        assert!(matches!(refused, TransportError::Crowded { limit: 5, .. }));
        held.pop();
        assert!(sockets.take("server", false).await.is_ok());
    }

    #[tokio::test]
    async fn a_few_are_kept_for_what_is_vital() {
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
        assert_eq!(sockets.now().map(|now| now.used), Some(16));
        assert!(sockets.take("local", true).await.is_err());
    }

    /// A pool with one connection, that is unused since a time.
    struct One(Instant, Mutex<Option<OwnedSemaphorePermit>>);

    impl Idle for One {
        fn since(&self) -> Option<Instant> {
            self.1.lock().as_ref().map(|_| self.0)
        }

        fn close(&self) {
            *self.1.lock() = None;
        }
    }

    #[tokio::test]
    async fn who_waits_has_the_connection_closed_that_is_unused_for_longest() {
        let sockets = Sockets::new(&five());
        let mut pools = Vec::new();
        for age in [3, 5, 4] {
            let permit = sockets.take("server", false).await.unwrap();
            let since = Instant::now().checked_sub(Duration::from_secs(age));
            let pool = Arc::new(One(since.unwrap(), Mutex::new(Some(permit))));
            assert!(!sockets.are_wanted(), "it is kept");
            let weak: Weak<One> = Arc::downgrade(&pool);
            sockets.watch_over(weak);
            pools.push(pool);
        }
        let mut held = Vec::new();
        for unused in [3, 3, 2, 1, 0] {
            held.push(sockets.take("server", false).await.unwrap());
            let left = pools.iter().filter(|pool| pool.since().is_some());
            assert_eq!(left.count(), unused);
            assert_eq!(pools[1].since().is_some(), unused == 3, "the oldest first");
        }
        let waits = sockets.take("server", false);
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending() && sockets.are_wanted());
        held.pop();
        assert!(waits.await.is_ok() && !sockets.are_wanted());
    }

    #[tokio::test]
    async fn watches_of_their_own_connections_leave_the_last_fifth_to_calls() {
        let sockets = Sockets::new(&five());
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(sockets.take_watch("server").await.unwrap());
        }
        let refused = sockets.take_watch("server").await.unwrap_err();
        assert!(matches!(refused, TransportError::Crowded { limit: 4, .. }));
        assert_eq!(sockets.now().map(|now| now.watches), Some(4));
    }
}
