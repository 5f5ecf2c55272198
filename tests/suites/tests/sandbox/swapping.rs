//! A guest is replaced while it runs; what is worse than what it has does not replace it.

use crate::fixture::{Setup, Stage, config_map, revision, sandbox};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::interval;
use windlass_apiserver::{Call, Hook, RequestVerdict, Server, Verb};
use windlass_fleet::Action;
use windlass_fleet::manager::ManagerOptions;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::request;
use windlass_harness::guests::guest;
use windlass_sandbox::{Revision, Source};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_revision_serves_from_the_next_call_on() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage
        .guest("test-panic")
        .name("corrected")
        .config(json!({"after": 60_000}))
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    assert_eq!(running.failure("alpha", "a").await?.reason, "trap");
    let corrected = revision("test-requeue").await?;
    running.guest.swap(corrected.clone()).await?;
    assert_eq!(running.guest.revision().digest(), corrected.digest());
    stage.apply("alpha", config_map("b", json!({})))?;
    assert_eq!(
        running.outcome("alpha", "b").await?.expect("it succeeds"),
        Action::RequeueAfter(Duration::from_secs(60))
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_ends_on_the_revision_that_it_began_on() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let slow = stage
        .guest("test-loop")
        .name("slow")
        .config(json!({"after": 60_000}))
        .limits(|limits| limits.timeout = Duration::from_secs(2));
    let running = slow.run().await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    wait("the call in flight", || {
        Seen::of(running.guest.status().tenant_memory, |used| *used > 0)
    })
    .await?;
    running.guest.swap(revision("test-requeue").await?).await?;
    stage.apply("alpha", config_map("b", json!({})))?;
    running
        .outcome("alpha", "b")
        .await?
        .expect("the new revision succeeds");
    let failure = running.failure("alpha", "a").await?;
    assert!(
        failure.reason == "timeout" && failure.message.contains("test_loop::spin"),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_good_revision_serves_on_when_a_new_one_is_refused() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage
        .guest("hello")
        .name("steady")
        .config(json!({"way": "trap"}))
        .run()
        .await?;
    let good = running.guest.revision().digest();
    let error = running
        .guest
        .swap(revision("test-describe").await?)
        .await
        .expect_err("it traps")
        .to_string();
    assert!(error.contains("describe"), "{error}");
    assert_eq!(running.guest.status().digest, good.to_string());
    stage.apply("alpha", config_map("a", json!({})))?;
    running
        .outcome("alpha", "a")
        .await?
        .expect("the old revision greets");

    running.guest.swap(revision("hello").await?).await?;
    Ok(())
}

/// Waits until every one of these ConfigMaps is greeted.
async fn all_greeted(stage: &Stage, names: &[String]) -> Result<()> {
    for name in names {
        let right = |data: &Value| data["greeting"] == "hello, world, from alpha";
        stage
            .data("alpha", &format!("{name}-greeting"), right)
            .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_of_a_guest_that_never_returns_is_worked_off_by_the_next_one() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage
        .guest("test-loop")
        .name("gets-stuck")
        .limits(|limits| limits.timeout = Duration::from_secs(1)) // the next guest's too, on a busy machine
        .run()
        .await?;
    let names: Vec<String> = (0..60).map(|number| format!("o{number}")).collect();
    for name in &names {
        stage.apply("alpha", config_map(name, json!({})))?;
    }
    wait("a run that was cut off", || {
        Seen::of(running.failures().len(), |failures| *failures >= 2)
    })
    .await?;
    running.guest.swap(revision("hello").await?).await?;
    running.put(&stage)?;
    running.resync(&stage);
    all_greeted(&stage, &names).await
}

/// A server that takes its time for what guests write.
struct SlowWrites;

impl Hook for SlowWrites {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        match call.verb {
            Verb::Patch => RequestVerdict::Delay(Duration::from_millis(30)),
            _ => RequestVerdict::Proceed,
        }
    }
}

/// The hello guest with another word, as long, for `from` in its greetings.
async fn saying(word: &str) -> Result<Revision> {
    let mut bytes = std::fs::read(guest("hello"))?;
    let (from, to) = (b", from ", format!(", {word} "));
    let found = bytes.windows(from.len()).position(|part| part == from);
    let at = found.context("the guest says `from`")?;
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    let name = format!("hello that says {word}");
    Ok(sandbox().load(Source::Bytes { name, bytes }).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_found_no_room_in_a_full_queue_is_done_by_the_next_revision() -> Result<()> {
    const OBJECTS: usize = 150;
    const ROOM: usize = 10;
    let setup = Setup {
        server: Server::builder().hook(Arc::new(SlowWrites)),
        manager: ManagerOptions {
            keys_per_controller: ROOM,
            ..ManagerOptions::default()
        },
        ..Setup::default()
    };
    let stage = Stage::with(&["alpha"], setup).await?;
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("o{number}")).collect();
    for name in &names[..OBJECTS / 2] {
        stage.apply("alpha", config_map(name, json!({})))?;
    }
    let name = "reloads-when-full";
    let running = stage.guest("hello").name(name).run().await?;
    let refused = || stage.metric("windlass_queue_refused_total", name);
    let held = || {
        let controllers = stage.handle.controllers();
        let of = controllers.iter().find(|of| of.name == name);
        of.map_or(0, |of| of.ready + of.running + of.delayed + of.backoff)
    };
    let mut rest = names[OBJECTS / 2..].chunks(OBJECTS / 6);
    for word in ["FROM", "FrOm", "frOM"] {
        let next = saying(word).await?;
        // Full, with some in the middle of a run, and with objects that have found no room.
        let before = refused()?.unwrap_or_default();
        for name in rest.next().context("a third of the rest")? {
            stage.apply("alpha", config_map(name, json!({})))?;
        }
        wait("a full queue that refuses", || match refused() {
            Ok(refused) => Seen::of((refused, held()), |(refused, held)| {
                *refused > Some(before) && *held >= ROOM - 1
            }),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await?;
        running.guest.swap(next).await?;
        running.put(&stage)?;
        running.resync(&stage);
        assert!(held() <= ROOM, "{} of {ROOM}", held());
    }
    for name in &names {
        let right = |data: &Value| data["greeting"] == "hello, world, frOM alpha";
        stage
            .data("alpha", &format!("{name}-greeting"), right)
            .await?;
    }
    assert_eq!(running.failures(), Vec::<String>::new());
    wait("an empty queue", || Seen::of(held(), |held| *held == 0)).await?;
    // What was refused is offered again with its store, as after each swap: some run more than once, but not without end.
    let runs = running.runs();
    assert!(runs <= 8 * OBJECTS, "{runs} runs");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn swaps_under_load_lose_no_request_and_run_none_twice_at_once() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage.guest("hello").name("swapped-a-lot").run().await?;
    // One greets, the other does something else to every ConfigMap there is.
    let revisions = [revision("hello").await?, revision("test-handle").await?];
    let names: Vec<String> = (0..150).map(|number| format!("o{number}")).collect();
    let mut pace = interval(Duration::from_millis(10));
    for (number, name) in names.iter().enumerate() {
        pace.tick().await;
        stage.apply("alpha", config_map(name, json!({})))?;
        if number % 3 == 0 {
            let next = revisions[number % 2].clone();
            running.guest.swap(next).await?;
            running.put(&stage)?;
        }
    }
    running.guest.swap(revisions[0].clone()).await?;
    running.put(&stage)?;
    running.resync(&stage);
    all_greeted(&stage, &names).await?;
    let twice = |failure: &&String| failure.contains("runs twice at once");
    assert_eq!(running.failures().iter().find(twice), None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_and_indexes_of_the_next_revision_leave_no_gap() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let list = json!({"do": "list", "kind": ["v1", "ConfigMap"], "options": {"index": "color", "value": "red"}});
    let running = stage
        .guest("test-handle") // watches every ConfigMap, and declares no index
        .name("changes-its-watches")
        .config(json!({"steps": [list]}))
        .run()
        .await?;
    let next = revision("test-calls").await?; // watches some, and declares one
    let names: Vec<String> = (0..100).map(|number| format!("o{number}")).collect();
    let mut pace = interval(Duration::from_millis(5));
    for (number, name) in names.iter().enumerate() {
        pace.tick().await;
        stage.apply("alpha", config_map(name, json!({"color": "red"})))?;
        if number == 50 {
            running.guest.swap(next.clone()).await?;
            running.put(&stage)?;
            running.resync(&stage);
        }
    }
    for name in &names {
        let request = request("alpha", name);
        let listed = |outcome: &Result<Action, windlass_fleet::Failure>| {
            let answer = outcome.as_ref().err().map(|failure| &*failure.message);
            answer.is_some_and(|answer| answer.starts_with("[[[\"o0\""))
        };
        wait(&format!("the next revision to list for {name}"), || {
            Seen::of(running.ended(&request, listed), |ended| *ended)
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_the_next_revision_does_not_want_stops() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage
        .guest("test-mapper")
        .name("wants-something-else")
        .rules(vec![
            crate::fixture::rule("", &["secrets"], &["get", "list", "watch"], "*"),
            crate::fixture::rule("", &["configmaps"], &["*"], "*"),
        ])
        .run()
        .await?;
    let watches = |resource: &str| {
        let calls = stage.simulated("alpha").requests();
        calls.iter().any(|call| call.resource == resource)
    };
    wait("a watch of Secrets", || {
        Seen::of(watches("secrets"), |watched| *watched)
    })
    .await?;
    running.guest.swap(revision("hello").await?).await?;
    running.put(&stage)?;
    stage.apply("alpha", config_map("a", json!({})))?;
    all_greeted(&stage, &["a".to_owned()]).await?;
    wait("one watch, of ConfigMaps", || {
        Seen::of(stage.simulated("alpha").watchers(), |watchers| {
            *watchers == 1
        })
    })
    .await?;
    assert!(watches("configmaps"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_swaps_at_once_each_is_whole() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage
        .guest("test-panic")
        .name("twice-at-once")
        .run()
        .await?;
    let (panics, greets) = (revision("test-panic").await?, revision("hello").await?);
    for _ in 0..10 {
        let (first, second) = tokio::join!(
            running.guest.swap(panics.clone()),
            running.guest.swap(greets.clone())
        );
        first?;
        second?;
        let status = running.guest.status();
        let whole = match running.guest.revision().digest() {
            digest if digest == greets.digest() => "greets the people that ConfigMaps name",
            _ => "panics",
        };
        assert_eq!(
            status.title, whole,
            "revision and description belong together"
        );
    }
    Ok(())
}
