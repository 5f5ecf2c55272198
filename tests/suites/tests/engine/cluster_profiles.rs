//! Clusters that ClusterProfiles of a hub stand for, on simulated servers.

use super::fixture::object;
use super::inventories::{HubFleet, apply, kubeconfig, policy};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_apiserver::{Server, Verb};
use windlass_fleet::Cluster;
use windlass_fleet::provider::cluster_profiles::{
    AccessProvider, AccessStrategy, ClusterProfiles, ClusterProfilesOptions, CredentialPlugin,
    ProfileArgs, ProfileVariables,
};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::request;

const VERSION: &str = "multicluster.x-k8s.io/v1alpha1";

fn definition() -> Value {
    let versions = json!([{"name": "v1alpha1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterprofiles.multicluster.x-k8s.io"},
        "spec": {"group": "multicluster.x-k8s.io", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "clusterprofiles", "singular": "clusterprofile", "kind": "ClusterProfile", "listKind": "ClusterProfileList"}}})
}

/// A hub with ClusterProfiles, and the clusters that they stand for, on a server of their own with credentials of its own.
struct World {
    fleet: HubFleet,
    members: Server,
}

impl World {
    async fn by(access: AccessStrategy) -> Result<Self> {
        let mut options = ClusterProfilesOptions::new(access);
        options.policy = policy()?;
        let fleet = HubFleet::start(|server| {
            apply(server, "hub", definition())?;
            Ok(Arc::new(ClusterProfiles::new("profiles", options)))
        });
        let members = Server::builder().cluster("zoo").cluster("jungle");
        let members = members.bind("127.0.0.1:0").await?;
        Ok(Self {
            fleet: fleet.await?,
            members,
        })
    }

    /// With plugins that give the token that a profile passes to them as an argument.
    async fn by_plugin() -> Result<Self> {
        let script = r#"printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$1""#;
        let plugin = |name: &str| AccessProvider {
            name: name.to_owned(),
            plugin: CredentialPlugin {
                command: "sh".to_owned(),
                args: ["-c", script, "plugin"].map(str::to_owned).into(),
                ..CredentialPlugin::default()
            },
            arguments: ProfileArgs::Append,
            variables: ProfileVariables::Ignore,
        };
        let configured = vec![plugin("preferred"), plugin("other")];
        Self::by(AccessStrategy::access_providers(configured)?).await
    }

    /// The access providers of a profile: one, with a token for its plugin.
    fn access(&self, provider: &str, of: &str, token: &str) -> Value {
        let extension = json!({"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": [token]});
        json!([{"name": provider, "cluster": {"server": self.members.url(of), "extensions": [extension]}}])
    }

    fn merge(&self, patch: &Value) -> Result<()> {
        let hub = self.fleet.hub()?;
        let merged = hub.merge(VERSION, "ClusterProfile", "fleet", "zoo", patch);
        merged.map(drop).map_err(|error| anyhow!("{error:?}"))
    }

    /// Waits until a new object of `zoo` is reconciled.
    async fn reconciles(&self, unique: &str) -> Result<()> {
        apply(&self.members, "zoo", object(unique, json!({})))?;
        self.fleet.log.ran(&request("fleet/zoo", unique), 1).await
    }

    async fn zoo(&self) -> Result<Arc<Cluster>> {
        self.fleet.manager.ready("fleet/zoo").await
    }
}

fn status(healthy: &str, heartbeat: &str) -> Value {
    json!({
        "conditions": [{"type": "ControlPlaneHealthy", "status": healthy, "reason": "r", "message": "m", "lastTransitionTime": heartbeat}],
        "properties": [{"name": "clusterset.k8s.io", "value": "environ-1", "lastObservedTime": heartbeat}],
        "version": {"kubernetes": "v1.35.2"}})
}

fn profile(status: &Value) -> Value {
    json!({"apiVersion": VERSION, "kind": "ClusterProfile", "status": status,
        "metadata": {"name": "zoo", "namespace": "fleet", "labels": {"env": "prod"}},
        "spec": {"clusterManager": {"name": "test"}}})
}

