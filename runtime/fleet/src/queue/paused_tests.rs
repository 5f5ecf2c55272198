//! Keys that pauses hold: they wait without a slot, keep what the queue knows of them, and come back at once.

use super::tests::{Bench, cluster, request};
use super::*;
use crate::outcome::Failure;

const HOUR: Duration = Duration::from_secs(3600);

fn paused(after: Duration) -> Outcome {
    Outcome::Paused {
        after,
        by_object: true,
    }
}

#[test]
fn a_paused_key_keeps_its_attempts_and_its_failure_and_holds_no_slot() {
    let mut bench = Bench::new(Limits::default(), 1);
    assert_eq!(bench.add("a"), Added::New);
    bench.run(Failure::retry("oh"));
    bench.wake();
    let run = bench.run(paused(HOUR));
    assert_eq!((run.attempt, run.was_paused), (2, false));
    let counts = bench.queue.counts(bench.controller);
    assert_eq!((bench.state("a"), counts.paused), (Some("paused"), 1));
    assert!(bench.queue.is_idle() && counts.limited() == 1);
    let key = bench.queue.key(bench.controller, &request("alpha", "a"));
    assert!(key.is_some_and(|key| key.attempts == 1 && key.last_failure.is_some()));
    // Others run meanwhile.
    assert_eq!(bench.add("b"), Added::New);
    assert!(!bench.run(Outcome::Done).was_paused);

    assert_eq!(bench.wake(), HOUR);
    let run = bench.run(Outcome::Done);
    assert_eq!((run.attempt, run.was_paused), (2, true));
    assert!(bench.queue.is_empty() && bench.queue.paused.is_empty());
}

#[test]
fn an_event_or_a_change_of_pauses_makes_a_paused_key_look_again() {
    let mut bench = Bench::new(Limits::default(), 1);
    assert_eq!(bench.add("a"), Added::New);
    bench.run(paused(HOUR));
    assert_eq!(bench.add("a"), Added::Merged);
    assert!(bench.run(paused(HOUR)).was_paused);
    bench.queue.wake_paused(bench.now);
    assert!(bench.wake() <= wake::SPREAD);
    let run = bench.run(Outcome::Paused {
        after: HOUR,
        by_object: false,
    });
    assert!(run.was_paused && run.cause == Cause::Update);
    // What paused it is not its object any more.
    assert_eq!(bench.wake(), HOUR);
    assert!(!bench.run(Outcome::Done).was_paused);
}

#[test]
fn an_event_during_the_look_at_a_pause_is_not_lost() {
    let mut bench = Bench::new(Limits::default(), 1);
    assert_eq!(bench.add("a"), Added::New);
    let (_, run) = bench.get().unwrap();
    assert_eq!(bench.add("a"), Added::MarkedDirty);
    assert!(bench.queue.done(bench.now, run.token, paused(HOUR)));
    assert_eq!(bench.state("a"), Some("ready"));
}

#[test]
fn a_paused_key_leaves_with_its_cluster() {
    let mut bench = Bench::new(Limits::default(), 1);
    assert_eq!(bench.add("a"), Added::New);
    bench.run(paused(HOUR));
    let alpha = cluster("alpha");
    assert!(bench.queue.remove_cluster(bench.now, &alpha).is_empty());
    assert!(bench.queue.is_empty() && bench.queue.paused.is_empty());
    assert_eq!(bench.queue.next_wake(), None);
}
