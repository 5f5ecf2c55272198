//! Several endpoints of one provider. Entry points: the tests.
//!
//! A real kcp of one process has one shard, and a slice of it one endpoint. Two exports of one name stand in for two shards: a provider of
//! the export's name alone takes the endpoints of both. Two shards of one export stand in `engine::workspaces`, in memory.

use crate::ground::{Ground, USER, on_both};
use crate::shop::{Shop, play_in};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use windlass_fleet::provider::kcp::Workspaces;
use windlass_harness::testenv::kcp::{Client, Workspace};

const ROLES: &str = "apis/rbac.authorization.k8s.io/v1/clusterroles";
const GRANTS: &str = "apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

on_both! {
    workspaces_of_all_endpoints_are_clusters_and_each_has_its_own_objects,
}

/// Any export `things`, by the slices that are there.
fn things() -> Workspaces {
    Workspaces::Export {
        name: "things".into(),
        path: None,
    }
}

/// Two shops, and a workspace with a slice of each: `east` and `west`.
struct Two<'g> {
    east: Shop<'g>,
    west: Shop<'g>,
    slices: Workspace,
}

impl<'g> Two<'g> {
    async fn open(ground: &'g Ground, names: [&'static str; 2]) -> Result<Self> {
        let east = Shop::open(ground, names[0]).await?;
        let west = Shop::open(ground, names[1]).await?;
        let slices = east.stranger("slices").await?;
        east.slice(&slices, "east").await?;
        west.slice(&slices, "west").await?;
        Ok(Self { east, west, slices })
    }
}

async fn workspaces_of_all_endpoints_are_clusters_and_each_has_its_own_objects(
    ground: &Ground,
) -> Result<()> {
    let two = Two::open(ground, ["both-east", "both-west"]).await?;
    let play = play_in(ground.config(&two.slices.path)?, things())?;
    let a = two.east.consumer("a").await?;
    two.east.put(&a, "before", "red").await?;
    let b = two.west.consumer("b").await?;
    two.west.put(&b, "before", "blue").await?;
    play.engaged(&[&a, &b]).await?;
    two.east.kept(&a, "before", "red").await?;
    two.west.kept(&b, "before", "blue").await?;
    two.east.put(&a, "after", "red").await?;
    two.west.put(&b, "after", "blue").await?;
    two.east.kept(&a, "after", "red").await?;
    two.west.kept(&b, "after", "blue").await?;
    let (of_a, of_b) = (play.engaged_now(&a)?, play.engaged_now(&b)?);
    ensure!(of_a.status().server != of_b.status().server);

    // The last consumer of an endpoint takes it along, and the other one goes on.
    ground.client.unbind(&b, "things").await?;
    play.engaged(&[&a]).await?;
    two.west.bind(&b).await?;
    play.engaged(&[&a, &b]).await?;
    two.west.put(&b, "again", "green").await?;
    two.west.kept(&b, "again", "green").await?;
    play.settles().await?;
    play.end().await
}

/// Only a real kcp has users. In memory, a shard refuses in `engine::workspaces`.
#[tokio::test]
#[ignore = "needs real servers"]
async fn an_endpoint_that_refuses_is_tried_again_and_costs_the_others_nothing() -> Result<()> {
    let ground = Ground::real().await?;
    let two = Two::open(&ground, ["refused-east", "refused-west"]).await?;
    let client = &ground.client;
    let read = json!({"apiGroups": ["apis.kcp.io"], "resources": ["apiexportendpointslices"], "verbs": ["get", "list", "watch"]});
    grant(client, &two.slices, "slices", &read).await?;
    let content =
        json!({"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["*"]});
    grant(client, &two.east.provider, "content", &content).await?;
    let play = play_in(ground.config_of_user(&two.slices.path)?, things())?;
    let a = two.east.consumer("a").await?;
    let b = two.west.consumer("b").await?;
    play.engaged(&[&a]).await?;
    play.problem("access denied").await?;
    two.east.put(&a, "w", "red").await?;
    two.east.kept(&a, "w", "red").await?;

    grant(client, &two.west.provider, "content", &content).await?;
    play.engaged(&[&a, &b]).await?;
    two.west.put(&b, "w", "blue").await?;
    two.west.kept(&b, "w", "blue").await?;
    play.end().await
}

/// Lets [`USER`] into a workspace, and do something there.
async fn grant(client: &Client, workspace: &Workspace, name: &str, rule: &Value) -> Result<()> {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]});
    client.make(&workspace.at(ROLES), &role).await?;
    for name in [name, "system:kcp:workspace:access"] {
        let group = "rbac.authorization.k8s.io";
        let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USER}]});
        client.make(&workspace.at(GRANTS), &binding).await?;
    }
    Ok(())
}
