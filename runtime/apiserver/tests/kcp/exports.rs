//! An export, its consumers and its virtual workspace.

use serde_json::json;
use windlass_apiserver::{Server, Verb};

use super::Failure;
use super::asking::{
    ALL_THINGS, Asker, BINDINGS, SLICES, THINGS, consume, create, endpoint, provide, thing,
};

const NONE: serde_json::Value = serde_json::Value::Null;

async fn served() -> Result<Server, Failure> {
    Ok(Server::builder().kcp_shards(1).bind("127.0.0.1:0").await?)
}

#[tokio::test]
async fn a_wildcard_list_and_watch_see_the_objects_of_all_consumers() -> Result<(), Failure> {
    let server = served().await?;
    let provider = provide(&server, NONE).await?;
    let (_, slices) = provider.get(SLICES).await?;
    assert!(
        slices["items"][0]["status"]["endpoints"].is_null(),
        "{slices}"
    );
    let one = consume(&server, "root:one", NONE).await?;
    let two = consume(&server, "root:two", NONE).await?;
    create(&one, THINGS, &thing("a")).await?;
    let all = Asker::at(format!("{}/clusters/*", endpoint(&provider).await?));
    let (status, list) = all.get(ALL_THINGS).await?;
    assert_eq!(
        (status, list["items"].as_array().map(Vec::len)),
        (200, Some(1)),
        "{list}"
    );
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let path = format!("{ALL_THINGS}?watch=1&resourceVersion={version}");
    let mut watch = all.watch(&path).await?;
    create(&two, THINGS, &thing("a")).await?;
    let (kind, object) = watch.event().await?;
    let lives = server.workspace("root:two").ok_or("no workspace")?;
    let cluster = &object["metadata"]["annotations"]["kcp.io/cluster"];
    assert_eq!(
        (kind.as_str(), cluster.as_str()),
        ("ADDED", Some(lives.name()))
    );
    let shard = server.shard(0).ok_or("no shard")?;
    assert_eq!(shard.count(Verb::List, "things"), 1);
    Ok(())
}

#[tokio::test]
async fn through_the_virtual_workspace_one_consumer_is_read_and_written() -> Result<(), Failure> {
    let server = served().await?;
    let provider = provide(&server, NONE).await?;
    let one = consume(&server, "root:one", NONE).await?;
    let url = endpoint(&provider).await?;
    let name = server.workspace("root:one").ok_or("no workspace")?;
    let through = Asker::at(format!("{url}/clusters/{}", name.name()));
    create(&through, THINGS, &thing("a")).await?;
    let status = json!({"status": {"seen": true}});
    let path = format!("{THINGS}/a/status");
    let (code, _) = through.ask("PATCH", &path, Some(&status)).await?;
    assert_eq!(code, 200);
    let (_, seen) = one.get(&format!("{THINGS}/a")).await?;
    assert_eq!(seen["status"]["seen"], true, "{seen}");
    let (code, _) = through.ask("DELETE", &format!("{THINGS}/a"), None).await?;
    assert_eq!(code, 200);
    assert_eq!(one.get(&format!("{THINGS}/a")).await?.0, 404);
    Ok(())
}

#[tokio::test]
async fn all_workspaces_together_are_only_listed_and_watched() -> Result<(), Failure> {
    let server = served().await?;
    let provider = provide(&server, NONE).await?;
    consume(&server, "root:one", NONE).await?;
    let all = Asker::at(format!("{}/clusters/*", endpoint(&provider).await?));
    assert_eq!(all.get(&format!("{THINGS}/a")).await?.0, 404);
    let (status, refused) = all.get(THINGS).await?;
    let text = refused["message"].as_str().unwrap_or_default();
    assert!(
        status == 400 && text.contains("cross-namespace"),
        "{status} {refused}"
    );
    Ok(())
}

