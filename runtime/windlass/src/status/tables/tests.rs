//! Each view as a table.

use super::*;
use crate::status::view::{BlameView, ProblemView, ReloadView};
use std::collections::BTreeMap;

/// The table's lines without colours, and with single blanks between cells.
fn lines(table: &Table) -> Vec<String> {
    let plain = anstream::adapter::strip_str(&table.to_string()).to_string();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.lines().map(words).collect()
}

fn usage() -> UsageView {
    UsageView {
        cpu_seconds: 1.46,
        cpu_waited_seconds: 0.0123,
        memory_peak: 3 << 20,
        idle_instances: 2,
        limit_hits: BTreeMap::from([
            ("timeout".to_owned(), 7),
            ("memory".to_owned(), 9),
            ("handles".to_owned(), 1),
        ]),
        denials: 5,
        failed_by: BlameView {
            guest: 11,
            host: 12,
            api: 13,
        },
    }
}

fn reconciler() -> ReconcilerView {
    ReconcilerView {
        tenant: "team-a".to_owned(),
        name: "hello".to_owned(),
        serves: true,
        revision: "0123456789abcdef".to_owned(),
        previous: "fedcba9876543210".to_owned(),
        clusters: 3,
        ready: 21,
        running: 22,
        backoff: 23,
        terminal: 24,
        attempts: 136,
        failed: 36,
        usage: usage(),
        missing_rules: vec!["- {verbs: [get]}".to_owned(), "- another".to_owned()],
        reload: Some(ReloadView {
            ago_seconds: 200,
            took_seconds: 0.5,
            in_effect: true,
        }),
        ..ReconcilerView::default()
    }
}

#[test]
fn reconcilers_tell_what_they_did_and_what_it_cost() {
    assert_eq!(
        lines(&reconcilers(&[reconciler()], false)),
        [
            "TENANT RECONCILER STATE CLUSTERS ATTEMPTS FAILED FAILING PROBLEM",
            "team-a hello Serves 3 136 36 47 -",
        ]
    );
}

#[test]
fn the_wide_table_of_reconcilers_tells_whose_fault_it_was_and_how_the_last_change_went() {
    assert_eq!(
        lines(&reconcilers(&[reconciler()], true)),
        [
            "TENANT RECONCILER STATE REVISION PREVIOUS RELOAD CLUSTERS ATTEMPTS FAILED BY GUEST HOST API RUNNING READY FAILING BACKOFF PAUSED TERMINAL CPU CPU WAITED MEMORY PEAK IDLE LIMITS HIT DENIED MISSING RULE PROBLEM",
            "team-a hello Serves 0123456789ab fedcba987654 3m ago 3 136 36 11 12 13 22 21 47 23 0 24 1.5s 13ms 3.0 MiB 2 memory 9, timeout 7, 1 more 5 - {verbs: [get]} -",
        ]
    );
}

#[test]
fn the_state_of_a_reconciler_and_its_last_change_follow_from_what_serves() {
    let seen = |change: fn(&mut ReconcilerView)| {
        let mut view = reconciler();
        change(&mut view);
        let cells = [state_of(&view), reload_of(&view), problem_of(&view)];
        let mut table = Table::new(&["", "", ""]);
        table.row(cells);
        lines(&table).remove(1)
    };
    assert_eq!(seen(|view| view.rolled_back = true), "RolledBack 3m ago -");
    let refuse = |view: &mut ReconcilerView| {
        view.problem = "no component".to_owned();
        view.reload = Some(ReloadView::default());
    };
    assert_eq!(seen(refuse), "Stale refused 0s ago no component");
    let stopped = |view: &mut ReconcilerView| (view.serves, view.reload) = (false, None);
    assert_eq!(seen(stopped), "Stopped - -");
    let load = |view: &mut ReconcilerView| (view.loading, view.loading_seconds) = (true, 3);
    assert_eq!(seen(load), "Reloading 3s 3m ago -");
    let start = |view: &mut ReconcilerView| {
        (view.serves, view.reload) = (false, None);
        (view.loading, view.loading_seconds) = (true, 61);
    };
    assert_eq!(seen(start), "Loading 1m - -");
    // What is wrong with all of it comes before what is wrong with a key or a watch.
    let keys = |view: &mut ReconcilerView| {
        view.last_error = "one key".to_owned();
        view.watch_problems = vec!["one watch".to_owned()];
    };
    assert_eq!(seen(keys), "Serves 3m ago one key");
    let watch = |view: &mut ReconcilerView| view.watch_problems = vec!["one watch".to_owned()];
    assert_eq!(seen(watch), "Serves 3m ago one watch");
    let pause = |view: &mut ReconcilerView| view.paused = "paused until resumed".to_owned();
    assert_eq!(seen(pause), "Paused 3m ago paused until resumed");
}

