//! Clusters of a ClusterProfile inventory. Entry points: [`Inventory`] and the tests.

use crate::play::is_user;
use crate::stage::{DEPUTY, EAST, HUB, SOON, Scene, WEST, merge, secret};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::cluster::ClusterState;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::cluster_profiles::{
    AccessProvider, AccessStrategy, ClusterProfiles, ClusterProfilesOptions, CredentialPlugin,
    ProfileArgs, ProfileVariables,
};
use windlass_fleet::provider::readiness::{OnUnready, Readiness};
use windlass_harness::eventually::{Seen, eventually};

/// The consumer that Secrets are written for.
const CONSUMER: &str = "windlass";

/// What the manager of an inventory writes for a test.
pub(crate) struct Inventory<'a>(pub(crate) &'a Scene);

impl Inventory<'_> {
    fn object(name: &str) -> Value {
        json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": {"name": name}})
    }

    /// Makes a profile, or changes its labels.
    pub(crate) async fn profile(&self, name: &str, labels: &Value) -> Result<()> {
        let mut object = Self::object(name);
        object["metadata"]["labels"] = labels.clone();
        object["spec"] = json!({"displayName": name, "clusterManager": {"name": "test"}});
        self.0.put(object).await?;
        Ok(())
    }

    /// Writes all of a profile's status.
    async fn status(&self, name: &str, status: &Value) -> Result<()> {
        let mut object = Self::object(name);
        object["status"] = status.clone();
        self.0.put_status(object).await
    }

    /// Writes the kubeconfig of a profile for the consumer.
    pub(crate) async fn kubeconfig(&self, name: &str, text: &str) -> Result<()> {
        let labels = json!({"x-k8s.io/cluster-inventory-consumer": CONSUMER, "x-k8s.io/cluster-profile": name});
        let object = secret(&format!("{name}-access"), &labels, "Config", text);
        self.0.put(object).await?;
        Ok(())
    }

    /// A whole, healthy profile with a Secret.
    pub(crate) async fn make(&self, name: &str, server: &str) -> Result<()> {
        self.profile(name, &json!({"server": server})).await?;
        let text = self.0.server(server).kubeconfig();
        self.kubeconfig(name, &text).await?;
        self.status(name, &healthy("True", "2026-01-01T00:00:00Z"))
            .await
    }

    /// A healthy profile that offers a server under the names of access providers, in the field `list`.
    async fn offer(&self, name: &str, status: Value) -> Result<()> {
        self.profile(name, &json!({})).await?;
        let mut all = healthy("True", "2026-01-01T00:00:00Z");
        for (field, value) in status.as_object().context("fields of a status")? {
            all[field] = value.clone();
        }
        self.status(name, &all).await
    }

    fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.0.name)
    }
}

fn healthy(status: &str, time: &str) -> Value {
    json!({
        "conditions": [{"type": "ControlPlaneHealthy", "status": status, "reason": "Test", "message": "", "lastTransitionTime": time}],
        "version": {"kubernetes": "1.36.1"},
        "properties": [
            {"name": "cluster.clusterset.k8s.io", "value": "c-1", "lastObservedTime": time},
            {"name": "clusterset.k8s.io", "value": "set-1", "lastObservedTime": time},
        ],
    })
}

fn options(scene: &Scene, access: AccessStrategy) -> ClusterProfilesOptions {
    ClusterProfilesOptions {
        namespaces: [scene.name.to_owned()].into(),
        policy: scene.policy(),
        ..ClusterProfilesOptions::new(access)
    }
}

/// A provider that reads Secrets.
pub(crate) fn by_secret(scene: &Scene) -> Result<ClusterProfilesOptions> {
    Ok(options(scene, AccessStrategy::secret(CONSUMER)?))
}

fn provider(options: ClusterProfilesOptions) -> Vec<Arc<dyn Provider>> {
    vec![Arc::new(ClusterProfiles::new("profiles", options))]
}

/// An access provider whose plugin is a script.
fn plugin(name: &str, script: &str, env: &[(&str, &str)]) -> AccessProvider {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    AccessProvider {
        name: name.to_owned(),
        plugin: CredentialPlugin {
            command: "sh".into(),
            args: vec!["-c".into(), script.to_owned()],
            env: env.iter().map(owned).collect(),
            api_version: None,
            install_hint: None,
            provide_cluster_info: true,
        },
        arguments: ProfileArgs::Ignore,
        variables: ProfileVariables::Ignore,
    }
}

