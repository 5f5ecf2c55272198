//! How much runs at once: the defaults, each limit, and what slow clusters may have.

use super::tests::{cluster, name, request, tenant};
use super::*;
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);

/// A queue with some tenants, each with one controller, and a clock of its own.
struct Limited {
    queue: Queue,
    now: Instant,
    controllers: Vec<ControllerId>,
    runs: Vec<Run>,
}

impl Limited {
    fn new(limits: Limits, tenants: &[TenantOptions]) -> Self {
        let now = Instant::now();
        let mut limited = Self {
            queue: Queue::with_rng(now, limits, Rng::with_seed(1)),
            now,
            controllers: Vec::new(),
            runs: Vec::new(),
        };
        for options in tenants {
            limited.add_tenant(*options);
        }
        limited
    }

    fn add_tenant(&mut self, options: TenantOptions) {
        let tenant = tenant(&format!("t{}", self.controllers.len()));
        self.queue.set_tenant(&tenant, options);
        let options = QueueOptions::default();
        let controller = self.queue.add_controller(&tenant, name("c"), options);
        self.controllers.push(controller);
    }

    /// Adds keys of one cluster.
    fn add(&mut self, controller: usize, at: &str, keys: std::ops::Range<u32>) {
        for key in keys {
            let request = request(at, &key.to_string());
            let add = Add::now(Cause::Update);
            let controller = self.controllers[controller];
            assert_eq!(
                self.queue.add(self.now, controller, &request, add),
                Added::New
            );
        }
    }

    /// Takes everything that may run, and tells how much that was.
    fn take(&mut self) -> usize {
        let before = self.runs.len();
        let (queue, now) = (&mut self.queue, self.now);
        self.runs.extend(std::iter::from_fn(|| queue.get(now)));
        self.runs.len() - before
    }

    /// Runs under way of a controller.
    fn of(&self, controller: usize) -> usize {
        let controller = self.controllers[controller];
        let runs = self.runs.iter();
        runs.filter(|run| run.controller == controller).count()
    }

    /// Runs under way in clusters whose names begin so.
    fn at(&self, prefix: &str) -> usize {
        let runs = self.runs.iter();
        runs.filter(|run| run.request.cluster.as_str().starts_with(prefix))
            .count()
    }

    /// Ends the runs in clusters whose names begin so.
    fn end(&mut self, prefix: &str) {
        let (queue, now) = (&mut self.queue, self.now);
        self.runs.retain(|run| {
            let goes_on = !run.request.cluster.as_str().starts_with(prefix);
            assert!(goes_on || queue.done(now, run.token, Outcome::Done));
            goes_on
        });
    }
}

fn up_to(concurrency: usize) -> TenantOptions {
    TenantOptions {
        concurrency: Some(concurrency),
        ..TenantOptions::default()
    }
}

fn limits(global: usize) -> Limits {
    Limits {
        global,
        ..Limits::default()
    }
}

#[test]
fn by_default_512_run_at_once_128_in_a_cluster_and_4_of_a_controller_there() {
    let mut limited = Limited::new(Limits::default(), &[TenantOptions::default(); 40]);
    for controller in 0..40 {
        for at in 0..10 {
            limited.add(controller, &format!("k{at}"), 0..5);
        }
    }
    assert_eq!(limited.take(), 512);
    let mut there: BTreeMap<(ControllerId, &ClusterName), usize> = BTreeMap::new();
    for run in &limited.runs {
        *there
            .entry((run.controller, &run.request.cluster))
            .or_default() += 1;
    }
    assert!(there.values().all(|runs| *runs <= 4), "{there:?}");

    let mut limited = Limited::new(Limits::default(), &[TenantOptions::default(); 40]);
    for controller in 0..40 {
        limited.add(controller, "k", 0..5);
    }
    assert_eq!(limited.take(), 128);

    let mut limited = Limited::new(Limits::default(), &[TenantOptions::default()]);
    for at in 0..600 {
        limited.add(0, &format!("k{at}"), 0..1);
    }
    assert_eq!(limited.take(), 512, "a controller has no limit of its own");

    let mut limited = Limited::new(Limits::default(), &[TenantOptions::default()]);
    limited.add(0, "k", 0..5);
    assert_eq!(limited.take(), 4);
}

