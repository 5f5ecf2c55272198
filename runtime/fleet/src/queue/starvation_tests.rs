//! Nothing that is ready starves, and priority comes first nonetheless: random operations, and a naive count of the runs that every ready key, flow, controller and tenant
//! waits for. All runs take as long, so that slot time is a number of runs.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const TICK: Duration = Duration::from_micros(250);
/// How long a run takes, in ticks: what the queue expects of a run before any has ended.
const RUN: u64 = 4;
const TICKS: u64 = 3_000;
const SEEDS: u64 = 12;

/// How many there are at each level.
#[derive(Debug, Clone, Copy)]
struct Shape {
    tenants: usize,
    /// Of each tenant.
    controllers: usize,
    clusters: usize,
    /// Of each controller in each cluster.
    keys: usize,
}

/// Where a key stands: tenant, controller, cluster, number. A shorter path is a class.
type Path = Vec<usize>;

/// When a key is enqueued.
#[derive(Debug, Clone, Copy)]
enum Habit {
    /// As soon as its run has ended, or while it runs.
    Busy,
    /// Some ticks after its run has ended.
    Returning,
    /// From time to time.
    Quiet,
}

struct Key {
    request: Request,
    habit: Habit,
    /// What its own events have.
    usual: i32,
    /// What it waits with.
    priority: i32,
    /// When it is enqueued again, in ticks.
    again: Option<u64>,
    /// When its run ends, in ticks.
    run: Option<(u64, Token)>,
    /// The priority of an event during its run.
    again_at: Option<i32>,
    ready: bool,
}

/// What waits, and for how many runs already.
#[derive(Debug, Clone, Copy)]
struct Wait {
    /// Runs of its parent since it waits.
    runs: u64,
    /// Most that it may wait for.
    bound: u64,
    /// In ticks.
    since: u64,
}

struct World {
    queue: Queue,
    rng: Rng,
    shape: Shape,
    slots: usize,
    /// How many ticks pass until a returning key returns.
    pause: Range<u64>,
    /// Most classes have returning keys only, which take all slots. They pause for so long that their debt is forgiven.
    returning: bool,
    now: Instant,
    tick: u64,
    controllers: BTreeMap<Path, ControllerId>,
    keys: BTreeMap<Path, Key>,
    /// The ready keys, and the classes that have one.
    waits: BTreeMap<Path, Wait>,
    /// Runs of a controller, and of a flow, since one went to a lower priority than was ready.
    in_order: BTreeMap<Path, u8>,
    /// How many did.
    out_of_order: u64,
    runs: u64,
}

impl World {
    fn new(shape: Shape, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let now = Instant::now();
        let slots = rng.usize(1..5);
        let returning = seed.is_multiple_of(2);
        let keys = (shape.tenants * shape.controllers * shape.clusters * shape.keys) as u64;
        let pause = if returning {
            RUN..(keys * RUN * 4 / 5 / slots as u64).max(2 * RUN)
        } else {
            1..2 * RUN
        };
        let limits = Limits {
            global: slots,
            per_cluster: 1000,
            hot_key: HotKeyLimit {
                per_second: 1_000_000,
                burst: 1_000_000,
            },
            ..Limits::default()
        };
        let mut world = Self {
            queue: Queue::with_rng(now, limits, rng.fork()),
            rng,
            shape,
            slots,
            pause,
            returning,
            now,
            tick: 0,
            controllers: BTreeMap::new(),
            keys: BTreeMap::new(),
            waits: BTreeMap::new(),
            in_order: BTreeMap::new(),
            out_of_order: 0,
            runs: 0,
        };
        for tenant in 0..shape.tenants {
            for controller in 0..shape.controllers {
                world.add_controller(tenant, controller);
            }
        }
        world
    }

    fn add_controller(&mut self, tenant: usize, controller: usize) {
        let owner = TenantName::new(format!("t{tenant}")).unwrap();
        let name = ControllerName::new(format!("c{controller}")).unwrap();
        let concurrency = Some(self.slots);
        self.queue.set_tenant(
            &owner,
            TenantOptions {
                weight: 1,
                concurrency,
            },
        );
        let options = QueueOptions {
            per_cluster: 1000,
            ..QueueOptions::default()
        };
        let id = self.queue.add_controller(&owner, name, options);
        self.controllers.insert(vec![tenant, controller], id);
        for cluster in 0..self.shape.clusters {
            let in_cluster = ClusterName::new(format!("k{cluster}")).unwrap();
            // Most classes do one thing: those that are always busy at high priority, and those that come back all the time, are what
            // others might starve by.
            let most = if self.returning && self.rng.u32(0..8) > 0 {
                Habit::Returning
            } else {
                self.any_habit()
            };
            for number in 0..self.shape.keys {
                let object = ObjectKey::namespaced("ns", &number.to_string());
                let habit = if self.returning || self.rng.u32(0..3) > 0 {
                    most
                } else {
                    self.any_habit()
                };
                let priority = match habit {
                    Habit::Quiet => Add::LOW_PRIORITY,
                    _ => *self.rng.choice(&[0, 0, 5]).unwrap(),
                };
                self.keys.insert(
                    vec![tenant, controller, cluster, number],
                    Key {
                        request: Request::new(in_cluster.clone(), object),
                        habit,
                        usual: priority,
                        priority,
                        again: Some(self.rng.u64(0..20)),
                        run: None,
                        again_at: None,
                        ready: false,
                    },
                );
            }
        }
    }

