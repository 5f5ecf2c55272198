//! Who gets how much: weights, idle classes, noisy neighbours and slow clusters, on a simulated clock.

use super::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What a kind of work costs and when it comes back.
#[derive(Clone, Copy)]
struct Work {
    takes: Duration,
    /// From the end of a run to the next event about the same object; `None`: there is none.
    again: Option<Duration>,
}

#[derive(Debug, Default, Clone)]
struct Got {
    slot_time: Duration,
    runs: u32,
    longest_wait: Duration,
    per_key: BTreeMap<Request, u32>,
}

/// A queue whose runs take simulated time.
struct Simulation {
    queue: Queue,
    start: Instant,
    now: Instant,
    work: BTreeMap<(ControllerId, ClusterName), Work>,
    /// Runs, by when they end.
    ends: BinaryHeap<Reverse<(Instant, Token, ControllerId, Request)>>,
    events: BinaryHeap<Reverse<(Instant, ControllerId, Request)>>,
    got: BTreeMap<(ControllerId, ClusterName), Got>,
}

impl Simulation {
    fn new(limits: Limits) -> Self {
        let now = Instant::now();
        let queue = Queue::with_rng(now, limits, Rng::with_seed(1));
        let (work, got) = (BTreeMap::new(), BTreeMap::new());
        Self {
            queue,
            start: now,
            now,
            work,
            ends: BinaryHeap::new(),
            events: BinaryHeap::new(),
            got,
        }
    }

    fn tenant(&mut self, name: &str, options: TenantOptions) -> ControllerId {
        let tenant = TenantName::new(name).unwrap();
        self.queue.set_tenant(&tenant, options);
        let options = QueueOptions {
            per_cluster: 1000,
            ..QueueOptions::default()
        };
        self.queue
            .add_controller(&tenant, ControllerName::new("c").unwrap(), options)
    }

    /// Adds keys of a cluster now, and says what they cost.
    fn work(&mut self, controller: ControllerId, cluster: &str, keys: u32, work: Work) {
        let cluster = ClusterName::new(cluster).unwrap();
        for key in 0..keys {
            let request = Request::new(
                cluster.clone(),
                ObjectKey::namespaced("ns", &key.to_string()),
            );
            let _ = self
                .queue
                .add(self.now, controller, &request, Add::default());
        }
        self.work.insert((controller, cluster), work);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            while let Some(run) = self.queue.get(self.now) {
                let class = (run.controller, run.request.cluster.clone());
                let takes = self.work[&class].takes;
                let got = self.got.entry(class).or_default();
                got.runs += 1;
                got.longest_wait = got.longest_wait.max(run.waited);
                *got.per_key.entry(run.request.clone()).or_default() += 1;
                self.ends.push(Reverse((
                    self.now + takes,
                    run.token,
                    run.controller,
                    run.request,
                )));
            }
            let next = [
                self.ends.peek().map(|Reverse(end)| end.0),
                self.events.peek().map(|Reverse(event)| event.0),
                self.queue.next_wake(),
            ];
            let Some(next) = next.into_iter().flatten().min().filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            self.turn_events();
        }
    }

    /// Ends the runs and delivers the events of this moment.
    fn turn_events(&mut self) {
        while self
            .ends
            .peek()
            .is_some_and(|Reverse(end)| end.0 <= self.now)
        {
            let Some(Reverse((_, token, controller, request))) = self.ends.pop() else {
                return;
            };
            assert!(self.queue.done(self.now, token, Outcome::Done));
            let class = (controller, request.cluster.clone());
            let work = self.work[&class];
            self.got.entry(class).or_default().slot_time += work.takes;
            match work.again {
                Some(Duration::ZERO) => {
                    let _ = self
                        .queue
                        .add(self.now, controller, &request, Add::default());
                }
                Some(again) => self
                    .events
                    .push(Reverse((self.now + again, controller, request))),
                None => {}
            }
        }
        while self
            .events
            .peek()
            .is_some_and(|Reverse(event)| event.0 <= self.now)
        {
            let Some(Reverse((_, controller, request))) = self.events.pop() else {
                return;
            };
            let _ = self
                .queue
                .add(self.now, controller, &request, Add::default());
        }
    }

    fn got(&self, controller: ControllerId) -> Got {
        let mut sum = Got::default();
        for ((of, _), got) in self.got.iter().filter(|((of, _), _)| *of == controller) {
            assert_eq!(*of, controller);
            sum.slot_time += got.slot_time;
            sum.runs += got.runs;
            sum.longest_wait = sum.longest_wait.max(got.longest_wait);
            sum.per_key.extend(got.per_key.clone());
        }
        sum
    }

    fn ratio(&self, a: ControllerId, b: ControllerId) -> f64 {
        self.got(a).slot_time.as_secs_f64() / self.got(b).slot_time.as_secs_f64()
    }
}

