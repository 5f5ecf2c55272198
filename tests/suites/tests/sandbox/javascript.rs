//! Guests in a language that brings its engine along: they work as any other, and misbehave in ways of their own.

use crate::fixture::{GuestBuilder, Stage, config_map};
use crate::logs;
use crate::neighbour::beside_a_neighbour;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_fleet::outcome::{Blame, Disposition};
use windlass_harness::guests::javascript;
use windlass_sandbox::{Isolation, Reuse};

const MIB: usize = 1 << 20;

/// A guest of `guests/js`.
fn guest<'a>(stage: &'a Stage, of: &str, name: &str) -> GuestBuilder<'a> {
    stage.file(name, javascript(of))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn a_guest_in_javascript_does_what_the_one_in_rust_does() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = guest(&stage, "hello", "hello-js");
    let hello = builder.config(json!({"greeting": "salut"})).run().await?;
    assert_eq!(
        hello.guest.status().title,
        "greets the people that ConfigMaps name"
    );
    stage.apply("alpha", config_map("a", json!({})))?;
    let right = |data: &Value| data["greeting"] == "salut, world, from alpha";
    stage.data("alpha", "a-greeting", right).await?;
    hello.outcome("alpha", "a").await?.expect("it greets");

    // What somebody deletes comes back, and what is right is left alone.
    let server = stage.simulated("alpha");
    drop(server.delete("v1", "ConfigMap", "default", "a-greeting"));
    stage.data("alpha", "a-greeting", right).await?;
    let greeting = server.get("v1", "ConfigMap", "default", "a-greeting");
    let greeting = greeting.expect("ConfigMaps are served");
    let owner = &greeting.context("it is there")?["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["name"], &owner["controller"]),
        (&json!("a"), &json!(true))
    );
    assert_eq!(hello.failures(), Vec::<String>::new());
    let peak = hello.guest.status().memory_peak;
    assert!(peak < 4 * MIB, "a peak of {peak} bytes");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn a_config_that_does_not_fit_is_refused_in_its_words() -> Result<()> {
    let stage = Stage::start(&[]).await?;
    let builder = guest(&stage, "hello", "hello-js-refuses");
    let refused = builder.config(json!({"greeting": 7})).load().await?;
    let refused = refused.err().context("it is refused")?.to_string();
    assert!(
        refused.contains("config: expected a string, got greeting 7"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn what_the_sdk_refuses_is_an_error_and_never_a_trap() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = guest(&stage, "test-misuse", "misuse-js");
    let misuse = builder
        .isolation(Isolation::Reuse(Reuse::default()))
        .run()
        .await?;
    for (way, message) in [
        ("wrong-number", "RangeError: limit: expected a whole number"),
        ("wrong-shape", "TypeError: kind: expected an object"),
        ("misspelt", "TypeError: options: there is no dryrun"),
        (
            "wrong-operation",
            "TypeError: operations[0]: expected a call",
        ),
        ("keep", ""),
        ("use-kept", "TypeError: resource has been disposed"),
        // One instance served all: nothing ended it.
        ("calls", "7 calls"),
        ("promise", "reconcile returned a promise"),
        ("wrong-answer", "RangeError: requeueAfterMs"),
        ("bug", "TypeError: "),
    ] {
        stage.apply("alpha", config_map(way, json!({})))?;
        let said = match misuse.outcome("alpha", way).await? {
            Ok(_) => String::new(),
            Err(failure) => failure.message,
        };
        assert!(said.contains(message), "{way}: {said:?}");
        assert_eq!(said.is_empty(), message.is_empty(), "{way}: {said:?}");
    }
    let warned = logs::lines("misuse-js", "counted 7");
    assert!(warned[0].contains("WARN"), "{warned:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn what_runs_away_in_an_engine_is_cut_off_as_anything_else() -> Result<()> {
    for (way, reasons) in [
        ("loop", &["timeout"][..]),
        ("backtrack", &["timeout", "trap", "error"]),
        ("allocate", &["memory"]),
        ("recurse", &["stack", "trap", "error"]),
        ("throw-number", &["trap", "error"]),
        ("throw-error", &["trap", "error"]),
        ("throw-nonsense", &["trap", "error"]),
        ("answer-nonsense", &["trap"]),
        ("keep", &["error"]),
    ] {
        let stage = Stage::start(&["alpha"]).await?;
        let builder = guest(&stage, "test-runaway", &format!("runaway-{way}"));
        let builder = builder
            .config(json!({"way": way}))
            .limits(|limits| (limits.timeout, limits.memory) = (Duration::from_secs(2), 16 * MIB));
        let failure = beside_a_neighbour(&stage, builder).await?;
        assert!(
            reasons.contains(&failure.reason) && failure.blame == Blame::Guest,
            "{way}: {} {failure}",
            failure.reason
        );
        let kept = way == "keep";
        assert_eq!(failure.disposition == Disposition::Terminal, kept, "{way}");
        if kept {
            assert_eq!(failure.message, "nothing was kept");
        }
    }
    Ok(())
}
