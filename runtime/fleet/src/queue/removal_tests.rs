//! What leaves with a cluster or a controller, and what does not.

use super::tests::{Bench, after, cluster, name, request, tenant};
use super::*;
use crate::outcome::Failure;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn a_removed_cluster_leaves_nothing_behind() {
    let mut bench = Bench::new(Limits::default(), 10);
    for name in ["run", "dirty"] {
        let _ = bench.add(name);
    }
    let runs = [bench.get().unwrap().1, bench.get().unwrap().1];
    let _ = bench.add("dirty");
    for name in ["ready", "more"] {
        let _ = bench.add(name);
    }
    let _ = bench.add_with("late", after(MILLI));
    assert_eq!(
        bench.queue.add(
            bench.now,
            bench.controller,
            &request("beta", "x"),
            Add::default()
        ),
        Added::New
    );
    let mut tokens = bench.queue.remove_cluster(bench.now, &cluster("alpha"));
    tokens.sort();
    assert_eq!(tokens, runs.each_ref().map(|run| run.token));
    assert_eq!(
        bench.queue.total_counts(),
        Counts {
            ready: 1,
            running: 2,
            ..Counts::default()
        }
    );
    // It joins again while its old runs have not ended.
    assert_eq!(bench.add("run"), Added::MarkedDirty);
    assert_eq!(bench.run(Outcome::Done).request.cluster, cluster("beta"));
    for run in &runs {
        assert!(
            bench
                .queue
                .done(bench.now, run.token, Failure::retry("cancelled").into())
        );
    }
    let run = bench.run(Outcome::Done);
    assert_eq!(
        (run.request.key.name.as_ref(), run.attempt),
        ("run", 1),
        "a failure after the end counts as done"
    );
    assert!(bench.queue.is_empty() && bench.queue.next_wake().is_none());
    assert!(bench.queue.classes.cluster_id(&cluster("alpha")).is_none());
    assert!(
        bench
            .queue
            .remove_cluster(bench.now, &cluster("alpha"))
            .is_empty()
    );
}

#[test]
fn a_removed_controller_leaves_nothing_behind() {
    let mut bench = Bench::new(Limits::default(), 10);
    let _ = bench.add("run");
    let (_, run) = bench.get().unwrap();
    let _ = bench.add("ready");
    let _ = bench.add_with("late", after(MILLI));
    let old = bench.controller;
    assert_eq!(bench.queue.remove_controller(bench.now, old), [run.token]);
    assert_eq!(bench.add("x"), Added::Gone);
    assert_eq!(bench.queue.name(old), None);
    assert!(!bench.queue.remove_tenant(&tenant("t")), "it still runs");
    bench.controller = bench
        .queue
        .add_controller(&tenant("t"), name("c"), QueueOptions::default());
    assert_ne!(bench.controller, old);
    assert_eq!(bench.add("run"), Added::New);
    assert!(
        bench
            .queue
            .done(bench.now, run.token, Failure::retry("x").into())
    );
    bench.run(Outcome::Done);
    assert!(bench.queue.is_empty() && bench.queue.next_wake().is_none());
    assert!(
        bench
            .queue
            .remove_controller(bench.now, bench.controller)
            .is_empty()
    );
    assert!(bench.queue.remove_tenant(&tenant("t")) && bench.queue.remove_tenant(&tenant("t")));
}

#[test]
fn a_controller_that_leaves_a_cluster_leaves_no_key_there_and_keeps_the_others() {
    let mut bench = Bench::new(Limits::default(), 10);
    let _ = bench.add("run");
    let (_, run) = bench.get().unwrap();
    let _ = bench.add("run");
    let _ = bench.add("ready");
    let _ = bench.add_with("late", after(MILLI));
    let elsewhere = request("beta", "x");
    let (now, controller) = (bench.now, bench.controller);
    let _ = bench.queue.add(now, controller, &elsewhere, Add::default());
    let alpha = cluster("alpha");
    bench.queue.remove_in_cluster(now, controller, &alpha);
    assert!(bench.queue.running(run.token).is_some(), "the run goes on");
    let asks_again = Outcome::RequeueAfter(MILLI);
    assert!(bench.queue.done(now, run.token, asks_again));
    assert_eq!(bench.run(Outcome::Done).request, elsewhere);
    assert!(bench.queue.is_empty() && bench.queue.next_wake().is_none());
    // It may come back at once.
    assert_eq!(bench.add("ready"), Added::New);
    bench
        .queue
        .remove_in_cluster(now, controller, &cluster("gamma"));
    bench.run(Outcome::Done);
    assert!(bench.queue.is_empty());
}

#[test]
fn ten_thousand_engagements_leave_nothing_behind() {
    let mut bench = Bench::new(Limits::default(), 10);
    for i in 0..10_000 {
        let at = format!("cluster-{i}");
        for name in ["a", "b", "c"] {
            let _ = bench.queue.add(
                bench.now,
                bench.controller,
                &request(&at, name),
                Add::default(),
            );
        }
        let (_, run) = bench.get().unwrap();
        if i % 2 == 0 {
            bench
                .queue
                .done(bench.now, run.token, Failure::terminal("x").into());
        }
        bench.queue.remove_cluster(bench.now, &cluster(&at));
        bench.queue.done(bench.now, run.token, Outcome::Done);
    }
    let Queue {
        classes,
        keys,
        failures,
        ..
    } = &bench.queue;
    assert_eq!((keys.len(), failures.len()), (0, 0));
    assert!(
        keys.capacity() < 10
            && classes.flows.capacity() < 10
            && classes.clusters.capacity() < 10
            && classes.gates.capacity() < 10
            && classes.tenant_clusters.capacity() < 10
    );
}

#[test]
fn a_cluster_that_is_removed_again_while_it_leaves_takes_its_keys_once() {
    let mut bench = Bench::new(Limits::default(), 10);
    let alpha = cluster("alpha");
    let _ = bench.add("a");
    let (_, run) = bench.get().unwrap();
    bench.queue.remove_cluster(bench.now, &alpha);
    assert_eq!(bench.add("a"), Added::MarkedDirty);
    bench.queue.done(bench.now, run.token, Outcome::Done);
    assert!(bench.queue.remove_cluster(bench.now, &alpha).is_empty());
    assert!(bench.queue.is_empty());
    // Each id of a flow and of a cluster is given out once.
    for (at, name) in [("alpha", "a"), ("beta", "b"), ("gamma", "c")] {
        assert_eq!(
            bench.queue.add(
                bench.now,
                bench.controller,
                &request(at, name),
                Add::default()
            ),
            Added::New
        );
    }
    let clusters: Vec<Request> = std::iter::from_fn(|| bench.get())
        .map(|(_, run)| run.request)
        .collect();
    assert_eq!(clusters.len(), 3);
    assert!(clusters.contains(&request("beta", "b")) && clusters.contains(&request("gamma", "c")));
}
