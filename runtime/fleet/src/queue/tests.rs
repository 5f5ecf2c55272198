//! The states of keys: results, merging, limits, removal, status.

use super::*;
use crate::backoff::Backoff;
use crate::outcome::Failure;
use std::collections::BTreeSet;

const MILLI: Duration = Duration::from_millis(1);

/// A queue with one controller and a clock of its own.
pub(super) struct Bench {
    pub(super) queue: Queue,
    pub(super) now: Instant,
    pub(super) controller: ControllerId,
}

impl Bench {
    pub(super) fn new(limits: Limits, concurrency: usize) -> Self {
        let now = Instant::now();
        let mut queue = Queue::with_rng(now, limits, Rng::with_seed(1));
        let controller = queue.add_controller(
            &tenant("t"),
            name("c"),
            QueueOptions {
                concurrency: Some(concurrency),
                per_cluster: concurrency,
                ..QueueOptions::default()
            },
        );
        Self {
            queue,
            now,
            controller,
        }
    }

    pub(super) fn add(&mut self, name: &str) -> Added {
        self.add_with(name, Add::now(Cause::Update))
    }

    pub(super) fn add_with(&mut self, name: &str, add: Add) -> Added {
        self.queue
            .add(self.now, self.controller, &request("alpha", name), add)
    }

    pub(super) fn get(&mut self) -> Option<(String, Run)> {
        self.queue
            .get(self.now)
            .map(|run| (run.request.key.name.to_string(), run))
    }

    pub(super) fn run(&mut self, outcome: impl Into<Outcome>) -> Run {
        let (_, run) = self.get().expect("a key is ready");
        assert!(self.queue.done(self.now, run.token, outcome.into()));
        run
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Passes to the moment when the next key becomes due, and tells how long that was.
    pub(super) fn wake(&mut self) -> Duration {
        let wake = self.queue.next_wake().expect("a key waits");
        let gap = wake.saturating_duration_since(self.now);
        if !gap.is_zero() {
            assert!(
                self.queue
                    .get(self.now + gap - Duration::from_nanos(1))
                    .is_none(),
                "nothing runs before it is due"
            );
        }
        self.now += gap;
        gap
    }

    pub(super) fn state(&self, name: &str) -> Option<&'static str> {
        self.queue
            .key(self.controller, &request("alpha", name))
            .map(|key| key.state.as_str())
    }
}

