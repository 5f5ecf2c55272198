//! How fast the queue is: requests added, handed out and taken back per second on one core. Run with
//! `cargo bench -p windlass-fleet --bench queue`.
//!
//! The queue is kept at its size: each step adds a request that is not in it, takes the one whose turn it is, and ends that run. What
//! has run is added again after all others that are not in the queue, so that no class grows at the cost of another. Requests are
//! looked at a batch at a time, outside the clock, as a source does that has just read an event. Of several rounds the best
//! counts: on a machine that others use the rest tells of the others.

#![allow(clippy::unwrap_used, reason = "a bench ends when its setup is wrong")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};
use windlass_fleet::name::{ClusterName, ControllerName, TenantName};
use windlass_fleet::queue::{
    Add, ControllerId, ControllerOptions, Limits, Outcome, Queue, StormLimit, TenantOptions,
};
use windlass_fleet::request::{ObjectKey, Request};

/// How many tenants, controllers of each, and clusters of each controller.
type Shape = [usize; 3];

/// Steps between two looks at the clock.
const BATCH: usize = 1000;

struct Fleet {
    queue: Queue,
    /// What is not in the queue, in the order in which it is added.
    idle: VecDeque<(ControllerId, Request)>,
}

impl Fleet {
    fn new(keys: usize, spare: usize, [tenants, controllers, clusters]: Shape) -> Self {
        let limits = Limits {
            keys_per_controller: keys + spare,
            // A thousand keys run more often here than any key may.
            storm: StormLimit {
                per_second: 1_000_000,
                burst: 1_000_000,
            },
            ..Limits::default()
        };
        let mut queue = Queue::new(Instant::now(), limits);
        let mut classes = Vec::new();
        for tenant in 0..tenants {
            let tenant = TenantName::new(format!("tenant-{tenant}")).unwrap();
            queue.set_tenant(&tenant, TenantOptions::default());
            for controller in 0..controllers {
                let name = ControllerName::new(format!("controller-{controller}")).unwrap();
                let options = ControllerOptions {
                    concurrency: 8,
                    ..ControllerOptions::default()
                };
                let id = queue.add_controller(&tenant, name, options);
                let cluster = |i| ClusterName::new(format!("cluster-{i}")).unwrap();
                classes.extend((0..clusters).map(|i| (id, cluster(i))));
            }
        }
        let request = |object: usize| {
            let (controller, cluster) = classes[object % classes.len()].clone();
            let key = ObjectKey::namespaced(
                &format!("namespace-{}", object % 100),
                &format!("object-{object}"),
            );
            (controller, Request::new(cluster, key))
        };
        let mut store: Vec<_> = (0..keys + spare).map(request).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut store);
        for (controller, request) in store.drain(..keys) {
            let _ = queue.add(Instant::now(), controller, &request, Add::default());
        }
        Self {
            queue,
            idle: store.into(),
        }
    }

    fn batch(&mut self) -> Vec<(ControllerId, Request)> {
        let batch: Vec<_> = self.idle.drain(..BATCH).collect();
        for (_, request) in &batch {
            black_box(request.clone() == *request);
        }
        batch
    }

    /// Takes a batch of steps. Returns what was handed out.
    fn steps(&mut self, requests: &[(ControllerId, Request)]) -> Vec<(ControllerId, Request)> {
        let mut handed = Vec::with_capacity(BATCH);
        let mut running = None;
        for (controller, request) in requests {
            let _ = black_box(
                self.queue
                    .add(Instant::now(), *controller, request, Add::default()),
            );
            // A worker that is done asks for the next at once.
            let now = Instant::now();
            if let Some(token) = running.take() {
                self.queue.done(now, token, Outcome::Done);
            }
            if let Some(run) = self.queue.get(now) {
                handed.push((run.controller, run.request));
                running = Some(run.token);
            }
        }
        if let Some(token) = running {
            self.queue.done(Instant::now(), token, Outcome::Done);
        }
        handed
    }

    /// Millions of steps per second: the best of several rounds.
    fn rate(&mut self) -> f64 {
        let mut round = || {
            let mut time = Duration::ZERO;
            for _ in 0..20 {
                let requests = self.batch();
                let start = Instant::now();
                let handed = self.steps(&requests);
                time += start.elapsed();
                self.idle.extend(handed);
            }
            (20 * BATCH) as f64 / time.as_secs_f64() / 1e6
        };
        (0..400).map(|_| round()).fold(0.0, f64::max)
    }
}

fn main() {
    println!(
        "queue: add + get + done, millions per second on one core (bar: 1.00 at 1,000,000 keys)"
    );
    for (keys, spare) in [(1_000, 2_000), (1_000_000, 100_000)] {
        for shape in [[1, 1, 1], [10, 10, 10], [1000, 1, 1], [1, 1, 1000]] {
            let mut fleet = Fleet::new(keys, spare, shape);
            let rate = fleet.rate();
            assert_eq!(fleet.queue.len(), keys, "the queue is not kept at its size");
            let [tenants, controllers, clusters] = shape;
            println!(
                "{keys:>9} keys  {tenants:>4} tenants × {controllers:>2} controllers × {clusters:>4} clusters  {rate:>6.2}"
            );
        }
    }
}
