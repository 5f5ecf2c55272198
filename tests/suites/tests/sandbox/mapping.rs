//! A guest's own code turns events into requests, within what it is granted.

use crate::fixture::{Stage, config_map, rule, wait};
use anyhow::Result;
use serde_json::{Value, json};
use windlass_fleet::Rule;
use windlass_fleet::grant::ClusterRule;
use windlass_fleet::name::NamePattern;
use windlass_harness::eventually::Seen;

fn secret(name: &str, asks_for: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "default", "annotations": {"test.windlass.dev/asks-for": asks_for}},
    })
}

fn watching_secrets() -> Vec<Rule> {
    let beta = ClusterRule {
        names: vec![NamePattern::new("beta")],
        ..ClusterRule::default()
    };
    vec![
        rule("", &["secrets"], &["get", "list", "watch"], "*"),
        Rule {
            clusters: Some(beta),
            ..rule("", &["configmaps"], &["get"], "*")
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_asks_for_requests_of_other_granted_clusters() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta", "gamma"]).await?;
    let actor = stage
        .guest("test-mapper")
        .rules(watching_secrets())
        .run()
        .await?;
    stage.put("alpha", secret("s", "beta/b"))?;
    assert_eq!(
        actor.failure("beta", "b").await?.message,
        "asked for cluster://beta/default/b"
    );

    stage.put("alpha", secret("t", "gamma/c"))?;
    wait("the request outside the grant dropped", || {
        Seen::of(actor.guest.status().requests_dropped, |dropped| {
            *dropped > 0
        })
    })
    .await?;
    assert_eq!(actor.runs(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_reads_by_the_indexes_of_its_guest() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta"]).await?;
    let mut rules = watching_secrets();
    rules.push(rule("", &["configmaps"], &["get", "list", "watch"], "*"));
    stage.put("alpha", config_map("blue", json!({"color": "blue"})))?;
    stage.put("alpha", config_map("rose", json!({"color": "red"})))?;
    let actor = stage
        .guest("test-mapper")
        .name("indexed-mapper")
        .rules(rules)
        .run()
        .await?;
    stage.put("alpha", secret("s", "beta/red"))?;
    assert_eq!(
        actor.failure("beta", "rose").await?.message,
        "asked for cluster://beta/default/rose"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_cache_can_answer_is_denied_to_a_mapper() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta"]).await?;
    let mut rules = watching_secrets();
    // Without list and watch nothing may cache them.
    rules.push(rule("", &["configmaps"], &["get"], "*"));
    let actor = stage
        .guest("test-mapper")
        .name("reading-mapper")
        .rules(rules)
        .run()
        .await?;
    stage.put("alpha", secret("s", "beta/got"))?;
    actor.failure("beta", "denied").await?;
    let asked = stage
        .server("alpha")
        .count(windlass_apiserver::Verb::Get, "configmaps");
    assert_eq!(asked, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_cannot_write() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta"]).await?;
    let mut rules = watching_secrets();
    rules.push(rule("", &["configmaps"], &["*"], "*"));
    let actor = stage
        .guest("test-mapper")
        .name("writing-mapper")
        .rules(rules)
        .run()
        .await?;
    stage.put("alpha", secret("s", "beta/written"))?;
    assert_eq!(
        actor.failure("beta", "denied").await?.message,
        "asked for cluster://beta/default/denied"
    );
    assert_eq!(
        stage
            .server("alpha")
            .count(windlass_apiserver::Verb::Create, "configmaps"),
        0
    );
    Ok(())
}
