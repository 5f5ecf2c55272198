//! Handles that a guest forges, uses after their drop, or never drops.

use crate::fixture::{Stage, config_map, rule};
use crate::neighbour::beside_a_neighbour;
use anyhow::Result;
use serde_json::json;
use windlass_fleet::Rule;
use windlass_fleet::grant::ClusterRule;
use windlass_fleet::name::NamePattern;
use windlass_fleet::outcome::Blame;

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_that_was_never_given_or_was_given_back_reaches_nothing() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage.guest("test-forge").run().await?;
    for name in ["0", "7", "65535", "4294967295", "dropped"] {
        stage.apply("alpha", config_map(name, json!({})))?;
        let failure = running.failure("alpha", name).await?;
        assert_eq!(failure.blame, Blame::Guest);
        assert!(
            ["trap", "handle"].contains(&failure.reason) && failure.message.contains("handle"),
            "{name}: {failure}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_handle_disturbs_nobody() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let builder = stage.guest("test-forge").name("forges-beside");
    let failure = beside_a_neighbour(&stage, builder).await?;
    assert!(failure.message.contains("handle"), "{failure}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_that_leak_end_the_call_at_the_limit() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let itself = ClusterRule {
        names: vec![NamePattern::new("alpha")],
        ..ClusterRule::default()
    };
    let maps = rule("", &["configmaps"], &["*"], "*");
    let opening = Rule {
        clusters: Some(itself),
        ..maps.clone()
    };
    let builder = stage.guest("test-leak").rules(vec![maps, opening]);
    let failure = beside_a_neighbour(&stage, builder).await?;
    assert_eq!(
        (failure.reason, failure.blame),
        ("handle", Blame::Guest),
        "{failure}"
    );
    assert!(
        failure
            .message
            .contains("holds 256 already, which is the limit: drop what is no longer used"),
        "{failure}"
    );
    Ok(())
}
