//! A workspace with an export of widgets, and workspaces that bind it. Entry point: [`Shop::open`].

use crate::ground::Ground;
use crate::keeper::Keeper;
use crate::play::Play;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::kcp::{Kcp, KcpOptions, Workspaces};
use windlass_fleet::{ClusterName, Manager};
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::testenv::kcp::{Claim, Export, Workspace};

pub(crate) const WIDGETS: &str = "apis/things.example.com/v1/namespaces/default/widgets";
pub(crate) const MAPS: &str = "api/v1/namespaces/default/configmaps";
pub(crate) const BINDINGS: &str = "apis/apis.kcp.io/v1alpha2/apibindings";
pub(crate) const SLICES: &str = "apis/apis.kcp.io/v1alpha1/apiexportendpointslices";

/// What is exported.
fn export(name: &str) -> Export {
    let claim = |group, resource| Claim {
        group,
        resource,
        verbs: &["*"],
    };
    Export {
        name: name.to_owned(),
        schemas: vec![schema()],
        claims: vec![
            claim("", "configmaps"),
            claim("", "events"),
            claim("events.k8s.io", "events"),
        ],
    }
}

fn schema() -> Value {
    let spec = json!({"type": "object", "properties": {"colour": {"type": "string"}, "size": {"type": "integer"}}});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({"group": "things.example.com", "scope": "Namespaced",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema}]})
}

