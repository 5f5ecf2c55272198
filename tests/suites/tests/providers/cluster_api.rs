//! Clusters of Cluster API, by its own CustomResourceDefinitions. Entry points: [`Capi`] and the tests.

use crate::stage::{DEPUTY, EAST, HUB, Scene, WEST, merge, put, put_status, secret};
use anyhow::Result;
use kube_client::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::cluster_api::{ClusterApi, ClusterApiOptions};
use windlass_fleet::provider::hub_source::HubSource;
use windlass_fleet::provider::readiness::{OnUnready, Readiness};

/// What Cluster API has of a test: objects and Secrets in the test's namespace, on a server with one of its versions.
pub(crate) struct Capi<'a> {
    scene: &'a Scene,
    client: &'a Client,
    version: &'static str,
}

impl<'a> Capi<'a> {
    /// On the hub.
    pub(crate) fn v1beta2(scene: &'a Scene) -> Self {
        Self {
            scene,
            client: scene.client(HUB),
            version: "v1beta2",
        }
    }

    /// On a server with the older version.
    fn v1beta1(scene: &'a Scene) -> Self {
        Self {
            scene,
            client: scene.client(EAST),
            version: "v1beta1",
        }
    }

    fn object(&self, name: &str) -> Value {
        json!({"apiVersion": format!("cluster.x-k8s.io/{}", self.version), "kind": "Cluster",
            "metadata": {"name": name, "namespace": self.scene.name}})
    }

