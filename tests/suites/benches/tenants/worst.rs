//! Neighbours that do their worst, by the name of their row. Entry point: [`Worst::of`].

use super::stage::{Stage, component};
use crate::mutate::{filling_memory, growing_table, sparse, texts, unwinding};
use anyhow::Result;
use std::time::Duration;
use windlass_fleet::Grant;
use windlass_fleet::grant::{ClusterRule, Rule};
use windlass_fleet::name::NamePattern;
use windlass_harness::guests::renamed;
use windlass_sandbox::{Limits, Rate, Revision};

/// Writes per second that are allowed where the neighbour would write without end: more would keep the simulated server busy, which does
/// them on the machine that is measured.
const WRITES: u32 = 500;

/// A neighbour that does its worst.
pub(super) struct Worst {
    pub(super) guest: &'static str,
    pub(super) config: &'static str,
    /// What its calls end in: a failure's reason, or `done`; or that they were `denied` something.
    pub(super) ends: &'static str,
    pub(super) grant: Grant,
    pub(super) limits: Limits,
    /// Objects that it reads besides those that it runs for.
    pub(super) many: usize,
    /// Clusters that there are. It runs in the first one.
    pub(super) clusters: usize,
    /// Calls after which it is at it.
    pub(super) first: usize,
    pub(super) disturbance: Disturbance,
}

/// What is done to the neighbour besides.
#[derive(Clone, Copy)]
pub(super) enum Disturbance {
    Nothing,
    /// Components that do not load are loaded for it.
    BadComponents,
    /// It is replaced while its calls run.
    Replaced,
}

/// What a guest needs to be loaded that watches ConfigMaps.
fn watching_only() -> Rule {
    let all = |values: &[&str]| values.iter().map(|value| (*value).into()).collect();
    Rule {
        api_groups: all(&[""]),
        resources: all(&["configmaps"]),
        verbs: all(&["list", "watch"]),
        namespaces: all(&["*"]),
        ..Rule::default()
    }
}

/// A rule that opens other clusters than those that there are.
fn elsewhere() -> Rule {
    let names = vec![NamePattern::new("elsewhere-*")];
    let clusters = ClusterRule {
        names,
        ..ClusterRule::default()
    };
    Rule {
        clusters: Some(clusters),
        ..watching_only()
    }
}

/// Steps that are denied, of each kind.
const FORBIDDEN: &str = r#"{"steps": [
    {"do": "get", "kind": ["v1", "Secret"], "key": ["kube-system", "a"]},
    {"do": "list", "kind": ["v1", "Secret"]},
    {"do": "delete", "kind": ["v1", "ConfigMap"], "key": ["default", "a"]},
    {"do": "create", "kind": ["rbac.authorization.k8s.io/v1", "ClusterRole"],
     "object": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}}}
]}"#;

/// Clusters that no rule opens, of which one is there, and one that a rule would open and is not.
const FOREIGN: &str = r#"{"open": ["c1", "c2", "local", "", "a+b", "elsewhere-1"]}"#;

/// The largest page that there is, of objects in the thousands.
const LISTS: &str = r#"{"steps": [
    {"do": "list", "kind": ["v1", "ConfigMap"], "options": {"limit": 5000}, "show": []}
]}"#;
/// Looks at all of many objects, and finds none.
const SEARCH: &str = r#"{"steps": [
    {"do": "list", "kind": ["v1", "ConfigMap"], "options": {"labels": "set=none"}}
]}"#;
/// Objects that these two are about.
const MANY: usize = 50_000;