#[test]
fn a_concurrency_of_1_is_one_at_a_time_in_the_whole_fleet() {
    let mut limited = Limited::new(Limits::default(), &[TenantOptions::default()]);
    let options = QueueOptions {
        concurrency: Some(1),
        ..QueueOptions::default()
    };
    limited
        .queue
        .set_controller(limited.controllers[0], options);
    for at in ["a", "b", "c"] {
        limited.add(0, at, 0..2);
    }
    for _ in 0..6 {
        assert_eq!(limited.take(), 1);
        for _ in 0..3 {
            limited.now += 10 * SECOND;
            assert_eq!(limited.take(), 0, "whatever it waits for");
        }
        limited.end("");
    }
    assert!(limited.queue.is_empty());
}

#[test]
fn a_lone_tenant_has_all_slots_and_two_have_half_each() {
    let mut limited = Limited::new(limits(9), &[TenantOptions::default()]);
    for at in 0..10 {
        limited.add(0, &format!("k{at}"), 0..9);
    }
    assert_eq!(limited.take(), 9);
    limited.add_tenant(TenantOptions::default());
    for at in 0..4 {
        limited.add(1, &format!("k{at}"), 0..1);
    }
    limited.end("");
    assert_eq!(limited.take(), 9);
    assert_eq!((limited.of(0), limited.of(1)), (5, 4));
    limited.end("");
    assert_eq!(
        limited.take(),
        5,
        "though the other has nothing to do any more"
    );
    assert_eq!((limited.of(0), limited.of(1)), (5, 0));
    limited
        .queue
        .remove_controller(limited.now, limited.controllers[1]);
    assert_eq!(limited.take(), 4, "nobody else is there any more");
}

#[test]
fn a_limit_that_is_written_may_reach_the_global_one_and_not_exceed_it() {
    let mut limited = Limited::new(limits(8), &[up_to(100), up_to(2)]);
    for at in 0..4 {
        limited.add(1, &format!("k{at}"), 0..4);
    }
    assert_eq!(limited.take(), 2);
    limited.end("");
    for at in 0..8 {
        limited.add(0, &format!("l{at}"), 0..4);
    }
    limited.take();
    assert_eq!(limited.of(0) + limited.of(1), 8);
    assert!(limited.of(1) <= 2);
    limited.end("");
    limited
        .queue
        .remove_controller(limited.now, limited.controllers[1]);
    assert_eq!(limited.take(), 8);
}

/// Ten clusters of which every run takes two seconds, and one that is quick. Slots: 8.
fn ten_slow_clusters() -> Limited {
    let mut limited = Limited::new(limits(8), &[TenantOptions::default()]);
    for round in 0..5 {
        for at in 2 * round..2 * round + 2 {
            limited.add(0, &format!("slow{at}"), 0..1);
        }
        assert_eq!(limited.take(), 2);
        limited.now += 2 * SECOND;
        limited.end("");
    }
    for at in 0..10 {
        limited.add(0, &format!("slow{at}"), 0..9);
    }
    limited
}

#[test]
fn slow_clusters_have_half_of_a_tenants_slots_at_most() {
    let mut limited = ten_slow_clusters();
    for round in 0..10 {
        limited.take();
        assert_eq!(limited.at("slow"), 4);
        limited.add(0, "quick", 10 * round..10 * round + 5);
        assert_eq!(limited.take(), 1, "one shows whether it answers");
        limited.end("quick");
        assert_eq!(limited.take(), 4, "and half of the slots are there for it");
        limited.end("quick");
        limited.now += 2 * SECOND;
        assert_eq!(limited.take(), 0);
        limited.end("slow");
    }
}

#[test]
fn slow_clusters_take_turns() {
    let mut limited = ten_slow_clusters();
    let mut runs: BTreeMap<ClusterName, usize> = BTreeMap::new();
    for _ in 0..20 {
        limited.take();
        for run in &limited.runs {
            *runs.entry(run.request.cluster.clone()).or_default() += 1;
        }
        limited.now += 2 * SECOND;
        limited.end("");
    }
    assert_eq!(runs.len(), 10);
    assert!(runs.values().all(|runs| (7..=9).contains(runs)), "{runs:?}");
}

#[test]
fn a_cluster_is_slow_until_a_run_ends_in_time_and_none_is_old() {
    let mut limited = ten_slow_clusters();
    limited.take();
    limited.now += Duration::from_millis(999);
    // Four runs in four clusters, all in time.
    limited.end("");
    let runs = limited.take();
    assert!(runs > 4, "{runs} runs");
}

