//! A guest's own code turns events into requests, within what it is granted.

use crate::fixture::{Stage, config_map, rule};
use crate::logs::lines;
use anyhow::Result;
use serde_json::{Value, json};
use windlass_apiserver::Verb;
use windlass_fleet::Rule;
use windlass_fleet::grant::ClusterRule;
use windlass_fleet::name::NamePattern;
use windlass_harness::eventually::{Seen, wait};

fn secret(name: &str, asks_for: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "default", "annotations": {"test.windlass.dev/asks-for": asks_for}},
        "data": {"seen": "eA==", "unseen": "eQ=="},
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
    let running = stage
        .guest("test-mapper")
        .rules(watching_secrets())
        .run()
        .await?;
    stage.apply("alpha", secret("s", "beta/b"))?;
    assert_eq!(
        running.failure("beta", "b").await?.message,
        "asked for cluster://beta/default/b"
    );

    stage.apply("alpha", secret("t", "gamma/c"))?;
    wait("the request outside the grant dropped", || {
        Seen::of(running.guest.status().requests_dropped, |dropped| {
            *dropped > 0
        })
    })
    .await?;
    assert_eq!(running.runs(), 1);
    // This guest has no primary kind, so the rule that is named opens the cluster and grants next to nothing.
    let missing = r#"{apiGroups: [""], resources: [namespaces], verbs: [get], namespaces: ["*"], clusters: {names: [gamma]}}"#;
    let rules = running.guest.status().missing_rules;
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    assert_eq!(rules, [missing]);
    let dropped = lines("test-mapper", "requests of a mapper are dropped");
    let is_whole =
        |line: &String| line.contains("cluster=gamma") && line.contains("names: [gamma]");
    assert!(dropped.iter().any(is_whole), "{dropped:?}");
    Ok(())
}

/// Starts a mapper with this rule for ConfigMaps too, and has a Secret ask for `asks_for` in beta. Checks that the mapper requests
/// `requested` there.
async fn assert_requests(
    stage: &Stage,
    name: &str,
    config_maps: &[&str],
    asks_for: &str,
    requested: &str,
) -> Result<()> {
    let mut rules = watching_secrets();
    rules.push(rule("", &["configmaps"], config_maps, "*"));
    let running = stage.guest("test-mapper").name(name).rules(rules);
    let running = running.run().await?;
    stage.apply("alpha", secret("s", &format!("beta/{asks_for}")))?;
    assert_eq!(
        running.failure("beta", requested).await?.message,
        format!("asked for cluster://beta/default/{requested}")
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_reads_by_the_indexes_of_its_guest() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta"]).await?;
    stage.apply("alpha", config_map("blue", json!({"color": "blue"})))?;
    stage.apply("alpha", config_map("rose", json!({"color": "red"})))?;
    let verbs = ["get", "list", "watch"];
    assert_requests(&stage, "indexed-mapper", &verbs, "red", "rose").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_is_given_the_fields_that_its_watch_names() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta"]).await?;
    assert_requests(&stage, "partial-mapper", &["get"], "fields", "seen").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_is_denied_reads_that_no_cache_answers() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta"]).await?;
    // Without list and watch there is no cache.
    assert_requests(&stage, "reading-mapper", &["get"], "got", "denied").await?;
    assert_eq!(stage.simulated("alpha").count(Verb::Get, "configmaps"), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_cannot_write() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta"]).await?;
    assert_requests(&stage, "writing-mapper", &["*"], "written", "denied").await?;
    assert_eq!(
        stage.simulated("alpha").count(Verb::Create, "configmaps"),
        0
    );
    Ok(())
}
