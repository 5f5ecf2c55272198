//! Two shards: endpoints, versions and what tests can do to one of them.

use serde_json::Value;
use windlass_apiserver::{Server, Verb};

use super::Failure;
use super::asking::{ALL_THINGS, Asker, SLICES, THINGS, consume, create, provide, thing};

const NONE: Value = Value::Null;

/// A server of two shards, with a consumer on each, and the export's endpoints.
async fn two() -> Result<(Server, [Asker; 2], Vec<String>), Failure> {
    let server = Server::builder().kcp_shards(2).bind("127.0.0.1:0").await?;
    let provider = provide(&server, NONE).await?;
    server.add_workspace_on("root:near", 0)?;
    server.add_workspace_on("root:far", 1)?;
    let near = consume(&server, "root:near", NONE).await?;
    let far = consume(&server, "root:far", NONE).await?;
    let both = |slice: &Value| slice["status"]["endpoints"][1]["url"].is_string();
    let slice = provider.until(SLICES, both).await?;
    let urls = slice["status"]["endpoints"]
        .as_array()
        .ok_or("no endpoints")?;
    let urls = urls
        .iter()
        .filter_map(|endpoint| endpoint["url"].as_str())
        .map(str::to_owned)
        .collect();
    Ok((server, [near, far], urls))
}

#[tokio::test]
async fn each_shard_shows_its_own_consumers_under_versions_of_its_own() -> Result<(), Failure> {
    let (server, [near, far], urls) = two().await?;
    for (shard, url) in urls.iter().enumerate() {
        assert!(
            url.starts_with(server.shard_url(shard).ok_or("no shard")?),
            "{url}"
        );
    }
    create(&near, THINGS, &thing("near")).await?;
    let before = server.shard(0).ok_or("no shard")?.version();
    create(&far, THINGS, &thing("far")).await?;
    assert_eq!(server.shard(0).ok_or("no shard")?.version(), before);
    for (url, name) in urls.iter().zip(["near", "far"]) {
        let (_, list) = Asker::at(format!("{url}/clusters/*"))
            .get(ALL_THINGS)
            .await?;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(list["items"][0]["metadata"]["name"], name);
    }
    Ok(())
}

#[tokio::test]
async fn a_shard_that_is_down_or_refuses_leaves_the_other_alone() -> Result<(), Failure> {
    let (server, _, urls) = two().await?;
    let asked: Vec<Asker> = urls
        .iter()
        .map(|url| Asker::at(format!("{url}/clusters/*")))
        .collect();
    for status in [403, 404] {
        server.refuse_at_shard(1, Some(status));
        assert_eq!(asked[1].get("/apis").await?.0, status);
        assert_eq!(asked[0].get(ALL_THINGS).await?.0, 200);
    }
    server.refuse_at_shard(1, None);
    let far = server.shard(1).ok_or("no shard")?;
    let mut watch = asked[1].watch(&format!("{ALL_THINGS}?watch=1")).await?;
    far.down(true);
    assert!(watch.line().await.is_err(), "the watch breaks");
    assert!(asked[1].get(ALL_THINGS).await.is_err());
    assert_eq!(asked[0].get(ALL_THINGS).await?.0, 200);
    far.down(false);
    assert_eq!(asked[1].get(ALL_THINGS).await?.0, 200);
    assert_eq!(far.count(Verb::Watch, "things"), 1);
    Ok(())
}
