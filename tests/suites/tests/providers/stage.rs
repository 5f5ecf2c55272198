//! Real servers that the tests of this suite share, and what a test has of them. Entry point: [`Scene::start`].
//!
//! A test has a namespace of its own on each server, and watches only objects with its own mark. A test that harms a server starts one of
//! its own.

use crate::play::{Play, marked};
use anyhow::{Context as _, Result};
use kube_client::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams,
};
use kube_client::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Mutex;
use windlass_fleet::cluster::{AllowServers, ClusterConfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::provider::Provider;
use windlass_fleet::{ClusterName, Manager};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::testenv::crds::{self, ClusterApi};
use windlass_harness::testenv::{Environment, Server, Spec};

/// A loaded machine runs several tests of real servers at once.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// The server with the objects that clusters are found by.
pub(crate) const HUB: &str = "hub";
/// Two other servers.
pub(crate) const EAST: &str = "east";
pub(crate) const WEST: &str = "west";
/// A user that exists on [`EAST`] and may do everything there, as the tests grant it.
pub(crate) const DEPUTY: &str = "deputy";
/// A user of all servers that may do nothing.
pub(crate) const NOBODY: &str = "nobody";

/// The servers, which end with the last test that uses them.
pub(crate) struct Stage {
    environment: Environment,
}

static SHARED: Mutex<Weak<Stage>> = Mutex::const_new(Weak::new());

impl Stage {
    async fn shared() -> Result<Arc<Self>> {
        let mut shared = SHARED.lock().await;
        if let Some(stage) = shared.upgrade() {
            return Ok(stage);
        }
        let stage = Arc::new(Self::start().await?);
        *shared = Arc::downgrade(&stage);
        Ok(stage)
    }

    async fn start() -> Result<Self> {
        let specs = [HUB, EAST, WEST].map(|name| Spec::new(name).with_user(NOBODY));
        let [hub, east, west] = specs;
        let specs = [hub.with_controllers(), east.with_user(DEPUTY), west];
        let environment = Environment::start(specs).await?;
        let hub = environment.server(HUB).client().await?;
        let east = environment.server(EAST).client().await?;
        crds::install(&hub, &ClusterApi::V1Beta2.definition()?).await?;
        crds::install(&hub, &crds::cluster_profile()?).await?;
        crds::install(&east, &ClusterApi::V1Beta1.definition()?).await?;
        let deputy = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": DEPUTY},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": DEPUTY}]});
        put(&east, &deputy).await?;
        Ok(Self { environment })
    }
}

/// A test's part of the servers.
pub(crate) struct Scene {
    stage: Arc<Stage>,
    /// The test's namespace, and its mark.
    pub(crate) name: &'static str,
    clients: BTreeMap<&'static str, Client>,
}

impl Scene {
    /// A scene of this name.
    pub(crate) async fn start(name: &'static str) -> Result<Self> {
        windlass_harness::logs::init();
        let stage = Stage::shared().await?;
        let mut clients = BTreeMap::new();
        for server in [HUB, EAST, WEST] {
            let client = stage.environment.server(server).client().await?;
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            put(&client, &namespace).await?;
            clients.insert(server, client);
        }
        Ok(Self {
            stage,
            name,
            clients,
        })
    }

    pub(crate) fn server(&self, server: &str) -> &Server {
        self.stage.environment.server(server)
    }

    /// A client of an administrator.
    pub(crate) fn client(&self, server: &str) -> &Client {
        &self.clients[server]
    }

    /// Applies an object on the hub, in the test's namespace.
    pub(crate) async fn put(&self, object: Value) -> Result<DynamicObject> {
        put(self.client(HUB), &self.placed(object)).await
    }

    /// Applies the status of an object on the hub, in the test's namespace.
    pub(crate) async fn put_status(&self, object: Value) -> Result<()> {
        put_status(self.client(HUB), &self.placed(object)).await
    }

    /// Deletes an object of the hub, in the test's namespace.
    pub(crate) async fn delete(&self, object: Value) -> Result<()> {
        delete(self.client(HUB), &self.placed(object)).await
    }

    /// The object in the test's namespace, unless it says another one.
    fn placed(&self, mut object: Value) -> Value {
        let namespace = &mut object["metadata"]["namespace"];
        if namespace.is_null() {
            *namespace = json!(self.name);
        }
        object
    }

