//! How many sockets the process may have to API servers, of all clusters together. Entry point: [`Sockets::take`].
//!
//! A process that has used up its descriptors cannot open a file, answer a probe or start a compiler either. So there may be a cap
//! below that limit; who finds no room under it waits as long as a connection may take, and is told why.

use super::pool::most;
use super::{TransportError, TransportOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The sockets of a process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sockets {
    limit: Option<usize>,
    patience: Duration,
    all: Arc<Semaphore>,
    /// Those that watches over HTTP/1.1 may have: each keeps one for itself, and calls need the rest.
    watches: Arc<Semaphore>,
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
            all: most_of(|limit| limit),
            watches: most_of(most),
        }
    }

    /// Room for one socket, which lasts as long as what is returned.
    ///
    /// # Errors
    /// [`TransportError::Crowded`], when there was none for as long as a connection may take.
    pub(super) async fn take(&self, server: &str) -> Result<OwnedSemaphorePermit, TransportError> {
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

    /// Whether somebody may be waiting for a socket that is open and unused.
    pub(super) fn are_used_up(&self) -> bool {
        self.all.available_permits() == 0
    }

    /// `None` where there is no cap.
    pub(super) fn now(&self) -> Option<SocketUse> {
        self.limit.map(|limit| SocketUse {
            used: limit.saturating_sub(self.all.available_permits()),
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
            held.push(sockets.take("server").await.unwrap());
        }
        assert!(sockets.are_used_up());
        let now = sockets
            .now()
            .map(|now| (now.used, now.watches, now.watch_limit));
        assert_eq!(now, Some((5, 0, 4)));
        let began = std::time::Instant::now();
        let refused = sockets.take("server").await.unwrap_err();
        assert!(began.elapsed() >= five().connect_timeout);
        assert!(matches!(refused, TransportError::Crowded { limit: 5, .. }));
        held.pop();
        assert!(sockets.take("server").await.is_ok());
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
