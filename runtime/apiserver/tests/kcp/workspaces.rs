//! The tree of workspaces, and who works on them before they are ready and before they go.

use serde_json::{Value, json};
use std::sync::Arc;
use windlass_apiserver::{Call, Hook, RequestVerdict, Server, Verb};

use super::Failure;
use super::asking::{Asker, create, inside};

const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const TYPES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes";
const CLUSTERS: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters";

async fn served() -> Result<(Server, Asker), Failure> {
    let server = Server::builder().kcp_shards(1).bind("127.0.0.1:0").await?;
    let root = inside(&server, "root");
    Ok((server, root))
}

fn workspace(name: &str, kind: &str) -> Value {
    json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        "spec": {"type": {"name": kind, "path": "root"}}})
}

/// A type whose workspaces somebody works on, and where that is done.
async fn worked_on(root: &Asker, flag: &str) -> Result<String, Failure> {
    let kind = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": "mine"}, "spec": {flag: true}});
    create(root, TYPES, &kind).await?;
    let told = |kind: &Value| {
        kind["metadata"]["name"] == "mine" && kind["status"]["virtualWorkspaces"].is_array()
    };
    let kind = root.until(TYPES, told).await?;
    let wanted = if flag == "initializer" {
        "initializing"
    } else {
        "terminating"
    };
    let mut urls = kind["status"]["virtualWorkspaces"]
        .as_array()
        .into_iter()
        .flatten();
    let url = urls.find(|one| one["type"] == wanted).ok_or("no url")?;
    Ok(url["url"].as_str().unwrap_or_default().to_owned())
}

fn ready(workspace: &Value) -> bool {
    workspace["status"]["phase"] == "Ready"
}

#[tokio::test]
async fn a_workspace_is_reached_by_its_path_and_by_its_logical_cluster() -> Result<(), Failure> {
    let (server, root) = served().await?;
    create(&root, WORKSPACES, &workspace("org", "universal")).await?;
    let made = root.until(WORKSPACES, ready).await?;
    let name = made["spec"]["cluster"].as_str().ok_or("no cluster")?;
    assert!(
        made["spec"]["URL"]
            .as_str()
            .is_some_and(|url| url.ends_with("/clusters/root:org"))
    );
    for known in ["root:org", name] {
        let (_, own) = inside(&server, known)
            .get(&format!("{CLUSTERS}/cluster"))
            .await?;
        let marks = &own["metadata"]["annotations"];
        assert_eq!(
            (&marks["kcp.io/cluster"], &marks["kcp.io/path"]),
            (&json!(name), &json!("root:org"))
        );
        assert_eq!(own["status"]["phase"], "Ready");
    }
    Ok(())
}

#[tokio::test]
async fn a_workspace_that_is_deleted_takes_those_below_it_along() -> Result<(), Failure> {
    let (server, root) = served().await?;
    server.add_workspace("root:org:team")?;
    let mut watch = root.watch(&format!("{WORKSPACES}?watch=1")).await?;
    let (status, _) = root
        .ask("DELETE", &format!("{WORKSPACES}/org"), None)
        .await?;
    assert_eq!(status, 200);
    while watch.event().await?.0 != "DELETED" {}
    assert!(server.workspace("root:org").is_none() && server.workspace("root:org:team").is_none());
    Ok(())
}

#[tokio::test]
async fn equal_servers_give_equal_names_in_any_order_and_none_gives_one_twice()
-> Result<(), Failure> {
    let (one, _) = served().await?;
    let (other, _) = served().await?;
    let name = |server: &Server, path: &str| {
        let made = server.add_workspace(path);
        made.map(|cluster| cluster.name().to_owned())
    };
    let (a, b) = (name(&one, "root:a")?, name(&one, "root:b")?);
    assert_eq!(b, name(&other, "root:b")?);
    assert_eq!(a, name(&other, "root:a")?);
    assert!(one.remove_workspace("root:a"));
    let again = name(&one, "root:a")?;
    assert!(again != a && again != b, "{again}");
    assert_eq!(one.workspace_path(&again).as_deref(), Some("root:a"));
    assert!(one.workspace_path(&a).is_none());
    let shard = one.shard_of("root:a").ok_or("no shard")?;
    assert_eq!(shard.name(), "shard:root");
    Ok(())
}