pub(super) fn tenant(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

pub(super) fn name(name: &str) -> ControllerName {
    ControllerName::new(name).unwrap()
}

pub(super) fn cluster(name: &str) -> ClusterName {
    ClusterName::new(name).unwrap()
}

pub(super) fn request(cluster_name: &str, name: &str) -> Request {
    Request::new(cluster(cluster_name), ObjectKey::namespaced("ns", name))
}

pub(super) fn after(after: Duration) -> Add {
    Add {
        after: Some(after),
        ..Add::default()
    }
}

pub(super) fn priority(priority: i32) -> Add {
    Add {
        priority,
        ..Add::default()
    }
}

#[test]
fn equal_requests_merge() {
    let mut bench = Bench::new(Limits::default(), 10);
    assert_eq!(bench.add("a"), Added::New);
    assert_eq!(bench.add("a"), Added::Merged);
    assert_eq!(bench.queue.len(), 1);
    bench.pass(7 * MILLI);
    let (_, run) = bench.get().unwrap();
    assert_eq!(
        (run.waited, run.attempt, run.priority, run.cause),
        (7 * MILLI, 1, 0, Cause::Update)
    );
    assert!(bench.get().is_none(), "one key never runs twice at once");
    assert!(bench.queue.done(bench.now, run.token, Outcome::Done));
    assert!(bench.queue.is_empty() && bench.queue.next_wake().is_none());
    assert!(
        !bench.queue.done(bench.now, run.token, Outcome::Done),
        "a run ends once"
    );
}

#[test]
fn the_same_name_in_two_clusters_is_two_keys() {
    let mut bench = Bench::new(Limits::default(), 10);
    let cluster_scoped = Request::new(cluster("alpha"), ObjectKey::cluster_scoped("a"));
    for request in [
        request("alpha", "a"),
        request("beta", "a"),
        request("", "a"),
        cluster_scoped,
    ] {
        assert_eq!(
            bench
                .queue
                .add(bench.now, bench.controller, &request, Add::default()),
            Added::New
        );
    }
    let runs: Vec<Run> = std::iter::from_fn(|| bench.queue.get(bench.now)).collect();
    assert_eq!(runs.len(), 4);
}

#[test]
fn an_event_during_a_run_runs_the_key_again_whatever_the_outcome() {
    let outcomes = [
        Outcome::Done,
        Outcome::Gone,
        Outcome::RequeueAfter(MILLI * 500),
        Failure::retry("x").into(),
        Failure::terminal("x").into(),
    ];
    for outcome in outcomes {
        let mut bench = Bench::new(Limits::default(), 10);
        let _ = bench.add("a");
        let (_, run) = bench.get().unwrap();
        assert_eq!(
            bench.add_with(
                "a",
                Add {
                    priority: -7,
                    after: None,
                    cause: Cause::Delete,
                    ..Add::default()
                }
            ),
            Added::MarkedDirty
        );
        assert!(bench.get().is_none());
        bench.queue.done(bench.now, run.token, outcome.clone());
        let (_, again) = bench.get().unwrap_or_else(|| panic!("{outcome:?}"));
        let expected = if matches!(outcome, Outcome::Done | Outcome::Gone) {
            -7
        } else {
            0
        };
        assert_eq!(
            (again.priority, again.cause),
            (expected, Cause::Delete),
            "{outcome:?}"
        );
        bench.queue.done(bench.now, again.token, Outcome::Done);
        assert!(bench.queue.is_empty(), "{outcome:?}");
    }
}

#[test]
fn the_higher_priority_and_the_earlier_time_count() {
    let mut bench = Bench::new(Limits::default(), 10);
    let _ = bench.add_with("low", priority(-100));
    let _ = bench.add_with("late", after(50 * MILLI));
    let _ = bench.add("first");
    assert_eq!(bench.add_with("low", priority(5)), Added::Merged);
    assert_eq!(bench.add_with("late", after(20 * MILLI)), Added::Merged);
    assert_eq!(bench.add_with("late", after(30 * MILLI)), Added::Merged);
    assert_eq!(bench.get().unwrap().0, "low");
    assert_eq!(bench.get().unwrap().0, "first");
    assert_eq!(bench.wake(), 20 * MILLI);
    assert_eq!(bench.get().unwrap().0, "late");
    let _ = bench.add_with("soon", after(50 * MILLI));
    let _ = bench.add("soon");
    assert_eq!(bench.get().unwrap().0, "soon");
    assert!(
        bench.queue.next_wake().is_none(),
        "an alarm that was overtaken is silent"
    );
}

#[test]
fn a_new_event_overtakes_a_thousand_initial_ones() {
    let mut bench = Bench::new(Limits::default(), 1);
    for i in 0..1000 {
        let _ = bench.add_with(&format!("old-{i}"), Add::low(Cause::List));
    }
    let _ = bench.add("old-999");
    let _ = bench.add("new");
    assert_eq!(
        bench.run(Outcome::Done).request.key.name.as_ref(),
        "old-999"
    );
    assert_eq!(bench.run(Outcome::Done).request.key.name.as_ref(), "new");
    for i in 0..999 {
        assert_eq!(
            bench.run(Outcome::Done).request.key.name.as_ref(),
            format!("old-{i}"),
            "first come, first served"
        );
    }
}

#[test]
fn what_enqueued_a_key_is_known_while_it_is_tried_again_and_asks_for_itself() {
    let mut bench = Bench::new(Limits::default(), 1);
    let why = |bench: &Bench| {
        let key = bench.queue.key(bench.controller, &request("alpha", "a"));
        key.map(|key| (key.cause, key.origin))
    };
    let _ = bench.add_with("a", Add::now(Cause::Update).by(Origin(7)));
    assert_eq!(why(&bench), Some((Cause::Update, Origin(7))));
    bench.run(Failure::retry("no"));
    assert_eq!(why(&bench), Some((Cause::Retry, Origin(7))));
    bench.wake();
    bench.run(Outcome::RequeueAfter(Duration::from_secs(60)));
    assert_eq!(why(&bench), Some((Cause::Requeue, Origin(7))));
    let _ = bench.add_with("a", Add::now(Cause::Operator));
    assert_eq!(why(&bench), Some((Cause::Operator, Origin(0))));
    let (_, run) = bench.get().unwrap();
    let _ = bench.add_with("a", Add::now(Cause::Create).by(Origin(2)));
    assert!(bench.queue.done(bench.now, run.token, Outcome::Done));
    assert_eq!(why(&bench), Some((Cause::Create, Origin(2))));
}

#[test]
fn failures_are_counted_up_to_what_fits_and_go_on() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("a");
    for _ in 0..300 {
        bench.run(Failure::retry("no"));
        bench.pass(Duration::from_secs(1001));
    }
    assert_eq!(bench.run(Failure::retry("no")).attempt, 256);
}

