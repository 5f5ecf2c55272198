//! How fast the queue is: requests added, handed out and taken back per second on one core. Run with
//! `cargo bench -p windlass-fleet --bench queue`.
//!
//! The queue is kept at its size: each step adds a request that is not in it, takes the one whose turn it is, and ends that run. What
//! has run is added again after all others that are not in the queue, so that no class grows at the cost of another. Requests are
//! looked at a batch at a time, outside the clock, as a source does that has just read an event. Of many rounds the middle one
//! counts. A key that no round hands out is one that never ran.
//!
//! The queue is told a time that passes evenly: it charges a class for what its runs take, and one that the machine preempted in the
//! middle of a step would wait for all others. The real clock is read as often as a worker reads it.

#![allow(clippy::unwrap_used, reason = "a bench ends when its setup is wrong")]

#[path = "../../../tests/suites/benches/figures.rs"]
mod figures;
#[path = "../../../tests/suites/benches/table.rs"]
mod table;

use figures::spread;
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};
use table::{Table, verdict};
use windlass_fleet::bench::{Add, ControllerId, Limits, Outcome, Queue, QueueOptions};
use windlass_fleet::manager::{HotKeyLimit, TenantOptions};
use windlass_fleet::{ClusterName, ControllerName, ObjectKey, Request, TenantName};

/// How many tenants, controllers of each, and clusters of each controller.
type Shape = [usize; 3];

/// Classes are pairs of a controller and a cluster. The bar is about a thousand.
const SHAPES: [Shape; 4] = [[1, 1, 1], [10, 10, 10], [1000, 1, 1], [1, 1, 1000]];
/// Keys in the queue, and beside it.
const SIZES: [[usize; 2]; 2] = [[1_000, 2_000], [1_000_000, 100_000]];
/// Steps between two looks at the clock.
const BATCH: usize = 1000;
const BATCHES: usize = 20;
/// Odd, so that one of them is the middle; so many that every one of a million keys has its turn twice.
const ROUNDS: usize = 151;
/// Time that passes for the queue between two calls.
const TICK: Duration = Duration::from_micros(1);
/// Thousands of steps per second with a million keys of a thousand classes.
const BAR: f64 = 300.0;

struct Fleet {
    queue: Queue,
    /// What is not in the queue, in the order in which it is added.
    idle: VecDeque<(ControllerId, Request)>,
    /// Which keys ran, by the number in their names.
    ran: Vec<bool>,
    clock: Instant,
}

impl Fleet {
    fn new(keys: usize, spare: usize, [tenants, controllers, clusters]: Shape) -> Self {
        let limits = Limits {
            keys_per_controller: keys + spare,
            // A thousand keys run more often here than any key may.
            hot_key: HotKeyLimit {
                per_second: 1_000_000,
                burst: 1_000_000,
            },
            ..Limits::default()
        };
        let clock = Instant::now();
        let mut queue = Queue::new(clock, limits);
        let mut classes = Vec::new();
        for tenant in 0..tenants {
            let tenant = TenantName::new(format!("tenant-{tenant}")).unwrap();
            queue.set_tenant(&tenant, TenantOptions::default());
            for controller in 0..controllers {
                let name = ControllerName::new(format!("controller-{controller}")).unwrap();
                let options = QueueOptions {
                    concurrency: Some(8),
                    ..QueueOptions::default()
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
            let _ = queue.add(clock, controller, &request, Add::default());
        }
        Self {
            queue,
            idle: store.into(),
            ran: vec![false; keys + spare],
            clock,
        }
    }

    fn batch(&mut self) -> Vec<(ControllerId, Request)> {
        let batch: Vec<_> = self.idle.drain(..BATCH).collect();
        for (_, request) in &batch {
            black_box(request.clone() == *request);
        }
        batch
    }

    fn now(&mut self) -> Instant {
        black_box(Instant::now());
        self.clock += TICK;
        self.clock
    }

    /// Takes a batch of steps. Returns what was handed out.
    fn steps(&mut self, requests: &[(ControllerId, Request)]) -> Vec<(ControllerId, Request)> {
        let mut handed = Vec::with_capacity(BATCH);
        let mut running = None;
        for (controller, request) in requests {
            let now = self.now();
            let _ = black_box(self.queue.add(now, *controller, request, Add::default()));
            // A worker that is done asks for the next at once.
            let now = self.now();
            if let Some(token) = running.take() {
                self.queue.done(now, token, Outcome::Done);
            }
            if let Some(run) = self.queue.get(now) {
                handed.push((run.controller, run.request));
                running = Some(run.token);
            }
        }
        if let Some(token) = running {
            let now = self.now();
            self.queue.done(now, token, Outcome::Done);
        }
        handed
    }

    /// Thousands of steps per second in one round.
    fn round(&mut self) -> f64 {
        let mut time = Duration::ZERO;
        for _ in 0..BATCHES {
            let requests = self.batch();
            let start = Instant::now();
            let handed = self.steps(&requests);
            time += start.elapsed();
            for (_, request) in &handed {
                let number = request.key.name.strip_prefix("object-").unwrap();
                self.ran[number.parse::<usize>().unwrap()] = true;
            }
            self.idle.extend(handed);
        }
        (BATCHES * BATCH) as f64 / time.as_secs_f64() / 1e3
    }
}

fn main() {
    let heads = [
        "keys   ",
        "tenants",
        "controllers",
        "clusters",
        "k/s   ",
        "(min-max)    ",
        "never run",
        "bar           ",
    ];
    let title = format!(
        "queue: add + get + done, thousands per second on one core; middle of {ROUNDS} rounds"
    );
    let table = Table::begin(&title, &heads);
    for [keys, spare] in SIZES {
        for shape in SHAPES {
            let mut fleet = Fleet::new(keys, spare, shape);
            let rates: Vec<f64> = (0..ROUNDS).map(|_| fleet.round()).collect();
            assert_eq!(fleet.queue.len(), keys, "the queue is not kept at its size");
            let (rate, least, most) = spread(&rates);
            let never = fleet.ran.iter().filter(|ran| !**ran).count();
            let [tenants, controllers, clusters] = shape.map(|number| number.to_string());
            let mut row = vec![keys.to_string(), tenants, controllers, clusters];
            row.push(format!("{rate:.0}"));
            row.push(format!("({least:.0}-{most:.0})"));
            row.push(never.to_string());
            if keys == 1_000_000 && shape != [1, 1, 1] {
                row.push(verdict("300, none", rate >= BAR && never == 0));
            }
            table.row(&row);
        }
    }
}
