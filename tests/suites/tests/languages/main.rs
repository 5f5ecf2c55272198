//! One reconciler in every language: each does what the same reconciler does that is native. Entry points: the tests below; the
//! reconciler is described in `guests/conformance/README.md`.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

mod book;
mod cases;
mod compare;
mod contract;
mod components;
mod described;
mod native;
mod random;
mod replayed;
mod server;
mod stage;
mod steady;
mod subject;

use anyhow::Result;
use cases::{CASES, SHORT};
use compare::differences;
use stage::{Traces, play};
use std::time::Duration;
use subject::{Component, Subject};
use tokio::sync::{OnceCell, RwLock};

/// Longest run of a case.
const LONG: Duration = Duration::from_secs(20);
/// The same for a case that waits for the end of its time. On a busy machine it has to begin within it.
const BRIEF: Duration = Duration::from_secs(4);

/// Held for writing by who needs a machine that does nothing else of these tests, for reading by all others.
static QUIET: RwLock<()> = RwLock::const_new(());

/// What a subject does in the cases that end by themselves.
async fn long(subject: &Subject) -> Result<Traces> {
    let _shared = QUIET.read().await;
    play(subject, CASES, LONG).await
}

/// What a subject does in every case.
async fn traces(subject: &Subject) -> Result<Traces> {
    let mut traces = long(subject).await?;
    let _alone = QUIET.write().await;
    traces.extend(play(subject, SHORT, BRIEF).await?);
    Ok(traces)
}

/// What the native reconciler does.
async fn reference() -> &'static Traces {
    static REFERENCE: OnceCell<Traces> = OnceCell::const_new();
    REFERENCE
        .get_or_init(|| async { traces(&Subject::Native).await.expect("the native one runs") })
        .await
}

/// That a language's component does in every case what the native reconciler does: in an instance for each call, and in one that has
/// served others.
async fn does_as_the_native_one(language: &'static str) -> Result<()> {
    let shared = QUIET.read().await;
    let component = Component::new(language, components::load(language).await?);
    described::as_the_native_one(&component).await?;
    drop(shared);
    let reused = Subject::Guest(component.reused());
    let fresh = Subject::Guest(component);
    let (fresh, reused) = tokio::join!(traces(&fresh), long(&reused));
    let (fresh, reused) = (fresh?, reused?);
    let longer: Traces = reference().await.clone();
    let mut found = differences(&longer, &fresh);
    let shorter: Traces = longer
        .into_iter()
        .filter(|(case, _)| CASES.iter().any(|known| known.name == case))
        .collect();
    let when_reused = differences(&shorter, &reused);
    found.extend(when_reused.iter().map(|text| format!("reused, {text}")));
    assert!(
        found.is_empty(),
        "{language} does otherwise in {} of {} cases:\n{}",
        found.len(),
        fresh.len() + reused.len(),
        found.join("\n")
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_does_as_the_native_one() -> Result<()> {
    does_as_the_native_one("rust").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn javascript_does_as_the_native_one() -> Result<()> {
    does_as_the_native_one("js").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn python_does_as_the_native_one() -> Result<()> {
    does_as_the_native_one("python").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn go_does_as_the_native_one() -> Result<()> {
    does_as_the_native_one("go").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn c_does_as_the_native_one() -> Result<()> {
    does_as_the_native_one("c").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn each_run_draws_random_numbers_of_its_own() -> Result<()> {
    let _shared = QUIET.read().await;
    for language in ["js", "python", "go", "c"] {
        random::differs(language).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers"]
async fn desired_objects_are_written_once_in_rust() -> Result<()> {
    steady::is_steady("rust").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers and other languages' tools"]
async fn desired_objects_are_written_once_in_javascript() -> Result<()> {
    steady::is_steady("js").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers and other languages' tools"]
async fn desired_objects_are_written_once_in_python() -> Result<()> {
    steady::is_steady("python").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers and other languages' tools"]
async fn desired_objects_are_written_once_in_go() -> Result<()> {
    steady::is_steady("go").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers and other languages' tools"]
async fn desired_objects_are_written_once_in_c() -> Result<()> {
    steady::is_steady("c").await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_does_otherwise_is_found_out_in_that_case_alone() -> Result<()> {
    let rust = components::load("rust").await?;
    let mut other = Component::new("other", rust);
    other.config["count"] = 4.into();
    let traces = traces(&Subject::Guest(other)).await?;
    let differences = differences(reference().await, &traces);
    assert_eq!(
        differences,
        [
            "case config, line 1, after: (the beginning)\n   native: INFO config greeting=\"good \\\"morning\\\"\" count=3 list=a,b deep=true\n    other: INFO config greeting=\"good \\\"morning\\\"\" count=4 list=a,b deep=true"
        ]
    );
    Ok(())
}

/// What the cases are for: a trace without what it should show would make all languages alike.
#[tokio::test(flavor = "multi_thread")]
async fn the_native_one_sees_every_code_and_every_function() -> Result<()> {
    let traces = reference().await;
    let all: Vec<&String> = traces.values().flatten().collect();
    let seen = |text: &str| all.iter().any(|line| line.contains(text));
    for code in [
        "not-found",
        "already-exists",
        "conflict",
        "invalid",
        "unauthorized",
        "forbidden",
        "denied",
        "unknown-kind",
        "throttled",
        "expired",
        "timeout",
        "unavailable",
        "limit-exceeded",
        "cluster-gone",
        "cancelled",
        "other",
    ] {
        assert!(
            seen(&format!(" code={code} ")),
            "no case meets the code {code}"
        );
    }
    for text in [
        "GET alpha",
        "POST alpha",
        "PUT alpha",
        "PATCH alpha",
        "DELETE alpha",
        "POST beta",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "force=true",
        "dryRun=All",
        "continue=",
        "/status",
        "/scale",
        "\"preconditions\"",
        "\"propagationPolicy\":\"Background\"",
        "fieldManager=windlass:TENANT/conformance",
        "DEBUG ",
        "WARN ",
        "ERROR ",
        "event Warning",
        "requeue after 90s",
        "requeue after 0ns",
        "retry: not yet",
        "terminal: never",
        "mapped ",
        "POST /body HTTP/1.1",
        "authorization: bearer hunter2",
    ] {
        assert!(seen(text), "no case shows {text:?}:\n{all:#?}");
    }
    Ok(())
}