    /// Makes a Cluster or changes it.
    pub(crate) async fn cluster(&self, name: &str, labels: &Value) -> Result<()> {
        let mut object = self.object(name);
        object["metadata"]["labels"] = labels.clone();
        object["spec"] = json!({"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}});
        put(self.client, &object).await?;
        Ok(())
    }

    /// Writes the Secret that Cluster API would write for a server.
    pub(crate) async fn kubeconfig(&self, name: &str, text: &str) -> Result<()> {
        let labels = json!({"cluster.x-k8s.io/cluster-name": name});
        let mut object = secret(&format!("{name}-kubeconfig"), &labels, "value", text);
        object["metadata"]["namespace"] = json!(self.scene.name);
        put(self.client, &object).await?;
        Ok(())
    }

    async fn status(&self, name: &str, status: Value) -> Result<()> {
        let mut object = self.object(name);
        object["status"] = status;
        put_status(self.client, &object).await
    }

    /// Says that the control plane of a cluster is initialized.
    pub(crate) async fn initialize(&self, name: &str) -> Result<()> {
        let status = match self.version {
            "v1beta1" => json!({"controlPlaneReady": true}),
            _ => json!({"initialization": {"controlPlaneInitialized": true}}),
        };
        self.status(name, status).await
    }

    /// A whole cluster.
    pub(crate) async fn make(&self, name: &str, server: &str) -> Result<()> {
        self.cluster(name, &json!({"region": server})).await?;
        let text = self.scene.server(server).kubeconfig();
        self.kubeconfig(name, &text).await?;
        self.initialize(name).await
    }

    async fn condition(&self, name: &str, condition: &str, status: &str) -> Result<()> {
        let condition = json!({"type": condition, "status": status, "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        self.status(name, json!({"conditions": [condition]})).await
    }
}

pub(crate) fn options(scene: &Scene) -> ClusterApiOptions {
    ClusterApiOptions {
        namespaces: [scene.name.to_owned()].into(),
        policy: scene.policy(),
        ..ClusterApiOptions::default()
    }
}

fn provider(options: ClusterApiOptions) -> Vec<Arc<dyn Provider>> {
    vec![Arc::new(ClusterApi::new("capi", options))]
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_cluster_of_cluster_api_is_engaged_once_its_control_plane_is_initialized() -> Result<()> {
    let scene = Scene::start("capi-initialized").await?;
    let capi = Capi::v1beta2(&scene);
    capi.cluster("prod-eu", &json!({"region": "eu"})).await?;
    let text = scene.server(EAST).kubeconfig();
    capi.kubeconfig("prod-eu", &text).await?;
    scene.animal(EAST, "parrot").await?;
    let play = scene.play(provider(options(&scene)))?;
    // Once a later cluster is engaged, the first one has been looked at.
    capi.make("prod-us", WEST).await?;
    play.engaged(&["capi-initialized/prod-us"]).await?;
    capi.initialize("prod-eu").await?;
    play.engaged(&["capi-initialized/prod-eu", "capi-initialized/prod-us"])
        .await?;
    scene.fed(EAST, "parrot").await?;
    let engaged = play.ready_soon("capi-initialized/prod-eu").await?;
    assert_eq!(engaged.labels().get("region"), Some("eu"));
    play.no_problem().await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn another_kubeconfig_of_cluster_api_counts_from_the_secret_alone() -> Result<()> {
    let scene = Scene::start("capi-another-kubeconfig").await?;
    let capi = Capi::v1beta2(&scene);
    capi.make("prod", EAST).await?;
    let play = scene.play(provider(options(&scene)))?;
    let before = play.ready_soon("capi-another-kubeconfig/prod").await?;
    // Other credentials are exchanged in place; what follows is done with them.
    let text = scene.server(EAST).kubeconfig_of(DEPUTY);
    capi.kubeconfig("prod", &text).await?;
    crate::play::is_user(&before, DEPUTY).await?;
    assert!(play.is_still(&before));
    scene.animal(EAST, "parrot").await?;
    scene.fed(EAST, "parrot").await?;
    // Another server is another cluster.
    scene.animal(WEST, "goat").await?;
    let text = scene.server(WEST).kubeconfig();
    capi.kubeconfig("prod", &text).await?;
    scene.fed(WEST, "goat").await?;
    assert!(!play.is_still(&before));
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_cluster_of_cluster_api_that_is_being_deleted_is_disengaged() -> Result<()> {
    let scene = Scene::start("capi-being-deleted").await?;
    let capi = Capi::v1beta2(&scene);
    for name in ["prod", "stays"] {
        capi.make(name, EAST).await?;
    }
    let object = capi.object("prod");
    let held = json!({"metadata": {"finalizers": ["cluster.cluster.x-k8s.io"]}});
    merge(scene.client(HUB), &object, &held).await?;
    let play = scene.play(provider(options(&scene)))?;
    play.engaged(&["capi-being-deleted/prod", "capi-being-deleted/stays"])
        .await?;
    scene.delete(object.clone()).await?;
    play.has(&["capi-being-deleted/stays"]).await?;
    let freed = json!({"metadata": {"finalizers": null}});
    merge(scene.client(HUB), &object, &freed).await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_condition_or_a_selector_of_ones_own_decides_about_cluster_api() -> Result<()> {
    let scene = Scene::start("capi-own-condition").await?;
    let capi = Capi::v1beta2(&scene);
    for name in ["chosen", "other"] {
        capi.make(name, EAST).await?;
    }
    capi.cluster("chosen", &json!({"tier": "prod"})).await?;
    let mut options = options(&scene);
    options.label_selector = "tier=prod".parse()?;
    options.ready = Readiness::Condition("Available".into());
    options.on_unready = OnUnready::Disengage;
    let play = scene.play(provider(options))?;
    let subject = "capi-own-condition/chosen";
    play.problem(subject).await?;
    assert!(play.names().is_empty());
    capi.condition("chosen", "Available", "True").await?;
    play.engaged(&[subject]).await?;
    capi.condition("chosen", "Available", "False").await?;
    play.has(&[]).await?;
    capi.condition("chosen", "Available", "True").await?;
    play.engaged(&[subject]).await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_older_version_of_cluster_api_and_its_topology_are_understood() -> Result<()> {
    let scene = Scene::start("capi-v1beta1").await?;
    let capi = Capi::v1beta1(&scene);
    capi.make("old", WEST).await?;
    let topology = json!({"spec": {"topology": {"class": "large", "version": "v1.36.1"}}});
    merge(scene.client(EAST), &capi.object("old"), &topology).await?;
    // The hub is a cluster of a kubeconfig file, which is not the local one.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("hub.kubeconfig");
    scene.server(EAST).write_kubeconfig(&file)?;
    let mut options = options(&scene);
    options.from = HubSource::Kubeconfig {
        path: file,
        context: None,
        policy: windlass_fleet::cluster::KubeconfigPolicy::file(),
    };
    let play = scene.play(provider(options))?;
    let old = play.ready_soon("capi-v1beta1/old").await?;
    let property = |name: &str| old.properties().get(name).unwrap_or_default().to_owned();
    assert_eq!(property("topology.version"), "v1.36.1");
    assert_eq!(property("topology.class"), "large");
    scene.animal(WEST, "goat").await?;
    scene.fed(WEST, "goat").await?;
    play.end().await
}
