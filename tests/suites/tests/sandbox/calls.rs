//! Every function of the client, from a guest to an API server and back.

use crate::fixture::{Stage, config_map, rule};
use anyhow::Result;
use serde_json::{Value, json};
use windlass_harness::eventually::Seen;

/// Runs a script of `test-calls` and returns its answers.
async fn answers(stage: &Stage, name: &str, steps: Value) -> Result<Value> {
    answers_with(stage, name, json!({"steps": steps})).await
}

/// The same with a whole config.
async fn answers_with(stage: &Stage, name: &str, config: Value) -> Result<Value> {
    let rules = vec![
        rule(
            "",
            &["configmaps", "configmaps/*", "pods", "pods/status"],
            &["*"],
            "*",
        ),
        rule("apps", &["*"], &["*"], "*"),
    ];
    let running = stage
        .guest("test-calls")
        .name(name)
        .config(config)
        .rules(rules)
        .run()
        .await?;
    stage.apply("alpha", config_map("run", json!({})))?;
    running.answer("alpha", "run").await
}

fn maps() -> Value {
    json!(["v1", "ConfigMap"])
}

fn map(name: &str, color: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "labels": {"set": "colors"}}, "data": {"color": color}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_is_given_the_fields_that_its_watch_names() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let mut object = map("a", "red");
    object["data"]["size"] = "1".into();
    let (key, data) = (json!(["default", "a"]), json!(["/metadata/name", "/data"]));
    let get = json!({"do": "get", "kind": maps(), "key": key, "show": data});
    let list =
        json!({"do": "list", "kind": maps(), "options": {"labels": "set=colors"}, "show": data});
    let update = json!({"do": "update", "kind": maps(), "from": "whole", "merge": {"data": {"color": "blue"}}});
    let steps = json!([
        {"do": "create", "kind": maps(), "object": object, "save": "whole", "show": data},
        get,
        list,
        {"do": "get", "kind": maps(), "key": key, "options": {"mode": "live"}, "show": data},
        update,
        {"do": "batch", "steps": [get, list, update], "show": data},
        {"do": "patch", "kind": maps(), "key": key, "patch": ["merge", {"data": {"color": "blue"}}], "show": data},
    ]);
    let config = json!({"fields": "data.color", "steps": steps});
    let answer = answers_with(&stage, "partial", config).await?;
    let (whole, part) = (
        json!(["a", {"color": "red", "size": "1"}]),
        json!(["a", {"color": "red"}]),
    );
    assert_eq!(answer[0], whole, "the answer to a write");
    assert_eq!(answer[1], part);
    assert_eq!(answer[2], json!([[part]]));
    assert_eq!(answer[3], whole, "a live read");
    assert_eq!(answer[4]["code"], "invalid", "it would remove the size");
    assert_eq!(answer[5][0], part);
    assert_eq!(answer[5][1], json!([part]));
    assert_eq!(answer[5][2]["code"], "invalid");
    assert_eq!(answer[6], json!(["a", {"color": "blue", "size": "1"}]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_read_back_and_errors_have_their_codes() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let key = json!(["default", "a"]);
    let color = json!(["/data/color"]);
    let answer = answers(&stage, "writer", json!([
        {"do": "name"},
        {"do": "get", "kind": maps(), "key": key},
        {"do": "create", "kind": maps(), "object": map("a", "red"), "save": "first", "show": color},
        {"do": "create", "kind": maps(), "object": map("a", "red")},
        {"do": "get", "kind": maps(), "key": key, "show": color},
        {"do": "get", "kind": maps(), "key": key, "options": {"mode": "live"}, "show": color},
        {"do": "get", "kind": maps(), "key": key, "options": {"projection": "metadata"}, "show": ["/data", "/metadata/name"]},
        {"do": "update", "kind": maps(), "from": "first", "merge": {"data": {"color": "blue"}}, "show": color},
        {"do": "update", "kind": maps(), "from": "first", "merge": {"data": {"color": "grey"}}},
        {"do": "patch", "kind": maps(), "key": key, "patch": ["merge", {"data": {"size": "1", "color": null}}], "show": ["/data"]},
        {"do": "patch", "kind": maps(), "key": key, "patch": ["json", [{"op": "add", "path": "/data/shape", "value": "round"}]], "show": ["/data"]},
        {"do": "patch", "kind": maps(), "key": key, "patch": ["strategic", {"data": {"size": null}}], "options": {"dryRun": true}, "show": ["/data"]},
        {"do": "get", "kind": maps(), "key": key, "show": ["/data"]},
        {"do": "apply", "kind": maps(), "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"shape": "flat"}}},
        {"do": "apply", "kind": maps(), "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fresh", "namespace": "default"}, "data": {"shape": "flat"}}, "show": ["/data", "/metadata/managedFields/0/manager"]},
        {"do": "delete", "kind": maps(), "key": key, "options": {"uid": "another"}},
        {"do": "delete", "kind": maps(), "key": key},
        {"do": "get", "kind": maps(), "key": key},
        {"do": "delete", "kind": maps(), "key": key},
        {"do": "create", "kind": maps(), "object": "this is not JSON"},
        {"do": "create", "kind": ["apps/v1", "Submarine"], "object": {"apiVersion": "apps/v1", "kind": "Submarine", "metadata": {"name": "s", "namespace": "default"}}},
        {"do": "now"},
    ])).await?;
    let code = |at: usize| answer[at]["code"].as_str().unwrap_or("no error");
    assert_eq!(answer[0], "alpha");
    assert_eq!(answer[1], Value::Null);
    assert_eq!(answer[2], json!(["red"]));
    assert_eq!(
        (code(3), &answer[3]["status"]),
        ("already-exists", &json!(409))
    );
    assert_eq!(
        (&answer[4], &answer[5]),
        (&json!(["red"]), &json!(["red"])),
        "own writes are read back from the cache"
    );
    assert_eq!(answer[6], json!([null, "a"]));
    assert_eq!(answer[7], json!(["blue"]));
    assert_eq!((code(8), &answer[8]["status"]), ("conflict", &json!(409)));
    assert_eq!(answer[9], json!([{"size": "1"}]));
    assert_eq!(answer[10], json!([{"size": "1", "shape": "round"}]));
    assert_eq!(answer[11], json!([{"shape": "round"}]));
    assert_eq!(
        answer[12],
        json!([{"size": "1", "shape": "round"}]),
        "a dry run stores nothing"
    );
    // The same field manager wrote the field by patch (an Update), which server-side apply treats as another owner.
    assert_eq!(code(13), "conflict", "{}", answer[13]);
    assert_eq!(
        answer[14],
        json!([{"shape": "flat"}, "windlass:tenant-of-writer/writer"])
    );
    assert_eq!(code(15), "conflict");
    assert_eq!(answer[16], "done");
    assert_eq!(answer[17], Value::Null, "own deletes are seen in the cache");
    assert_eq!(
        (code(18), &answer[18]["status"]),
        ("not-found", &json!(404))
    );
    assert_eq!(code(19), "invalid");
    assert_eq!(code(20), "unknown-kind");
    assert!(
        answer[21]
            .as_str()
            .is_some_and(|now| now.len() == 24 && now.ends_with('Z')),
        "{}",
        answer[21]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_can_take_fields_over() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    stage.apply("alpha", map("theirs", "red"))?;
    let mine = map("theirs", "blue");
    let answer = answers(&stage, "taker", json!([
        {"do": "apply", "kind": maps(), "object": mine},
        {"do": "apply", "kind": maps(), "object": mine, "options": {"force": true}, "show": ["/data/color"]},
    ])).await?;
    assert_eq!(answer[0]["code"], "conflict");
    assert_eq!(answer[1], json!(["blue"]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_selected_indexed_and_paged() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    for (at, color) in ["red", "blue", "red", "green", "red"]
        .into_iter()
        .enumerate()
    {
        stage.apply("alpha", map(&format!("m{at}"), color))?;
    }
    let answer = answers(&stage, "lister", json!([
        {"do": "list", "kind": maps(), "options": {"labels": "set=colors", "namespace": "default"}},
        {"do": "list", "kind": maps(), "options": {"labels": "set=colors", "limit": 2}},
        {"do": "list", "kind": maps(), "options": {"labels": "set=colors", "limit": 2, "mode": "live"}},
        {"do": "list", "kind": maps(), "options": {"index": "color", "value": "red"}},
        {"do": "list", "kind": maps(), "options": {"fields": "metadata.name=m3"}},
        {"do": "list", "kind": maps(), "options": {"fields": "data.color=red"}},
        {"do": "list", "kind": maps(), "options": {"labels": "set=colors", "limit": 1, "projection": "metadata", "fields": "metadata.name=m1"}, "show": ["/data", "/metadata/name"]},
        {"do": "list", "kind": maps(), "options": {"index": "size", "value": "1"}},
        {"do": "list", "kind": maps(), "options": {"labels": "set in ("}},
    ])).await?;
    assert_eq!(answer[0], json!([["m0", "m1", "m2", "m3", "m4"]]));
    for pages in [&answer[1], &answer[2]] {
        assert_eq!(
            *pages,
            json!([["m0", "m1"], ["m2", "m3"], ["m4"]]),
            "{answer}"
        );
    }
    assert_eq!(answer[3], json!([["m0", "m2", "m4"]]));
    assert_eq!(answer[4], json!([["m3"]]));
    assert_eq!(
        answer[5]["code"], "invalid",
        "a cached list selects by declared fields only: {}",
        answer[5]
    );
    assert_eq!(answer[6], json!([[[null, "m1"]]]));
    assert_eq!(
        answer[7]["code"], "invalid",
        "an index that was not declared: {}",
        answer[7]
    );
    assert_eq!(answer[8]["code"], "invalid", "{}", answer[8]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_is_deleted_by_selection() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    for name in ["m0", "m1"] {
        stage.apply("alpha", map(name, "red"))?;
    }
    let answer = answers(&stage, "collector", json!([
        {"do": "delete-collection", "kind": maps(), "options": {"namespace": "default", "labels": "set=colors"}},
        {"do": "list", "kind": maps(), "options": {"labels": "set=colors", "mode": "live"}},
        {"do": "get", "kind": maps(), "key": ["default", "run"]},
    ])).await?;
    assert_eq!(answer, json!(["done", [[]], "run"]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subresource_is_written_apart_from_its_object() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (pods, key) = (json!(["v1", "Pod"]), json!(["default", "p"]));
    let answer = answers(&stage, "subresources", json!([
        {"do": "create", "kind": pods, "object": pod},
        {"do": "patch", "kind": pods, "key": key, "patch": ["merge", {"status": {"phase": "Running"}}], "options": {"subresource": "status"}, "show": ["/status/phase"]},
        {"do": "get", "kind": pods, "key": key, "options": {"subresource": "status"}, "show": ["/status/phase"]},
        {"do": "patch", "kind": pods, "key": key, "patch": ["merge", {"status": {"phase": "Failed"}}], "show": ["/status/phase"]},
    ])).await?;
    assert_eq!(answer, json!(["p", ["Running"], ["Running"], ["Running"]]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_answers_in_order_whatever_becomes_of_each() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let answer = answers(&stage, "batcher", json!([
        {"do": "create", "kind": maps(), "object": map("m0", "red"), "save": "m0"},
        {"do": "batch", "steps": [
            {"do": "get", "kind": maps(), "key": ["default", "run"]},
            {"do": "get", "kind": maps(), "key": ["default", "absent"]},
            {"do": "create", "kind": maps(), "object": map("m1", "red")},
            {"do": "create", "kind": maps(), "object": map("m0", "red")},
            {"do": "update", "kind": maps(), "from": "m0", "merge": {"data": {"color": "blue"}}},
            {"do": "apply", "kind": maps(), "object": map("m2", "red")},
            {"do": "patch", "kind": maps(), "key": ["default", "absent"], "patch": ["merge", {"data": {}}]},
            {"do": "delete", "kind": maps(), "key": ["default", "absent"]},
            {"do": "list", "kind": maps(), "options": {"labels": "test.windlass.dev/run"}},
        ]},
    ])).await?;
    let batch = &answer[1];
    assert_eq!(
        (&batch[0], &batch[1], &batch[2]),
        (&json!("run"), &Value::Null, &json!("m1"))
    );
    assert_eq!(batch[3]["code"], "already-exists");
    assert_eq!((&batch[4], &batch[5]), (&json!("m0"), &json!("m2")));
    assert_eq!(
        (&batch[6]["code"], &batch[7]["code"]),
        (&json!("not-found"), &json!("not-found"))
    );
    assert_eq!(batch[8], json!(["run"]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_recorded_without_a_rule_for_events() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let answer = answers(&stage, "teller", json!([
        {"do": "record-event", "kind": maps(), "key": ["default", "run"], "options": {"reason": "Told", "note": "something to tell", "warning": true}},
    ])).await?;
    assert_eq!(answer, json!(["recorded"]));
    let server = stage.simulated("alpha");
    let event = windlass_harness::eventually::wait("the event", || {
        let events = server
            .list("events.k8s.io/v1", "Event", "default")
            .expect("events are served");
        match events.into_iter().find(|event| event["reason"] == "Told") {
            Some(event) => Seen::Yes(event),
            None => Seen::NotYet("no such event".into()),
        }
    })
    .await?;
    assert_eq!(
        (&event["type"], &event["note"]),
        (&json!("Warning"), &json!("something to tell")),
        "{event}"
    );
    assert_eq!(event["regarding"]["name"], "run");
    Ok(())
}