#[tokio::test]
async fn a_streaming_list_of_all_consumers_ends_with_a_bookmark() -> Result<(), Failure> {
    let server = served().await?;
    let provider = provide(&server, NONE).await?;
    let one = consume(&server, "root:one", NONE).await?;
    let all = Asker::at(format!("{}/clusters/*", endpoint(&provider).await?));
    let how =
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    create(&one, THINGS, &thing("a")).await?;
    let mut watch = all.watch(&format!("{ALL_THINGS}?{how}")).await?;
    assert_eq!(watch.event().await?.0, "ADDED");
    let (kind, object) = watch.event().await?;
    assert_eq!(kind, "BOOKMARK");
    let marks = &object["metadata"]["annotations"];
    assert_eq!(marks["k8s.io/initial-events-end"], "true", "{object}");
    Ok(())
}

#[tokio::test]
async fn discovery_of_the_virtual_workspace_names_its_kinds_alone() -> Result<(), Failure> {
    let server = served().await?;
    let claims = json!([{"group": "", "resource": "secrets", "verbs": ["get"]}]);
    let provider = provide(&server, claims).await?;
    consume(&server, "root:one", NONE).await?;
    let all = Asker::at(format!("{}/clusters/*", endpoint(&provider).await?));
    let (_, groups) = all.get("/apis").await?;
    let groups = groups["groups"].as_array().ok_or("no groups")?;
    let names: Vec<_> = groups
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    assert_eq!(names, ["apis.kcp.io", "example.com"]);
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    assert_eq!(all.accepting(aggregated, "/apis").await?.0, 406);
    let either = format!("{aggregated},application/json");
    assert_eq!(
        all.accepting(&either, "/apis").await?.1["kind"],
        "APIGroupList"
    );
    let (_, core) = all.get("/api/v1").await?;
    let core = core["resources"].as_array().ok_or("no resources")?;
    assert_eq!((core.len(), core[0]["name"].as_str()), (1, Some("secrets")));
    Ok(())
}

#[tokio::test]
async fn with_the_last_binding_the_kind_and_the_endpoint_go() -> Result<(), Failure> {
    let server = served().await?;
    let provider = provide(&server, NONE).await?;
    let one = consume(&server, "root:one", NONE).await?;
    let all = Asker::at(format!("{}/clusters/*", endpoint(&provider).await?));
    let mut held = thing("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    create(&one, THINGS, &held).await?;
    let (_, list) = all.get(ALL_THINGS).await?;
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let mut watch = all
        .watch(&format!("{ALL_THINGS}?watch=1&resourceVersion={version}"))
        .await?;
    one.ask("DELETE", &format!("{BINDINGS}/things"), None)
        .await?;
    let (kind, object) = watch.event().await?;
    assert_eq!(kind, "MODIFIED");
    assert!(
        object["metadata"]["deletionTimestamp"].is_string(),
        "{object}"
    );
    let (status, _) = one.get(&format!("{BINDINGS}/things")).await?;
    assert_eq!(status, 200, "the binding waits for its objects");
    let freed = json!({"metadata": {"finalizers": null}});
    one.ask("PATCH", &format!("{THINGS}/held"), Some(&freed))
        .await?;
    assert_eq!(watch.event().await?.0, "DELETED");
    let empty = |slice: &serde_json::Value| slice["status"]["endpoints"].is_null();
    provider.until(SLICES, empty).await?;
    assert_eq!(one.get(THINGS).await?.0, 404);
    Ok(())
}

#[tokio::test]
async fn a_workspace_without_a_binding_is_denied() -> Result<(), Failure> {
    let server = served().await?;
    let provider = provide(&server, NONE).await?;
    consume(&server, "root:one", NONE).await?;
    let other = server.add_workspace("root:other")?;
    let url = endpoint(&provider).await?;
    let through = Asker::at(format!("{url}/clusters/{}", other.name()));
    let (status, denied) = through.get(THINGS).await?;
    let text = denied["message"].as_str().unwrap_or_default();
    let why = "access denied";
    assert!(status == 403 && text.ends_with(why), "{status} {denied}");
    assert_eq!(
        other.count(Verb::List, "things"),
        1,
        "who is denied is counted"
    );
    Ok(())
}
