//! How fast the queue is: requests added, handed out and taken back per second on one core. Run with
//! `cargo bench -p windlass-fleet --bench queue`.
//!
//! The queue is kept at its size: each step adds a request that is not in it, takes the one whose turn it is, and ends that run.

#![allow(clippy::unwrap_used, reason = "a bench ends when its setup is wrong")]

use std::hint::black_box;
use std::time::{Duration, Instant};
use windlass_fleet::name::{ClusterName, ControllerName, TenantName};
use windlass_fleet::queue::{
    Add, ControllerId, ControllerOptions, Limits, Outcome, Queue, TenantOptions,
};
use windlass_fleet::request::{ObjectKey, Request};

/// How many tenants, controllers of each, and clusters of each controller.
type Shape = [usize; 3];

struct Fleet {
    queue: Queue,
    /// Shuffled; those from `next` on, `spare` of them, are not in the queue.
    requests: Vec<(ControllerId, Request)>,
    next: usize,
}

impl Fleet {
    fn new(keys: usize, spare: usize, [tenants, controllers, clusters]: Shape) -> Self {
        let limits = Limits {
            keys_per_controller: keys + spare,
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
                classes.extend(
                    (0..clusters).map(|cluster| {
                        (id, ClusterName::new(format!("cluster-{cluster}")).unwrap())
                    }),
                );
            }
        }
        let request = |i: usize| {
            let (controller, cluster) = classes[i % classes.len()].clone();
            (
                controller,
                Request::new(
                    cluster,
                    ObjectKey::namespaced(
                        &format!("namespace-{}", i % 100),
                        &format!("object-{i}"),
                    ),
                ),
            )
        };
        let mut requests: Vec<_> = (0..keys + spare).map(request).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut requests);
        let mut fleet = Self {
            queue,
            requests,
            next: 0,
        };
        for _ in 0..keys {
            fleet.add();
        }
        fleet
    }

    fn add(&mut self) {
        let (controller, request) = &self.requests[self.next];
        let _ = black_box(
            self.queue
                .add(Instant::now(), *controller, request, Add::default()),
        );
        self.next = (self.next + 1) % self.requests.len();
    }

    fn step(&mut self) {
        self.add();
        if let Some(run) = self.queue.get(Instant::now()) {
            black_box(&run.request);
            self.queue.done(Instant::now(), run.token, Outcome::Done);
        }
    }
}

/// Steps per second: the median of several rounds.
fn rate(fleet: &mut Fleet, steps: usize) -> f64 {
    let mut rounds: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            (0..steps).for_each(|_| fleet.step());
            steps as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn main() {
    println!(
        "queue: add + get + done, millions per second on one core (bar: 1.00 at 1,000,000 keys)"
    );
    for (keys, spare) in [(1_000, 1_000), (1_000_000, 100_000)] {
        for shape in [[1, 1, 1], [10, 10, 10], [1000, 1, 1], [1, 1, 1000]] {
            let mut fleet = Fleet::new(keys, spare, shape);
            (0..100_000).for_each(|_| fleet.step());
            let rate = rate(&mut fleet, 300_000) / 1e6;
            let [tenants, controllers, clusters] = shape;
            println!(
                "{keys:>9} keys  {tenants:>4} tenants × {controllers:>2} controllers × {clusters:>4} clusters  {rate:>6.2}"
            );
        }
    }
    println!("queue: longest single call at 1,000,000 keys");
    let mut fleet = Fleet::new(1_000_000, 100_000, [10, 10, 10]);
    let mut longest = Duration::ZERO;
    for _ in 0..1_000_000 {
        let start = Instant::now();
        fleet.step();
        longest = longest.max(start.elapsed());
    }
    println!("{longest:>10.1?}");
}
