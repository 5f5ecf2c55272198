//! How the last runs of keys ended, for keys that ran lately. Entry point: [`RecentRuns`].
//!
//! A key that has nothing left to do leaves the queue, and yet somebody may ask when it ran. The number of runs that are kept is
//! fixed: each key has one bucket by its hash, which keeps the latest run of all its keys.

use crate::name::ClusterName;
use crate::queue::ControllerId;
use crate::request::Request;
use ahash::RandomState;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How many runs are kept.
const BUCKETS: usize = 4096;

/// How the last run of a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastRun {
    pub(super) ended: Instant,
    /// `success`, `requeue_after` or `error`.
    pub(super) result: &'static str,
    pub(super) took: Duration,
}

#[derive(Debug)]
struct Kept {
    controller: ControllerId,
    request: Request,
    run: LastRun,
}

/// How the last runs of keys ended.
#[derive(Debug)]
pub(super) struct RecentRuns {
    buckets: Vec<Mutex<Option<Box<Kept>>>>,
    hasher: RandomState,
}

impl Default for RecentRuns {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl RecentRuns {
    fn bucket(&self, controller: ControllerId, request: &Request) -> &Mutex<Option<Box<Kept>>> {
        let hash = self.hasher.hash_one((controller, request));
        &self.buckets[(hash % BUCKETS as u64) as usize]
    }

    pub(super) fn record(&self, controller: ControllerId, request: &Request, run: LastRun) {
        let kept = Kept {
            controller,
            request: request.clone(),
            run,
        };
        *self.bucket(controller, request).lock() = Some(Box::new(kept));
    }

    pub(super) fn of(&self, controller: ControllerId, request: &Request) -> Option<LastRun> {
        let bucket = self.bucket(controller, request).lock();
        let kept = bucket.as_ref()?;
        (kept.controller == controller && kept.request == *request).then_some(kept.run)
    }

    /// Forgets the runs in a cluster that has left.
    pub(super) fn forget_cluster(&self, name: &ClusterName) {
        for bucket in &self.buckets {
            let mut bucket = bucket.lock();
            if bucket
                .as_ref()
                .is_some_and(|kept| kept.request.cluster == *name)
            {
                *bucket = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{ControllerName, TenantName};
    use crate::queue::{Limits, Queue, QueueOptions};
    use crate::request::ObjectKey;

    #[test]
    fn the_last_run_of_a_key_is_kept_until_its_cluster_leaves_and_all_take_bounded_memory() {
        let now = Instant::now();
        let mut queue = Queue::new(now, Limits::default());
        let controller = queue.add_controller(
            &TenantName::default(),
            ControllerName::new("c").unwrap(),
            QueueOptions::default(),
        );
        let alpha = ClusterName::new("alpha").unwrap();
        let request = |n: usize| {
            Request::new(
                alpha.clone(),
                ObjectKey::namespaced("default", &n.to_string()),
            )
        };
        let run = |result| LastRun {
            ended: now,
            result,
            took: Duration::ZERO,
        };
        let recent = RecentRuns::default();
        recent.record(controller, &request(1), run("error"));
        recent.record(controller, &request(1), run("success"));
        assert_eq!(recent.of(controller, &request(1)), Some(run("success")));
        assert_eq!(recent.of(controller, &request(2)), None);
        for n in 0..3 * BUCKETS {
            recent.record(controller, &request(n), run("success"));
        }
        let kept = (0..3 * BUCKETS).filter(|n| recent.of(controller, &request(*n)).is_some());
        assert!((BUCKETS / 2..=BUCKETS).contains(&kept.count()));
        recent.forget_cluster(&alpha);
        assert!((0..3 * BUCKETS).all(|n| recent.of(controller, &request(n)).is_none()));
    }
}