#[test]
fn failures_back_off_and_a_success_forgets_them() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add_with("a", priority(3));
    for attempt in 0..20 {
        let run = bench.run(Failure::retry("no"));
        assert_eq!(
            (run.attempt, run.priority),
            (attempt + 1, 3),
            "the priority is kept"
        );
        assert_eq!(bench.state("a"), Some("backoff"));
        let step = (5 * MILLI * 2u32.pow(attempt)).min(Duration::from_secs(1000));
        let gap = bench.wake();
        assert!(gap >= step / 2 && gap <= step, "attempt {attempt}: {gap:?}");
    }
    let run = bench.run(Outcome::RequeueAfter(Duration::from_secs(3600)));
    assert_eq!((run.attempt, run.cause), (21, Cause::Retry));
    assert_eq!(bench.wake(), Duration::from_secs(3600));
    let run = bench.run(Outcome::Done);
    assert_eq!((run.attempt, run.cause), (1, Cause::Requeue));
    assert_eq!(bench.queue.totals(bench.controller).retries, 20);
}

#[test]
fn an_event_ends_a_backoff_and_attempts_go_on() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("a");
    for attempt in 1..10 {
        assert_eq!(bench.run(Failure::retry("no")).attempt, attempt);
        assert_eq!(bench.add("a"), Added::Merged);
    }
    assert_eq!(bench.run(Outcome::Done).attempt, 10);
}

#[test]
fn a_retry_is_not_earlier_than_the_server_asked() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("a");
    bench.run(Outcome::Failed {
        failure: Failure::retry("throttled"),
        not_before: Some(Duration::from_secs(9)),
    });
    assert_eq!(bench.wake(), Duration::from_secs(9));
    bench.run(Outcome::Failed {
        failure: Failure::retry("throttled"),
        not_before: Some(MILLI),
    });
    assert!(bench.wake() >= 5 * MILLI, "the backoff is longer");
}

#[test]
fn a_terminal_failure_waits_for_an_event_and_attempts_stay() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("a");
    bench.run(Failure::retry("no"));
    bench.wake();
    assert_eq!(bench.run(Failure::terminal("never")).attempt, 2);
    assert_eq!(bench.state("a"), Some("terminal"));
    assert!(bench.get().is_none() && bench.queue.next_wake().is_none() && bench.queue.is_idle());
    assert_eq!(bench.queue.counts(bench.controller).terminal, 1);
    let page = bench.queue.keys(
        &QueuedKeyFilter {
            failing: true,
            ..QueuedKeyFilter::default()
        },
        0,
        10,
    );
    assert_eq!(
        page.keys[0]
            .last_failure
            .as_ref()
            .map(|failure| &*failure.message),
        Some("never")
    );
    assert_eq!(bench.add_with("a", priority(-100)), Added::New);
    let run = bench.run(Outcome::Done);
    assert_eq!((run.attempt, run.priority), (2, -100));
    assert!(bench.queue.is_empty());
}

#[test]
fn a_key_runs_at_its_own_asking_ten_times_a_second_at_most() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("a");
    let start = bench.now;
    for _ in 0..50 {
        let (_, run) = bench.get().unwrap();
        bench.pass(3 * MILLI);
        bench
            .queue
            .done(bench.now, run.token, Outcome::RequeueAfter(Duration::ZERO));
        bench.wake();
    }
    assert_eq!(bench.now - start, 50 * 100 * MILLI);
    assert_eq!(bench.queue.totals(bench.controller).throttled, 50);
    let (_, run) = bench.get().unwrap();
    bench.pass(250 * MILLI);
    bench
        .queue
        .done(bench.now, run.token, Outcome::RequeueAfter(Duration::ZERO));
    assert!(bench.get().is_some(), "a long run may run again at once");
}

