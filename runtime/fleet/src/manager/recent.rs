//! How keys' last runs ended, for those that ran lately. Entry point: [`Recent`].
//!
//! A key that has nothing left to do leaves the queue, and yet somebody may ask when it was looked at. As many are kept as there are
//! places, each key having one place: what ran later takes it over.

use crate::name::ClusterName;
use crate::queue::ControllerId;
use crate::request::Request;
use ahash::RandomState;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Runs that are kept at most.
const PLACES: usize = 4096;

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

#[derive(Debug)]
pub(super) struct Recent {
    places: Vec<Mutex<Option<Box<Kept>>>>,
    hasher: RandomState,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Recent {
    fn place(&self, controller: ControllerId, request: &Request) -> &Mutex<Option<Box<Kept>>> {
        let hash = self.hasher.hash_one((controller, request));
        &self.places[(hash % PLACES as u64) as usize]
    }

    pub(super) fn keep(&self, controller: ControllerId, request: &Request, run: LastRun) {
        let kept = Kept {
            controller,
            request: request.clone(),
            run,
        };
        *self.place(controller, request).lock() = Some(Box::new(kept));
    }

    pub(super) fn of(&self, controller: ControllerId, request: &Request) -> Option<LastRun> {
        let place = self.place(controller, request).lock();
        let kept = place.as_ref()?;
        (kept.controller == controller && kept.request == *request).then_some(kept.run)
    }

    /// Forgets what ran in a cluster that has left.
    pub(super) fn forget_cluster(&self, name: &ClusterName) {
        for place in &self.places {
            let mut place = place.lock();
            if place
                .as_ref()
                .is_some_and(|kept| kept.request.cluster == *name)
            {
                *place = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{ControllerName, TenantName};
    use crate::queue::{ControllerOptions, Limits, Queue};
    use crate::request::ObjectKey;

    #[test]
    fn the_last_run_of_a_key_is_kept_until_its_cluster_leaves_and_all_take_bounded_room() {
        let now = Instant::now();
        let mut queue = Queue::new(now, Limits::default());
        let controller = queue.add_controller(
            &TenantName::default(),
            ControllerName::new("c").unwrap(),
            ControllerOptions::default(),
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
        let recent = Recent::default();
        recent.keep(controller, &request(1), run("error"));
        recent.keep(controller, &request(1), run("success"));
        assert_eq!(recent.of(controller, &request(1)), Some(run("success")));
        assert_eq!(recent.of(controller, &request(2)), None);
        for n in 0..3 * PLACES {
            recent.keep(controller, &request(n), run("success"));
        }
        let kept = (0..3 * PLACES).filter(|n| recent.of(controller, &request(*n)).is_some());
        assert!((PLACES / 2..=PLACES).contains(&kept.count()));
        recent.forget_cluster(&alpha);
        assert!((0..3 * PLACES).all(|n| recent.of(controller, &request(n)).is_none()));
    }
}