const THEN: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn a_profile_is_engaged_once_healthy_with_the_credentials_of_the_plugin() -> Result<()> {
    let world = World::by_plugin().await?;
    let fleet = &world.fleet;
    world.members.set_tokens(Some(&["good"]));
    fleet.apply(profile(&status("False", THEN)))?;
    fleet
        .problem("its condition ControlPlaneHealthy is False")
        .await?;
    let mut healthy = status("True", THEN);
    healthy["credentialProviders"] = world.access("other", "jungle", "bad");
    healthy["accessProviders"] = world.access("preferred", "zoo", "good");
    world.merge(&json!({"status": healthy}))?;
    world.reconciles("a").await?;
    let zoo = world.zoo().await?;
    assert_eq!(zoo.labels().get("env"), Some("prod"));
    assert_eq!(zoo.properties().get("clusterset.k8s.io"), Some("environ-1"));

    // It stays while it is not healthy, and leaves as soon as it terminates.
    let finalizers = json!(["example.com/wait"]);
    let unhealthy =
        json!({"status": status("False", THEN), "metadata": {"finalizers": finalizers}});
    world.merge(&unhealthy)?;
    wait("the condition", || {
        Seen::of(zoo.properties(), |now| {
            now.get("condition/ControlPlaneHealthy") == Some("False")
        })
    })
    .await?;
    assert!(Arc::ptr_eq(&zoo, &world.zoo().await?));
    fleet.delete(VERSION, "ClusterProfile", "zoo")?;
    fleet.engaged(&[]).await
}

#[tokio::test]
async fn a_heartbeat_re_engages_nothing_and_runs_no_key_again() -> Result<()> {
    let world = World::by_plugin().await?;
    let mut beat = status("True", THEN);
    beat["accessProviders"] = world.access("preferred", "zoo", "any");
    world.fleet.apply(profile(&beat))?;
    world.reconciles("a").await?;
    let zoo = world.zoo().await?;
    let members = world.members.cluster("zoo").expect("it is there");
    let watches = || members.count(Verb::Watch, "configmaps");
    let before = watches();
    for minute in 1..=5 {
        let status = status("True", &format!("2026-01-01T00:0{minute}:00Z"));
        world.merge(&json!({"status": status}))?;
    }
    // A later change that is seen shows that those before were.
    world.merge(&json!({"status": {"version": {"kubernetes": "v1.36.0"}}}))?;
    wait("the new version", || {
        Seen::of(zoo.properties(), |now| {
            now.get("version.kubernetes") == Some("v1.36.0")
        })
    })
    .await?;
    assert!(Arc::ptr_eq(&zoo, &world.zoo().await?));
    assert_eq!(world.fleet.log.count(&request("fleet/zoo", "a")), 1);
    assert_eq!(watches(), before, "nothing was watched again");
    Ok(())
}

#[tokio::test]
async fn a_profile_that_names_other_credentials_keeps_its_cluster() -> Result<()> {
    let world = World::by_plugin().await?;
    world.members.set_tokens(Some(&["one", "two"]));
    let mut healthy = status("True", THEN);
    healthy["accessProviders"] = world.access("preferred", "zoo", "one");
    world.fleet.apply(profile(&healthy))?;
    let zoo = world.zoo().await?;
    let before = zoo.config();
    let two = world.access("preferred", "zoo", "two");
    world.merge(&json!({"status": {"accessProviders": two}}))?;
    world.fleet.renewed(&zoo, &before).await?;
    world.members.set_tokens(Some(&["two"]));
    world
        .members
        .cluster("zoo")
        .expect("it is there")
        .cut_watches();
    world.reconciles("a").await?;
    assert!(Arc::ptr_eq(&zoo, &world.zoo().await?));
    // Without an access provider that is configured it stays.
    let unknown = world.access("unknown", "jungle", "two");
    world.merge(&json!({"status": {"accessProviders": unknown}}))?;
    let problem = world
        .fleet
        .problem("its access providers are unknown")
        .await?;
    assert_eq!(problem.subject, "fleet/zoo");
    assert_eq!(world.fleet.names(), ["fleet/zoo"]);
    Ok(())
}

#[tokio::test]
async fn a_secret_beside_the_profile_gives_the_kubeconfig() -> Result<()> {
    let world = World::by(AccessStrategy::secret("windlass")?).await?;
    let fleet = &world.fleet;
    fleet.apply(profile(&status("True", THEN)))?;
    fleet.problem("no Secret in its namespace").await?;
    let secret = |name: &str, token: &str| {
        let labels = json!({"x-k8s.io/cluster-inventory-consumer": "windlass", "x-k8s.io/cluster-profile": "zoo"});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "fleet", "labels": labels},
            "stringData": {"Config": kubeconfig(&world.members.url("zoo"), token)}})
    };
    fleet.apply(secret("zoo", "before"))?;
    world.reconciles("a").await?;
    let zoo = world.zoo().await?;
    let before = zoo.config();
    fleet.apply(secret("zoo", "after"))?;
    fleet.renewed(&zoo, &before).await?;
    fleet.apply(secret("zoo-too", "after"))?;
    fleet.problem("2 Secrets in its namespace").await?;
    assert!(Arc::ptr_eq(&zoo, &world.zoo().await?));
    fleet.delete("v1", "Secret", "zoo-too")?;
    fleet.no_problems().await
}
