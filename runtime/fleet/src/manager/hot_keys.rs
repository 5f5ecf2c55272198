//! Keys that become hot. Each is logged once, and sent to everyone who follows them. Entry point: [`HotKeyFeed`].

use crate::controller::Controller;
use crate::name::{ControllerName, TenantName};
use crate::request::Request;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// How many wait for a follower; beyond that it misses the oldest.
const WAITING: usize = 512;

/// A key that has run too often and is throttled until it is enqueued less often: its reconciler's own write runs it again, two
/// reconcilers undo each other's work, or its object changes without end. See [`HotKeyLimit`](crate::queue::HotKeyLimit).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotKey {
    /// The tenant of the controller.
    pub tenant: TenantName,
    /// The controller.
    pub controller: ControllerName,
    /// The key.
    pub request: Request,
}

/// The keys that become hot from now on. However long a key stays hot, it comes once.
#[derive(Debug)]
pub struct HotKeys {
    begun: broadcast::Receiver<HotKey>,
    /// Ends when the manager drains.
    draining: CancellationToken,
}

impl HotKeys {
    /// The next one; `None` once the manager drains, even if there is one. A caller that asks too seldom misses the oldest: each is in
    /// the log and the metrics all the same. Nothing is lost by dropping the future.
    pub async fn next(&mut self) -> Option<HotKey> {
        loop {
            match self.draining.run_until_cancelled(self.begun.recv()).await {
                Some(Ok(key)) => return Some(key),
                Some(Err(RecvError::Lagged(_))) => {}
                Some(Err(RecvError::Closed)) | None => return None,
            }
        }
    }
}

/// Reports keys that become hot.
#[derive(Debug)]
pub(super) struct HotKeyFeed(broadcast::Sender<HotKey>);

impl Default for HotKeyFeed {
    fn default() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }
}

impl HotKeyFeed {
    /// The keys that are reported from now on.
    pub(super) fn follow(&self, draining: CancellationToken) -> HotKeys {
        let begun = self.0.subscribe();
        HotKeys { begun, draining }
    }

    /// Reports that a controller's key has become hot.
    pub(super) fn report(&self, controller: &Controller, request: Request) {
        tracing::warn!(
            tenant = %controller.tenant,
            reconciler = %controller.name,
            cluster = %request.cluster,
            namespace = request.key.namespace.as_deref().unwrap_or(""),
            name = &*request.key.name,
            "a key asks to run without end and is throttled; look for a reconciler that changes what it watches in every run"
        );
        // Sending fails if nobody follows, which is no error.
        let _ = self.0.send(HotKey {
            tenant: controller.tenant.clone(),
            controller: controller.name.clone(),
            request,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ClusterName;
    use crate::request::ObjectKey;

    fn key(name: usize) -> HotKey {
        HotKey {
            tenant: TenantName::default(),
            controller: ControllerName::new("c").unwrap(),
            request: Request::new(
                ClusterName::local(),
                ObjectKey::namespaced("default", &name.to_string()),
            ),
        }
    }

    #[tokio::test]
    async fn a_slow_follower_misses_the_oldest_and_one_that_is_gone_delays_nobody() {
        let feed = HotKeyFeed::default();
        let draining = CancellationToken::new();
        drop(feed.follow(draining.clone()));
        let mut keys = feed.follow(draining.clone());
        for name in 0..WAITING + 3 {
            feed.0.send(key(name)).unwrap();
        }
        for name in 3..WAITING + 3 {
            assert_eq!(keys.next().await, Some(key(name)));
        }
        draining.cancel();
        assert_eq!(keys.next().await, None);
    }
}