fn weight(weight: u32) -> TenantOptions {
    TenantOptions {
        weight,
        // As much as there is, however many tenants there are.
        concurrency: Some(10_000),
    }
}

fn endless(takes: Duration) -> Work {
    Work {
        takes,
        again: Some(Duration::ZERO),
    }
}

fn limits(global: usize) -> Limits {
    Limits {
        global,
        per_cluster: 1000,
        ..Limits::default()
    }
}

fn assert_near(value: f64, expected: f64) {
    assert!(
        (value / expected - 1.0).abs() < 0.05,
        "{value} is not {expected}"
    );
}

#[test]
fn tenants_share_by_weight_in_slot_time() {
    let mut simulation = Simulation::new(limits(8));
    let a = simulation.tenant("a", weight(1));
    let b = simulation.tenant("b", weight(3));
    simulation.work(a, "x", 100, endless(10 * MILLI));
    simulation.work(b, "x", 100, endless(MILLI));
    simulation.run_for(3 * SECOND);
    assert_near(simulation.ratio(b, a), 3.0);
    let all = simulation.got(a).slot_time + simulation.got(b).slot_time;
    assert_near(all.as_secs_f64(), 8.0 * 3.0);
}

#[test]
fn weights_hold_before_the_gate_of_a_cluster() {
    for (slots, global) in [(1, 64), (4, 64), (16, 16)] {
        let mut simulation = Simulation::new(Limits {
            per_cluster: slots,
            ..limits(global)
        });
        let tenants: Vec<ControllerId> = (0..50)
            .map(|i| simulation.tenant(&format!("t{i}"), weight(if i == 0 { 10 } else { 1 })))
            .collect();
        for tenant in &tenants {
            simulation.work(*tenant, "x", 20, endless(20 * MILLI));
        }
        simulation.run_for(60 * SECOND);
        let rest: Duration = tenants[1..]
            .iter()
            .map(|tenant| simulation.got(*tenant).slot_time)
            .sum();
        let ratio =
            simulation.got(tenants[0]).slot_time.as_secs_f64() / (rest.as_secs_f64() / 49.0);
        assert!((8.0..12.0).contains(&ratio), "{ratio} with {slots} slots");
        for tenant in &tenants[2..] {
            assert!(
                (0.8..1.25).contains(&simulation.ratio(*tenant, tenants[1])),
                "{} with {slots} slots",
                simulation.ratio(*tenant, tenants[1])
            );
        }
    }
}

#[test]
fn an_idle_tenant_comes_back_without_credit() {
    let mut simulation = Simulation::new(limits(4));
    let a = simulation.tenant("a", weight(1));
    let b = simulation.tenant("b", weight(1));
    simulation.work(
        b,
        "x",
        1,
        Work {
            takes: MILLI,
            again: None,
        },
    );
    simulation.work(a, "x", 100, endless(5 * MILLI));
    simulation.run_for(10 * SECOND);
    simulation.got.clear();
    simulation.work(b, "x", 100, endless(5 * MILLI));
    simulation.run_for(SECOND);
    assert_near(simulation.ratio(b, a), 1.0);
    assert!(simulation.now > simulation.start + 10 * SECOND);
}

