//! A guest that may do less from now on: the calls that it has begun may not do more either.

use crate::fixture::{Stage, config_map, rule};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use windlass_apiserver::{Call, Hook, RequestVerdict, Verb};
use windlass_fleet::{Grant, Rule};
use windlass_harness::eventually::{Seen, wait};
use windlass_sandbox::{GuestOptions, Isolation, Limits, Reuse, Rights};

/// How late.
const LATE: Duration = Duration::from_secs(3);

/// Answers live reads of the ConfigMap `gate` late, and counts them.
#[derive(Default)]
struct Gate(AtomicUsize);

impl Hook for Gate {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        if call.verb != Verb::Get || call.name != "gate" {
            return RequestVerdict::Proceed;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        RequestVerdict::Delay(LATE)
    }
}

impl Gate {
    async fn is_reached(&self) -> Result<usize> {
        wait("a read that is under way", || {
            Seen::of(self.0.load(Ordering::Relaxed), |reads| *reads == 1)
        })
        .await
    }
}

fn maps(verbs: &[&str]) -> Vec<Rule> {
    vec![rule("", &["configmaps"], verbs, "*")]
}

fn rights(rules: Vec<Rule>) -> Rights {
    Rights {
        grant: Arc::new(Grant::new(rules)),
        http: Arc::default(),
        limits: Limits::default(),
        isolation: Isolation::Fresh,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_runs_may_not_do_what_is_not_granted_any_more() -> Result<()> {
    let gate = Arc::new(Gate::default());
    let stage = Stage::hooked(&["alpha"], gate.clone()).await?;
    let kind = json!(["v1", "ConfigMap"]);
    let steps = json!([
        {"do": "get", "kind": kind, "key": ["default", "gate"], "options": {"mode": "live"}},
        {"do": "create", "kind": kind, "object": config_map("b", json!({}))},
        {"do": "get", "kind": kind, "key": ["default", "a"]},
        {"do": "list", "kind": kind},
    ]);
    let running = stage
        .guest("test-calls")
        .name("loses-rights-as-it-runs")
        .config(json!({"steps": steps}))
        .limits(|limits| limits.timeout = Duration::from_secs(60))
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    gate.is_reached().await?;
    let loaded = running.guest.rights();
    assert!(running.guest.keep_within(&rights(maps(&["get"]))));
    assert!(running.guest.is_kept_within_less());
    let answer = running.answer("alpha", "a").await?;
    assert_eq!(
        answer[0],
        json!(null),
        "it was granted as it began: {answer}"
    );
    assert_eq!(answer[1]["code"], "denied", "{answer}");
    assert_eq!(answer[2], "a", "what both allow: {answer}");
    assert_eq!(
        answer[3]["code"], "denied",
        "a cache is no way around: {answer}"
    );
    assert_eq!(
        stage.simulated("alpha").count(Verb::Create, "configmaps"),
        0
    );
    assert!(running.guest.status().denials >= 2);

    // More than it was loaded with it does not get, and what it was loaded with it gets back.
    let more = Rights {
        limits: loaded.limits.clone(),
        ..rights(vec![rule("*", &["*"], &["*"], "*")])
    };
    assert!(running.guest.keep_within(&more));
    assert_eq!(running.guest.rights(), loaded);
    assert!(!running.guest.keep_within(&more), "it has all of it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waits_in_line_does_not_begin_when_it_is_not_granted_any_more() -> Result<()> {
    let gate = Arc::new(Gate::default());
    let stage = Stage::hooked(&["alpha"], gate.clone()).await?;
    let kind = json!(["v1", "ConfigMap"]);
    let read =
        json!({"do": "get", "kind": kind, "key": ["default", "gate"], "options": {"mode": "live"}});
    let before = stage
        .guest("test-calls")
        .name("holds-the-only-place")
        .config(json!({"steps": [read]}))
        .limits(|limits| limits.timeout = Duration::from_secs(60))
        .tenant(|tenant| tenant.requests_in_flight = 1)
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    gate.is_reached().await?;
    let write = json!({"do": "create", "kind": kind, "object": config_map("made", json!({}))});
    let running = stage
        .guest("test-calls")
        .name("waits-in-line")
        .config(json!({"steps": [write]}))
        .limits(|limits| limits.timeout = Duration::from_secs(60))
        .tenant_of(&before)
        .run()
        .await?;
    let in_line = || {
        running
            .guest
            .status()
            .limit_hits
            .get("tenant.requestsInFlight")
            .copied()
    };
    wait("a write that waits", || {
        Seen::of(in_line(), Option::is_some)
    })
    .await?;
    running
        .guest
        .keep_within(&rights(maps(&["get", "list", "watch"])));
    let answer = running.answer("alpha", "a").await?;
    assert_eq!(answer[0]["code"], "cancelled", "{answer}");
    assert_eq!(
        stage.simulated("alpha").count(Verb::Create, "configmaps"),
        0
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_was_kept_serves_no_call_with_less_rights() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let reuse = Isolation::Reuse(Reuse::default());
    let running = stage
        .guest("hello")
        .name("kept-with-rights")
        .isolation(reuse)
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    running.outcome("alpha", "a").await?.expect("it greets");
    wait("an instance that is kept", || {
        Seen::of(running.guest.status().idle_instances, |idle| *idle > 0)
    })
    .await?;
    let less = Rights {
        isolation: reuse,
        ..rights(maps(&["get", "list", "watch"]))
    };
    assert!(running.guest.keep_within(&less));
    assert_eq!(running.guest.status().idle_instances, 0);
    stage.apply("alpha", config_map("b", json!({})))?;
    let failure = running.failure("alpha", "b").await?;
    assert!(failure.message.contains("verbs: [patch]"), "{failure}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_way_ends_as_it_began_when_everything_is_configured_anew() -> Result<()> {
    let gate = Arc::new(Gate::default());
    let stage = Stage::hooked(&["alpha"], gate.clone()).await?;
    let kind = json!(["v1", "ConfigMap"]);
    let wait_for_gate =
        json!({"do": "get", "kind": kind, "key": ["default", "gate"], "options": {"mode": "live"}});
    let create =
        |name: &str| json!({"do": "create", "kind": kind, "object": config_map(name, json!({}))});
    let read = json!({"do": "get", "kind": kind, "key": ["default", "a"]});
    let running = stage
        .guest("test-calls")
        .name("configured-anew")
        .config(json!({"steps": [wait_for_gate, create("before"), read]}))
        .limits(|limits| limits.timeout = Duration::from_secs(60))
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    gate.is_reached().await?;
    // Less time than the call takes, other rights, another config, other instances.
    let options = GuestOptions {
        grant: rights(maps(&["get", "list", "watch"])).grant,
        http: Arc::default(),
        config: json!({"steps": [read, create("after")]}).to_string(),
        limits: Limits {
            timeout: LATE * 2 / 3,
            ..Limits::default()
        },
        isolation: Isolation::Reuse(Reuse::default()),
        ..running.options.clone()
    };
    running
        .guest
        .reconfigure(options, running.guest.revision())
        .await?;
    stage.apply("alpha", config_map("b", json!({})))?;
    let answer = running.answer("alpha", "b").await?;
    assert_eq!(answer[0], "a", "as it is configured now: {answer}");
    assert_eq!(answer[1]["code"], "denied", "{answer}");
    let answer = running.answer("alpha", "a").await?;
    assert_eq!(answer[0], json!(null), "as it was configured: {answer}");
    assert_eq!(
        answer[1]["code"], "denied",
        "no more than it is granted now: {answer}"
    );
    assert_eq!(answer[2], "a", "within the time that it had: {answer}");
    assert_eq!(
        stage.simulated("alpha").count(Verb::Create, "configmaps"),
        0
    );
    Ok(())
}
