//! Tenants beside each other: processors, calls to API servers, budgets. What one uses up is its own.

use crate::fixture::{PROCESSORS, Setup, Stage, config_map};
use anyhow::Result;
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use windlass_apiserver::{AnswerVerdict, Call, Hook, RequestVerdict, Server, Verb};
use windlass_harness::eventually::{Seen, wait};
use windlass_sandbox::{Options, Rate, Sandbox};

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_loops_leaves_its_neighbour_the_processors_that_it_wants() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let looping = stage.guest("test-loop").name("loops-beside");
    let looping = looping
        .limits(|limits| limits.timeout = Duration::from_secs(60))
        .run()
        .await?;
    // More loops than threads, before the neighbour has anything to do.
    for at in 0..8 {
        stage.apply("alpha", config_map(&format!("loop-{at}"), json!({})))?;
    }
    let busy = || looping.guest.status().cpu_seconds;
    wait("loops on every processor", || {
        Seen::of(busy(), |busy| *busy > 0.2)
    })
    .await?;
    let before = busy();
    let quiet = stage.guest("hello").name("quiet-beside").run().await?;
    for at in 0..40 {
        stage.apply("alpha", config_map(&format!("m{at}"), json!({})))?;
    }
    wait("all greetings", || {
        Seen::of(quiet.runs(), |runs| *runs >= 40)
    })
    .await?;
    assert_eq!(looping.runs(), 0, "they loop on");
    assert!(busy() > before, "and have what the neighbour leaves");
    let status = quiet.guest.status();
    assert!(status.failures.is_empty(), "{:?}", status.failures);
    assert!(status.cpu_seconds > 0.0 && status.calls >= 40);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_holds_back_a_tenant_that_is_alone() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let looping = stage
        .guest("test-loop")
        .name("capped-loop")
        .tenant(|limits| limits.cpu_millis = Some(100))
        .limits(|limits| limits.timeout = Duration::from_secs(2))
        .run()
        .await?;
    let began = Instant::now();
    stage.apply("alpha", config_map("a", json!({})))?;
    let failure = looping.failure("alpha", "a").await?;
    let took = began.elapsed().as_secs_f64();
    assert_eq!(failure.reason, "timeout");
    let status = looping.guest.status();
    assert!(
        status.cpu_seconds < took / 2.0,
        "{} of {took}",
        status.cpu_seconds
    );
    assert!(status.cpu_waited_seconds > 0.5, "{status:?}");
    assert!(status.limit_hits["timeout"] >= 1, "{status:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_budget_are_refused_as_a_value_and_counted() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let get = json!({"do": "get", "kind": ["v1", "ConfigMap"], "key": ["default", "a"]});
    let batch = |of: usize| json!({"do": "batch", "steps": vec![get.clone(); of]});
    let steps = json!({"steps": [get, batch(3), get, batch(2), batch(1), get]});
    let running = stage
        .guest("test-calls")
        .name("spends")
        .config(steps)
        .limits(|limits| limits.host_calls = 6)
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let answer = running.answer("alpha", "a").await?;
    assert_eq!(answer[0], "a");
    assert_eq!(answer[1], json!(["a", "a", "a"]));
    assert_eq!(answer[2], "a", "five of six");
    assert_eq!(answer[3][1]["code"], "limit-exceeded", "two do not fit");
    assert_eq!(answer[4], json!(["a"]), "one does");
    assert_eq!(answer[5]["code"], "limit-exceeded");
    let message = answer[5]["message"].as_str().unwrap_or_default();
    assert!(message.contains("raise limits.hostCalls"), "{message}");
    assert_eq!(running.guest.status().limit_hits["hostCalls"], 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_servers_over_the_rate_wait_and_what_caches_answer_is_free() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let get = |mode: &str| json!({"do": "get", "kind": ["v1", "ConfigMap"], "key": ["default", "a"], "options": {"mode": mode}});
    let mut steps = vec![get("cached"); 50];
    steps.extend(vec![get("live"); 4]);
    let running = stage
        .guest("test-calls")
        .name("hurries")
        .config(json!({"steps": steps}))
        .limits(|limits| limits.requests_per_second = Some(Rate { per_second: 2 }))
        .run()
        .await?;
    let began = Instant::now();
    stage.apply("alpha", config_map("a", json!({})))?;
    let answer = running.answer("alpha", "a").await?;
    assert!(
        answer
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one == "a")),
        "{answer}"
    );
    // Two at once, and two more at two per second.
    assert!(
        began.elapsed() >= Duration::from_millis(900),
        "took {:?}",
        began.elapsed()
    );
    assert_eq!(running.guest.status().limit_hits["requestsPerSecond"], 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_no_more_items_than_the_limit_and_goes_on() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let list = json!({"do": "list", "kind": ["v1", "ConfigMap"], "options": {"labels": "test.windlass.dev/run", "limit": 100}});
    let running = stage
        .guest("test-calls")
        .name("pages")
        .config(json!({"steps": [list]}))
        .limits(|limits| limits.list_items = 2)
        .run()
        .await?;
    for name in ["a", "b", "c"] {
        stage.apply("alpha", config_map(name, json!({})))?;
    }
    wait("a list of all three", || {
        let seen = running.guest.status().calls;
        Seen::of(seen, |calls| *calls >= 3)
    })
    .await?;
    let answer = running.answer("alpha", "c").await?;
    let pages = answer[0].as_array().cloned().unwrap_or_default();
    let sizes = pages.iter().map(|page| page.as_array().map_or(0, Vec::len));
    assert!(sizes.clone().all(|size| size <= 2), "{answer}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn denials_are_counted_and_the_missing_rule_is_told_once() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let get = json!({"do": "get", "kind": ["v1", "Secret"], "key": ["default", "a"]});
    let running = stage
        .guest("test-calls")
        .name("wants-secrets")
        .config(json!({"steps": [get, get, get]}))
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let answer = running.answer("alpha", "a").await?;
    assert_eq!(answer[2]["code"], "denied");
    let status = running.guest.status();
    assert_eq!(status.denials, 3);
    let rule = r#"- {apiGroups: [""], resources: [secrets], verbs: [get], namespaces: [default]}"#;
    let missing = status.missing_rules.iter();
    let missing: Vec<_> = missing.map(|missing| format!("- {missing}")).collect();
    assert_eq!(missing, [rule]);
    assert_eq!(
        crate::logs::lines("wants-secrets", "this rule would").len(),
        1
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_is_loaded_beside_calls_that_take_all_the_room() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let looping = stage.guest("test-loop").name("loops-while-loading");
    let looping = looping
        .limits(|limits| limits.timeout = Duration::from_secs(60))
        .run()
        .await?;
    for at in 0..8 {
        stage.apply("alpha", config_map(&format!("l{at}"), json!({})))?;
    }
    wait("busy loops", || {
        Seen::of(looping.guest.status().cpu_seconds, |busy| *busy > 0.1)
    })
    .await?;
    // Of the same tenant: it comes before the calls that are in line already.
    stage
        .guest("hello")
        .name("loaded-beside-loops")
        .tenant_of(&looping)
        .load()
        .await??;
    assert_eq!(looping.runs(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_that_want_more_than_there_is_have_it_by_weight() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let mut tenants = Vec::new();
    for (name, weight) in [("loops-for-one", 1), ("loops-for-three", 3)] {
        let looping = stage.guest("test-loop").name(name);
        let looping = looping
            .tenant(|limits| limits.weight = weight)
            .limits(|limits| limits.timeout = Duration::from_secs(60));
        tenants.push(looping.run().await?);
    }
    // For each more calls than processors.
    for at in 0..4 {
        stage.apply("alpha", config_map(&format!("loop-{at}"), json!({})))?;
    }
    let used = || [0, 1].map(|tenant: usize| tenants[tenant].guest.status().cpu_seconds);
    wait("loops of both", || {
        Seen::of(used(), |used| used.iter().all(|used| *used > 0.1))
    })
    .await?;
    let before = used();
    let of = |now: &[f64; 2]| [now[0] - before[0], now[1] - before[1]];
    // Others compute as well, and have their part. For the first second the tenant that began later catches up.
    let [one, three] = wait("eight seconds between them", || {
        Seen::of(of(&used()), |[one, three]| one + three > 8.0)
    })
    .await?;
    let ratio = three / one;
    assert!((2.0..=4.5).contains(&ratio), "{three} s to {one} s");
    for tenant in &tenants {
        assert_eq!(tenant.runs(), 0, "they loop on");
    }
    Ok(())
}

/// A server that is slow to write, and counts how many wait for it.
#[derive(Default)]
struct Counter {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Hook for Counter {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        if call.verb != Verb::Patch {
            return RequestVerdict::Proceed;
        }
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        RequestVerdict::Delay(Duration::from_millis(50))
    }

    fn answer(&self, _: &str, call: &Call, _: &Bytes) -> AnswerVerdict {
        if call.verb == Verb::Patch {
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
        AnswerVerdict::Send
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_places_for_instances_wait_and_none_fails() -> Result<()> {
    const KEYS: usize = 25;
    let counter = Arc::new(Counter::default());
    let sandbox = Sandbox::new(Options {
        instances: 4, // of which one is kept for guests that are loaded
        processors: Some(PROCESSORS),
        ..Options::default()
    })?;
    let setup = Setup {
        server: Server::builder().hook(counter.clone()),
        sandbox: Some(sandbox),
        ..Setup::default()
    };
    let stage = Stage::with(&["alpha", "beta"], setup).await?;
    let mut tenants = Vec::new();
    for (name, cluster) in [("crowds-alpha", "alpha"), ("crowds-beta", "beta")] {
        for at in 0..KEYS {
            stage.apply(cluster, config_map(&format!("m{at}"), json!({})))?;
        }
        // Both see both clusters: what one has greeted the other finds right, and it greets what the other has not come to.
        let hello = stage.guest("hello").name(name);
        let hello = hello.limits(|limits| limits.timeout = Duration::from_secs(60));
        tenants.push(hello.run().await?);
    }
    let runs = || [tenants[0].runs(), tenants[1].runs()];
    let half = wait("half of the runs", || {
        Seen::of(runs(), |[a, b]| a + b >= 2 * KEYS)
    })
    .await?;
    assert!(half.iter().all(|runs| *runs >= KEYS / 5), "{half:?}");
    for tenant in &tenants {
        for at in 0..KEYS {
            for cluster in ["alpha", "beta"] {
                let name = format!("m{at}");
                tenant.outcome(cluster, &name).await?.expect("it waited");
            }
        }
        assert_eq!(tenant.failures(), Vec::<String>::new());
        let status = tenant.guest.status();
        assert_eq!(status.limit_hits.get("capacity"), None, "{status:?}");
    }
    for (cluster, at) in ["alpha", "beta"]
        .iter()
        .flat_map(|c| (0..KEYS).map(move |at| (c, at)))
    {
        let greeted = |data: &serde_json::Value| data["greeting"].is_string();
        stage
            .data(cluster, &format!("m{at}-greeting"), greeted)
            .await?;
    }
    // Both have been at the server at once, and never more than there are places.
    let most = counter.most.load(Ordering::SeqCst);
    assert!((2..=3).contains(&most), "{most} at once");
    Ok(())
}
