//! Keys that are enqueued without end: each is throttled, no other key is, and each is reported.

use super::tests::{Bench, request};
use super::*;
use crate::outcome::Failure;
use std::collections::BTreeSet;

const MILLI: Duration = Duration::from_millis(1);

/// Runs whatever is ready for a while, each run taking 1 ms, and counts the runs of the key `hot`.
fn run_for(bench: &mut Bench, time: Duration, mut run: impl FnMut(&mut Bench) -> Outcome) -> u32 {
    let (end, mut runs) = (bench.now + time, 0);
    while bench.now < end {
        match bench.get() {
            Some((name, next)) => {
                bench.pass(MILLI);
                let outcome = run(bench);
                assert!(bench.queue.done(bench.now, next.token, outcome));
                runs += u32::from(name == "hot");
            }
            None => {
                let wake = bench.queue.next_wake();
                bench.now = wake.map_or(end, |wake| wake.max(bench.now + MILLI).min(end));
            }
        }
    }
    runs
}

fn throttled(bench: &Bench) -> u64 {
    bench.queue.totals(bench.controller).throttled
}

#[test]
fn a_reconciler_whose_own_write_runs_it_again_runs_ten_times_a_second() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("hot");
    let write = |bench: &mut Bench| {
        assert_eq!(bench.add("hot"), Added::MarkedDirty);
        Outcome::Done
    };
    // Each counts ten times: a hundred are the burst.
    let burst = run_for(&mut bench, Duration::from_secs(1), write);
    assert!((100..130).contains(&burst), "{burst}");
    let steady = run_for(&mut bench, Duration::from_secs(60), write);
    assert!((590..=610).contains(&steady), "{steady}");
    assert!(throttled(&bench) >= u64::from(steady) - 10);
    assert_eq!(bench.state("hot"), Some("throttled"));
    assert!(!bench.queue.is_idle(), "it has been asked for");
}

#[test]
fn a_key_that_asks_to_run_at_once_for_ever_slows_down_and_is_reported() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("hot");
    let at_once = |_: &mut Bench| Outcome::RequeueAfter(Duration::ZERO);
    let first = run_for(&mut bench, Duration::from_secs(5), at_once);
    assert_eq!((first, bench.queue.hot_key()), (50, None));
    run_for(&mut bench, Duration::from_secs(15), at_once);
    let steady = run_for(&mut bench, Duration::from_secs(60), at_once);
    assert!((298..=302).contains(&steady), "{steady}");
    let reported = bench.queue.hot_key();
    assert_eq!(reported, Some((bench.controller, request("alpha", "hot"))));
    assert_eq!(bench.queue.hot_key(), None, "once, however long it lasts");
}

#[test]
fn each_of_more_hot_keys_than_wait_to_be_reported_is_reported() {
    let mut bench = Bench::new(Limits::default(), 1);
    let keys: Vec<String> = (0..wait::MAX_REPORTS + 3)
        .map(|at| format!("hot-{at}"))
        .collect();
    for key in &keys {
        let _ = bench.add(key);
    }
    let at_once = |_: &mut Bench| Outcome::RequeueAfter(Duration::ZERO);
    run_for(&mut bench, Duration::from_secs(30), at_once);
    let mut reported = BTreeSet::new();
    for wanted in [wait::MAX_REPORTS, keys.len()] {
        while let Some((_, request)) = bench.queue.hot_key() {
            assert!(reported.insert(request.key.name.to_string()), "once each");
        }
        assert_eq!(reported.len(), wanted);
        run_for(&mut bench, Duration::from_secs(30), at_once);
    }
}

#[test]
fn events_from_outside_run_a_key_a_hundred_times_a_second() {
    let mut bench = Bench::new(Limits::default(), 1);
    let mut runs = 0;
    for _ in 0..60_000 {
        let _ = bench.add("hot");
        while let Some((_, run)) = bench.get() {
            assert!(bench.queue.done(bench.now, run.token, Outcome::Done));
            runs += 1;
        }
        bench.pass(MILLI);
    }
    // A thousand at once, and a hundred in each of sixty seconds.
    assert!((6_990..=7_010).contains(&runs), "{runs}");
    assert!(bench.queue.hot_key().is_some() && bench.queue.hot_key().is_none());
}

#[test]
fn a_burst_of_events_is_not_delayed() {
    let mut bench = Bench::new(Limits::default(), 1);
    for _ in 0..90 {
        let _ = bench.add("hot");
        let (_, run) = bench.get().expect("at once");
        let _ = bench.add("hot");
        assert!(bench.queue.done(bench.now, run.token, Outcome::Done));
        let run = bench.get().expect("at once").1;
        assert!(bench.queue.done(bench.now, run.token, Outcome::Done));
    }
    assert_eq!((throttled(&bench), bench.queue.hot_key()), (0, None));
}

#[test]
fn a_hot_key_delays_no_other_and_is_hot_no_longer_than_its_cause_lasts() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("hot");
    run_for(&mut bench, 30_050 * MILLI, |bench| {
        let _ = bench.add("hot");
        Outcome::Done
    });
    assert!(bench.queue.hot_key().is_some());
    let _ = bench.add("calm");
    let (name, run) = bench.get().expect("at once");
    assert_eq!(name, "calm");
    assert!(bench.queue.done(bench.now, run.token, Outcome::Done));
    // The last event is not lost. Once the count of its runs has faded, the key runs at once again, and is reported again.
    bench.wake();
    bench.run(Outcome::Done);
    bench.pass(Duration::from_secs(20));
    let _ = bench.add("hot");
    bench.run(Outcome::Done);
    run_for(&mut bench, Duration::from_secs(1), |_| Outcome::Done);
    assert_eq!(bench.queue.hot_key(), None);
    let _ = bench.add("hot");
    run_for(&mut bench, 30_050 * MILLI, |bench| {
        let _ = bench.add("hot");
        Outcome::Done
    });
    assert!(bench.queue.hot_key().is_some());
}

#[test]
fn a_failing_key_that_events_run_again_is_held_back_too() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("hot");
    let fail = |bench: &mut Bench| {
        let _ = bench.add("hot");
        Outcome::from(Failure::retry("conflict"))
    };
    run_for(&mut bench, Duration::from_secs(2), fail);
    let steady = run_for(&mut bench, Duration::from_secs(60), fail);
    assert!((590..=610).contains(&steady), "{steady}");
}

#[test]
fn an_operator_is_not_kept_waiting() {
    let mut bench = Bench::new(Limits::default(), 1);
    let _ = bench.add("hot");
    run_for(&mut bench, 30_050 * MILLI, |bench| {
        let _ = bench.add("hot");
        Outcome::Done
    });
    assert_eq!(
        (bench.state("hot"), bench.get().is_none()),
        (Some("throttled"), true)
    );
    let _ = bench.add_with("hot", Add::now(Cause::Operator));
    assert!(bench.get().is_some());
}
