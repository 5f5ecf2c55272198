//! Writes through the virtual workspace of an export.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use windlass_harness::testenv::kcp::Client;

use super::shop::{
    ALL_WIDGETS, BINDINGS, DENIED, Shop, WIDGETS, names_in, refused, version_of, widget,
};

pub(super) async fn a_write_reaches_one_cluster(client: &Client) -> Result<()> {
    let (shop, one, two) = Shop::with_two(client, "writes").await?;
    let path = shop.of(&one, &format!("{WIDGETS}/a"));
    let made = shop.put(&one, "a").await?;
    refused(
        &client.post(&shop.of(&one, WIDGETS), &widget("a")).await?,
        409,
        "AlreadyExists",
    )?;

    let mut next = made.clone();
    next["spec"]["size"] = 2.into();
    client.ask(Method::PUT, &path, &next).await?.ok()?;
    let stale = client.ask(Method::PUT, &path, &made).await?;
    refused(&stale, 409, "the object has been modified")?;
    shop.patch(&path, &json!({"spec": {"colour": "blue"}}))
        .await?;
    let json = json!([{"op": "test", "path": "/spec/size", "value": 2}, {"op": "replace", "path": "/spec/size", "value": 3}]);
    client.patch(&path, "json-patch", &json).await?.ok()?;
    let seen = shop.read(&one.at(&format!("{WIDGETS}/a"))).await?;
    ensure!(
        seen["spec"] == json!({"colour": "blue", "size": 3}),
        "{seen}"
    );
    let other = client.get(&shop.of(&two, &format!("{WIDGETS}/a"))).await?;
    refused(&other, 404, "NotFound")?;

    shop.patch(
        &path,
        &json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
    .await?;
    client.delete(&path).await?.ok()?;
    let held = shop.read(&path).await?;
    ensure!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    shop.patch(&path, &json!({"metadata": {"finalizers": null}}))
        .await?;
    refused(&client.get(&path).await?, 404, "NotFound")?;
    let invalid = json!({"apiVersion": "things.example.com/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"size": "big"}});
    let invalid = client.post(&shop.of(&one, WIDGETS), &invalid).await?;
    refused(&invalid, 422, "spec.size")
}

pub(super) async fn a_status_is_written_apart(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "statuses").await?;
    let one = shop.consumer("one", true).await?;
    shop.put(&one, "a").await?;
    let path = shop.of(&one, &format!("{WIDGETS}/a"));
    let both = json!({"spec": {"size": 7}, "status": {"phase": "Up"}});
    shop.patch(&format!("{path}/status"), &both).await?;
    let seen = shop.read(&path).await?;
    ensure!(
        seen["status"]["phase"] == "Up" && seen["spec"]["size"] == 1,
        "{seen}"
    );
    shop.patch(&path, &json!({"status": {"phase": "Down"}}))
        .await?;
    let seen = shop.read(&path).await?;
    ensure!(seen["status"]["phase"] == "Up", "{seen}");
    Ok(())
}

pub(super) async fn a_collection_is_deleted_in_one_cluster(client: &Client) -> Result<()> {
    let (shop, one, two) = Shop::with_two(client, "collections").await?;
    for consumer in [&one, &two] {
        shop.put(consumer, "a").await?;
        shop.put(consumer, "b").await?;
    }
    client.delete(&shop.of(&one, WIDGETS)).await?.ok()?;
    let left = shop.read(&shop.all(ALL_WIDGETS)).await?;
    ensure!(names_in(&left, &one).is_empty(), "{left}");
    ensure!(names_in(&left, &two) == ["a", "b"], "{left}");
    Ok(())
}

pub(super) async fn an_event_is_one_object_in_both_groups(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "events").await?;
    let one = shop.consumer("one", true).await?;
    let two = shop.consumer("two", false).await?;
    let about = json!({"apiVersion": "things.example.com/v1", "kind": "Widget", "name": "a", "namespace": "default"});
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "noted"},
        "eventTime": "2026-01-02T03:04:05.000000Z", "reportingController": "example.com/test", "reportingInstance": "test",
        "action": "Look", "reason": "Looked", "type": "Normal", "note": "It was looked at", "regarding": about});
    let events = "apis/events.k8s.io/v1/namespaces/default/events";
    client.post(&shop.of(&one, events), &event).await?.ok()?;
    let core = shop.of(&one, "api/v1/namespaces/default/events/noted");
    let core = shop.read(&core).await?;
    ensure!(
        core["message"] == "It was looked at" && core["involvedObject"]["name"] == "a",
        "{core}"
    );
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}});
    shop.patch(&shop.of(&one, &format!("{events}/noted")), &series)
        .await?;
    let refusal = client.post(&shop.of(&two, events), &event).await?;
    refused(&refusal, 403, DENIED)
}

pub(super) async fn bindings_are_only_read(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "readers").await?;
    let one = shop.consumer("one", true).await?;
    let path = shop.of(&one, &format!("{BINDINGS}/things"));
    shop.read(&path).await?;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let patched = client.patch(&path, "merge-patch", &labels).await?;
    refused(&patched, 403, DENIED)?;
    refused(&client.delete(&path).await?, 403, DENIED)
}

/// A fault of kcp's virtual workspaces, which write what an apply comes to as an update: fields that are left out stay, and a manager
/// conflicts with itself.
pub(super) async fn an_apply_is_noted_as_an_update(client: &Client) -> Result<()> {
    let shop = Shop::open(client, "applies").await?;
    let one = shop.consumer("one", true).await?;
    let apply = |size: Option<u64>, colour: &str, force: bool| {
        let path = shop.of(
            &one,
            &format!("{WIDGETS}/a?fieldManager=tester&force={force}"),
        );
        let mut object = widget("a");
        object["spec"] = json!({"colour": colour});
        if let Some(size) = size {
            object["spec"]["size"] = size.into();
        }
        async move { client.patch(&path, "apply-patch", &object).await }
    };
    let made = apply(Some(1), "red", false).await?.ok()?;
    ensure!(operations(&made) == ["Update"], "{made}");
    let changed = apply(Some(1), "blue", false).await?;
    refused(&changed, 409, "conflict with \\\"tester\\\"")?;
    let forced = apply(None, "blue", true).await?.ok()?;
    ensure!(
        forced["spec"] == json!({"colour": "blue", "size": 1}),
        "{forced}"
    );

    // As an apply again by the manager's own word, the next one takes away what it leaves out.
    let mut managers = forced["metadata"]["managedFields"].clone();
    for manager in managers.as_array_mut().into_iter().flatten() {
        manager["operation"] = "Apply".into();
    }
    let version = version_of(&forced)?.to_string();
    let rewritten = json!({"metadata": {"managedFields": managers, "resourceVersion": version}});
    let path = shop.of(&one, &format!("{WIDGETS}/a?fieldManager=tester"));
    let rewritten = shop.patch(&path, &rewritten).await?;
    ensure!(operations(&rewritten) == ["Apply"], "{rewritten}");
    let taken = apply(None, "blue", true).await?.ok()?;
    ensure!(taken["spec"] == json!({"colour": "blue"}), "{taken}");
    Ok(())
}

fn operations(object: &Value) -> Vec<&str> {
    let managers = object["metadata"]["managedFields"].as_array();
    let mine = managers
        .into_iter()
        .flatten()
        .filter(|manager| manager["manager"] == "tester");
    mine.filter_map(|manager| manager["operation"].as_str())
        .collect()
}
