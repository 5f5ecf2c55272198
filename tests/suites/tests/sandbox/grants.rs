//! What no rule grants is denied, names the rule that is missing, and never leaves the process.

use crate::fixture::{Stage, config_map, rule};
use crate::logs::lines;
use crate::neighbour::beside_a_neighbour;
use anyhow::Result;
use serde_json::{Value, json};
use windlass_apiserver::Verb;
use windlass_fleet::Rule;
use windlass_fleet::grant::ClusterRule;
use windlass_fleet::name::NamePattern;

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_call_names_the_missing_rule_and_does_no_io() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let (maps, secrets) = (json!(["v1", "ConfigMap"]), json!(["v1", "Secret"]));
    let object = config_map("b", json!({}));
    let script = json!({"steps": [
        {"do": "get", "kind": secrets, "key": ["default", "s"]},
        {"do": "get", "kind": secrets, "key": ["default", "s"], "options": {"mode": "live"}},
        {"do": "list", "kind": secrets},
        {"do": "create", "kind": maps, "object": object},
        {"do": "update", "kind": maps, "object": object},
        {"do": "patch", "kind": maps, "key": ["default", "a"], "patch": ["merge", {"data": {"k": "v"}}]},
        {"do": "apply", "kind": maps, "object": object},
        {"do": "delete", "kind": maps, "key": ["default", "a"]},
        {"do": "delete-collection", "kind": maps, "options": {"namespace": "default"}},
        {"do": "get", "kind": maps, "key": ["kube-system", "a"]},
        {"do": "batch", "steps": [{"do": "get", "kind": maps, "key": ["default", "a"]}, {"do": "delete", "kind": maps, "key": ["default", "a"]}]},
        {"do": "get", "kind": ["acme.dev/v1", "Rocket"], "key": ["default", "r"]},
    ]});
    let reading = vec![rule(
        "",
        &["configmaps"],
        &["get", "list", "watch"],
        "default",
    )];
    let running = stage
        .guest("test-calls")
        .name("denied")
        .config(script)
        .rules(reading)
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let answer = running.answer("alpha", "a").await?;

    let missing = |at: &Value, verb: &str, resource: &str| {
        let message = at["message"].as_str().unwrap_or_default();
        let rule = format!("apiGroups: [\"\"], resources: [{resource}], verbs: [{verb}]");
        assert!(
            at["code"] == "denied" && message.contains(&rule),
            "{rule} in {at}"
        );
    };
    for (at, verb, resource) in [
        (0, "get", "secrets"),
        (1, "get", "secrets"),
        (2, "list", "secrets"),
        (3, "create", "configmaps"),
        (4, "update", "configmaps"),
        (5, "patch", "configmaps"),
        (7, "delete", "configmaps"),
        (8, "deletecollection", "configmaps"),
        (9, "get", "configmaps"),
    ] {
        missing(&answer[at], verb, resource);
    }
    assert_eq!(
        answer[6]["code"], "denied",
        "an apply needs create and patch: {}",
        answer[6]
    );
    assert_eq!(
        answer[10][0], "a",
        "a batch is checked operation by operation"
    );
    missing(&answer[10][1], "delete", "configmaps");
    assert_eq!(
        answer[11]["code"], "denied",
        "a group that no rule names is denied, known or not: {}",
        answer[11]
    );

    let server = stage.simulated("alpha");
    for verb in [Verb::Get, Verb::List, Verb::Watch] {
        assert_eq!(server.count(verb, "secrets"), 0, "{verb:?} of secrets");
    }
    for verb in [
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
        Verb::DeleteCollection,
    ] {
        assert_eq!(
            server.count(verb, "configmaps"),
            0,
            "{verb:?} of configmaps"
        );
    }
    Ok(())
}