/// A widget; it is in the namespace `default`.
pub(crate) fn widget(name: &str, colour: &str) -> Value {
    json!({"apiVersion": "things.example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"colour": colour}})
}

/// A provider of widgets. Its workspaces are named after it, so that tests can share a kcp.
pub(crate) struct Shop<'g> {
    pub(crate) ground: &'g Ground,
    /// The workspace that has the export.
    pub(crate) provider: Workspace,
    pub(crate) export: Export,
    name: &'static str,
}

impl<'g> Shop<'g> {
    /// A shop without consumers, with the export `things`.
    pub(crate) async fn open(ground: &'g Ground, name: &'static str) -> Result<Self> {
        let provider = ground.client.workspace("root", name).await?;
        let export = export("things");
        ground.client.publish(&provider, &export).await?;
        Ok(Self {
            ground,
            provider,
            export,
            name,
        })
    }

    /// Makes a slice for the export in some workspace.
    pub(crate) async fn slice(&self, workspace: &Workspace, name: &str) -> Result<()> {
        let export = json!({"path": self.provider.path, "name": self.export.name});
        let slice = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
            "metadata": {"name": name}, "spec": {"export": export}});
        let client = &self.ground.client;
        client.make(&workspace.at(SLICES), &slice).await
    }

    /// A workspace that has not bound the export.
    pub(crate) async fn stranger(&self, name: &str) -> Result<Workspace> {
        let name = format!("{}-{name}", self.name);
        self.ground.client.workspace("root", &name).await
    }

    /// A workspace that has bound the export and accepts its claims.
    pub(crate) async fn consumer(&self, name: &str) -> Result<Workspace> {
        let consumer = self.stranger(name).await?;
        self.bind(&consumer).await?;
        Ok(consumer)
    }

    /// Binds the export, accepts its claims, and waits until the workspace serves widgets, which is a moment after the binding is ready.
    pub(crate) async fn bind(&self, consumer: &Workspace) -> Result<()> {
        self.bind_if(consumer, true).await
    }

    /// As [`Shop::bind`], and accepts or rejects the claims.
    pub(crate) async fn bind_if(&self, consumer: &Workspace, accepted: bool) -> Result<()> {
        let client = &self.ground.client;
        client
            .bind(consumer, &self.provider, &self.export, accepted)
            .await?;
        let widgets = consumer.at(WIDGETS);
        client.until("widgets", &widgets, |_| true).await.map(drop)
    }

    /// Binds the export under another name, and waits for nothing.
    pub(crate) async fn bind_as(&self, consumer: &Workspace, name: &str) -> Result<()> {
        let reference = json!({"export": {"path": self.provider.path, "name": self.export.name}});
        let binding = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
            "metadata": {"name": name}, "spec": {"reference": reference}});
        let client = &self.ground.client;
        client.make(&consumer.at(BINDINGS), &binding).await
    }

    /// Accepts or rejects all claims in a consumer's binding.
    pub(crate) async fn answer_claims(&self, consumer: &Workspace, state: &str) -> Result<()> {
        let client = &self.ground.client;
        let path = consumer.at(&format!("{BINDINGS}/{}", self.export.name));
        let binding = client.get(&path).await?.ok()?;
        let mut claims = binding["spec"]["permissionClaims"].clone();
        for claim in claims.as_array_mut().into_iter().flatten() {
            claim["state"] = state.into();
        }
        let patch = json!({"spec": {"permissionClaims": claims}});
        client
            .patch(&path, "merge-patch", &patch)
            .await?
            .ok()
            .map(drop)
    }

    /// Makes a widget in a consumer's workspace, or changes its colour, as the consumer does.
    pub(crate) async fn put(&self, consumer: &Workspace, name: &str, colour: &str) -> Result<()> {
        put(self.ground, consumer, name, colour).await
    }

    /// Waits until the keeper has made the child of a widget of this colour.
    pub(crate) async fn kept(&self, consumer: &Workspace, name: &str, colour: &str) -> Result<()> {
        let path = consumer.at(&format!("{MAPS}/{name}-out"));
        let client = &self.ground.client;
        eventually(DEADLINE, &format!("{path} to be {colour}"), || async {
            let child = client.get(&path).await?.ok()?;
            Ok(Seen::of(child["data"]["colour"].clone(), |now| {
                now == colour
            }))
        })
        .await
        .map(drop)
    }

    /// The provider of the export's workspaces.
    pub(crate) fn workspaces(&self, change: impl FnOnce(&mut KcpOptions)) -> Arc<Kcp> {
        let mut options = KcpOptions::new(Workspaces::EndpointSlice("things".into()));
        change(&mut options);
        Arc::new(Kcp::new("workspaces", options))
    }

    /// Runs a manager with a keeper of widgets in the workspaces of the export; its local cluster is the workspace that has the export.
    pub(crate) fn play(&self) -> Result<Play> {
        self.play_with(|_| ())
    }

    /// As [`Shop::play`], with other options of the provider.
    pub(crate) fn play_with(&self, change: impl FnOnce(&mut KcpOptions)) -> Result<Play> {
        let keeper = Arc::new(Keeper::default());
        let manager = self
            .manager()?
            .provider(self.workspaces(change))
            .controller(keeper.controller()?);
        Play::start(manager, keeper)
    }

    /// A manager whose local cluster is the workspace that has the export.
    pub(crate) fn manager(&self) -> Result<windlass_fleet::manager::Builder> {
        Ok(manager(self.ground.config(&self.provider.path)?))
    }
}

/// A manager with this local cluster.
pub(crate) fn manager(local: ClusterConfig) -> windlass_fleet::manager::Builder {
    Manager::builder().local(ClusterSpec::new(ClusterName::local(), local))
}

/// Runs a manager with a keeper of widgets in some workspaces, whose slices this local cluster has.
pub(crate) fn play_in(local: ClusterConfig, workspaces: Workspaces) -> Result<Play> {
    let keeper = Arc::new(Keeper::default());
    let provider = Kcp::new("workspaces", KcpOptions::new(workspaces));
    let manager = manager(local)
        .provider(Arc::new(provider))
        .controller(keeper.controller()?);
    Play::start(manager, keeper)
}

/// Makes a widget, or changes its colour, as the consumer does.
pub(crate) async fn put(
    ground: &Ground,
    consumer: &Workspace,
    name: &str,
    colour: &str,
) -> Result<()> {
    let path = consumer.at(&format!(
        "{WIDGETS}/{name}?fieldManager=consumer&force=true"
    ));
    let object = widget(name, colour);
    let applied = ground.client.patch(&path, "apply-patch", &object).await?;
    applied.ok().map(drop).with_context(|| path.clone())
}