#[test]
fn a_full_share_refuses_and_asks_again_when_there_is_room() {
    let mut bench = Bench::new(
        Limits {
            keys_per_controller: 20,
            ..Limits::default()
        },
        20,
    );
    for i in 0..20 {
        assert_eq!(bench.add(&i.to_string()), Added::New);
    }
    assert_eq!(bench.add("more"), Added::Full);
    assert_eq!(bench.add("7"), Added::Merged);
    assert_eq!(
        (bench.queue.room(bench.controller), bench.queue.drained()),
        (0, None)
    );
    bench.run(Outcome::Done);
    assert_eq!(
        (bench.queue.room(bench.controller), bench.queue.drained()),
        (1, None)
    );
    bench.run(Failure::terminal("x"));
    assert_eq!(
        (bench.queue.room(bench.controller), bench.queue.drained()),
        (2, Some(bench.controller))
    );
    assert_eq!(bench.queue.drained(), None, "once is enough");
    assert_eq!(
        (bench.add("more"), bench.add("and more")),
        (Added::New, Added::New)
    );
    assert_eq!(
        bench.add("1"),
        Added::Full,
        "a terminal key comes back through the same door"
    );
    assert_eq!(bench.queue.totals(bench.controller).refused, 2);
}

#[test]
fn limits_hold_at_every_level_and_others_get_the_slots() {
    let now = Instant::now();
    let mut queue = Queue::new(
        now,
        Limits {
            global: 10,
            per_cluster: 4,
            ..Limits::default()
        },
    );
    queue.set_tenant(
        &tenant("a"),
        TenantOptions {
            concurrency: Some(8),
            ..TenantOptions::default()
        },
    );
    let options = QueueOptions {
        concurrency: Some(3),
        per_cluster: 2,
        ..QueueOptions::default()
    };
    let a = [
        queue.add_controller(&tenant("a"), name("x"), options),
        queue.add_controller(&tenant("a"), name("y"), options),
    ];
    let b = queue.add_controller(
        &tenant("b"),
        name("z"),
        QueueOptions {
            concurrency: None,
            per_cluster: 9,
            ..options
        },
    );
    // Clusters that have answered lately.
    for at in ["one", "two", "three"] {
        for controller in [a[0], b] {
            let _ = queue.add(now, controller, &request(at, "first"), Add::default());
            let run = queue.get(now).unwrap();
            assert!(queue.done(now, run.token, Outcome::Done));
        }
    }
    for i in 0..100 {
        for controller in [a[0], a[1], b] {
            for at in ["one", "two", "three"] {
                let _ = queue.add(
                    now,
                    controller,
                    &request(at, &i.to_string()),
                    Add::default(),
                );
            }
        }
    }
    let runs: Vec<Run> = std::iter::from_fn(|| queue.get(now)).collect();
    let count = |is: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| is(run)).count();
    assert_eq!(runs.len(), 10);
    for at in ["one", "two", "three"] {
        let here = |run: &Run| run.request.cluster == cluster(at);
        assert!(count(&here) <= 4, "the cluster's limit");
        for controller in a {
            let of = |run: &Run| here(run) && run.controller == controller;
            assert!(count(&of) <= 2, "the controller's limit in a cluster");
        }
    }
    assert!(
        a.iter()
            .all(|controller| count(&|run| run.controller == *controller) <= 3),
        "the controller's limit"
    );
    queue.set_limits(Limits {
        global: 12,
        per_cluster: 4,
        ..Limits::default()
    });
    assert_eq!(
        std::iter::from_fn(|| queue.get(now)).count(),
        2,
        "a limit can be raised"
    );
    queue.set_limits(Limits {
        global: 100,
        per_cluster: 4,
        ..Limits::default()
    });
    assert_eq!(
        std::iter::from_fn(|| queue.get(now)).count(),
        0,
        "all three clusters are full"
    );
}

