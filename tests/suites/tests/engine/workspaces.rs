//! Workspaces of a simulated kcp as clusters: bound to an export, on one shard and on two.

use super::fixture::{Log, logged};
use anyhow::{Context as _, Result, anyhow};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_apiserver::{Server, Verb};
use windlass_fleet::api::{
    ApiCode, DeleteOptions, GetOptions, Json, ListOptions, PatchType, ReadMode, WriteOptions,
};
use windlass_fleet::cluster::{AllowServers, Client, ClusterConfig};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::kcp::{Kcp, KcpOptions, WorkspaceNames, Workspaces};
use windlass_fleet::source::Index;
use windlass_fleet::{
    Action, ClusterName, Controller, ControllerName, Grant, GroupVersionKind, Manager, ObjectKey,
};
use windlass_harness::eventually;
use windlass_harness::eventually::{DEADLINE, Seen, wait};
use windlass_harness::fleet::{RunningManager, request};

const EXPORTER: &str = "root:exporter";

fn widget_kind() -> GroupVersionKind {
    GroupVersionKind::new("things.example.com", "v1", "Widget")
}

fn config_map_kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

fn widget(name: &str, colour: &str) -> Value {
    json!({"apiVersion": "things.example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"colour": colour}})
}

fn json(value: &Value) -> Json {
    value.to_string().into()
}

/// A kcp with an export of widgets, and a manager whose local cluster is the export's workspace.
struct KcpFleet {
    server: Server,
    manager: RunningManager,
    log: Arc<Log>,
    /// How many red widgets the index found in the cluster of a run.
    reds: Arc<Reds>,
}

type Reds = Mutex<BTreeMap<String, usize>>;

impl KcpFleet {
    async fn start(shards: usize, change: impl FnOnce(&mut KcpOptions)) -> Result<Self> {
        windlass_harness::logs::init();
        let server = Server::builder()
            .kcp_shards(shards)
            .bind("127.0.0.1:0")
            .await?;
        let exporter = server.add_workspace(EXPORTER)?;
        for object in export() {
            let put = exporter.apply(object);
            put.map_err(|error| anyhow!("{error:?}"))?;
        }
        let local = ClusterConfig::from_url(&server.url(EXPORTER))?;
        let (log, reds) = (Arc::new(Log::default()), Arc::default());
        let mut options = KcpOptions::new(Workspaces::EndpointSlice("widgets".into()));
        change(&mut options);
        let builder = Manager::builder()
            .local(ClusterSpec::new(ClusterName::local(), local))
            .provider(Arc::new(Kcp::new("workspaces", options)))
            .controller(widgets(&log, &reds)?);
        let manager = RunningManager::start(builder)?;
        Ok(Self {
            server,
            manager,
            log,
            reds,
        })
    }

    /// Makes a workspace, on a shard, that binds the export, and returns the name of its logical cluster.
    fn bind_on(&self, path: &str, shard: usize, claims: &str) -> Result<String> {
        let workspace = self.server.add_workspace_on(path, shard)?;
        self.put(path, binding(claims))?;
        Ok(workspace.name().to_owned())
    }

    fn bind(&self, path: &str) -> Result<String> {
        self.bind_on(path, 0, "Accepted")
    }

    fn put(&self, path: &str, object: Value) -> Result<()> {
        let workspace = self.server.workspace(path).context("no such workspace")?;
        let put = workspace.apply(object);
        put.map(drop).map_err(|error| anyhow!("{error:?}"))
    }

    fn names(&self) -> Vec<String> {
        let clusters = self.manager.handle.clusters();
        let names = clusters.into_iter().map(|cluster| cluster.name.to_string());
        names.filter(|name| !name.is_empty()).collect()
    }

    async fn engaged(&self, wanted: &[&str]) -> Result<()> {
        let mut wanted: Vec<&str> = wanted.to_vec();
        wanted.sort_unstable();
        let seen = || Seen::of(self.names(), |names| *names == wanted);
        wait("the engaged workspaces", seen).await.map(drop)
    }

    async fn client(&self, name: &str) -> Result<Client> {
        Ok(self.manager.ready(name).await?.client(Grant::all()))
    }

    async fn problem(&self, part: &str) -> Result<()> {
        let has = |all: &Vec<windlass_fleet::provider::Problem>| {
            all.iter().any(|problem| problem.message.contains(part))
        };
        let seen = || Seen::of(self.manager.handle.provider_problems(), has);
        wait(&format!("a problem with {part:?}"), seen)
            .await
            .map(drop)
    }
}

/// A controller that notes its runs, and what its index over colours finds.
fn widgets(log: &Arc<Log>, reds: &Arc<Reds>) -> Result<Controller> {
    let controller = Controller::builder(ControllerName::new("widgets")?)
        .for_kind(widget_kind())
        .index(Index {
            kind: widget_kind(),
            name: "colour".into(),
            path: "spec.colour".parse()?,
            namespace_path: None,
        });
    let reds = reds.clone();
    Ok(logged(controller, log, move |context| {
        let reds = reds.clone();
        async move {
            let red = ListOptions {
                index: Some(("colour".into(), "red".into())),
                ..ListOptions::default()
            };
            let client = context.client(&Arc::new(Grant::all()));
            let found = client.list(&widget_kind(), &red).await?.items.len();
            let cluster = context.request.cluster.to_string();
            reds.lock().insert(cluster, found);
            Ok(Action::Done)
        }
    }))
}

/// The schema and the export of widgets, with a claim on ConfigMaps.
fn export() -> [Value; 2] {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    [
        json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
            "metadata": {"name": "v1.widgets.things.example.com"},
            "spec": {"group": "things.example.com", "scope": "Namespaced",
                "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}]}}),
        json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "widgets"},
            "spec": {"resources": [{"group": "things.example.com", "name": "widgets",
                    "schema": "v1.widgets.things.example.com", "storage": {"crd": {}}}],
                "permissionClaims": [{"group": "", "resource": "configmaps", "verbs": ["*"]}]}}),
    ]
}