/// A script that prints the token in a variable.
const PRINT_TOKEN: &str = r#"printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}' "$TOKEN""#;

/// The fields with which a profile offers a server.
fn offered(scene: &Scene, server: &str) -> Value {
    let server = scene.server(server);
    let ca = k8s_openapi::ByteString(server.ca_pem().as_bytes().to_vec());
    json!({"server": server.url(), "certificate-authority-data": ca})
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_profile_is_engaged_once_its_control_plane_is_healthy() -> Result<()> {
    let scene = Scene::start("profile-healthy").await?;
    let inventory = Inventory(&scene);
    inventory.make("prod-eu", EAST).await?;
    inventory
        .status("prod-eu", &healthy("False", "2026-01-01T00:00:00Z"))
        .await?;
    scene.animal(EAST, "parrot").await?;
    let play = scene.play(provider(by_secret(&scene)?))?;
    let name = inventory.named("prod-eu");
    let message = play.problem(&name).await?;
    assert!(message.contains("ControlPlaneHealthy"), "{message}");
    assert!(play.names().is_empty());
    inventory
        .status("prod-eu", &healthy("True", "2026-01-01T00:00:01Z"))
        .await?;
    play.engaged(&[&name]).await?;
    scene.fed(EAST, "parrot").await?;
    play.no_problem().await?;
    let engaged = play.ready_soon(&name).await?;
    let property = |name: &str| {
        engaged
            .properties()
            .get(name)
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(property("version.kubernetes"), "1.36.1");
    assert_eq!(property("cluster.clusterset.k8s.io"), "c-1");
    assert_eq!(property("clusterset.k8s.io"), "set-1");
    // One that is unhealthy later stays, and leaves with its profile.
    inventory
        .status("prod-eu", &healthy("False", "2026-01-01T00:00:02Z"))
        .await?;
    inventory.make("later", WEST).await?;
    play.engaged(&[&inventory.named("later"), &name]).await?;
    scene.delete(Inventory::object("prod-eu")).await?;
    play.has(&[&inventory.named("later")]).await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_profile_whose_secret_changes_identity_keeps_its_cluster() -> Result<()> {
    let scene = Scene::start("profile-identity").await?;
    let inventory = Inventory(&scene);
    inventory.make("prod", EAST).await?;
    let play = scene.play(provider(by_secret(&scene)?))?;
    let before = play.ready_soon(&inventory.named("prod")).await?;
    is_user(&before, "admin").await?;
    let text = scene.server(EAST).kubeconfig_of(DEPUTY);
    inventory.kubeconfig("prod", &text).await?;
    is_user(&before, DEPUTY).await?;
    assert!(play.is_still(&before));
    scene.animal(EAST, "parrot").await?;
    scene.fed(EAST, "parrot").await?;
    // Another server is another cluster.
    inventory
        .kubeconfig("prod", &scene.server(WEST).kubeconfig())
        .await?;
    scene.animal(WEST, "goat").await?;
    scene.fed(WEST, "goat").await?;
    assert!(!play.is_still(&before));
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_plugin_of_an_access_provider_reaches_the_server_that_the_profile_offers() -> Result<()>
{
    let scene = Scene::start("profile-plugin").await?;
    let inventory = Inventory(&scene);
    let east = offered(&scene, EAST);
    let dead = json!({"server": "https://127.0.0.1:1"});
    let both = json!({
        "accessProviders": [{"name": "script", "cluster": east}],
        "credentialProviders": [{"name": "script", "cluster": dead}],
    });
    inventory.offer("both", both).await?;
    let deprecated = json!({"credentialProviders": [{"name": "script", "cluster": east}]});
    inventory.offer("deprecated", deprecated).await?;
    let unknown = json!({"accessProviders": [{"name": "unknown", "cluster": east}]});
    inventory.offer("unknown", unknown).await?;
    scene.animal(EAST, "parrot").await?;

    let token = [("TOKEN", scene.server(EAST).token())];
    let access = AccessStrategy::access_providers(vec![plugin("script", PRINT_TOKEN, &token)])?;
    let play = scene.play(provider(options(&scene, access)))?;
    let names = ["both", "deprecated"].map(|name| inventory.named(name));
    play.engaged(&[&names[0], &names[1]]).await?;
    scene.fed(EAST, "parrot").await?;
    let message = play.problem(&inventory.named("unknown")).await?;
    assert!(
        message.contains("unknown") && message.contains("script"),
        "{message}"
    );
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn variables_of_one_profile_do_not_reach_the_plugin_of_another() -> Result<()> {
    let scene = Scene::start("profile-variables").await?;
    let inventory = Inventory(&scene);
    let mut with_token = offered(&scene, EAST);
    with_token["extensions"] = json!([{"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs",
        "extension": {"TOKEN": scene.server(EAST).token()}}]);
    let offer =
        |cluster: &Value| json!({"accessProviders": [{"name": "script", "cluster": cluster}]});
    inventory.offer("a-with", offer(&with_token)).await?;
    inventory
        .offer("b-without", offer(&offered(&scene, EAST)))
        .await?;
    let mut script = plugin("script", PRINT_TOKEN, &[]);
    script.variables = ProfileVariables::AppendIfNotExists;
    let access = AccessStrategy::access_providers(vec![script])?;
    let play = scene.play(provider(options(&scene, access)))?;
    let names = ["a-with", "b-without"].map(|name| inventory.named(name));
    play.has(&[&names[0], &names[1]]).await?;
    play.ready_soon(&names[0]).await?;
    // Again and again: what leaks does so with time.
    for beat in 0..5 {
        let time = format!("2026-01-01T00:00:{beat:02}Z");
        let mut status = healthy("True", &time);
        status["accessProviders"] = offer(&with_token)["accessProviders"].clone();
        inventory.status("a-with", &status).await?;
    }
    eventually(SOON, "the other cluster to be refused", || async {
        let status = play.status(&names[1])?;
        Ok(Seen::of(status, |now| {
            now.state != ClusterState::Ready && !now.reason.is_empty()
        }))
    })
    .await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn readiness_of_ones_own_and_an_unready_profile_that_leaves() -> Result<()> {
    let scene = Scene::start("profile-readiness").await?;
    let inventory = Inventory(&scene);
    inventory
        .profile("at-once", &json!({"mode": "always"}))
        .await?;
    inventory
        .kubeconfig("at-once", &scene.server(EAST).kubeconfig())
        .await?;
    inventory.make("leaves", EAST).await?;
    let mut always = by_secret(&scene)?;
    always.ready = Readiness::Always;
    always.label_selector = "mode=always".parse()?;
    let mut leaving = by_secret(&scene)?;
    leaving.on_unready = OnUnready::Disengage;
    leaving.label_selector = "server=east".parse()?;
    let play = scene.play(vec![
        Arc::new(ClusterProfiles::new("always", always)),
        Arc::new(ClusterProfiles::new("leaving", leaving)),
    ])?;
    let names = ["at-once", "leaves"].map(|name| inventory.named(name));
    play.engaged(&[&names[0], &names[1]]).await?;
    inventory
        .status("leaves", &healthy("Unknown", "2026-01-01T00:00:01Z"))
        .await?;
    play.has(&[&names[0]]).await?;
    inventory
        .status("leaves", &healthy("True", "2026-01-01T00:00:02Z"))
        .await?;
    play.engaged(&[&names[0], &names[1]]).await?;
    // Two Secrets for one profile are one too many, and harm nobody.
    let labels = json!({"x-k8s.io/cluster-inventory-consumer": CONSUMER, "x-k8s.io/cluster-profile": "leaves"});
    scene.put(secret("second", &labels, "Config", "{")).await?;
    let message = play.problem(&names[1]).await?;
    assert!(message.contains("leave one"), "{message}");
    play.engaged(&[&names[0], &names[1]]).await?;
    scene
        .delete(secret("second", &labels, "Config", "{"))
        .await?;
    play.no_problem().await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_terminating_profile_takes_its_cluster_with_it() -> Result<()> {
    let scene = Scene::start("profile-terminating").await?;
    let inventory = Inventory(&scene);
    inventory.make("prod", EAST).await?;
    let mut object = Inventory::object("prod");
    object["metadata"]["namespace"] = json!(scene.name);
    let held = json!({"metadata": {"finalizers": ["example.com/test"]}});
    merge(scene.client(HUB), &object, &held).await?;
    let play = scene.play(provider(by_secret(&scene)?))?;
    play.engaged(&[&inventory.named("prod")]).await?;
    scene.delete(object.clone()).await?;
    play.has(&[]).await?;
    let freed = json!({"metadata": {"finalizers": null}});
    merge(scene.client(HUB), &object, &freed).await?;
    play.end().await
}
