//! Workspaces that somebody works on before they are ready, and before they go.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::testenv::kcp::{Client, Workspace};

use super::shop::{cluster_of, condition, event, map, names_in, refused, version_of, watch};

const CLUSTERS: &str = "apis/core.kcp.io/v1alpha1/logicalclusters";
const STATUS: &str = "apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status";
const NAMESPACES: &str = "api/v1/namespaces";
const MAPS: &str = "api/v1/namespaces/default/configmaps";

/// A workspace type with an initializer and a terminator.
struct Type<'a> {
    client: &'a Client,
    home: Workspace,
    /// What the initializer and the terminator are called.
    actor: String,
    initializing: String,
    terminating: String,
}

impl<'a> Type<'a> {
    async fn make(client: &'a Client, name: &str, initializer: bool) -> Result<Self> {
        let home = client.workspace("root", name).await?;
        let spec = json!({"initializer": initializer, "terminator": !initializer,
            "extend": {"with": [{"name": "universal", "path": "root"}]}});
        let object = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType",
            "metadata": {"name": "tended"}, "spec": spec});
        let types = home.at("apis/tenancy.kcp.io/v1alpha1/workspacetypes");
        client.make(&types, &object).await?;
        let served = client
            .until("URLs", &format!("{types}/tended"), |one| {
                condition(one, "Ready", "True")
                    && one["status"]["virtualWorkspaces"]
                        .as_array()
                        .map_or(0, Vec::len)
                        == 2
            })
            .await?;
        let window = |kind: &str| {
            let all = served["status"]["virtualWorkspaces"].as_array();
            let mut all = all.into_iter().flatten();
            let found = all.find(|one| one["type"] == kind);
            let url = found.and_then(|one| one["url"].as_str());
            let path = url.and_then(|url| url.split_once("/services/"));
            let (_, rest) = path.with_context(|| format!("no {kind} URL in {served}"))?;
            anyhow::Ok(format!("/services/{rest}"))
        };
        Ok(Self {
            client,
            actor: format!("{}:tended", home.cluster),
            initializing: window("initializing")?,
            terminating: window("terminating")?,
            home,
        })
    }

    /// Begins a workspace of this type.
    async fn begin(&self, name: &str) -> Result<()> {
        self.client
            .make_workspace("root", name, &self.home.path, "tended")
            .await
    }

    /// The one logical cluster in a virtual workspace, when it is as wanted.
    async fn one(&self, window: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let path = format!("{window}/clusters/*/{CLUSTERS}");
        let list = self
            .client
            .until("a logical cluster", &path, |list| {
                let items = list["items"].as_array();
                items.is_some_and(|items| items.len() == 1 && wanted(&items[0]))
            })
            .await?;
        Ok(list["items"][0].clone())
    }

    async fn none(&self, window: &str) -> Result<()> {
        let path = format!("{window}/clusters/*/{CLUSTERS}");
        let none = |list: &Value| list["items"].as_array().is_some_and(Vec::is_empty);
        self.client
            .until("no logical cluster", &path, none)
            .await
            .map(drop)
    }
}

pub(super) async fn a_type_has_the_urls_of_both_virtual_workspaces(client: &Client) -> Result<()> {
    let tended = Type::make(client, "urls", true).await?;
    let actor = &tended.actor;
    ensure!(tended.initializing == format!("/services/initializingworkspaces/{actor}"));
    ensure!(tended.terminating == format!("/services/terminatingworkspaces/{actor}"));
    tended.none(&tended.initializing).await?;
    tended.none(&tended.terminating).await
}

