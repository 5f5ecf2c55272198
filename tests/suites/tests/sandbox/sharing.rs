//! One component for several reconcilers: they share its code, and nothing else.

use crate::fixture::{Stage, config_map, rule};
use anyhow::Result;
use serde_json::{Value, json};
use windlass_apiserver::Verb;

#[tokio::test(flavor = "multi_thread")]
async fn reconcilers_of_one_digest_share_no_state() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let keeping = stage.guest("test-handle").name("first").run().await?;
    let using = stage.guest("test-handle").name("second").run().await?;
    assert_eq!(
        keeping.guest.revision().digest(),
        using.guest.revision().digest()
    );
    stage.apply("alpha", config_map("keep", json!({})))?;
    for running in [&keeping, &using] {
        running
            .outcome("alpha", "keep")
            .await?
            .expect("keeping is no crime");
    }
    stage.apply("alpha", config_map("use", json!({})))?;
    for running in [&keeping, &using] {
        let failure = running.failure("alpha", "use").await?;
        assert_eq!(failure.message, "nothing was kept");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_one_does_not_become_of_the_other() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let english = stage.guest("hello").name("english").run().await?;
    let short = stage
        .guest("hello")
        .name("short-of-memory")
        .limits(|limits| limits.memory = 64 << 10)
        .load()
        .await?;
    assert!(
        short.is_err(),
        "it has not memory enough to say what it wants"
    );
    let swapped = stage.guest("hello").name("swapped").run().await?;
    swapped
        .guest
        .swap(crate::fixture::revision("test-panic").await?)
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    assert_eq!(swapped.failure("alpha", "a").await?.reason, "trap");
    english
        .outcome("alpha", "a")
        .await?
        .expect("the same component greets for the other");
    assert_eq!(english.guest.status().failures.len(), 0);
    assert_eq!(english.guest.status().calls, english.runs() as u64);
    Ok(())
}

fn map_in(namespace: &str, name: &str) -> Value {
    let mut map = config_map(name, json!({}));
    map["metadata"]["namespace"] = json!(namespace);
    map
}

/// Two tenants give the same guest to the same objects; each may touch a namespace of its own.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_guest_of_two_tenants_sees_and_writes_each_ones_own_part() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let maps = json!(["v1", "ConfigMap"]);
    let script = json!({"steps": [
        {"do": "list", "kind": maps, "options": {"labels": "test.windlass.dev/run"}},
        {"do": "list", "kind": maps, "options": {"labels": "test.windlass.dev/run", "mode": "live"}},
        {"do": "get", "kind": maps, "key": ["default", "ours"]},
        {"do": "get", "kind": maps, "key": ["kube-system", "theirs"]},
        {"do": "patch", "kind": maps, "key": ["default", "ours"], "patch": ["merge", {"data": {"default": "was here"}}]},
        {"do": "patch", "kind": maps, "key": ["kube-system", "theirs"], "patch": ["merge", {"data": {"kube-system": "was here"}}]},
        {"do": "list", "kind": maps, "options": {"namespace": "kube-system"}},
        {"do": "list", "kind": maps, "options": {"namespace": "default", "labels": "test.windlass.dev/run"}},
    ]});
    let mut answers = Vec::new();
    for (namespace, name) in [("default", "ours"), ("kube-system", "theirs")] {
        let running = stage
            .guest("test-calls")
            .name(&format!("part-{namespace}"))
            .config(script.clone())
            .rules(vec![rule("", &["configmaps"], &["*"], namespace)])
            .run()
            .await?;
        answers.push((namespace, name, running));
    }
    stage.apply("alpha", map_in("default", "ours"))?;
    stage.apply("alpha", map_in("kube-system", "theirs"))?;
    for (namespace, name, running) in &answers {
        let request = windlass_fleet::Request::new(
            windlass_fleet::ClusterName::new("alpha")?,
            windlass_fleet::ObjectKey::namespaced(namespace, name),
        );
        let answer: Value = serde_json::from_str(&running.failure_of(&request).await?.message)?;
        let (own, other) = if *namespace == "default" {
            (2, 3)
        } else {
            (3, 2)
        };
        assert_eq!(answer[0], json!([[name]]), "it lists its part: {answer}");
        assert_eq!(answer[1], json!([[name]]), "live too: {answer}");
        assert_eq!(answer[own], json!(name));
        assert_eq!(answer[other]["code"], "denied", "{answer}");
        assert_eq!(answer[own + 2], json!(name));
        assert_eq!(answer[other + 2]["code"], "denied", "{answer}");
        let (foreign, mine) = if *namespace == "default" {
            (6, 7)
        } else {
            (7, 6)
        };
        assert_eq!(answer[foreign]["code"], "denied", "{answer}");
        assert!(answer[mine].is_array(), "{answer}");
        assert!(
            running.names().iter().all(|seen| seen == name),
            "events of the other part came"
        );
    }
    for (namespace, name) in [("default", "ours"), ("kube-system", "theirs")] {
        let map = stage
            .simulated("alpha")
            .get("v1", "ConfigMap", namespace, name);
        let data = map.expect("ConfigMaps are served").unwrap_or_default()["data"].clone();
        assert_eq!(data, json!({namespace: "was here"}));
    }
    assert_eq!(
        stage.simulated("alpha").count(Verb::Delete, "configmaps"),
        0
    );
    Ok(())
}
