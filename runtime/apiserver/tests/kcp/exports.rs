//! An export, its consumers and its virtual workspace.

use serde_json::json;
use windlass_apiserver::{Server, Verb};

use super::Failure;
use super::asking::{ALL_THINGS, Asker, SLICES, THINGS, consume, create, endpoint, provide, thing};

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