    fn any_habit(&mut self) -> Habit {
        let habits = [Habit::Busy, Habit::Returning, Habit::Quiet];
        *self.rng.choice(&habits).unwrap()
    }

    /// Most runs of its parent that a key or a class that begins to wait may wait for: see `docs/limits.md`.
    fn bound(&self, path: &Path) -> u64 {
        let slots = self.slots as u64;
        let turns = |siblings: usize| 7 * siblings as u64 + 2 * slots + 1;
        match path.len() {
            4 => {
                let flow = &path[..3];
                let ready = self
                    .keys
                    .iter()
                    .filter(|(of, key)| key.ready && of[..3] == *flow);
                4 * (ready.count() as u64 + 1)
            }
            3 => 4 * turns(self.shape.clusters),
            2 => turns(self.shape.controllers),
            _ => turns(self.shape.tenants),
        }
    }

    /// Enqueues a key.
    fn add(&mut self, path: &Path, priority: i32) {
        let key = &self.keys[path];
        let add = Add {
            priority,
            ..Add::now(Cause::Update)
        };
        let id = self.controllers[&path[..2]];
        match self.queue.add(self.now, id, &key.request, add) {
            Added::New => self.becomes_ready(path, priority),
            // With a higher priority it waits in another place.
            Added::Merged if priority > key.priority => self.becomes_ready(path, priority),
            Added::Merged => {}
            Added::MarkedDirty => {
                let again_at = &mut self.keys.get_mut(path).unwrap().again_at;
                *again_at = (*again_at).max(Some(priority));
            }
            refused => panic!("{refused:?}"),
        }
    }

    fn becomes_ready(&mut self, path: &Path, priority: i32) {
        for (of, wait) in &mut self.waits {
            // What becomes ready at the same moment may count as earlier.
            if of.len() == 4 && of[..3] == path[..3] && wait.since == self.tick {
                wait.bound += 4;
            }
        }
        self.begin_wait(path.clone());
        let key = self.keys.get_mut(path).unwrap();
        (key.ready, key.priority) = (true, priority);
        for length in 1..4 {
            let class = path[..length].to_vec();
            if !self.waits.contains_key(&class) {
                self.begin_wait(class);
            }
        }
    }

    fn begin_wait(&mut self, class: Path) {
        let wait = Wait {
            runs: 0,
            bound: self.bound(&class),
            since: self.tick,
        };
        self.waits.insert(class, wait);
    }

