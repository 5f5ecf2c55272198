//! Metrics: what is counted, what leaves with whom, and what is bounded.

use super::*;
use crate::outcome::{Blame, Failure};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn name(number: usize) -> ClusterName {
    ClusterName::new(format!("cluster-{number}")).unwrap()
}

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

fn series(registry: &Registry) -> Vec<String> {
    let text = text(registry);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The value of the one series that begins so.
fn value(registry: &Registry, series: &str) -> String {
    let text = text(registry);
    let found: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix(series))
        .collect();
    assert_eq!(found.len(), 1, "{series} in\n{text}");
    found[0].trim().to_owned()
}

struct Rig {
    registry: Registry,
    metrics: Metrics,
    controller: Arc<ControllerMetrics>,
}

fn rig(limits: MetricLimits) -> Rig {
    let mut registry = Registry::default();
    let metrics = Metrics::with_limits(limits, &mut registry);
    let controller = metrics.controller(
        &TenantName::new("team-a").unwrap(),
        &ControllerName::new("hello").unwrap(),
    );
    Rig {
        registry,
        metrics,
        controller,
    }
}

impl Rig {
    /// One attempt and one call in a cluster.
    fn work(&self, cluster: &Arc<ClusterMetrics>, end: End<'_>) {
        cluster.request(&http::Method::GET).answered(200);
        let attempts = self.controller.attempts(cluster);
        self.controller.started(Duration::from_millis(1));
        self.controller
            .finished(&attempts, end, Duration::from_millis(2));
    }
}

#[test]
fn calls_are_counted_under_the_host_that_serves_the_cluster_now() {
    let rig = rig(MetricLimits::default());
    let cluster = rig.metrics.cluster(&name(1), "old:6443");
    rig.work(&cluster, End::Success);
    let next = rig.metrics.cluster(&name(1), "new:6443");
    let of = |host: &str| {
        format!(
            r#"rest_client_requests_total{{code="200",method="GET",host="{host}",cluster="cluster-1"}}"#
        )
    };
    assert_eq!(value(&rig.registry, &of("old:6443")), "1");
    next.served_by("new:6443");
    rig.metrics.forget_cluster(&name(1), &cluster);
    assert_eq!(value(&rig.registry, &of("new:6443")), "1");
    assert!(!text(&rig.registry).contains("old:6443"));
}

#[test]
fn ten_thousand_clusters_engaged_and_gone_leave_no_series() {
    let rig = rig(MetricLimits::default());
    let baseline = series(&rig.registry).len();
    for round in 0..10 {
        let engaged: Vec<_> = (0..1000)
            .map(|number| {
                let name = name(round * 1000 + number);
                let cluster = rig.metrics.cluster(&name, "10.0.0.1:6443");
                rig.work(&cluster, End::Success);
                (name, cluster)
            })
            .collect();
        assert!(series(&rig.registry).len() > baseline + 1000);
        assert!(!text(&rig.registry).contains(OTHER), "all have their own");
        for (name, cluster) in engaged {
            rig.metrics.forget_cluster(&name, &cluster);
            // A run that ends after its cluster has left.
            rig.work(&cluster, End::Gone);
        }
        assert_eq!(series(&rig.registry).len(), baseline, "round {round}");
    }
    assert_eq!(rig.metrics.inner.pairs.used.load(Ordering::SeqCst), 0);
}

#[test]
fn counts_are_read_by_controller_and_by_cluster() {
    let rig = rig(MetricLimits {
        clusters: 2,
        pairs: 100,
    });
    let clusters: Vec<_> = (0..3)
        .map(|number| rig.metrics.cluster(&name(number), "10.0.0.1:6443"))
        .collect();
    rig.work(&clusters[0], End::Success);
    rig.work(&clusters[0], End::RequeueAfter);
    rig.work(&clusters[1], End::Failed(&Failure::terminal("no")));
    rig.work(
        &clusters[2],
        End::Failed(&Failure::retry("no").blame(Blame::Api)),
    );
    rig.work(&clusters[0], End::Gone);
    let counts = |succeeded, failed| AttemptCounts { succeeded, failed };
    assert_eq!(rig.controller.counts(), counts(2, 2));
    let by = FailedBy {
        guest: 1,
        host: 0,
        api: 1,
    };
    assert_eq!(rig.controller.failed_by(), by);
    let by_cluster = rig.metrics.attempts_by_cluster();
    let by_cluster: Vec<_> = by_cluster.iter().map(|(c, n)| (&**c, *n)).collect();
    let expected = [
        (OTHER, counts(0, 1)),
        ("cluster-0", counts(2, 0)),
        ("cluster-1", counts(0, 1)),
    ];
    assert_eq!(by_cluster, expected);
}

