//! Keys that become hot. Each is logged once, and sent to everyone who follows them. Entry point: [`Storms`].

use crate::controller::Controller;
use crate::name::{ControllerName, TenantName};
use crate::request::Request;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// How many wait for a follower; beyond that it misses the oldest.
const WAITING: usize = 512;

/// A key that has run too often and is held back from now on, until it is calm: its reconciler's own write runs it again, two undo
/// each other's work, or its object is never left alone. See [`HotKeyLimit`](crate::queue::HotKeyLimit).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Storm {
    /// Whose controller it is.
    pub tenant: TenantName,
    /// Which controller.
    pub controller: ControllerName,
    /// The key.
    pub request: Request,
}

/// The storms that begin from now on. Each is reported once, however long it lasts.
#[derive(Debug)]
pub struct Storms {
    begun: broadcast::Receiver<Storm>,
    /// Ends when the manager drains.
    draining: CancellationToken,
}

impl Storms {
    /// The next one; `None` once the manager drains, even if there is one. A slow reader misses the oldest: each is in the log and the
    /// metrics all the same. Nothing is lost by dropping the future.
    pub async fn next(&mut self) -> Option<Storm> {
        loop {
            match self.draining.run_until_cancelled(self.begun.recv()).await {
                Some(Ok(storm)) => return Some(storm),
                Some(Err(RecvError::Lagged(_))) => {}
                Some(Err(RecvError::Closed)) | None => return None,
            }
        }
    }
}

/// Sends the storms that begin.
#[derive(Debug)]
pub(super) struct HotKeyFeed(broadcast::Sender<Storm>);

impl Default for HotKeyFeed {
    fn default() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }
}

impl HotKeyFeed {
    pub(super) fn follow(&self, draining: CancellationToken) -> Storms {
        let begun = self.0.subscribe();
        Storms { begun, draining }
    }

    /// Reports that a controller's key has become hot.
    pub(super) fn report(&self, controller: &Controller, request: Request) {
        tracing::warn!(
            tenant = %controller.tenant,
            reconciler = %controller.name,
            cluster = %request.cluster,
            namespace = request.key.namespace.as_deref().unwrap_or(""),
            name = &*request.key.name,
            "storm: a key asks to run without end and is held back; look for a reconciler that changes what it watches in every run"
        );
        // Sending fails if nobody follows, which is no error.
        let _ = self.0.send(Storm {
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

    fn storm(name: usize) -> Storm {
        Storm {
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
        let mut storms = feed.follow(draining.clone());
        for name in 0..WAITING + 3 {
            feed.0.send(storm(name)).unwrap();
        }
        for name in 3..WAITING + 3 {
            assert_eq!(storms.next().await, Some(storm(name)));
        }
        draining.cancel();
        assert_eq!(storms.next().await, None);
    }
}