#[tokio::test]
async fn a_workspace_of_an_unknown_type_is_refused() -> Result<(), Failure> {
    let (_server, root) = served().await?;
    let (status, _) = root
        .ask("POST", WORKSPACES, Some(&workspace("a", "absent")))
        .await?;
    assert_eq!(status, 403);
    Ok(())
}

#[tokio::test]
async fn an_initializer_sees_its_workspaces_until_it_is_done() -> Result<(), Failure> {
    let (server, root) = served().await?;
    let url = worked_on(&root, "initializer").await?;
    create(&root, WORKSPACES, &workspace("new", "mine")).await?;
    let all = Asker::at(format!("{url}/clusters/*"));
    let mut watch = all.watch(&format!("{CLUSTERS}?watch=1")).await?;
    let (kind, own) = watch.event().await?;
    assert_eq!(
        (kind.as_str(), &own["status"]["initializers"]),
        ("ADDED", &json!(["root:mine"]))
    );
    let name = own["metadata"]["annotations"]["kcp.io/cluster"]
        .as_str()
        .ok_or("no name")?;
    let through = Asker::at(format!("{url}/clusters/{name}"));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}});
    create(&through, "/api/v1/namespaces/default/configmaps", &map).await?;
    let done = json!({"status": {"initializers": []}});
    let path = format!("{CLUSTERS}/cluster/status");
    let (status, _) = through.ask("PATCH", &path, Some(&done)).await?;
    assert_eq!(status, 200);
    while watch.event().await?.0 != "DELETED" {}
    root.until(WORKSPACES, ready).await?;
    let (status, _) = through
        .get("/api/v1/namespaces/default/configmaps/made")
        .await?;
    assert_eq!(status, 403, "the workspace is no longer the initializer's");
    assert!(server.workspace("root:new").is_some());
    Ok(())
}

/// Answers lists of a shard as of one change ago, without what has gone since.
struct Past;

impl Hook for Past {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        if cluster == "shard:root" && call.verb == Verb::List {
            return RequestVerdict::BehindLiving(1);
        }
        RequestVerdict::Proceed
    }
}

#[tokio::test]
async fn a_list_of_a_shard_as_it_was_has_what_is_still_there() -> Result<(), Failure> {
    let builder = Server::builder().kcp_shards(1).hook(Arc::new(Past));
    let server = builder.bind("127.0.0.1:0").await?;
    let root = inside(&server, "root");
    let url = worked_on(&root, "initializer").await?;
    create(&root, WORKSPACES, &workspace("new", "mine")).await?;
    server.settle_workspaces();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}});
    create(&root, "/api/v1/namespaces/default/configmaps", &map).await?;
    let all = Asker::at(format!("{url}/clusters/*"));
    let (_, list) = all.get(CLUSTERS).await?;
    let version =
        |of: &Value| -> Option<u64> { of["metadata"]["resourceVersion"].as_str()?.parse().ok() };
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
    let shard = server.shard(0).ok_or("no shard")?;
    assert_eq!(version(&list), Some(shard.version() - 1));
    Ok(())
}

#[tokio::test]
async fn a_terminator_holds_a_workspace_that_is_deleted() -> Result<(), Failure> {
    let (server, root) = served().await?;
    let url = worked_on(&root, "terminator").await?;
    create(&root, WORKSPACES, &workspace("old", "mine")).await?;
    root.until(WORKSPACES, ready).await?;
    let all = Asker::at(format!("{url}/clusters/*"));
    assert_eq!(all.get(CLUSTERS).await?.1["items"], json!([]));
    let mut watch = all.watch(&format!("{CLUSTERS}?watch=1")).await?;
    root.ask("DELETE", &format!("{WORKSPACES}/old"), None)
        .await?;
    let (_, own) = watch.event().await?;
    assert_eq!(own["status"]["terminators"], json!(["root:mine"]), "{own}");
    let name = own["metadata"]["annotations"]["kcp.io/cluster"]
        .as_str()
        .ok_or("no name")?;
    let through = Asker::at(format!("{url}/clusters/{name}"));
    let mut workspaces = root.watch(&format!("{WORKSPACES}?watch=1")).await?;
    let done = json!({"status": {"terminators": []}});
    let path = format!("{CLUSTERS}/cluster/status");
    let (status, _) = through.ask("PATCH", &path, Some(&done)).await?;
    assert_eq!(status, 200);
    while workspaces.event().await?.0 != "DELETED" {}
    assert!(server.workspace("root:old").is_none());
    Ok(())
}
