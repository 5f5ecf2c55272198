//! More than the host takes in one call: it is refused before it is copied, and nobody else notices.

use crate::fixture::{Stage, config_map};
use crate::neighbour::beside_a_neighbour;
use anyhow::{Context, Result};
use serde_json::json;
use std::time::Duration;
use windlass_fleet::Failure;
use windlass_fleet::outcome::Blame;

const MIB: usize = 1 << 20;

/// How `test-huge` fails, which has memory enough for what it makes.
async fn failure(what: &str, size: usize) -> Result<Failure> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = stage
        .guest("test-huge")
        .name(&format!("huge-{what}"))
        .config(json!({"what": what, "size": size}))
        .limits(|limits| (limits.memory, limits.timeout) = (256 * MIB, Duration::from_secs(20)))
        .tenant_memory(2048 * MIB);
    beside_a_neighbour(&stage, builder).await
}

async fn is_refused_as_too_much(what: &str, size: usize) -> Result<()> {
    let failure = failure(what, size).await?;
    assert_eq!(
        (failure.reason, failure.blame),
        ("host-call", Blame::Guest),
        "{failure}"
    );
    assert!(
        failure
            .message
            .starts_with("the guest handed the host more than 2 MiB in one call"),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_log_line_is_refused() -> Result<()> {
    is_refused_as_too_much("log-line", 100_000_000).await?;
    is_refused_as_too_much("log-field", 5 * MIB).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_object_or_patch_is_refused() -> Result<()> {
    is_refused_as_too_much("object", 100_000_000).await?;
    is_refused_as_too_much("patch", 5 * MIB).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_name_kind_or_selector_is_refused() -> Result<()> {
    is_refused_as_too_much("name", 100_000_000).await?;
    is_refused_as_too_much("kind", 5 * MIB).await?;
    is_refused_as_too_much("selector", 5 * MIB).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_event_or_failure_is_refused() -> Result<()> {
    is_refused_as_too_much("event", 100_000_000).await?;
    is_refused_as_too_much("failure", 100_000_000).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_a_hundred_thousand_operations_is_refused() -> Result<()> {
    is_refused_as_too_much("batch", 100_000).await
}

#[tokio::test(flavor = "multi_thread")]
async fn names_kinds_and_selectors_that_only_just_pass_are_answered() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    for (what, size, said) in [
        ("name", 3 * MIB / 2, "invalid"),
        ("kind", 3 * MIB / 2, "invalid"),
        ("selector", 3 * MIB / 2, "invalid"),
        ("object", 3 * MIB / 2, "invalid"),
        ("batch", 1001, "limit-exceeded"),
    ] {
        let running = stage
            .guest("test-huge")
            .name(&format!("just-passes-{what}"))
            .config(json!({"what": what, "size": size}))
            .run()
            .await?;
        let failure = running.failure("alpha", "a").await?;
        let short = failure.message.len() < 2000;
        assert!(
            failure.message.starts_with(said) && short,
            "{what}: {failure}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_is_huge_fails_the_load() -> Result<()> {
    let stage = Stage::start(&[]).await?;
    for (what, size, said) in [
        ("title", 20 * MIB, "more than 2 MiB"),
        ("watches", 20_000, ""), // too long or too much, whichever comes first
        ("refusal", 20 * MIB, "more than 2 MiB"),
        (
            "watches",
            65,
            "the guest asks for 65 watches: 64 are allowed",
        ),
    ] {
        let builder = stage
            .guest("test-huge")
            .config(json!({"what": what, "size": size}));
        let builder = builder.limits(|limits| limits.memory = 256 * MIB);
        let refused = builder.load().await?.err().context("it is refused")?;
        assert!(refused.to_string().contains(said), "{what}: {refused}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_and_a_refusal_are_kept_short() -> Result<()> {
    let stage = Stage::start(&[]).await?;
    let builder = |what| {
        let config = json!({"what": what, "size": MIB});
        stage.guest("test-huge").config(config)
    };
    let guest = builder("title").load().await??;
    assert!(guest.status().title.len() < 1000);
    let refused = builder("refusal").load().await?.err();
    let refused = refused.context("it is refused")?.to_string();
    assert!(refused.len() < 2000, "{} bytes", refused.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_a_guest_has_no_memory_for_ends_the_call_with_that_reason() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let mut large = config_map("large", json!({"text": "x".repeat(1_000_000)}));
    large["metadata"]["labels"] = json!({});
    stage.apply("alpha", large)?;
    let step = json!({"do": "get", "kind": ["v1", "ConfigMap"], "key": ["default", "large"]});
    let builder = stage
        .guest("test-calls")
        .name("little-memory")
        .config(json!({"steps": [step]}))
        .limits(|limits| limits.memory = 2 * MIB);
    let failure = beside_a_neighbour(&stage, builder).await?;
    assert_eq!((failure.reason, failure.blame), ("memory", Blame::Guest));
    assert!(failure.message.contains("raise limits.memory"), "{failure}");
    Ok(())
}
