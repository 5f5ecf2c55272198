//! A guest is replaced while it runs; what is worse than what it has does not replace it.

use crate::fixture::{Stage, config_map, revision};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;
use windlass_fleet::Action;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_revision_serves_from_the_next_call_on() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let actor = stage
        .guest("test-panic")
        .name("mended")
        .config(json!({"after": 60_000}))
        .run()
        .await?;
    stage.put("alpha", config_map("a", json!({})))?;
    assert_eq!(actor.failure("alpha", "a").await?.reason, "trap");
    let mended = revision("test-requeue").await?;
    actor.guest.swap(mended.clone()).await?;
    assert_eq!(actor.guest.revision().digest(), mended.digest());
    stage.put("alpha", config_map("b", json!({})))?;
    assert_eq!(
        actor.outcome("alpha", "b").await?.expect("it succeeds"),
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
    let actor = slow.run().await?;
    stage.put("alpha", config_map("a", json!({})))?;
    crate::fixture::wait("the call in flight", || {
        windlass_harness::eventually::Seen::of(actor.guest.status().tenant_memory, |used| *used > 0)
    })
    .await?;
    actor.guest.swap(revision("test-requeue").await?).await?;
    stage.put("alpha", config_map("b", json!({})))?;
    actor
        .outcome("alpha", "b")
        .await?
        .expect("the new revision succeeds");
    let failure = actor.failure("alpha", "a").await?;
    assert!(
        failure.reason == "timeout" && failure.message.contains("test_loop::spin"),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_good_revision_serves_on_when_a_new_one_is_refused() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let actor = stage
        .guest("hello")
        .name("steady")
        .config(json!({"way": "trap"}))
        .run()
        .await?;
    let good = actor.guest.revision().digest();
    let error = actor
        .guest
        .swap(revision("test-describe").await?)
        .await
        .expect_err("it traps")
        .to_string();
    let status = actor.guest.status();
    assert_eq!(status.refused.as_deref(), Some(error.as_str()));
    assert_eq!(status.digest, good.to_string());
    stage.put("alpha", config_map("a", json!({})))?;
    actor
        .outcome("alpha", "a")
        .await?
        .expect("the old revision greets");

    actor.guest.swap(revision("hello").await?).await?;
    assert_eq!(actor.guest.status().refused, None);
    Ok(())
}