    /// Applies an object that the controller of the test has to feed.
    pub(crate) async fn animal(&self, server: &str, name: &str) -> Result<()> {
        put(self.client(server), &marked(self.name, self.name, name)).await?;
        Ok(())
    }

    /// Waits until the controller has fed an object.
    pub(crate) async fn fed(&self, server: &str, name: &str) -> Result<()> {
        self.fed_in(server, self.name, name).await
    }

    /// As [`Scene::fed`], in a namespace.
    pub(crate) async fn fed_in(&self, server: &str, namespace: &str, name: &str) -> Result<()> {
        eventually(SOON, &format!("{name} in {server} to be fed"), || async {
            let stomach = self.stomach(server, namespace, name).await?;
            Ok(Seen::of(stomach, |food| food.as_deref() == Some("food")))
        })
        .await
        .map(drop)
    }

    /// What the controller has put into an object.
    pub(crate) async fn stomach(
        &self,
        server: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>> {
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.client(server).clone(), namespace);
        let map = maps.get_opt(name).await?.context("no such object")?;
        Ok(map.data.and_then(|data| data.get("stomach").cloned()))
    }

    /// What objects of the hub may ask for: as by default, but the servers of the tests too.
    pub(crate) fn policy(&self) -> KubeconfigPolicy {
        policy()
    }

    /// Runs a manager with these providers, whose local cluster is the hub.
    pub(crate) fn play(&self, providers: Vec<Arc<dyn Provider>>) -> Result<Play> {
        let hub = self.server(HUB).kubeconfig();
        let config =
            ClusterConfig::from_kubeconfig_text(&hub, None, None, &KubeconfigPolicy::file())?;
        let local = ClusterSpec::new(ClusterName::local(), config);
        // The tests have two servers for all their clusters.
        let options = ManagerOptions {
            duplicate_clusters: true,
            ..ManagerOptions::default()
        };
        let builder = Manager::builder().options(options).local(local);
        Play::start(builder, self.name, providers)
    }

    /// As [`Self::play`], with the default options: a server is worked on under one name.
    pub(crate) fn play_once(&self, providers: Vec<Arc<dyn Provider>>) -> Result<Play> {
        Play::start(Manager::builder(), self.name, providers)
    }
}

/// What objects may ask for, on servers of this machine.
pub(crate) fn policy() -> KubeconfigPolicy {
    KubeconfigPolicy {
        allow_servers: AllowServers::parse(&["127.0.0.0/8"]).expect("a network"),
        ..KubeconfigPolicy::object()
    }
}

fn api_of(client: &Client, object: &Value) -> Result<(Api<DynamicObject>, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
    let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
    let resource = ApiResource::from_gvk(&kind);
    let api = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = text(&object["metadata"]["name"]);
    Ok((api, name))
}

/// Applies an object as an administrator.
pub(crate) async fn put(client: &Client, object: &Value) -> Result<DynamicObject> {
    let (api, name) = api_of(client, object)?;
    let params = PatchParams::apply("test").force();
    let put = api.patch(&name, &params, &Patch::Apply(object)).await;
    put.with_context(|| format!("apply {object}"))
}

/// Applies the status of an object as an administrator.
pub(crate) async fn put_status(client: &Client, object: &Value) -> Result<()> {
    let (api, name) = api_of(client, object)?;
    let params = PatchParams::apply("test").force();
    let put = api
        .patch_status(&name, &params, &Patch::Apply(object))
        .await;
    put.map(drop)
        .with_context(|| format!("apply the status {object}"))
}

/// Changes an object by a merge patch, as an administrator.
pub(crate) async fn merge(client: &Client, object: &Value, patch: &Value) -> Result<DynamicObject> {
    let (api, name) = api_of(client, object)?;
    let merged = api
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    merged.with_context(|| format!("patch {object}"))
}

/// Deletes an object as an administrator.
pub(crate) async fn delete(client: &Client, object: &Value) -> Result<()> {
    let (api, name) = api_of(client, object)?;
    let deleted = api.delete(&name, &DeleteParams::default()).await;
    deleted
        .map(drop)
        .with_context(|| format!("delete {object}"))
}

/// A Secret with a text.
pub(crate) fn secret(name: &str, labels: &Value, key: &str, text: &str) -> Value {
    let text = k8s_openapi::ByteString(text.as_bytes().to_vec());
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": {key: text}})
}
