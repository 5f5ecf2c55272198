//! Whether there is nothing left to do. Entry point: [`Core::idle`].

use super::core::Core;
use super::handle::{KeyFilter, KeyStatus};
use crate::cluster::{Cluster, ClusterState};
use std::sync::Arc;

/// Most keys of one sort that an answer lists.
const MAX_LISTED: usize = 100;

/// Whether a manager has nothing left to do.
#[derive(Debug, Clone)]
pub struct Idle {
    /// Every cluster is Ready, every cache holds what its server holds, and nothing is ready, running, in backoff or
    /// throttled. A delayed requeue does not count.
    pub idle: bool,
    /// Why not, for people.
    pub busy: Vec<String>,
    /// Keys that failed and will be tried again.
    pub failing: Vec<KeyStatus>,
    /// Keys that failed for good.
    pub terminal: Vec<KeyStatus>,
}

impl Core {
    /// Looks at everything in the order in which work flows, and then once more at the queue: what a cache received meanwhile is there.
    pub(super) async fn idle(&self) -> Idle {
        let mut busy = Vec::new();
        let clusters = self.fleet.clusters();
        self.busy_clusters(&clusters, &mut busy);
        self.busy_queue(&mut busy);
        if busy.is_empty() {
            for cluster in &clusters {
                busy.extend(cluster.sync_check().await);
            }
            self.busy_queue(&mut busy);
        }
        let keys = |state: &str| {
            self.keys(&KeyFilter {
                state: Some(state.into()),
                limit: MAX_LISTED,
                ..KeyFilter::default()
            })
        };
        let terminal = keys("terminal");
        let failing = keys("failing")
            .into_iter()
            .filter(|key| key.state != "terminal")
            .collect();
        Idle {
            idle: busy.is_empty(),
            busy,
            failing,
            terminal,
        }
    }

    fn busy_clusters(&self, clusters: &[Arc<Cluster>], busy: &mut Vec<String>) {
        for cluster in clusters {
            let status = cluster.status();
            if status.state != ClusterState::Ready {
                busy.push(format!(
                    "cluster {:?} is {}: {}",
                    status.name,
                    status.state.as_str(),
                    status.reason
                ));
            }
        }
    }

    fn busy_queue(&self, busy: &mut Vec<String>) {
        let counts = self.queue.lock().total_counts();
        for (count, what) in [
            (counts.ready, "ready"),
            (counts.running, "running"),
            (counts.backoff, "in backoff"),
            (counts.throttled, "throttled, as they have run too often"),
        ] {
            if count > 0 {
                busy.push(format!("{count} keys are {what}"));
            }
        }
        let controllers: Vec<_> = self.controllers.read().by_name.values().cloned().collect();
        for registered in controllers {
            let attachments = registered.attachments.lock();
            if attachments
                .values()
                .flatten()
                .any(|source| !source.is_idle())
            {
                busy.push(format!(
                    "events of reconciler {} wait for its mapper",
                    registered.controller().name()
                ));
            }
        }
    }
}