#[test]
fn other_bounds_hold_for_what_comes_from_then_on() {
    let rig = rig(MetricLimits {
        clusters: 1,
        pairs: 1,
    });
    let engage = |number| rig.metrics.cluster(&name(number), "10.0.0.1:6443");
    let (first, second) = (engage(1), engage(2));
    rig.work(&first, End::Success);
    rig.metrics.set_limits(MetricLimits {
        clusters: 2,
        pairs: 2,
    });
    let third = engage(3);
    rig.work(&third, End::Success);
    let clusters = rig.metrics.attempts_by_cluster();
    assert_eq!(
        clusters.keys().map(|c| &**c).collect::<Vec<_>>(),
        ["cluster-1", "cluster-3"]
    );
    // Less than there are: those stay.
    rig.metrics.set_limits(MetricLimits {
        clusters: 1,
        pairs: 1,
    });
    rig.work(&first, End::Success);
    rig.work(&third, End::Success);
    rig.work(&second, End::Success);
    let clusters = rig.metrics.attempts_by_cluster();
    let own = ["cluster-1", "cluster-3"].map(|cluster| clusters[cluster].all());
    assert_eq!((own, clusters[OTHER].all()), ([2, 2], 1));
}

#[test]
fn clusters_beyond_the_limit_are_counted_together() {
    let rig = rig(MetricLimits {
        clusters: 10,
        pairs: 100,
    });
    for number in 0..10_000 {
        let cluster = rig.metrics.cluster(&name(number), "10.0.0.1:6443");
        rig.work(&cluster, End::Success);
    }
    let prefix = "controller_runtime_reconcile_total{controller=\"hello\",tenant=\"team-a\",reconciler=\"hello\",cluster=";
    assert_eq!(
        value(
            &rig.registry,
            &format!("{prefix}\"{OTHER}\",result=\"success\"}}")
        ),
        "9990"
    );
    assert_eq!(
        value(
            &rig.registry,
            &format!("{prefix}\"cluster-3\",result=\"success\"}}")
        ),
        "1"
    );
    assert_eq!(
        value(
            &rig.registry,
            &format!(
                "rest_client_requests_total{{code=\"200\",method=\"GET\",host=\"{OTHER}\",cluster=\"{OTHER}\"}}"
            )
        ),
        "9990"
    );
    assert!(series(&rig.registry).len() < 300);
}

#[test]
fn pairs_beyond_the_limit_are_counted_together() {
    let rig = rig(MetricLimits {
        clusters: 100,
        pairs: 3,
    });
    let clusters: Vec<_> = (0..5).map(|n| rig.metrics.cluster(&name(n), "h")).collect();
    for cluster in &clusters {
        rig.work(cluster, End::Success);
    }
    let of_other = format!("cluster=\"{OTHER}\",result=\"success\"}} 2");
    assert!(text(&rig.registry).contains(&of_other));
    // What leaves makes room.
    rig.metrics.forget_cluster(&name(0), &clusters[0]);
    rig.work(&clusters[4], End::Success);
    assert!(text(&rig.registry).contains("cluster=\"cluster-4\",result=\"success\"} 1"));
}

#[test]
fn a_cluster_that_is_replaced_under_its_name_keeps_its_series() {
    let rig = rig(MetricLimits::default());
    let before = rig.metrics.cluster(&name(1), "old");
    let after = rig.metrics.cluster(&name(1), "new");
    rig.work(&after, End::Success);
    rig.metrics.forget_cluster(&name(1), &before);
    assert!(text(&rig.registry).contains("cluster=\"cluster-1\""));
    rig.metrics.forget_cluster(&name(1), &after);
    assert!(!text(&rig.registry).contains("cluster=\"cluster-1\""));
}

#[test]
fn a_controller_that_was_removed_takes_its_series_along() {
    let rig = rig(MetricLimits::default());
    let cluster = rig.metrics.cluster(&name(1), "h");
    rig.work(&cluster, End::Success);
    let again = rig
        .metrics
        .controller(&rig.controller.tenant, &rig.controller.name);
    again.finished(&again.attempts(&cluster), End::RequeueAfter, Duration::ZERO);
    rig.metrics.forget_controller(&rig.controller);
    assert!(
        text(&rig.registry).contains("result=\"requeue_after\"} 1"),
        "another of its name stays"
    );
    rig.metrics.forget_controller(&again);
    assert!(!text(&rig.registry).contains("reconciler=\"hello\""));
}