#[test]
fn a_cluster_that_is_not_ready_is_probed_by_one_key() {
    let mut bench = Bench::new(Limits::default(), 10);
    let alpha = cluster("alpha");
    bench.queue.set_cluster(&alpha, ClusterMode::Held);
    for name in ["a", "b", "c"] {
        let _ = bench.add(name);
    }
    assert!(bench.get().is_none());
    assert_eq!(bench.state("a"), Some("held"));
    assert_eq!(
        bench.queue.add(
            bench.now,
            bench.controller,
            &request("beta", "x"),
            Add::low(Cause::List)
        ),
        Added::New
    );
    assert_eq!(
        bench.run(Outcome::Done).request.cluster,
        cluster("beta"),
        "others are not held up"
    );
    bench.queue.set_cluster(&alpha, ClusterMode::Probing);
    let (first, probe) = bench.get().unwrap();
    assert!(bench.get().is_none());
    bench
        .queue
        .done(bench.now, probe.token, Failure::retry("refused").into());
    let (second, _) = bench.get().unwrap();
    assert_ne!(first, second, "the one that failed waits");
    bench.queue.set_cluster(&alpha, ClusterMode::Ready);
    assert!(bench.get().is_some() && bench.get().is_none());
}

#[test]
fn what_is_kept_of_failures_is_bounded() {
    let mut bench = Bench::new(
        Limits {
            failures_per_controller: 3,
            ..Limits::default()
        },
        10,
    );
    for i in 0..10 {
        let _ = bench.add(&i.to_string());
        bench.run(if i % 2 == 0 {
            Failure::terminal("é".repeat(2000))
        } else {
            Failure::retry("same")
        });
    }
    let page = bench.queue.keys(
        &QueuedKeyFilter {
            failing: true,
            ..QueuedKeyFilter::default()
        },
        0,
        100,
    );
    let kept: Vec<&LastFailure> = page
        .keys
        .iter()
        .filter_map(|key| key.last_failure.as_ref())
        .collect();
    assert_eq!(kept.len(), 3);
    assert!(
        kept.iter()
            .all(|failure| failure.message.len() <= LastFailure::MAX_MESSAGE)
    );
    let cut = kept.iter().find(|failure| &*failure.message != "same");
    assert!(cut.is_some_and(|failure| failure.message.ends_with("é…")));
    let counts = bench.queue.counts(bench.controller);
    assert_eq!((counts.backoff, counts.terminal), (5, 3));
    assert_eq!(
        bench.queue.totals(bench.controller).forgotten,
        7 + 2,
        "seven failures, and two terminal keys"
    );
}

#[test]
fn status_comes_in_pages() {
    let mut bench = Bench::new(Limits::default(), 10);
    for i in 0..100 {
        let _ = bench.add_with(
            &i.to_string(),
            if i % 2 == 0 {
                Add::default()
            } else {
                after(MILLI)
            },
        );
    }
    let filter = QueuedKeyFilter {
        state: Some("delayed".into()),
        controllers: Some(BTreeSet::from([bench.controller])),
        cluster: Some(cluster("alpha")),
        failing: false,
    };
    let (mut from, mut found) = (Some(0), 0);
    while let Some(at) = from {
        let page = bench.queue.keys(&filter, at, 7);
        assert!(
            page.keys.len() <= 7
                && page
                    .keys
                    .iter()
                    .all(|key| matches!(key.state, KeyState::Delayed(_)))
        );
        found += page.keys.len();
        from = page.next;
    }
    assert_eq!(found, 50);
    assert!(
        bench
            .queue
            .keys(
                &QueuedKeyFilter {
                    cluster: Some(cluster("beta")),
                    ..filter
                },
                0,
                7
            )
            .keys
            .is_empty()
    );
}