pub(super) async fn an_initializer_fills_a_workspace_and_lets_it_go(client: &Client) -> Result<()> {
    let tended = Type::make(client, "filling", true).await?;
    tended.begin("filled").await?;
    // Others initialize too, in any order.
    let actor = &tended.actor;
    let last = |cluster: &Value| cluster["status"]["initializers"] == json!([actor]);
    let cluster = tended.one(&tended.initializing, last).await?;
    ensure!(cluster["status"]["phase"] == "Initializing", "{cluster}");
    ensure!(
        cluster["metadata"]["annotations"]["kcp.io/path"] == "root:filled",
        "{cluster}"
    );
    let before = version_of(&cluster)?;
    let name = cluster_of(&cluster);
    let inside = |rest: &str| format!("{}/clusters/{name}/{rest}", tended.initializing);

    let namespaces = client.get(&inside(NAMESPACES)).await?.ok()?;
    let found = Workspace {
        path: "root:filled".to_owned(),
        cluster: name.clone(),
    };
    ensure!(
        names_in(&namespaces, &found).contains(&"default".to_owned()),
        "{namespaces}"
    );
    client.post(&inside(MAPS), &map("a")).await?.ok()?;
    let elsewhere = format!(
        "{}/clusters/{}/{NAMESPACES}",
        tended.initializing, tended.home.cluster
    );
    refused(
        &client.get(&elsewhere).await?,
        403,
        "cannot access this workspace",
    )?;
    let wild = format!("{}/clusters/*/{NAMESPACES}", tended.initializing);
    ensure!(client.get(&wild).await?.code == 404);

    let more = json!({"status": {"initializers": [actor, "somebody"]}});
    let more = client.patch(&inside(STATUS), "merge-patch", &more).await?;
    refused(&more, 422, "only removing the")?;
    let done = json!([{"op": "test", "path": "/status/initializers/0", "value": actor}, {"op": "remove", "path": "/status/initializers/0"}]);
    client
        .patch(&inside(STATUS), "json-patch", &done)
        .await?
        .ok()?;
    let again = json!({"status": {"initializers": []}});
    let again = client.patch(&inside(STATUS), "merge-patch", &again).await?;
    // 404 as soon as kcp has taken the label off.
    ensure!(matches!(again.code, 404 | 422), "{}", again.text);
    tended.none(&tended.initializing).await?;
    let list = format!("{}/clusters/*/{CLUSTERS}", tended.initializing);
    let events = watch(client, &list, &format!("&resourceVersion={before}")).await?;
    ensure!(
        events.contains(&event("DELETED", &found, "cluster")),
        "{events:?}"
    );

    let ready = client.ready("root", "filled").await?;
    ensure!(ready.cluster == name, "{ready:?}");
    client.get(&ready.at(&format!("{MAPS}/a"))).await?.ok()?;
    let shut = client.get(&inside(NAMESPACES)).await?;
    refused(&shut, 403, "cannot access this workspace")
}

pub(super) async fn a_terminator_holds_a_deleted_workspace(client: &Client) -> Result<()> {
    let tended = Type::make(client, "cleaning", false).await?;
    tended.begin("cleaned").await?;
    let ready = client.ready("root", "cleaned").await?;
    client.post(&ready.at(MAPS), &map("a")).await?.ok()?;
    tended.none(&tended.terminating).await?;
    let list = format!("{}/clusters/*/{CLUSTERS}", tended.terminating);
    let before = version_of(&client.get(&list).await?.ok()?)?;

    client.end("root", "cleaned").await?;
    let actor = &tended.actor;
    let cluster = tended
        .one(&tended.terminating, |cluster| {
            cluster["metadata"]["deletionTimestamp"].is_string()
        })
        .await?;
    ensure!(
        cluster["status"]["terminators"] == json!([actor]),
        "{cluster}"
    );
    ensure!(cluster_of(&cluster) == ready.cluster, "{cluster}");
    let inside = |rest: &str| format!("{}/clusters/{}/{rest}", tended.terminating, ready.cluster);
    let content = client.get(&inside(NAMESPACES)).await?;
    ensure!(content.code == 403, "{}", content.text);
    // Its content is still there, for those who may read the workspace itself.
    client.get(&ready.at(&format!("{MAPS}/a"))).await?.ok()?;

    let done = json!({"status": {"terminators": []}});
    client
        .patch(&inside(STATUS), "merge-patch", &done)
        .await?
        .ok()?;
    tended.none(&tended.terminating).await?;
    // It never is ADDED in a watch that was there before.
    let events = watch(client, &list, &format!("&resourceVersion={before}")).await?;
    let first = events.first();
    ensure!(
        first == Some(&event("MODIFIED", &ready, "cluster")),
        "{events:?}"
    );
    let last = events.last();
    ensure!(
        last == Some(&event("DELETED", &ready, "cluster")),
        "{events:?}"
    );
    eventually(DEADLINE, "the content to go", || async {
        let answer = client.get(&ready.at(&format!("{MAPS}/a"))).await?;
        Ok(Seen::of(answer, |answer| matches!(answer.code, 403 | 404)))
    })
    .await
    .map(drop)
}