#[test]
fn an_idle_tenant_comes_back_without_debt() {
    let mut simulation = Simulation::new(limits(4));
    let a = simulation.tenant("a", weight(1));
    let b = simulation.tenant("b", weight(1));
    simulation.work(b, "x", 100, endless(100 * MILLI));
    simulation.work(
        a,
        "x",
        4,
        Work {
            takes: 60 * SECOND,
            again: None,
        },
    );
    simulation.run_for(70 * SECOND);
    simulation.run_for(70 * SECOND);
    simulation.got.clear();
    simulation.work(a, "y", 100, endless(100 * MILLI));
    simulation.run_for(10 * SECOND);
    assert!(simulation.ratio(a, b) > 0.9, "{}", simulation.ratio(a, b));
}

#[test]
fn a_cluster_that_was_held_does_not_make_up_for_it_at_the_cost_of_others() {
    let mut simulation = Simulation::new(limits(4));
    let a = simulation.tenant("a", weight(1));
    for cluster in ["x", "y"] {
        simulation.work(a, cluster, 100, endless(5 * MILLI));
    }
    let [x, y] = ["x", "y"].map(|name| ClusterName::new(name).unwrap());
    simulation.queue.set_cluster(&x, ClusterMode::Held);
    simulation.run_for(10 * SECOND);
    assert!(!simulation.got.contains_key(&(a, x.clone())));
    simulation.got.clear();
    simulation.queue.set_cluster(&x, ClusterMode::Ready);
    simulation.run_for(SECOND);
    let ratio = simulation.got[&(a, x)].slot_time.as_secs_f64()
        / simulation.got[&(a, y)].slot_time.as_secs_f64();
    assert_near(ratio, 1.0);
}

#[test]
fn ten_thousand_hot_keys_do_not_delay_quiet_tenants() {
    let mut simulation = Simulation::new(limits(8));
    let hot = simulation.tenant("hot", weight(1));
    for cluster in 0..10 {
        simulation.work(hot, &format!("k{cluster}"), 1000, endless(MILLI));
    }
    let quiet: Vec<ControllerId> = (0..99)
        .map(|i| simulation.tenant(&format!("quiet-{i}"), weight(1)))
        .collect();
    for (i, tenant) in quiet.iter().enumerate() {
        simulation.work(
            *tenant,
            &format!("k{}", i % 10),
            1,
            Work {
                takes: MILLI,
                again: Some(100 * MILLI),
            },
        );
    }
    // All come at once at first; what is of interest is how it goes on.
    simulation.run_for(SECOND);
    simulation.got.clear();
    simulation.run_for(4 * SECOND);
    for tenant in quiet {
        let got = simulation.got(tenant);
        assert!(got.runs >= 35, "{got:?}");
        assert!(
            got.longest_wait <= 25 * MILLI,
            "{:?}: {} runs",
            got.longest_wait,
            got.runs
        );
    }
    let hot = simulation.got(hot);
    assert_eq!(hot.per_key.len(), 10_000, "no key is never run");
    assert!(
        hot.per_key.values().max() <= hot.per_key.values().min().map(|min| min + 2).as_ref(),
        "and all equally often"
    );
}