#[test]
fn what_is_shown_of_a_controller_looks_at_no_key_and_its_keys_are_found_without_looking_at_others()
{
    let mut bench = Bench::new(Limits::default(), 10);
    let other = bench
        .queue
        .add_controller(&tenant("t"), name("other"), QueueOptions::default());
    for i in 0..100 {
        let _ = bench.add(&i.to_string());
        bench.run(Failure::retry(format!("error {i}")));
    }
    let request = request("alpha", "one");
    let _ = bench.queue.add(bench.now, other, &request, Add::default());
    assert_eq!(bench.queue.counts(bench.controller).backoff, 100);
    let error = bench.queue.last_error(bench.controller);
    assert_eq!(error.as_deref(), Some("error 99"));
    assert_eq!(bench.queue.last_error(other), None);
    assert_eq!(bench.queue.shown.get(), 0);
    let of = |controllers: &[ControllerId], cluster_name| QueuedKeyFilter {
        controllers: Some(controllers.iter().copied().collect()),
        cluster: Some(cluster(cluster_name)),
        ..QueuedKeyFilter::default()
    };
    assert_eq!(
        bench.queue.keys(&of(&[other], "alpha"), 0, 10).keys.len(),
        1
    );
    assert_eq!(bench.queue.shown.get(), 1);
    assert!(bench.queue.keys(&of(&[], "alpha"), 0, 10).keys.is_empty());
    assert!(
        bench
            .queue
            .keys(&of(&[other], "beta"), 0, 10)
            .keys
            .is_empty()
    );
    assert_eq!(bench.queue.shown.get(), 1);
}

#[test]
fn an_error_is_shown_until_no_key_fails() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("a");
    bench.run(Failure::retry("no"));
    assert!(bench.queue.last_error(bench.controller).is_some());
    bench.wake();
    bench.run(Outcome::Done);
    assert_eq!(bench.queue.last_error(bench.controller), None);
}

#[test]
fn a_flood_of_alarms_is_promoted_bit_by_bit_and_completely() {
    let mut bench = Bench::new(Limits::default(), 10_000);
    bench.queue.set_limits(Limits {
        global: 10_000,
        per_cluster: 10_000,
        ..Limits::default()
    });
    for i in 0..5_000 {
        let _ = bench.add_with(&i.to_string(), after(MILLI));
    }
    bench.pass(2 * MILLI);
    assert!(bench.get().is_some());
    assert!(
        bench
            .queue
            .next_wake()
            .is_some_and(|wake| wake <= bench.now)
    );
    assert_eq!(std::iter::from_fn(|| bench.get()).count(), 4_999);
}

#[test]
fn memory_of_a_flood_is_given_back() {
    let mut bench = Bench::new(Limits::default(), 1);
    for i in 0..70_000 {
        let _ = bench.add_with(
            &i.to_string(),
            if i % 2 == 0 {
                Add::default()
            } else {
                after(MILLI)
            },
        );
    }
    bench.queue.remove_cluster(bench.now, &cluster("alpha"));
    assert_eq!(bench.queue.keys.capacity(), 0);
    assert!(bench.queue.next_wake().is_none());
    let _ = bench.add_with("a", after(MILLI));
    assert_eq!(bench.wake(), MILLI);
    bench.run(Outcome::Done);
}

#[test]
fn absurd_delays_are_cut_and_never_overflow() {
    let mut bench = Bench::new(Limits::default(), 1);
    let backoff = Backoff::new(Duration::MAX, Duration::MAX);
    bench.queue.set_controller(
        bench.controller,
        QueueOptions {
            backoff,
            ..QueueOptions::default()
        },
    );
    let _ = bench.add_with("a", after(Duration::MAX));
    assert!(
        bench
            .queue
            .next_wake()
            .is_some_and(|wake| wake > bench.now + Duration::from_secs(1 << 29))
    );
    let _ = bench.add("a");
    bench.run(Failure::retry("x"));
    let _ = bench.add("a");
    bench.run(Outcome::RequeueAfter(Duration::MAX));
    assert!(bench.get().is_none() && bench.queue.next_wake().is_some());
}

#[test]
fn keys_of_a_held_controller_are_taken_in_and_run_when_it_is_let_go() {
    let mut bench = Bench::new(Limits::default(), 4);
    assert_eq!(bench.add("a"), Added::New);
    let (_, run) = bench.get().unwrap();
    bench.queue.hold_controller(bench.controller, true);
    assert_eq!(bench.add("b"), Added::New);
    assert_eq!(
        (bench.state("b"), bench.state("a")),
        (Some("held"), Some("running"))
    );
    // What runs goes on, and its key waits as the others do when it is due again.
    assert!(
        bench
            .queue
            .done(bench.now, run.token, Outcome::RequeueAfter(100 * MILLI))
    );
    bench.pass(100 * MILLI);
    assert!(bench.get().is_none());
    bench.queue.hold_controller(bench.controller, false);
    let mut names: Vec<String> = std::iter::from_fn(|| bench.get())
        .map(|(name, _)| name)
        .collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
}
