//! Workspaces of a simulated kcp as clusters: on two shards, and where credentials may go. What a workspace that binds an export is, the
//! suite `workspaces` tests on this kcp and on a real one.

use super::clients::rule;
use super::fixture::{Log, logged};
use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::Server;
use windlass_fleet::api::{ApiCode, Json, ListOptions, Projection};
use windlass_fleet::cluster::{AllowServers, Client, ClusterConfig};
use windlass_fleet::engage::{ClusterSpec, Reroute};
use windlass_fleet::manager::Builder as ManagerBuilder;
use windlass_fleet::provider::kcp::{Kcp, KcpOptions, Workspaces};
use windlass_fleet::{
    Action, ClusterName, Controller, ControllerName, Grant, GroupVersionKind, Manager, Rule,
};
use windlass_harness::eventually::{Seen, eventually, wait};
use windlass_harness::fleet::{RunningManager, request};

const EXPORTER: &str = "root:exporter";
const SOON: Duration = Duration::from_secs(30);

fn widget_kind() -> GroupVersionKind {
    GroupVersionKind::new("things.example.com", "v1", "Widget")
}

fn widget(name: &str, colour: &str) -> Value {
    json!({"apiVersion": "things.example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"colour": colour}})
}

/// A kcp with an export of widgets, and a manager whose local cluster is the export's workspace.
struct KcpFleet {
    server: Server,
    manager: RunningManager,
    log: Arc<Log>,
}

impl KcpFleet {
    async fn start(shards: usize, change: impl FnOnce(&mut KcpOptions)) -> Result<Self> {
        Self::start_with(shards, change, |builder| builder).await
    }

    async fn start_with(
        shards: usize,
        change: impl FnOnce(&mut KcpOptions),
        build: impl FnOnce(ManagerBuilder) -> ManagerBuilder,
    ) -> Result<Self> {
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
        let log = Arc::new(Log::default());
        let mut options = KcpOptions::new(Workspaces::EndpointSlice("widgets".into()));
        change(&mut options);
        let builder = Manager::builder()
            .local(ClusterSpec::new(ClusterName::local(), local))
            .provider(Arc::new(Kcp::new("workspaces", options)))
            .controller(widgets(&log)?);
        let manager = RunningManager::start(build(builder))?;
        Ok(Self {
            server,
            manager,
            log,
        })
    }

    /// Makes a workspace, on a shard, that binds the export, and returns the name of its logical cluster.
    fn bind_on(&self, path: &str, shard: usize) -> Result<String> {
        let workspace = self.server.add_workspace_on(path, shard)?;
        self.put(path, binding())?;
        Ok(workspace.name().to_owned())
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

/// A controller that notes its runs.
fn widgets(log: &Arc<Log>) -> Result<Controller> {
    let controller = Controller::builder(ControllerName::new("widgets")?).for_kind(widget_kind());
    Ok(logged(controller, log, |_| async { Ok(Action::Done) }))
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

fn binding() -> Value {
    json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
        "metadata": {"name": "widgets"},
        "spec": {"reference": {"export": {"path": EXPORTER, "name": "widgets"}},
            "permissionClaims": [{"group": "", "resource": "configmaps", "verbs": ["*"],
                "selector": {"matchAll": true}, "state": "Accepted"}]}})
}

async fn colours(client: &Client) -> Result<Vec<String>> {
    let page = client.list(&widget_kind(), &ListOptions::default()).await?;
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
async fn an_export_that_claims_nothing_is_reached() -> Result<()> {
    let fleet = KcpFleet::start(1, |_| ()).await?;
    let mut export = export()[1].clone();
    export["spec"]["permissionClaims"] = json!([]);
    fleet.put(EXPORTER, export)?;
    let mut binding = binding();
    binding["spec"]["permissionClaims"] = json!([]);
    let workspace = fleet.server.add_workspace("root:a")?;
    fleet.put("root:a", binding)?;
    let client = fleet.client(workspace.name()).await?;
    let none: [&str; 0] = [];
    assert_eq!(colours(&client).await?, none);
    Ok(())
}

/// Nobody may list the LogicalCluster of a workspace that begins, which a cache has all the same.
#[tokio::test]
async fn a_workspace_that_stays_in_its_beginning_keeps_no_manager_busy() -> Result<()> {
    let log = Arc::new(Log::default());
    let of_workspace = Controller::builder(ControllerName::new("setup")?).for_kind(
        GroupVersionKind::new("core.kcp.io", "v1alpha1", "LogicalCluster"),
    );
    let of_workspace = logged(of_workspace, &log, |_| async { Ok(Action::Done) });
    let of_type = |options: &mut KcpOptions| {
        options.workspaces = Workspaces::Initializing("tended".to_owned());
    };
    let fleet =
        KcpFleet::start_with(1, of_type, |builder| builder.controller(of_workspace)).await?;
    let kind = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let made = kind("WorkspaceType", "tended", json!({"initializer": true}));
    fleet.put(EXPORTER, made)?;
    let type_of = json!({"type": {"path": EXPORTER, "name": "tended"}});
    fleet.put("root", kind("Workspace", "blue", type_of))?;
    fleet.server.settle_workspaces();
    let blue = fleet.server.workspace("root:blue").context("blue")?;
    fleet.engaged(&[blue.name()]).await?;
    let idle = || async {
        let idle = fleet.manager.handle.idle().await;
        Ok(Seen::of(idle.busy, Vec::is_empty))
    };
    eventually(SOON, "an idle manager", idle).await?;
    assert_eq!(log.total(), 1, "it ran once");
    fleet.engaged(&[blue.name()]).await
}

/// Reaches each workspace by itself, as a plan does.
struct ByItself;

impl Reroute for ByItself {
    fn cluster(&self, spec: &mut ClusterSpec) {
        spec.leave_endpoint();
    }

    fn hub(&self, _: &str, config: &ClusterConfig) -> ClusterConfig {
        config.clone()
    }

    fn original(&self, config: ClusterConfig) -> ClusterConfig {
        config
    }
}

/// The provider has the metadata of bindings, so that a list of it takes no rule for `watch`, wherever the workspace is reached.
#[tokio::test]
async fn the_metadata_of_bindings_is_listed_without_a_watch() -> Result<()> {
    let by_endpoint = KcpFleet::start(1, |_| ()).await?;
    let by_itself = |builder: ManagerBuilder| builder.reroute(Arc::new(ByItself));
    let by_itself = KcpFleet::start_with(1, |_| (), by_itself).await?;
    for fleet in [by_endpoint, by_itself] {
        let name = fleet.bind_on("root:a", 0)?;
        let lists = Rule {
            api_groups: vec!["*".into()],
            ..rule(&["*"], &["list"], &["*"])
        };
        let client = fleet
            .manager
            .ready(&name)
            .await?
            .client(Grant::new([lists]));
        let metadata = ListOptions {
            projection: Projection::Metadata,
            ..ListOptions::default()
        };
        let bindings = GroupVersionKind::new("apis.kcp.io", "v1alpha2", "APIBinding");
        let page = client.list(&bindings, &metadata).await?;
        assert_eq!(page.items.len(), 1);
        let maps = GroupVersionKind::new("", "v1", "ConfigMap");
        let refused = client.list(&maps, &metadata).await.map(drop);
        assert_eq!(refused.map_err(|error| error.code), Err(ApiCode::Denied));
    }
    Ok(())
}

#[tokio::test]
async fn each_shard_has_an_endpoint_of_its_own_and_their_versions_do_not_mix() -> Result<()> {
    let fleet = KcpFleet::start(2, |_| ()).await?;
    let (a, b) = (fleet.bind_on("root:a", 0)?, fleet.bind_on("root:b", 1)?);
    fleet.engaged(&[&a, &b]).await?;
    for n in 0..50 {
        fleet.put("root:a", widget("many", &n.to_string()))?;
    }
    fleet.put("root:b", widget("few", "blue"))?;
    fleet.log.ran(&request(&a, "many"), 1).await?;
    fleet.log.ran(&request(&b, "few"), 1).await?;
    let client = fleet.client(&b).await?;
    assert_eq!(colours(&client).await?, ["blue"]);
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
    let a = fleet.bind_on("root:a", 0)?;
    let b = fleet.bind_on("root:b", 1)?;
    fleet.engaged(&[&a]).await?;
    fleet.server.refuse_at_shard(1, None);
    fleet.engaged(&[&a, &b]).await
}

#[tokio::test]
async fn a_shard_that_is_away_disengages_nobody() -> Result<()> {
    let fleet = KcpFleet::start(2, |_| ()).await?;
    let a = fleet.bind_on("root:a", 0)?;
    let b = fleet.bind_on("root:b", 1)?;
    fleet.engaged(&[&a, &b]).await?;
    let shard = fleet.server.shard(1).context("a shard")?;
    shard.down(true);
    let c = fleet.bind_on("root:c", 0)?;
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
    fleet.bind_on("root:a", 0)?;
    fleet.problem("not allowed by allowServers").await?;
    assert!(fleet.names().is_empty());
    Ok(())
}