fn tenant() -> TenantView {
    TenantView {
        paused: String::new(),
        name: "team-a".to_owned(),
        weight: 4,
        concurrency: None,
        memory: 512 << 20,
        memory_used: 6 << 20,
        cpu: Some(0.5),
        requests_in_flight: 31,
        usage: usage(),
        ceiling: true,
        reconcilers: 2,
        running: 32,
        attempts: 136,
        failed: 36,
    }
}

#[test]
fn tenants_tell_their_share_and_what_they_use_of_it() {
    assert_eq!(
        lines(&tenants(&[tenant()], false)),
        [
            "TENANT WEIGHT MEMORY RECONCILERS RUNNING ATTEMPTS FAILED CPU",
            "team-a 4 6.0 MiB of 512 MiB 2 32 136 36 1.5s",
        ]
    );
    let paused = TenantView {
        paused: "paused until resumed".to_owned(),
        ..tenant()
    };
    assert_eq!(
        lines(&tenants(&[paused], false)),
        [
            "TENANT WEIGHT MEMORY RECONCILERS RUNNING ATTEMPTS FAILED CPU PAUSE",
            "team-a 4 6.0 MiB of 512 MiB 2 32 136 36 1.5s paused until resumed",
        ]
    );
    assert_eq!(
        lines(&tenants(&[tenant()], true)),
        [
            "TENANT WEIGHT CONCURRENCY MEMORY MEMORY PEAK IDLE CPU LIMIT CEILING RECONCILERS RUNNING REQUESTS ATTEMPTS FAILED BY GUEST HOST API CPU CPU WAITED LIMITS HIT DENIED PAUSE",
            "team-a 4 - 6.0 MiB of 512 MiB 3.0 MiB 2 0.5 yes 2 32 31 136 36 11 12 13 1.5s 13ms memory 9, timeout 7, 1 more 5 -",
        ]
    );
}

#[test]
fn providers_tell_what_they_found_with_a_row_for_each_of_the_first_problems() {
    let problem = |n: usize| ProblemView {
        subject: format!("{n}.kubeconfig"),
        message: "it is empty".to_owned(),
    };
    let view = ProviderView {
        name: "fleet".to_owned(),
        source: "kubeconfigFiles".to_owned(),
        found: 5,
        engaged: 4,
        refused: 1,
        listed_seconds: Some(200),
        problems: (0..7).map(problem).collect(),
    };
    let fresh = ProviderView {
        name: "hub".to_owned(),
        source: "clusterAPI".to_owned(),
        ..ProviderView::default()
    };
    assert_eq!(
        lines(&providers(&[view.clone(), fresh], false)),
        [
            "PROVIDER SOURCE FOUND ENGAGED REFUSED LISTED SUBJECT PROBLEM",
            "fleet kubeconfigFiles 5 4 1 3m ago 0.kubeconfig it is empty",
            "1.kubeconfig it is empty",
            "2.kubeconfig it is empty",
            "3.kubeconfig it is empty",
            "4.kubeconfig it is empty",
            "- 2 more: add -o wide",
            "hub clusterAPI 0 0 0 not yet - -",
        ]
    );
    assert_eq!(lines(&providers(&[view], true)).len(), 8);
}

