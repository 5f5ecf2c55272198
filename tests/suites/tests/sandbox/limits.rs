//! Only the call that hits a limit is affected; its neighbours are not.

use crate::fixture::{Stage, config_map};
use crate::neighbour::{beside_a_neighbour, well_beside_a_neighbour};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{AnswerVerdict, Call, Hook, RequestVerdict, Verb};
use windlass_fleet::Action;
use windlass_fleet::backoff::Backoff;
use windlass_fleet::manager::KeyFilter;
use windlass_fleet::outcome::{Blame, Disposition};
use windlass_harness::eventually::{Seen, wait};

#[tokio::test(flavor = "multi_thread")]
async fn a_looping_guest_fails_its_attempt_and_its_neighbour_works_on() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let looping = stage
        .guest("test-loop")
        .limits(|limits| limits.timeout = Duration::from_secs(1))
        .run()
        .await?;
    let hello = stage
        .guest("hello")
        .name("hello-beside-a-loop")
        .run()
        .await?;
    for name in ["a", "b", "c"] {
        stage.apply("alpha", config_map(name, json!({})))?;
    }
    for name in ["a", "b", "c"] {
        stage
            .data("alpha", &format!("{name}-greeting"), |data| {
                data["greeting"] == "hello, world, from alpha"
            })
            .await?;
        hello
            .outcome("alpha", name)
            .await?
            .expect("the neighbour greets");
    }
    let failure = looping.failure("alpha", "a").await?;
    assert_eq!(
        (failure.reason, failure.blame, failure.disposition),
        ("timeout", Blame::Guest, Disposition::Retry)
    );
    assert!(
        failure.message.contains("no result within 1s")
            && failure.message.contains("test_loop::spin"),
        "{failure}"
    );
    assert!(looping.guest.status().failures["timeout"] >= 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_looping_guest_is_cut_off_soon_after_its_deadline() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let looping = stage
        .guest("test-loop")
        .limits(|limits| limits.timeout = Duration::from_millis(200))
        .run()
        .await?;
    let began = Instant::now();
    stage.apply("alpha", config_map("a", json!({})))?;
    looping.failure("alpha", "a").await?;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "took {:?}",
        began.elapsed()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_eating_guest_fails_its_attempt_and_gives_all_back() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let eating = stage
        .guest("test-memory")
        .limits(|limits| limits.memory = 8 << 20)
        .run()
        .await?;
    let hello = stage
        .guest("hello")
        .name("hello-beside-an-eater")
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let failure = eating.failure("alpha", "a").await?;
    assert_eq!((failure.reason, failure.blame), ("memory", Blame::Guest));
    assert!(
        failure
            .message
            .contains("its memory limit of 8 MiB: raise limits.memory"),
        "{failure}"
    );
    hello
        .outcome("alpha", "a")
        .await?
        .expect("the neighbour greets");
    let peak = eating.guest.status().memory_peak;
    assert!(
        (7 << 20..=8 << 20).contains(&peak),
        "a peak of {peak} bytes"
    );
    wait("the tenant's memory back", || {
        Seen::of(eating.guest.status().tenant_memory, |used| *used == 0)
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_of_a_tenant_share_its_memory() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let eating = stage
        .guest("test-memory")
        .name("eats-its-tenant")
        .tenant_memory(4 << 20)
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let failure = eating.failure("alpha", "a").await?;
    assert_eq!(failure.reason, "memory");
    assert!(
        failure.message.contains("raise the tenant's limits.memory"),
        "{failure}"
    );
    Ok(())
}

/// A server that takes its time for what guests write.
struct SlowWrites;

impl Hook for SlowWrites {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        match call.verb {
            Verb::Patch => RequestVerdict::Delay(Duration::from_millis(300)),
            _ => RequestVerdict::Proceed,
        }
    }

    fn answer(&self, _: &str, _: &Call, _: &bytes::Bytes) -> AnswerVerdict {
        AnswerVerdict::Send
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_beyond_their_tenants_memory_wait_for_those_that_wait_for_a_slow_server() -> Result<()>
{
    let stage = Stage::hooked(&["alpha"], Arc::new(SlowWrites)).await?;
    let names: Vec<String> = (0..12).map(|n| format!("m{n}")).collect();
    for name in &names {
        stage.apply("alpha", config_map(name, json!({})))?;
    }
    // There is room for two or three at once.
    let hello = stage
        .guest("hello")
        .name("hello-in-a-small-tenant")
        .tenant_memory(4 << 20)
        .limits(|limits| limits.timeout = Duration::from_secs(30))
        .run()
        .await?;
    for name in &names {
        let greeted = |data: &serde_json::Value| data["greeting"] == "hello, world, from alpha";
        stage
            .data("alpha", &format!("{name}-greeting"), greeted)
            .await?;
        hello.outcome("alpha", name).await?.expect("it waited");
    }
    assert_eq!(hello.failures(), Vec::<String>::new());
    let status = hello.guest.status();
    assert!(
        status.limit_hits.get("tenant.memory") > Some(&0),
        "they had to wait: {status:?}"
    );
    wait("the tenant's memory back", || {
        Seen::of(hello.guest.status().tenant_memory, |used| *used == 0)
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_recursion_ends_the_call_and_shows_where() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let failure = beside_a_neighbour(&stage, stage.guest("test-recursion")).await?;
    assert_eq!((failure.reason, failure.blame), ("stack", Blame::Guest));
    assert!(
        failure
            .message
            .contains("nested too deeply, in test_recursion::dig < test_recursion::dig"),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_shows_function_names_and_its_words() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let failure = beside_a_neighbour(&stage, stage.guest("test-panic")).await?;
    assert_eq!((failure.reason, failure.blame), ("trap", Blame::Guest));
    assert!(
        failure.message.starts_with("the guest trapped: ")
            && failure.message.contains(", in test_panic::boom < "),
        "{failure}"
    );
    assert!(
        failure
            .message
            .contains("why=\"cannot stand a\" at=test-panic/src/lib.rs:"),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_at_which_a_guest_panics_backs_off_longer_each_time() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let base = Duration::from_millis(200);
    let running = stage
        .guest("test-panic")
        .name("panics-again")
        .controller(|options| options.backoff = Backoff::new(base, Duration::from_secs(600)))
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    running.failure("alpha", "a").await?;
    let began = Instant::now();
    // Another key of the same guest has nothing to do with it.
    stage.apply("alpha", config_map("b", json!({})))?;
    running.failure("alpha", "b").await?;
    let waiting = |name: &str, attempts: u32| {
        let keys = stage.handle.keys(&KeyFilter::default());
        let key = keys
            .into_iter()
            .find(|key| key.queued.request.to_string().ends_with(name));
        Seen::of(key, |key| {
            key.as_ref().is_some_and(|key| {
                key.queued.attempts >= attempts && key.queued.state.as_str() == "backoff"
            })
        })
    };
    let key = wait("the key after its fourth attempt", || waiting("/a", 4)).await?;
    let key = key.expect("it was seen").queued;
    let failure = key.last_failure.expect("it failed");
    assert_eq!((failure.reason, failure.blame), ("trap", Blame::Guest));
    // Each delay is drawn from the upper half of its step, which is twice the one before.
    assert!(
        began.elapsed() >= base * (1 + 2 + 4) / 2,
        "four attempts within {:?}",
        began.elapsed()
    );
    let next = key.state.runs_at().expect("it waits for a time");
    let left = next.saturating_duration_since(Instant::now());
    assert!(left > base, "the next in {left:?}");
    assert!(running.runs() < 10, "{} runs of two keys", running.runs());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_always_asks_to_run_at_once_disturbs_nobody() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = stage.guest("test-requeue").name("at-once-beside");
    let action = well_beside_a_neighbour(&stage, builder.config(json!({"after": 0}))).await?;
    assert_eq!(action, Action::RequeueAfter(Duration::ZERO));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_asks_to_run_at_once_runs_again_and_again_but_not_without_pause() -> Result<()>
{
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage
        .guest("test-requeue")
        .config(json!({"after": 0}))
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    assert_eq!(
        running.outcome("alpha", "a").await?.expect("it succeeds"),
        Action::RequeueAfter(Duration::ZERO)
    );
    let began = Instant::now();
    let before = running.runs();
    wait("five more runs", || {
        Seen::of(running.runs() - before, |runs| *runs >= 5)
    })
    .await?;
    assert!(
        began.elapsed() >= Duration::from_millis(400),
        "five runs took {:?}",
        began.elapsed()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_guest_outlives_its_call() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage.guest("test-handle").run().await?;
    stage.apply("alpha", config_map("keep", json!({})))?;
    running
        .outcome("alpha", "keep")
        .await?
        .expect("keeping is no crime");
    stage.apply("alpha", config_map("use", json!({})))?;
    assert_eq!(
        running.failure("alpha", "use").await?.message,
        "nothing was kept"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_the_limits_is_refused_as_a_value() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let kind = json!(["v1", "ConfigMap"]);
    let script = json!({"steps": [
        {"do": "get", "kind": kind, "key": ["default", "a"]},
        {"do": "get", "kind": kind, "key": ["default", "large"]},
        {"do": "list", "kind": kind, "options": {"namespace": "default"}},
        {"do": "batch", "steps": vec![json!({"do": "get", "kind": kind, "key": ["default", "a"]}); 3]},
    ]});
    for name in ["large", "larger"] {
        let mut large = config_map(name, json!({"text": "x".repeat(3000)}));
        large["metadata"]["labels"] = json!({});
        stage.apply("alpha", large)?;
    }
    let limited = stage
        .guest("test-calls")
        .name("limited")
        .config(script)
        .limits(|limits| {
            (
                limits.object_bytes,
                limits.response_bytes,
                limits.batch_operations,
            ) = (2000, 5000, 2);
        });
    let running = limited.run().await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let answer = running.answer("alpha", "a").await?;
    assert_eq!(answer[0], "a");
    assert!(
        answer[1]["message"]
            .as_str()
            .is_some_and(|message| message.contains("limits.objectBytes")),
        "{answer}"
    );
    assert_eq!(answer[2]["code"], "limit-exceeded");
    assert_eq!(
        answer[3][2]["message"],
        "a batch of 3 operations is too large: send at most 2 at once"
    );
    Ok(())
}
