//! Other clusters: those that a rule opens, and no others.

use crate::fixture::{Stage, config_map, rule};
use anyhow::Result;
use serde_json::json;
use windlass_fleet::Rule;
use windlass_fleet::grant::ClusterRule;
use windlass_fleet::name::NamePattern;

fn rules() -> Vec<Rule> {
    let beta = ClusterRule {
        names: vec![NamePattern::new("b*")],
        ..ClusterRule::default()
    };
    let maps = |verbs: &[&str]| rule("", &["configmaps"], verbs, "*");
    vec![
        maps(&["get", "list", "watch"]),
        Rule {
            clusters: Some(beta),
            ..maps(&["get"])
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_reaches_the_clusters_that_rules_open_and_no_others() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta", "gamma"]).await?;
    for cluster in ["alpha", "beta", "gamma"] {
        stage.apply(cluster, config_map("a", json!({"of": cluster})))?;
    }
    let running = stage
        .guest("test-fleet")
        .config(json!({"open": ["beta", "gamma", "bye"]}))
        .rules(rules())
        .run()
        .await?;
    let answer = running.answer("alpha", "a").await?;

    let names: Vec<_> = answer["clusters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|info| info["name"].clone())
        .collect();
    assert_eq!(
        names,
        ["alpha", "beta"],
        "its own, and those that a rule opens: {answer}"
    );
    let beta = &answer["opened"]["beta"];
    assert_eq!(beta[0], "beta", "{answer}");
    let read = beta[1]
        .as_str()
        .is_some_and(|object| object.contains(r#""of":"beta""#));
    assert!(read, "{answer}");
    assert_eq!(beta[2]["code"], "denied");
    let gamma = &answer["opened"]["gamma"];
    assert_eq!(gamma["code"], "denied");
    assert!(
        gamma["message"]
            .as_str()
            .is_some_and(|message| message.contains("clusters: {names: [\"gamma\"]}")),
        "{gamma}"
    );
    assert_eq!(
        answer["opened"]["bye"]["code"], "cluster-gone",
        "a rule would open it, but it is not there"
    );
    assert_eq!(answer["batch"][0], "a");
    assert_eq!(answer["batch"][1]["code"], "denied");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_can_be_chosen_by_label() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta", "bravo"]).await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let running = stage
        .guest("test-fleet")
        .name("by-label")
        .config(json!({"selector": "name=bravo"}))
        .rules(rules())
        .run()
        .await?;
    let answer = running.answer("alpha", "a").await?;
    assert_eq!(answer["clusters"][0]["name"], "bravo");
    assert_eq!(answer["clusters"][0]["labels"], json!([["name", "bravo"]]));
    assert_eq!(answer["clusters"][1], json!(null));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_clusters_over_the_limit_is_refused_as_a_value() -> Result<()> {
    let names: Vec<String> = (0..20).map(|n| format!("b{n}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let stage = Stage::start(&all).await?;
    stage.apply("b0", config_map("a", json!({})))?;
    let running = stage
        .guest("test-fleet")
        .name("many-clusters")
        .rules(rules())
        .limits(|limits| limits.response_bytes = 500)
        .run()
        .await?;
    let answer = running.answer("b0", "a").await?;
    assert_eq!(answer["clusters"]["code"], "limit-exceeded", "{answer}");
    assert_eq!(running.guest.status().limit_hits["responseBytes"], 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_a_cluster_is_there_is_told_only_of_those_that_are_granted_by_name() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta"]).await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let elsewhere = ClusterRule {
        selector: Some(windlass_fleet::selector::LabelSelector::parse(
            "name!=beta",
        )?),
        ..ClusterRule::default()
    };
    let maps = |verbs: &[&str]| rule("", &["configmaps"], verbs, "*");
    let running = stage
        .guest("test-fleet")
        .name("curious")
        .config(json!({"open": ["beta", "nobody"]}))
        .rules(vec![
            maps(&["get", "list", "watch"]),
            Rule {
                clusters: Some(elsewhere),
                ..maps(&["get"])
            },
        ])
        .run()
        .await?;
    let answer = running.answer("alpha", "a").await?;
    let said = |name: &str| answer["opened"][name].to_string().replace(name, "NAME");
    assert_eq!(said("beta"), said("nobody"), "{answer}");
    assert_eq!(answer["opened"]["beta"]["code"], "denied");
    let names = answer["clusters"].as_array().map_or(0, Vec::len);
    assert_eq!(names, 1, "its own alone: {answer}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_reaches_no_cluster() -> Result<()> {
    let stage = Stage::start(&["beta"]).await?;
    let describing = stage
        .guest("test-fleet")
        .name("describing")
        .config(json!({"describe": true, "open": ["beta"]}))
        .rules(rules());
    let error = describing
        .load()
        .await?
        .err()
        .expect("it answers in an error")
        .to_string();
    assert_eq!(
        error.matches("describe reaches no cluster").count(),
        3,
        "clusters, open and batch: {error}"
    );
    Ok(())
}