#[test]
fn failures_count_as_controller_runtime_counts_them() {
    let rig = rig(MetricLimits::default());
    let cluster = rig.metrics.cluster(&name(1), "h");
    let panic = Failure::retry("x").blame(Blame::Host).reason("panic");
    let timeout = Failure::retry("x").reason("timeout");
    for failure in [&panic, &timeout, &Failure::terminal("x")] {
        rig.work(&cluster, End::Failed(failure));
    }
    let labels =
        "{controller=\"hello\",tenant=\"team-a\",reconciler=\"hello\",cluster=\"cluster-1\"";
    for (series, count) in [
        (
            "controller_runtime_reconcile_total{labels},result=\"error\"}",
            "3",
        ),
        ("controller_runtime_reconcile_errors_total{labels}}", "3"),
        (
            "controller_runtime_terminal_reconcile_errors_total{labels}}",
            "1",
        ),
        ("controller_runtime_reconcile_panics_total{labels}}", "1"),
        ("controller_runtime_reconcile_timeouts_total{labels}}", "1"),
    ] {
        assert_eq!(
            value(&rig.registry, &series.replace("{labels}", labels)),
            count
        );
    }
    let why = "windlass_reconcile_failures_total{controller=\"hello\",tenant=\"team-a\",reconciler=\"hello\",";
    assert_eq!(
        value(
            &rig.registry,
            &format!("{why}blame=\"host\",reason=\"panic\"}}")
        ),
        "1"
    );
}

#[test]
fn a_server_that_answers_with_ever_other_statuses_fills_nothing() {
    let rig = rig(MetricLimits::default());
    let cluster = rig.metrics.cluster(&name(1), "h");
    for status in 100..1000 {
        cluster.request(&http::Method::GET).answered(status);
    }
    drop(cluster.request(&http::Method::PATCH));
    let text = text(&rig.registry);
    let requests = text
        .lines()
        .filter(|l| l.starts_with("rest_client_requests_total{"));
    assert!(requests.count() <= 66);
    assert!(text.contains("code=\"<other>\",method=\"GET\""));
}

#[test]
fn a_call_that_nobody_answered_counts_too() {
    let rig = rig(MetricLimits::default());
    let cluster = rig.metrics.cluster(&name(1), "h");
    drop(cluster.request(&http::Method::PATCH));
    assert!(text(&rig.registry).contains(
        "rest_client_requests_total{code=\"<error>\",method=\"PATCH\",host=\"h\",cluster=\"cluster-1\"} 1"
    ));
}

#[test]
fn clusters_that_leave_while_runs_begin_leave_no_series() {
    let rig = rig(MetricLimits::default());
    let baseline = series(&rig.registry).len();
    let stop = AtomicBool::new(false);
    let current = Mutex::new(rig.metrics.cluster(&name(0), "h"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let cluster = current.lock().clone();
                rig.work(&cluster, End::Success);
            }
        });
        for number in 1..2000 {
            let next = rig.metrics.cluster(&name(number), "h");
            let before = std::mem::replace(&mut *current.lock(), next);
            rig.metrics.forget_cluster(&name(number - 1), &before);
        }
        stop.store(true, Ordering::SeqCst);
    });
    let last = rig.metrics.inner.clusters.lock().labelled[&name(1999)]
        .0
        .clone();
    rig.metrics.forget_cluster(&name(1999), &last);
    assert_eq!(series(&rig.registry).len(), baseline);
}

#[derive(Debug)]
struct Scripted(Arc<ControllerMetrics>, Vec<Arc<ClusterMetrics>>);

impl Observe for Scripted {
    fn observe(&self) -> Snapshot {
        let counts = Counts {
            ready: 7,
            ready_low: 5,
            running: 2,
            throttled: 6,
            paused: 3,
            ..Counts::default()
        };
        let clusters = self.1.iter().map(|metrics| ClusterNow {
            metrics: metrics.clone(),
            state: "Ready",
            ready: true,
            stores: 1,
            connections: 2,
            objects: 10,
            bytes: 100,
            events_dropped: 1,
            replacement_pending: true,
        });
        Snapshot {
            leases: Vec::new(),
            shards: vec![ShardsNow {
                name: "fleet".into(),
                held: 7,
                ownerless: 2,
                moves: 9,
            }],
            answers: vec![AnswersNow {
                held: 11,
                peak: 12,
                limit: 13,
                rejected: 14,
            }],
            controllers: vec![ControllerNow {
                metrics: self.0.clone(),
                concurrency: 4,
                counts,
                failing_watches: 2,
                totals: Totals {
                    adds: 9,
                    ..Totals::default()
                },
                unmapped: 15,
                missed: 16,
                running: vec![Duration::from_secs(3), Duration::from_secs(1)],
            }],
            clusters: clusters.collect(),
            providers: vec![ProviderNow {
                name: "fleet".to_owned(),
                engaged: 17,
                refused: 18,
                last_listed: None,
                problems: 2,
            }],
        }
    }
}