#[test]
fn a_slow_cluster_takes_its_turns_and_no_more() {
    let mut simulation = Simulation::new(limits(64));
    let a = simulation.tenant(
        "a",
        TenantOptions {
            concurrency: Some(4),
            ..TenantOptions::default()
        },
    );
    simulation.work(a, "slow", 100, endless(SECOND));
    for cluster in 0..3 {
        simulation.work(a, &format!("fast-{cluster}"), 100, endless(MILLI));
    }
    simulation.run_for(20 * SECOND);
    let of = |cluster: &str| simulation.got[&(a, ClusterName::new(cluster).unwrap())].clone();
    for cluster in ["slow", "fast-0", "fast-1", "fast-2"] {
        assert_near(of(cluster).slot_time.as_secs_f64(), 20.0);
    }
    assert!(
        of("fast-0").longest_wait <= 150 * MILLI,
        "{:?}",
        of("fast-0").longest_wait
    );

    // With one slot for all of them the slow one waits until the others have had as much.
    let mut simulation = Simulation::new(limits(1));
    let a = simulation.tenant("a", weight(1));
    simulation.work(a, "slow", 10, endless(SECOND));
    for cluster in 0..3 {
        simulation.work(a, &format!("fast-{cluster}"), 10, endless(10 * MILLI));
    }
    simulation.run_for(400 * SECOND);
    let slow = &simulation.got[&(a, ClusterName::new("slow").unwrap())];
    assert!((80..=120).contains(&slow.runs), "{} of 400 s", slow.runs);
}

#[test]
fn under_overload_every_key_runs_equally_often() {
    let mut simulation = Simulation::new(limits(16));
    let a = simulation.tenant("a", weight(1));
    // 2,000 keys that want to run every 100 ms and take 2 ms: 2.5 times what 16 slots can do.
    for cluster in 0..4 {
        simulation.work(
            a,
            &format!("k{cluster}"),
            500,
            Work {
                takes: 2 * MILLI,
                again: Some(98 * MILLI),
            },
        );
    }
    simulation.run_for(3 * SECOND);
    let got = simulation.got(a);
    assert_eq!(got.per_key.len(), 2000);
    let (least, most) = (
        got.per_key.values().min().unwrap(),
        got.per_key.values().max().unwrap(),
    );
    assert!(most - least <= 2, "{least} to {most}");
}

/// The longest that a key of a quick cluster waits for its turn, beside silent clusters or without them, once all have begun.
fn wait_beside(silent: bool) -> Duration {
    let mut simulation = Simulation::new(Limits::default());
    let tenant = TenantName::new("t").unwrap();
    let name = ControllerName::new("c").unwrap();
    let options = QueueOptions::default();
    let a = simulation.queue.add_controller(&tenant, name, options);
    for cluster in 0..1000 {
        if cluster % 10 >= 3 {
            let takes = 10 * MILLI;
            let again = Some((400 + cluster % 197) * MILLI);
            let work = Work { takes, again };
            simulation.work(a, &format!("quick-{cluster}"), 5, work);
        } else if silent {
            // A call that ends at its deadline, and the next attempt.
            let takes = 10 * SECOND;
            let again = Some(SECOND);
            let work = Work { takes, again };
            simulation.work(a, &format!("silent-{cluster}"), 5, work);
        }
    }
    // The first second is one burst of everything.
    simulation.run_for(SECOND);
    simulation.got.clear();
    simulation.run_for(60 * SECOND);
    let quick = simulation.got.iter();
    let quick = quick.filter(|((_, cluster), _)| cluster.as_str().starts_with("quick"));
    let quick: Vec<&Got> = quick.map(|(_, got)| got).collect();
    let is_done =
        |got: &&Got| got.per_key.len() == 5 && got.per_key.values().all(|runs| *runs > 90);
    assert_eq!(quick.iter().filter(|got| is_done(got)).count(), 700);
    let waits = quick.iter().map(|got| got.longest_wait);
    waits.max().unwrap_or_default()
}

/// All come at once, and it is not known yet which clusters are silent.
#[test]
fn three_hundred_silent_clusters_of_a_thousand_delay_no_others() {
    let (alone, beside) = (wait_beside(false), wait_beside(true));
    assert!(beside <= alone + MILLI, "{beside:?} instead of {alone:?}");
}