impl Worst {
    pub(super) fn of(name: &str) -> Result<Self> {
        let (guest, config, ends) = match name {
            "loop" | "replaced" => ("test-loop", "{}", "timeout"),
            "memory" => ("test-memory", "{}", "memory"),
            "table" => ("test-loop", "{}", "memory"),
            "fill" | "unwinding" => ("test-loop", "{}", "timeout"),
            "sparse" | "texts" => ("test-requeue", r#"{"after": 0}"#, "done"),
            "recursion" => ("test-recursion", "{}", "stack"),
            "panic" => ("test-panic", "{}", "trap"),
            "log" => ("test-log", r#"{"lines": 100000, "length": 100}"#, "done"),
            "requeue" => ("test-requeue", r#"{"after": 0}"#, "done"),
            "writes" => ("test-requeue", r#"{"counts": true}"#, "done"),
            "denied" => ("test-calls", FORBIDDEN, "denied"),
            "foreign" => ("test-fleet", FOREIGN, "denied"),
            "reads" => ("test-storm", r#"{"live": false}"#, "error"),
            "batches" => ("test-storm", r#"{"live": false, "batch": 1000}"#, "error"),
            "lists" => ("test-calls", LISTS, "timeout"),
            "page" => ("test-calls", LISTS, "memory"),
            "search" => ("test-calls", SEARCH, "error"),
            "requests" => ("test-storm", r#"{"live": true}"#, "timeout"),
            "forge" => ("test-forge", "{}", "trap"),
            "leak" => ("test-leak", "{}", "handle"),
            "huge" => (
                "test-huge",
                r#"{"what": "object", "size": 6000000}"#,
                "host-call",
            ),
            "js-loop" => ("js/test-runaway", r#"{"way": "loop"}"#, "timeout"),
            "js-memory" => ("js/test-runaway", r#"{"way": "allocate"}"#, "memory"),
            "bad-component" => ("test-panic", "{}", "trap"),
            other => anyhow::bail!("nothing to measure in {other:?}"),
        };
        let usual = Self {
            guest,
            config,
            ends,
            grant: Grant::all(),
            limits: Limits {
                timeout: Duration::from_secs(1),
                ..Limits::default()
            },
            many: 0,
            clusters: 1,
            first: 1,
            disturbance: Disturbance::Nothing,
        };
        Ok(match name {
            "writes" => Self {
                limits: Limits {
                    requests_per_second: Some(Rate { per_second: WRITES }),
                    ..usual.limits
                },
                // Beyond what may be written at once.
                first: 2 * WRITES as usize,
                ..usual
            },
            "denied" => Self {
                grant: Grant::new([watching_only()]),
                ..usual
            },
            "foreign" => Self {
                grant: Grant::new([watching_only(), elsewhere()]),
                clusters: 2,
                ..usual
            },
            "lists" | "search" => Self {
                many: MANY,
                ..usual
            },
            "page" => Self {
                limits: Limits {
                    // Less than the page that it is handed.
                    memory: 4 << 20,
                    ..usual.limits
                },
                many: MANY,
                ..usual
            },
            "js-memory" => Self {
                limits: Limits {
                    // With so many at once, it takes a while until each has as much as it may.
                    timeout: Duration::from_secs(20),
                    ..usual.limits
                },
                ..usual
            },
            "bad-component" => Self {
                disturbance: Disturbance::BadComponents,
                ..usual
            },
            "replaced" => Self {
                disturbance: Disturbance::Replaced,
                ..usual
            },
            _ => usual,
        })
    }

    pub(super) async fn load(&self, stage: &Stage, name: &str) -> Result<Revision> {
        let file = component(self.guest);
        let mutate: fn(&[u8]) -> Result<Vec<u8>> = match name {
            "table" => growing_table,
            "sparse" => sparse,
            "texts" => texts,
            "unwinding" => unwinding,
            "fill" => filling_memory,
            _ => return stage.load(file).await,
        };
        stage.made(name, mutate(&std::fs::read(file)?)?).await
    }
}

/// A component that does not load, and other bytes each time: of four sorts in turn, of which all but random bytes reach the compiler.
pub(super) fn spoilt(good: &[u8], round: usize) -> Vec<u8> {
    let numbered = |mut bytes: Vec<u8>| {
        // A custom section that means nothing.
        let round = round.to_le_bytes();
        bytes.extend([0, 2 + round.len() as u8, 1, b'v']);
        bytes.extend(round);
        bytes
    };
    match round % 4 {
        0 => good[..good.len() / 2 + round % 1000].to_vec(),
        1 => {
            let mut random = fastrand::Rng::with_seed(round as u64);
            (0..good.len()).map(|_| random.u8(..)).collect()
        }
        2 => numbered(renamed(good, "record-event", "recall-event")),
        _ => numbered(renamed(good, "@0.1.0", "@0.2.0")),
    }
}