/// Its neighbours are served, no server gets its calls, and each missing rule is in the log once.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_is_denied_everything_disturbs_nobody_and_is_audited() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let (maps, secrets) = (json!(["v1", "ConfigMap"]), json!(["v1", "Secret"]));
    let live = json!({"mode": "live"});
    let steps = json!([
        {"do": "get", "kind": secrets, "key": ["default", "s"], "options": live},
        {"do": "list", "kind": secrets, "options": live},
        {"do": "get", "kind": maps, "key": ["kube-system", "a"], "options": live},
        {"do": "list", "kind": maps, "options": {"mode": "live", "namespace": "kube-system"}},
        {"do": "create", "kind": maps, "object": config_map("forbidden", json!({}))},
        {"do": "delete", "kind": maps, "key": ["default", "forbidden"]},
        {"do": "get", "kind": ["acme.dev/v1", "Rocket"], "key": ["default", "r"], "options": live},
    ]);
    let builder = stage
        .guest("test-calls")
        .name("denied-beside")
        .config(json!({"steps": steps}))
        .rules(vec![rule(
            "",
            &["configmaps"],
            &["get", "list", "watch"],
            "default",
        )]);
    let failure = beside_a_neighbour(&stage, builder).await?;
    let answers: Vec<Value> = serde_json::from_str(&failure.message)?;
    assert_eq!(answers.len(), 7);
    for answer in &answers {
        assert_eq!(answer["code"], "denied", "{answer}");
    }
    let asked = stage.simulated("alpha").requests();
    let reached = asked.iter().find(|call| {
        call.resource == "secrets"
            || call.namespace == "kube-system"
            || call.name == "forbidden"
            || call.path.contains("acme.dev/v1/")
    });
    assert!(reached.is_none(), "{reached:?}");
    // It ran a dozen times.
    let told = lines("denied-beside", "this rule would");
    assert_eq!(told.len(), answers.len(), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_reaches_for_a_cluster_that_is_not_granted_disturbs_nobody() -> Result<()> {
    let stage = Stage::start(&["alpha", "beta", "gamma"]).await?;
    let opening = Rule {
        clusters: Some(ClusterRule {
            names: vec![NamePattern::new("b*")],
            ..ClusterRule::default()
        }),
        ..rule("", &["configmaps"], &["get"], "*")
    };
    let builder = stage
        .guest("test-fleet")
        .name("reaches-beside")
        .config(json!({"open": ["gamma"]}))
        .rules(vec![
            rule("", &["configmaps"], &["get", "list", "watch"], "*"),
            opening,
        ]);
    let failure = beside_a_neighbour(&stage, builder).await?;
    let answer: Value = serde_json::from_str(&failure.message)?;
    assert_eq!(answer["opened"]["gamma"]["code"], "denied", "{answer}");
    assert_eq!(answer["batch"][0]["code"], "denied", "{answer}");
    let server = stage.simulated("gamma");
    for verb in [Verb::Get, Verb::Delete] {
        assert_eq!(server.count(verb, "configmaps"), 0, "{verb:?}");
    }
    let told = lines("reaches-beside", "no rule opens a cluster");
    assert!(told[0].contains("gamma"), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_outside_the_grant_fails_the_load_and_prints_the_rule() -> Result<()> {
    let stage = Stage::start(&[]).await?;
    let error = stage
        .guest("test-describe")
        .config(json!({"way": "watch-secrets"}))
        .load()
        .await?
        .err()
        .expect("it is refused")
        .to_string();
    assert_eq!(
        error,
        "watch 1 (v1/Secret) needs a rule that is not there: no rule grants list and watch on secrets in all namespaces\n  \
         add to rules:\n    - {apiGroups: [\"\"], resources: [secrets], verbs: [list, watch], namespaces: [\"*\"]}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_namespaces_that_are_not_granted_never_reach_a_guest() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage
        .guest("hello")
        .name("hello-in-default")
        .rules(vec![rule("", &["configmaps"], &["*"], "default")])
        .run()
        .await?;
    let mut elsewhere = config_map("elsewhere", json!({}));
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    stage.apply("alpha", elsewhere)?;
    stage.apply("alpha", config_map("a", json!({})))?;
    running.outcome("alpha", "a").await?.expect("it greets");
    let other = stage
        .simulated("alpha")
        .get("v1", "ConfigMap", "kube-system", "elsewhere-greeting")
        .expect("ConfigMaps are served");
    assert!(other.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_would_mean_more_than_a_name_on_its_way_is_refused() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let pods = json!(["v1", "Pod"]);
    // A server decodes a path before it splits it: each of these is an encoded segment on the way out, and a path there.
    let names = [
        "p/status",
        "p/eviction",
        "../../kube-system/pods/p",
        "..",
        "p%2Fstatus",
        "p\n",
    ];
    for (number, name) in names.iter().enumerate() {
        let key = json!(["default", name]);
        let steps = json!([
            {"do": "get", "kind": pods, "key": key, "options": {"mode": "live"}},
            {"do": "patch", "kind": pods, "key": key, "patch": ["merge", {"status": {"phase": "Failed"}}]},
            {"do": "delete", "kind": pods, "key": key},
            {"do": "get", "kind": pods, "key": [name, "p"], "options": {"mode": "live"}},
            {"do": "list", "kind": pods, "options": {"mode": "live", "namespace": name}},
            {"do": "update", "kind": pods, "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name}}},
            {"do": "create", "kind": pods, "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": name, "name": "p"}}},
            {"do": "get", "kind": pods, "key": ["default", "p"], "options": {"mode": "live", "subresource": name}},
        ]);
        let object = format!("a{number}");
        let running = stage
            .guest("test-calls")
            .name(&format!("names-more-{number}"))
            .config(json!({"steps": steps}))
            .rules(vec![
                rule("", &["configmaps"], &["*"], "*"),
                rule("", &["pods", "pods/*"], &["*"], "*"),
            ])
            .run()
            .await?;
        stage.apply("alpha", config_map(&object, json!({})))?;
        let answers = running.answer("alpha", &object).await?;
        let answers = answers.as_array().cloned().unwrap_or_default();
        assert_eq!(answers.len(), 8);
        for (step, answer) in steps.as_array().into_iter().flatten().zip(answers) {
            assert_eq!(answer["code"], "invalid", "{step}: {answer}");
            assert_eq!(answer["status"], 0, "by the host: {step}: {answer}");
        }
    }
    let asked = stage.simulated("alpha").requests();
    assert!(
        asked.iter().all(|call| call.resource != "pods"),
        "nothing was asked of the server"
    );
    Ok(())
}