#[test]
fn a_cluster_that_is_ready_again_is_not_slow() {
    let mut limited = ten_slow_clusters();
    limited.take();
    let idle = (0..10).map(|at| format!("slow{at}"));
    let idle = idle.filter(|at| limited.at(at) == 0).collect::<Vec<_>>();
    let back = cluster(&idle[0]);
    limited.queue.set_cluster(&back, ClusterMode::Held);
    assert_eq!(limited.take(), 0);
    limited.queue.set_cluster(&back, ClusterMode::Ready);
    assert_eq!(limited.take(), 1);
    limited.end(back.as_str());
    assert_eq!(limited.take(), 4);
    assert_eq!(limited.at(back.as_str()), 4);
}

#[test]
fn one_tenants_slow_clusters_are_no_matter_of_others() {
    let mut limited = Limited::new(limits(8), &[up_to(4), up_to(8)]);
    limited.add(0, "k", 0..1);
    limited.take();
    limited.now += 2 * SECOND;
    limited.add(0, "k", 1..9);
    limited.add(1, "k", 0..4);
    limited.take();
    assert_eq!((limited.of(0), limited.of(1)), (2, 4));
}

#[test]
fn a_tenant_with_one_slot_has_it_for_slow_clusters_too() {
    let mut limited = Limited::new(limits(8), &[up_to(1)]);
    limited.add(0, "slow", 0..3);
    for _ in 0..3 {
        assert_eq!(limited.take(), 1);
        limited.now += 5 * SECOND;
        limited.end("");
    }
}

#[test]
fn runs_that_end_with_their_cluster_do_not_make_its_successor_slow() {
    let mut limited = Limited::new(limits(8), &[TenantOptions::default()]);
    limited.add(0, "slow", 0..9);
    assert_eq!(limited.take(), 4);
    limited.add(0, "k", 0..1);
    assert_eq!(limited.take(), 1);
    limited.now += 2 * SECOND;
    limited.queue.remove_cluster(limited.now, &cluster("k"));
    limited.add(0, "k", 1..9);
    limited.end("k");
    assert_eq!(limited.take(), 1, "beside the half that slow clusters have");
}

#[test]
fn while_half_is_in_use_a_cluster_has_one_run_until_one_has_ended() {
    let mut limited = Limited::new(limits(8), &[TenantOptions::default()]);
    for at in ["a", "b", "c"] {
        limited.add(0, at, 0..20);
    }
    assert_eq!(limited.take(), 4, "half, and one in each");
    limited.end("a");
    assert!(limited.take() > 1, "it has answered");
    let silent = limited.at("b") + limited.at("c");
    limited.end("a");
    limited.take();
    assert_eq!(limited.at("a"), 4, "all that it may have");
    limited.now += Duration::from_millis(100) - Duration::from_nanos(1);
    limited.end("a");
    limited.take();
    assert_eq!(limited.at("a"), 4);
    limited.now += SECOND;
    limited.take();
    assert_eq!(limited.at("b") + limited.at("c"), silent);
}

#[test]
fn a_cluster_that_is_removed_while_its_keys_wait_for_an_answer_leaves_nobody_waiting() {
    let mut limited = Limited::new(limits(4), &[TenantOptions::default()]);
    limited.add(0, "a", 0..1);
    limited.add(0, "b", 0..1);
    assert_eq!(limited.take(), 2);
    limited.add(0, "a", 1..5);
    assert_eq!(limited.take(), 0, "half is in use, and it has not answered");
    limited.end("b");
    limited.queue.remove_cluster(limited.now, &cluster("a"));
    assert_eq!(limited.take(), 0);
}

#[test]
fn a_process_has_its_portion_of_the_limits_for_all_processes() {
    let options = TenantOptions {
        concurrency: Some(40),
        ..TenantOptions::default()
    };
    let mut limited = Limited::new(Limits::default(), &[options]);
    let controller = limited.controllers[0];
    let of_controller = |concurrency| QueueOptions {
        concurrency,
        ..QueueOptions::default()
    };
    for n in 0..100 {
        limited.add(0, &format!("c{n}"), 0..1);
    }
    limited.queue.set_portion(Portion::new(64, 256));
    assert_eq!(limited.take(), 10, "a quarter of the tenant's");
    limited.queue.set_portion(Portion::new(128, 256));
    assert_eq!(limited.take(), 10, "half of it, from now on");
    limited
        .queue
        .set_controller(controller, of_controller(Some(60)));
    limited.queue.set_portion(Portion::WHOLE);
    assert_eq!(limited.take(), 20);
    limited
        .queue
        .set_controller(controller, of_controller(Some(44)));
    limited
        .queue
        .set_tenant(&tenant("t0"), TenantOptions::default());
    assert_eq!(limited.take(), 4, "all of the controller's");
}