#[test]
fn clusters_tell_their_state_and_what_is_cached() {
    let view = ClusterView {
        state: "Degraded".to_owned(),
        reason: "refused".to_owned(),
        since_seconds: 7500,
        owner: "windlass-1".to_owned(),
        server: "https://x:6443".to_owned(),
        connections: 2,
        objects: 1234,
        bytes: 34 << 10,
        ..ClusterView::default()
    };
    assert_eq!(
        lines(&clusters(&[view], true)),
        [
            "CLUSTER STATE SINCE OBJECTS SIZE CONNECTIONS OWNER SERVER REASON",
            "(local) Degraded 2h5m 1234 34 KiB 2 windlass-1 https://x:6443 refused",
        ]
    );
}

fn key() -> KeyView {
    KeyView {
        key: "cluster://a/default/x".to_owned(),
        tenant: "team-a".to_owned(),
        reconciler: "hello".to_owned(),
        state: "backoff".to_owned(),
        attempts: 3,
        since_seconds: None,
        runs_in_seconds: Some(8.9),
        last_error: "it said no".to_owned(),
        reason: "api".to_owned(),
        blame: "api".to_owned(),
        cause: "retry".to_owned(),
        source: "v1/ConfigMap".to_owned(),
        priority: 0,
        paused: String::new(),
    }
}

#[test]
fn keys_tell_what_enqueued_them_and_when_they_run_next() {
    let view = key();
    let of_an_event = KeyView {
        cause: "update".to_owned(),
        since_seconds: Some(200.0),
        runs_in_seconds: None,
        ..view.clone()
    };
    let paused = KeyView {
        state: "paused".to_owned(),
        paused: "it is paused until resumed: a freeze".to_owned(),
        ..of_an_event.clone()
    };
    assert_eq!(
        lines(&keys(&[view, of_an_event, paused], true)),
        [
            "KEY RECONCILER STATE SINCE FAILURES NEXT BLAME CAUSE ERROR",
            "cluster://a/default/x team-a/hello backoff - 3 8s api retry (v1/ConfigMap) it said no",
            "cluster://a/default/x team-a/hello backoff 3m 3 - api update of v1/ConfigMap it said no",
            "cluster://a/default/x team-a/hello paused 3m 3 - api update of v1/ConfigMap it is paused until resumed: a freeze",
        ]
    );
}

#[test]
fn explanations_tell_why_and_how_the_last_run_ended() {
    let view = ExplanationView {
        tenant: "team-a".to_owned(),
        reconciler: "hello".to_owned(),
        state: "terminal".to_owned(),
        why: "it waits for an event".to_owned(),
        attempts: 1,
        last_error: "it said no\nat guest.py:4".to_owned(),
        blame: "guest".to_owned(),
        cause: "operator".to_owned(),
        last_result: "error".to_owned(),
        last_ended_seconds: Some(8.0),
        ..ExplanationView::default()
    };
    assert_eq!(
        lines(&explanations(&[view], true)),
        [
            "RECONCILER STATE FAILURES CAUSE LAST RUN BLAME WHY",
            "team-a/hello terminal 1 operator error 8s ago guest it waits for an event: it said no",
            "at guest.py:4",
        ]
    );
}

/// Texts that tell of a trouble are printed whole.
#[test]
fn without_troubles_a_table_fits_eighty_characters() {
    let cluster = ClusterView {
        name: "europe-west".to_owned(),
        state: "Ready".to_owned(),
        reason: "all caches are in sync".to_owned(),
        server: "https://203.0.113.7:6443".to_owned(),
        since_seconds: 86_000,
        objects: 123_456,
        bytes: 340 << 20,
        ..ClusterView::default()
    };
    let provider = ProviderView {
        name: "teams".to_owned(),
        source: "kubeconfigSecrets".to_owned(),
        found: 1000,
        engaged: 1000,
        listed_seconds: Some(12),
        ..ProviderView::default()
    };
    let reconciler = ReconcilerView {
        name: "websites".to_owned(),
        attempts: 12_345_678,
        ..reconciler()
    };
    let key = KeyView {
        key: "cluster://prod-eu/shop/website".to_owned(),
        last_error: String::new(),
        ..key()
    };
    let tables = [
        clusters(&[cluster], false),
        providers(&[provider], false),
        reconcilers(&[reconciler], false),
        tenants(&[tenant()], false),
        keys(&[key], false),
    ];
    for table in tables {
        let plain = anstream::adapter::strip_str(&table.to_string()).to_string();
        let longest = plain.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{plain}");
    }
}