#[test]
fn what_managers_do_is_read_when_it_is_asked_for() {
    let rig = rig(MetricLimits {
        clusters: 1,
        pairs: 10,
    });
    let clusters = (0..3).map(|n| rig.metrics.cluster(&name(n), "h")).collect();
    let manager: Arc<dyn Observe> = Arc::new(Scripted(rig.controller.clone(), clusters));
    rig.metrics.observe(Arc::downgrade(&manager));
    let queue = "{name=\"hello\",controller=\"hello\",tenant=\"team-a\",reconciler=\"hello\"";
    let workers = "{controller=\"hello\",tenant=\"team-a\",reconciler=\"hello\"}";
    for (series, expected) in [
        (format!("workqueue_depth{queue},priority=\"0\"}}"), "2.0"),
        (format!("workqueue_depth{queue},priority=\"-100\"}}"), "5.0"),
        (format!("workqueue_adds_total{queue}}}"), "9"),
        (format!("windlass_queue_throttled{queue}}}"), "6.0"),
        (format!("windlass_queue_paused{queue}}}"), "3.0"),
        (format!("workqueue_unfinished_work_seconds{queue}}}"), "4.0"),
        (
            format!("workqueue_longest_running_processor_seconds{queue}}}"),
            "3.0",
        ),
        (format!("controller_runtime_active_workers{workers}"), "2.0"),
        (format!("windlass_events_unmapped{workers}"), "15.0"),
        (format!("windlass_deletions_waiting{workers}"), "16.0"),
        ("windlass_shards_held{name=\"fleet\"}".to_owned(), "7.0"),
        (
            "windlass_shards_without_owner{name=\"fleet\"}".to_owned(),
            "2.0",
        ),
        ("windlass_shard_moves_total{name=\"fleet\"}".to_owned(), "9"),
        ("windlass_answer_bytes ".to_owned(), "11.0"),
        ("windlass_answer_bytes_peak".to_owned(), "12.0"),
        ("windlass_answer_bytes_limit".to_owned(), "13.0"),
        ("windlass_answers_rejected_total".to_owned(), "14"),
        (
            format!("controller_runtime_max_concurrent_reconciles{workers}"),
            "4.0",
        ),
        ("windlass_clusters{state=\"Ready\"}".to_owned(), "3.0"),
        ("windlass_clusters_without_series".to_owned(), "2.0"),
        (
            "windlass_cluster_objects{cluster=\"cluster-0\"}".to_owned(),
            "10.0",
        ),
        (
            format!("windlass_cluster_objects{{cluster=\"{OTHER}\"}}"),
            "20.0",
        ),
        (
            "windlass_cluster_replacement_pending{cluster=\"cluster-0\"}".to_owned(),
            "1.0",
        ),
        (
            "windlass_provider_problems{provider=\"fleet\"}".to_owned(),
            "2.0",
        ),
        (
            "windlass_provider_clusters{provider=\"fleet\",result=\"engaged\"}".to_owned(),
            "17.0",
        ),
        (
            "windlass_provider_clusters{provider=\"fleet\",result=\"refused\"}".to_owned(),
            "18.0",
        ),
        (
            "windlass_provider_listed_timestamp_seconds{provider=\"fleet\"}".to_owned(),
            "0.0",
        ),
    ] {
        assert_eq!(value(&rig.registry, &series), expected, "{series}");
    }
    drop(manager);
    assert!(!text(&rig.registry).contains("workqueue_depth{"));
}

/// The families that a scrape must know, and their types.
#[test]
fn every_family_is_described_once_and_no_series_comes_twice() {
    let rig = rig(MetricLimits::default());
    let cluster = rig.metrics.cluster(&name(1), "h");
    rig.work(&cluster, End::Failed(&Failure::retry("x")));
    let text = text(&rig.registry);
    for (family, kind) in [
        ("controller_runtime_reconcile", "counter"),
        ("controller_runtime_reconcile_time_seconds", "histogram"),
        ("controller_runtime_active_workers", "gauge"),
        ("workqueue_queue_duration_seconds", "histogram"),
        ("rest_client_requests", "counter"),
    ] {
        assert!(
            text.contains(&format!("# TYPE {family} {kind}\n")),
            "{text}"
        );
    }
    let helped: Vec<&str> = text.lines().filter(|l| l.starts_with("# HELP")).collect();
    assert_eq!(helped.len(), helped.iter().collect::<BTreeSet<_>>().len());
    let names = series(&rig.registry);
    let names: Vec<&str> = names
        .iter()
        .filter_map(|l| Some(l.rsplit_once(' ')?.0))
        .collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
}