    fn is_ready(&self, class: &[usize]) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|(path, key)| key.ready && path.starts_with(class))
    }

    /// Notes that a key begins to run: its siblings wait for one more run, and so do those of its classes.
    fn begins(&mut self, run: &Run) {
        let controller = self
            .controllers
            .iter()
            .find(|(_, id)| **id == run.controller);
        let controller = controller.unwrap().0.clone();
        self.check_order(&controller, run);
        let is_it = |(path, key): &(&Path, &mut Key)| {
            path.starts_with(&controller) && key.request == run.request
        };
        let (path, key) = self.keys.iter_mut().find(is_it).unwrap();
        assert!(
            std::mem::replace(&mut key.ready, false),
            "{path:?} was not ready"
        );
        key.run = Some((self.tick + RUN, run.token));
        let path = path.clone();
        self.runs += 1;
        for (of, wait) in &mut self.waits {
            let (_, parent) = of.split_last().unwrap();
            if path.starts_with(parent) {
                wait.runs += 1;
                assert!(
                    wait.runs <= wait.bound,
                    "{of:?} waits for {wait:?}, {} slots, {:?}",
                    self.slots,
                    self.shape
                );
            }
        }
        self.waits.remove(&path);
        for length in 1..4 {
            let class = path[..length].to_vec();
            self.waits.remove(&class);
            if self.is_ready(&class) {
                self.begin_wait(class);
            }
        }
    }

    /// The highest priority of the ready keys for which `is` holds.
    fn best(&self, is: impl Fn(&Path, &Key) -> bool) -> Option<i32> {
        let ready = self
            .keys
            .iter()
            .filter(|(path, key)| key.ready && is(path, key));
        ready.map(|(_, key)| key.priority).max()
    }

    /// Notes whether the highest priority comes first, as in three runs of four it must.
    fn check_order(&mut self, controller: &Path, run: &Run) {
        let is_of = |path: &Path| path.starts_with(controller);
        let is_there =
            |path: &Path, key: &Key| is_of(path) && key.request.cluster == run.request.cluster;
        let of_flow = self.best(is_there);
        // A cluster with a run under way may have to answer first.
        let idle: BTreeSet<Path> = (0..self.shape.clusters)
            .map(|cluster| [&controller[..], &[cluster]].concat())
            .filter(|flow| {
                !self
                    .keys
                    .iter()
                    .any(|(path, key)| path.starts_with(flow) && key.run.is_some())
            })
            .collect();
        let of_controller = self.best(|path, _| is_of(path) && idle.contains(&path[..3]));
        let flow = [&controller[..], &[self.number(run)]].concat();
        let orders = [
            (flow, Some(run.priority) < of_flow),
            (controller.clone(), of_flow < of_controller),
        ];
        for (class, out_of_order) in orders {
            let before = self.in_order.entry(class).or_insert(key::SHARE);
            *before = before.saturating_add(1);
            if out_of_order {
                assert!(*before >= key::SHARE, "priority comes first");
                *before = 0;
                self.out_of_order += 1;
            }
        }
    }

    /// The number of a run's cluster.
    fn number(&self, run: &Run) -> usize {
        let keys = self.keys.iter();
        let mut there = keys.filter(|(_, key)| key.request.cluster == run.request.cluster);
        there.next().unwrap().0[2]
    }

    fn ends(&mut self, path: &Path, token: Token) {
        assert!(self.queue.done(self.now, token, Outcome::Done));
        let later = self.tick + self.rng.u64(self.pause.clone());
        let key = self.keys.get_mut(path).unwrap();
        key.run = None;
        if let Some(priority) = key.again_at.take() {
            return self.becomes_ready(path, priority);
        }
        key.again = match key.habit {
            Habit::Busy => Some(self.tick),
            Habit::Returning => Some(later),
            Habit::Quiet => None,
        };
    }

    fn step(&mut self) {
        let ended = self.keys.iter().filter_map(|(path, key)| {
            let (end, token) = key.run?;
            (end <= self.tick).then(|| (path.clone(), token))
        });
        for (path, token) in ended.collect::<Vec<_>>() {
            self.ends(&path, token);
        }
        let due = self.keys.iter().filter_map(|(path, key)| {
            let is_due = key.again.is_some_and(|again| again <= self.tick);
            is_due.then(|| (path.clone(), key.usual))
        });
        let due: BTreeMap<Path, i32> = due.collect();
        for (path, priority) in due {
            self.keys.get_mut(&path).unwrap().again = None;
            self.add(&path, priority);
        }
        if self.rng.u32(0..8) == 0 {
            self.surprise();
        }
        while let Some(run) = self.queue.get(self.now) {
            self.begins(&run);
        }
        self.tick += 1;
        self.now += TICK;
    }

    /// An event about any key, as often as not with a low priority.
    fn surprise(&mut self) {
        let paths: Vec<Path> = self.keys.keys().cloned().collect();
        let path = self.rng.choice(&paths).unwrap();
        let priority = *self.rng.choice(&[Add::LOW_PRIORITY, 0]).unwrap();
        self.add(path, priority);
    }
}

/// Returns how many runs went to a lower priority than was ready.
fn nothing_starves(shape: Shape) -> u64 {
    let mut out_of_order = 0;
    for seed in 0..SEEDS {
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(shape, seed);
            for _ in 0..TICKS {
                world.step();
            }
            (world.runs, world.out_of_order)
        });
        let (runs, early) = result.unwrap_or_else(|panic| {
            eprintln!("something starves with seed {seed}");
            std::panic::resume_unwind(panic)
        });
        assert!(runs > TICKS / RUN / 2, "the slots were hardly used: {runs}");
        out_of_order += early;
    }
    out_of_order
}

#[test]
fn no_key_of_a_flow_starves() {
    let out_of_order = nothing_starves(Shape {
        tenants: 1,
        controllers: 1,
        clusters: 1,
        keys: 30,
    });
    assert!(out_of_order > 1000, "{out_of_order}");
}

#[test]
fn no_flow_of_a_controller_starves() {
    let out_of_order = nothing_starves(Shape {
        tenants: 1,
        controllers: 1,
        clusters: 20,
        keys: 1,
    });
    assert!(out_of_order > 1000, "{out_of_order}");
}

#[test]
fn no_controller_of_a_tenant_starves() {
    nothing_starves(Shape {
        tenants: 1,
        controllers: 20,
        clusters: 1,
        keys: 1,
    });
}

#[test]
fn no_tenant_starves() {
    nothing_starves(Shape {
        tenants: 20,
        controllers: 1,
        clusters: 1,
        keys: 1,
    });
}

#[test]
fn nothing_starves_at_any_level_at_once() {
    nothing_starves(Shape {
        tenants: 3,
        controllers: 3,
        clusters: 3,
        keys: 3,
    });
}