fn binding(claims: &str) -> Value {
    json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
        "metadata": {"name": "widgets", "labels": {"tier": "gold"}},
        "spec": {"reference": {"export": {"path": EXPORTER, "name": "widgets"}},
            "permissionClaims": [{"group": "", "resource": "configmaps", "verbs": ["*"],
                "selector": {"matchAll": true}, "state": claims}]}})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

async fn colours(client: &Client, options: &ListOptions) -> Result<Vec<String>> {
    let page = client.list(&widget_kind(), options).await?;
    let colour = |json: &Json| -> Result<String> {
        let object: Value = serde_json::from_slice(json)?;
        Ok(object["spec"]["colour"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    };
    page.items.iter().map(colour).collect()
}

#[tokio::test]
async fn a_workspace_that_binds_the_export_is_a_cluster_with_its_own_objects() -> Result<()> {
    let fleet = KcpFleet::start(1, |_| ()).await?;
    let (a, b) = (fleet.bind("root:a")?, fleet.bind("root:b")?);
    fleet.engaged(&[&a, &b]).await?;
    fleet.put("root:a", widget("same", "red"))?;
    fleet.put("root:b", widget("same", "blue"))?;
    fleet.log.ran(&request(&a, "same"), 1).await?;
    fleet.log.ran(&request(&b, "same"), 1).await?;
    for (name, colour) in [(&a, "red"), (&b, "blue")] {
        let client = fleet.client(name).await?;
        assert_eq!(colours(&client, &ListOptions::default()).await?, [colour]);
        let in_default = ListOptions {
            namespace: Some("default".into()),
            ..ListOptions::default()
        };
        assert_eq!(colours(&client, &in_default).await?, [colour]);
        let live = ListOptions {
            mode: ReadMode::Live,
            ..ListOptions::default()
        };
        assert_eq!(colours(&client, &live).await?, [colour]);
    }
    let cluster = fleet.manager.ready(&a).await?;
    assert_eq!(cluster.properties().get("path"), Some("root:a"));
    assert_eq!(cluster.properties().get("binding"), Some("widgets"));
    assert_eq!(cluster.labels().get("binding/tier"), Some("gold"));
    let shard = fleet.server.shard(0).context("a shard")?;
    assert_eq!(shard.count(Verb::Watch, "widgets"), 1, "one for all");
    Ok(())
}

#[tokio::test]
async fn an_export_that_claims_nothing_is_reached() -> Result<()> {
    let fleet = KcpFleet::start(1, |_| ()).await?;
    let mut export = export()[1].clone();
    export["spec"]["permissionClaims"] = json!([]);
    fleet.put(EXPORTER, export)?;
    let mut binding = binding("Accepted");
    binding["spec"]["permissionClaims"] = json!([]);
    let workspace = fleet.server.add_workspace("root:a")?;
    fleet.put("root:a", binding)?;
    let client = fleet.client(workspace.name()).await?;
    let none: [&str; 0] = [];
    assert_eq!(colours(&client, &ListOptions::default()).await?, none);
    Ok(())
}

#[tokio::test]
async fn every_verb_works_and_stays_in_the_workspace() -> Result<()> {
    let fleet = KcpFleet::start(1, |_| ()).await?;
    let (a, b) = (fleet.bind("root:a")?, fleet.bind("root:b")?);
    fleet.engaged(&[&a, &b]).await?;
    fleet.put("root:b", widget("mine", "blue"))?;
    let (client, other) = (fleet.client(&a).await?, fleet.client(&b).await?);
    let (kind, options) = (widget_kind(), WriteOptions::default());
    client
        .create(&kind, json(&widget("mine", "red")), &options)
        .await?;
    let read = async |client: &Client| -> Result<String> {
        let found = client
            .get(&kind, &key("mine"), &GetOptions::default())
            .await?;
        let object: Value = serde_json::from_slice(&found.context("it is there")?)?;
        Ok(object["spec"]["colour"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    };
    assert_eq!(read(&client).await?, "red", "its own write is seen at once");
    let patch = json(&json!({"spec": {"colour": "green"}}));
    client
        .patch(&kind, &key("mine"), PatchType::Merge, patch, &options)
        .await?;
    assert_eq!(read(&client).await?, "green");
    assert_eq!(read(&other).await?, "blue");
    client
        .delete(&kind, &key("mine"), &DeleteOptions::default())
        .await?;
    let gone = client
        .get(&kind, &key("mine"), &GetOptions::default())
        .await?;
    assert!(gone.is_none());
    assert_eq!(read(&other).await?, "blue");
    Ok(())
}

#[tokio::test]
async fn an_index_finds_only_what_is_in_the_workspace() -> Result<()> {
    let fleet = KcpFleet::start(1, |_| ()).await?;
    let (a, b) = (fleet.bind("root:a")?, fleet.bind("root:b")?);
    fleet.engaged(&[&a, &b]).await?;
    fleet.put("root:a", widget("one", "red"))?;
    fleet.put("root:b", widget("two", "red"))?;
    fleet.log.ran(&request(&a, "one"), 1).await?;
    fleet.log.ran(&request(&b, "two"), 1).await?;
    fleet.put("root:b", widget("three", "red"))?;
    fleet.log.ran(&request(&b, "three"), 1).await?;
    wait("what the index found", || {
        let wanted = BTreeMap::from([(a.clone(), 1), (b.clone(), 2)]);
        Seen::of(fleet.reds.lock().clone(), |reds| *reds == wanted)
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn a_workspace_leaves_with_its_last_binding() -> Result<()> {
    let fleet = KcpFleet::start(1, |_| ()).await?;
    let (a, b) = (fleet.bind("root:a")?, fleet.bind("root:b")?);
    fleet.engaged(&[&a, &b]).await?;
    let workspace = fleet.server.workspace("root:a").context("it is there")?;
    let deleted = workspace.delete("apis.kcp.io/v1alpha2", "APIBinding", "", "widgets");
    deleted.map_err(|error| anyhow!("{error:?}"))?;
    fleet.engaged(&[&b]).await?;
    fleet.put("root:a", binding("Accepted"))?;
    fleet.engaged(&[&a, &b]).await
}

#[tokio::test]
async fn a_claim_that_is_not_accepted_is_named_where_it_is_missing() -> Result<()> {
    let fleet = KcpFleet::start(1, |_| ()).await?;
    let a = fleet.bind_on("root:a", 0, "Rejected")?;
    let b = fleet.bind("root:b")?;
    let (client, other) = (fleet.client(&a).await?, fleet.client(&b).await?);
    let read = async |client: &Client| {
        let options = GetOptions::default();
        client.get(&config_map_kind(), &key("any"), &options).await
    };
    let refused = read(&client).await.err().context("it is refused")?;
    assert_eq!(refused.code, ApiCode::Denied);
    assert!(
        refused.message.contains("permission claim on configmaps"),
        "{refused}"
    );
    assert!(read(&other).await?.is_none());
    fleet.put("root:a", binding("Accepted"))?;
    eventually(DEADLINE, "the claim to be accepted", || async {
        Ok(match read(&client).await {
            Ok(_) => Seen::Yes(()),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await
}

#[tokio::test]
async fn workspaces_are_found_by_path_and_by_logical_cluster_whatever_their_name_is() -> Result<()>
{
    for names in [WorkspaceNames::LogicalCluster, WorkspaceNames::Path] {
        let fleet = KcpFleet::start(1, |options| options.names = names).await?;
        let a = fleet.bind("root:a")?;
        let name = match names {
            WorkspaceNames::LogicalCluster => &*a,
            WorkspaceNames::Path => "root:a",
        };
        fleet.engaged(&[name]).await?;
        for wanted in ["root:a", &*a] {
            let found = fleet
                .manager
                .handle
                .fleet()
                .cluster(&ClusterName::new(wanted)?);
            let found = found.with_context(|| format!("{wanted} is found"))?;
            assert_eq!(found.name().as_str(), name);
        }
    }
    Ok(())
}

#[tokio::test]
async fn each_shard_has_an_endpoint_of_its_own_and_their_versions_do_not_mix() -> Result<()> {
    let fleet = KcpFleet::start(2, |_| ()).await?;
    let (a, b) = (
        fleet.bind_on("root:a", 0, "Accepted")?,
        fleet.bind_on("root:b", 1, "Accepted")?,
    );
    fleet.engaged(&[&a, &b]).await?;
    for n in 0..50 {
        fleet.put("root:a", widget("many", &n.to_string()))?;
    }
    fleet.put("root:b", widget("few", "blue"))?;
    fleet.log.ran(&request(&a, "many"), 1).await?;
    fleet.log.ran(&request(&b, "few"), 1).await?;
    let client = fleet.client(&b).await?;
    assert_eq!(colours(&client, &ListOptions::default()).await?, ["blue"]);
    // The last consumer of a shard takes its endpoint with it.
    let workspace = fleet.server.workspace("root:b").context("it is there")?;
    let deleted = workspace.delete("apis.kcp.io/v1alpha2", "APIBinding", "", "widgets");
    deleted.map_err(|error| anyhow!("{error:?}"))?;
    fleet.engaged(&[&a]).await
}

#[tokio::test]
async fn an_endpoint_that_does_not_serve_yet_delays_nobody_else() -> Result<()> {
    let fleet = KcpFleet::start(2, |_| ()).await?;
    fleet.server.refuse_at_shard(1, Some(403));
    let a = fleet.bind_on("root:a", 0, "Accepted")?;
    let b = fleet.bind_on("root:b", 1, "Accepted")?;
    fleet.engaged(&[&a]).await?;
    fleet.server.refuse_at_shard(1, None);
    fleet.engaged(&[&a, &b]).await
}

#[tokio::test]
async fn a_shard_that_is_away_disengages_nobody() -> Result<()> {
    let fleet = KcpFleet::start(2, |_| ()).await?;
    let a = fleet.bind_on("root:a", 0, "Accepted")?;
    let b = fleet.bind_on("root:b", 1, "Accepted")?;
    fleet.engaged(&[&a, &b]).await?;
    let shard = fleet.server.shard(1).context("a shard")?;
    shard.down(true);
    let c = fleet.bind_on("root:c", 0, "Accepted")?;
    fleet.engaged(&[&a, &b, &c]).await?;
    shard.down(false);
    fleet.put("root:b", widget("later", "blue"))?;
    fleet.log.ran(&request(&b, "later"), 1).await
}

#[tokio::test]
async fn credentials_go_to_no_other_host_unless_it_is_allowed() -> Result<()> {
    // Endpoints are at 127.0.0.1; a kubeconfig may name the same server in another way.
    let allowed = AllowServers::parse(&["192.0.2.0/24"])?;
    let fleet = KcpFleet::start(1, |options| options.allow_servers = Some(allowed)).await?;
    fleet.bind("root:a")?;
    fleet.problem("not allowed by allowServers").await?;
    assert!(fleet.names().is_empty());
    Ok(())
}
