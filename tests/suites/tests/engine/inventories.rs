//! Clusters that a hub's objects stand for: kubeconfig Secrets and Cluster API, on simulated servers.

use super::faults::Faults;
use super::fixture::{Log, object, recording};
use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_apiserver::{RequestVerdict, Server};
use windlass_fleet::cluster::{AllowServers, Cluster, ClusterConfig, ExecPolicy, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::ProviderStatus;
use windlass_fleet::provider::cluster_api::{ClusterApi, ClusterApiOptions};
use windlass_fleet::provider::hub_source::HubSource;
use windlass_fleet::provider::kubeconfig_secrets::{
    DEFAULT_LABEL, KubeconfigSecrets, KubeconfigSecretsOptions,
};
use windlass_fleet::provider::{Problem, Provider};
use windlass_fleet::{ClusterName, Manager};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{RunningManager, request};

/// The cluster `hub`, which is the manager's local one, and clusters that its objects stand for.
pub(super) struct HubFleet {
    server: Server,
    faults: Arc<Faults>,
    pub(super) manager: RunningManager,
    pub(super) log: Arc<Log>,
}

impl HubFleet {
    pub(super) async fn start(
        provider: impl FnOnce(&Server) -> Result<Arc<dyn Provider>>,
    ) -> Result<Self> {
        windlass_harness::logs::init();
        let faults = Arc::new(Faults::default());
        let server = ["hub", "other-hub", "zoo", "jungle"]
            .iter()
            .fold(Server::builder(), |server, name| server.cluster(*name))
            .hook(faults.clone())
            .bind("127.0.0.1:0")
            .await?;
        for hub in ["hub", "other-hub"] {
            for namespace in ["fleet", "other"] {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                apply(&server, hub, namespace)?;
            }
        }
        let local = ClusterConfig::from_url(&server.url("hub"))?;
        let local = ClusterSpec::new(ClusterName::local(), local);
        let log = Arc::new(Log::default());
        let builder = Manager::builder()
            .local(local)
            .provider(provider(&server)?)
            .controller(recording(&log));
        let manager = RunningManager::start(builder)?;
        Ok(Self {
            server,
            faults,
            manager,
            log,
        })
    }

    pub(super) fn apply(&self, object: Value) -> Result<()> {
        apply(&self.server, "hub", object)
    }

    pub(super) fn hub(&self) -> Result<windlass_apiserver::Cluster> {
        self.server.cluster("hub").context("no hub")
    }

    /// A Secret with the kubeconfig of a simulated cluster.
    fn secret(&self, name: &str, of: &str) -> Value {
        secret(name, "kubeconfig", &kubeconfig(&self.server.url(of), "a"))
    }

    fn merge_secret(&self, name: &str, patch: &Value) -> Result<()> {
        let hub = self.hub()?;
        let merged = hub.merge("v1", "Secret", "fleet", name, patch);
        merged.map(drop).map_err(|error| anyhow!("{error:?}"))
    }

    pub(super) fn delete(&self, api_version: &str, kind: &str, name: &str) -> Result<()> {
        let deleted = self.hub()?.delete(api_version, kind, "fleet", name);
        deleted.map_err(|error| anyhow!("{error:?}"))
    }

    /// The names of the engaged clusters, except the local one's.
    pub(super) fn names(&self) -> Vec<String> {
        let clusters = self.manager.handle.clusters();
        let names = clusters.into_iter().map(|cluster| cluster.name.to_string());
        names.filter(|name| !name.is_empty()).collect()
    }

    pub(super) async fn engaged(&self, wanted: &[&str]) -> Result<()> {
        let seen = || Seen::of(self.names(), |names| names == wanted);
        wait("the engaged clusters", seen).await.map(drop)
    }

    pub(super) async fn problem(&self, part: &str) -> Result<Problem> {
        let has = |problem: &Problem| problem.message.contains(part);
        let problems = wait(&format!("a problem with {part:?}"), || {
            Seen::of(self.manager.handle.provider_problems(), |problems| {
                problems.iter().any(has)
            })
        })
        .await?;
        problems.into_iter().find(has).context("it was there")
    }

    pub(super) async fn no_problems(&self) -> Result<()> {
        let seen = || Seen::of(self.manager.handle.provider_problems(), Vec::is_empty);
        wait("no problems", seen).await.map(drop)
    }

    /// Waits until an object of a simulated cluster is reconciled in the cluster of a name.
    async fn reconciles(&self, name: &str, of: &str) -> Result<()> {
        let unique = format!("in-{of}");
        apply(&self.server, of, object(&unique, json!({})))?;
        self.log.ran(&request(name, &unique), 1).await
    }
}

pub(super) fn apply(server: &Server, cluster: &str, object: Value) -> Result<()> {
    let cluster = server.cluster(cluster).context("no such cluster")?;
    let applied = cluster.apply(object);
    applied.map(drop).map_err(|error| anyhow!("{error:?}"))
}

pub(super) fn kubeconfig(server: &str, token: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]})
    .to_string()
}

fn data(key: &str, value: &str) -> Value {
    json!({"stringData": {key: value}})
}

fn secret(name: &str, key: &str, value: &str) -> Value {
    let mut secret = data(key, value);
    secret["apiVersion"] = json!("v1");
    secret["kind"] = json!("Secret");
    secret["metadata"] =
        json!({"name": name, "namespace": "fleet", "labels": {DEFAULT_LABEL: "true"}});
    secret
}

/// The simulated servers are on loopback, where Secrets may send nobody unless that is allowed.
pub(super) fn policy() -> Result<KubeconfigPolicy> {
    Ok(KubeconfigPolicy {
        exec: ExecPolicy::Deny,
        allow_servers: AllowServers::parse(&["127.0.0.1"])?,
        ..KubeconfigPolicy::object()
    })
}

fn secrets_in(namespaces: &[&str]) -> Result<KubeconfigSecretsOptions> {
    Ok(KubeconfigSecretsOptions {
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        policy: policy()?,
        ..KubeconfigSecretsOptions::default()
    })
}

async fn secrets_fleet(namespaces: &[&str]) -> Result<HubFleet> {
    let options = secrets_in(namespaces)?;
    HubFleet::start(|_| Ok(Arc::new(KubeconfigSecrets::new("secrets", options)))).await
}

#[tokio::test]
async fn clusters_come_and_go_with_their_secrets() -> Result<()> {
    let fleet = secrets_fleet(&["fleet"]).await?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    fleet.apply(fleet.secret("jungle", "jungle"))?;
    fleet.engaged(&["jungle", "zoo"]).await?;
    fleet.reconciles("zoo", "zoo").await?;
    let zoo = fleet.manager.ready("zoo").await?;
    assert_eq!(zoo.labels().get(DEFAULT_LABEL), Some("true"));
    fleet.delete("v1", "Secret", "jungle")?;
    fleet.engaged(&["zoo"]).await?;
    fleet.no_problems().await
}

#[tokio::test]
async fn a_secret_that_names_another_server_moves_its_cluster_there() -> Result<()> {
    let fleet = secrets_fleet(&["fleet"]).await?;
    fleet.apply(fleet.secret("island", "zoo"))?;
    fleet.reconciles("island", "zoo").await?;
    fleet.apply(fleet.secret("island", "jungle"))?;
    fleet.reconciles("island", "jungle").await
}

#[tokio::test]
async fn a_secret_that_becomes_invalid_keeps_its_last_good_cluster_and_hides_no_other() -> Result<()>
{
    let fleet = secrets_fleet(&["fleet"]).await?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    let zoo = fleet.manager.ready("zoo").await?;
    fleet.merge_secret("zoo", &data("kubeconfig", "clusters: ["))?;
    let problem = fleet.problem("its last good cluster stays").await?;
    assert_eq!(problem.subject, "fleet/zoo");
    fleet.merge_secret("zoo", &json!({"data": {"kubeconfig": null}}))?;
    fleet.problem("no key \"kubeconfig\"").await?;
    fleet.apply(fleet.secret("jungle", "jungle"))?;
    fleet.engaged(&["jungle", "zoo"]).await?;
    let good = fleet.secret("zoo", "zoo");
    fleet.merge_secret("zoo", &json!({"stringData": good["stringData"]}))?;
    fleet.no_problems().await?;
    assert!(Arc::ptr_eq(&zoo, &fleet.manager.ready("zoo").await?));
    Ok(())
}

#[tokio::test]
async fn a_provider_that_changes_while_a_secret_is_invalid_keeps_the_cluster() -> Result<()> {
    let fleet = secrets_fleet(&["fleet"]).await?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    let zoo = fleet.manager.ready("zoo").await?;
    fleet.merge_secret("zoo", &data("kubeconfig", "clusters: ["))?;
    fleet.problem("its last good cluster stays").await?;
    fleet.apply(secret("jungle", "kubeconfig", "clusters: ["))?;
    fleet.apply(fleet.secret("island", "jungle"))?;
    let changed = KubeconfigSecrets::new("secrets", secrets_in(&["fleet"])?);
    fleet.manager.handle.put_provider(Arc::new(changed))?;
    fleet.apply(fleet.secret("later", "jungle"))?;
    fleet.engaged(&["island", "later", "zoo"]).await?;
    assert!(Arc::ptr_eq(&zoo, &fleet.manager.ready("zoo").await?));
    let statuses = fleet.manager.handle.providers();
    let is_it = |status: &&ProviderStatus| status.name == "secrets";
    let status = statuses.iter().find(is_it).context("it runs")?;
    let counts = (status.found, status.engaged, status.refused);
    assert_eq!(counts, (4, 3, 0), "{status:?}");
    fleet.delete("v1", "Secret", "zoo")?;
    fleet.engaged(&["island", "later"]).await
}

#[tokio::test]
async fn a_secret_that_loses_its_label_takes_its_cluster_with_it() -> Result<()> {
    let fleet = secrets_fleet(&["fleet"]).await?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    fleet.engaged(&["zoo"]).await?;
    fleet.merge_secret(
        "zoo",
        &json!({"metadata": {"labels": {DEFAULT_LABEL: null}}}),
    )?;
    fleet.engaged(&[]).await
}

#[tokio::test]
async fn a_secret_that_terminates_takes_its_cluster_with_it_before_it_is_gone() -> Result<()> {
    let fleet = secrets_fleet(&["fleet"]).await?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    fleet.merge_secret(
        "zoo",
        &json!({"metadata": {"finalizers": ["example.com/wait"]}}),
    )?;
    fleet.engaged(&["zoo"]).await?;
    fleet.delete("v1", "Secret", "zoo")?;
    fleet.engaged(&[]).await?;
    let still_there = fleet.hub()?.get("v1", "Secret", "fleet", "zoo");
    assert!(still_there.is_ok_and(|secret| secret.is_some()));
    Ok(())
}

#[tokio::test]
async fn a_change_of_annotations_keeps_the_very_same_cluster() -> Result<()> {
    let fleet = secrets_fleet(&["fleet"]).await?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    let zoo = fleet.manager.ready("zoo").await?;
    fleet.merge_secret(
        "zoo",
        &json!({"metadata": {"annotations": {"example.com/seen": "1"}}}),
    )?;
    // A later change that is seen shows that the one before was.
    fleet.apply(fleet.secret("jungle", "jungle"))?;
    fleet.engaged(&["jungle", "zoo"]).await?;
    assert!(Arc::ptr_eq(&zoo, &fleet.manager.ready("zoo").await?));
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_is_refused_disengages_nobody_and_hides_no_other() -> Result<()> {
    let fleet = secrets_fleet(&["fleet", "other"]).await?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    let mut secret = fleet.secret("jungle", "jungle");
    secret["metadata"]["namespace"] = json!("other");
    fleet.apply(secret)?;
    fleet.engaged(&["fleet/zoo", "other/jungle"]).await?;
    fleet.faults.on_request(|call| {
        (call.resource == "secrets" && call.namespace == "other").then(forbidden)
    });
    fleet.hub()?.cut_watches();
    fleet.problem("namespace other").await?;
    fleet.delete("v1", "Secret", "zoo")?;
    fleet.engaged(&["other/jungle"]).await?;
    fleet.faults.heal();
    fleet.no_problems().await?;
    fleet.engaged(&["other/jungle"]).await
}

fn forbidden() -> RequestVerdict {
    RequestVerdict::Answer {
        code: 403,
        retry_after: None,
        body: bytes::Bytes::from_static(br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}"#),
    }
}

#[tokio::test]
async fn a_secret_may_name_no_server_that_is_not_allowed() -> Result<()> {
    let mut options = secrets_in(&["fleet"])?;
    options.policy = KubeconfigPolicy::object();
    let fleet =
        HubFleet::start(|_| Ok(Arc::new(KubeconfigSecrets::new("secrets", options)))).await?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    let problem = fleet.problem("allowServers").await?;
    assert_eq!(problem.subject, "fleet/zoo");
    assert!(fleet.names().is_empty());
    Ok(())
}

// --- where the hub is ---

#[tokio::test]
async fn a_hub_is_found_in_a_file_and_another_one_once_the_file_names_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("hub.kubeconfig");
    let mut options = secrets_in(&["fleet"])?;
    options.from = HubSource::Kubeconfig {
        path: path.clone(),
        context: None,
        policy: KubeconfigPolicy::file(),
    };
    let fleet =
        HubFleet::start(|_| Ok(Arc::new(KubeconfigSecrets::new("secrets", options)))).await?;
    fleet.problem("cannot be read").await?;
    let other_hub = "other-hub";
    apply(&fleet.server, other_hub, fleet.secret("jungle", "jungle"))?;
    fleet.apply(fleet.secret("zoo", "zoo"))?;
    std::fs::write(&path, kubeconfig(&fleet.server.url(other_hub), "a"))?;
    fleet.engaged(&["jungle"]).await?;
    fleet.no_problems().await?;
    std::fs::write(&path, "clusters: [")?;
    fleet.problem("the hub stays as it was").await?;
    std::fs::write(&path, kubeconfig(&fleet.server.url("hub"), "a"))?;
    fleet.engaged(&["zoo"]).await
}

#[tokio::test]
async fn a_hub_is_found_in_a_secret_of_the_local_cluster() -> Result<()> {
    let mut options = secrets_in(&["fleet"])?;
    options.from = HubSource::Secret {
        namespace: "other".to_owned(),
        name: "hub".to_owned(),
        key: HubSource::SECRET_KEY.to_owned(),
        context: None,
        policy: policy()?,
    };
    let fleet =
        HubFleet::start(|_| Ok(Arc::new(KubeconfigSecrets::new("secrets", options)))).await?;
    let problem = fleet.problem("no such Secret").await?;
    assert_eq!(problem.subject, "Secret other/hub");
    apply(&fleet.server, "other-hub", fleet.secret("zoo", "zoo"))?;
    let mut secret = fleet.secret("hub", "other-hub");
    secret["metadata"]["namespace"] = json!("other");
    fleet.apply(secret)?;
    fleet.engaged(&["zoo"]).await?;
    fleet.no_problems().await
}

// --- Cluster API ---

/// The definition of `Cluster`, as far as it matters here, serving these versions.
fn definition(served: &[&str]) -> Value {
    let versions: Vec<Value> = ["v1beta2", "v1beta1"]
        .iter()
        .map(|version| {
            json!({"name": version, "served": served.contains(version), "storage": *version == "v1beta1",
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        })
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusters.cluster.x-k8s.io"},
        "spec": {"group": "cluster.x-k8s.io", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster", "listKind": "ClusterList"}}})
}

fn capi_cluster(name: &str, version: &str, status: Value) -> Value {
    json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster", "status": status,
        "metadata": {"name": name, "namespace": "fleet", "labels": {"env": "prod"}}})
}

fn initialized(name: &str) -> Value {
    capi_cluster(
        name,
        "v1beta2",
        json!({"initialization": {"controlPlaneInitialized": true}}),
    )
}

async fn capi_fleet(served: &[&str]) -> Result<HubFleet> {
    let options = ClusterApiOptions {
        policy: policy()?,
        ..ClusterApiOptions::default()
    };
    HubFleet::start(|server| {
        apply(server, "hub", definition(served))?;
        Ok(Arc::new(ClusterApi::new("capi", options)))
    })
    .await
}

impl HubFleet {
    fn capi_secret(&self, cluster: &str, of: &str, token: &str) -> Value {
        let text = kubeconfig(&self.server.url(of), token);
        let mut secret = secret(&format!("{cluster}-kubeconfig"), "value", &text);
        secret["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": cluster});
        secret
    }

    /// Waits until a cluster has other credentials than these.
    pub(super) async fn renewed(
        &self,
        cluster: &Arc<Cluster>,
        before: &ClusterConfig,
    ) -> Result<()> {
        let seen = || Seen::of(cluster.config().same(before), |same| !same);
        wait("other credentials", seen).await.map(drop)
    }
}

#[tokio::test]
async fn a_capi_cluster_is_engaged_once_initialized_and_leaves_when_it_is_deleted() -> Result<()> {
    let fleet = capi_fleet(&["v1beta2", "v1beta1"]).await?;
    fleet.apply(fleet.capi_secret("zoo", "zoo", "a"))?;
    fleet.apply(capi_cluster(
        "zoo",
        "v1beta2",
        json!({"phase": "Provisioning"}),
    ))?;
    // A broken one hides no other.
    fleet.apply(initialized("broken"))?;
    fleet.problem("no Secret fleet/broken-kubeconfig").await?;
    fleet.problem("not initialized").await?;
    assert!(fleet.names().is_empty());
    fleet.apply(initialized("zoo"))?;
    fleet.reconciles("fleet/zoo", "zoo").await?;
    let zoo = fleet.manager.ready("fleet/zoo").await?;
    assert_eq!(zoo.labels().get("env"), Some("prod"));
    // It stays while it is not ready, and leaves as soon as it terminates.
    fleet.apply(capi_cluster(
        "zoo",
        "v1beta2",
        json!({"initialization": {"controlPlaneInitialized": false}}),
    ))?;
    let finalizers = json!({"metadata": {"finalizers": ["example.com/wait"]}});
    let merged = fleet.hub()?.merge(
        "cluster.x-k8s.io/v1beta2",
        "Cluster",
        "fleet",
        "zoo",
        &finalizers,
    );
    merged.map_err(|error| anyhow!("{error:?}"))?;
    assert!(Arc::ptr_eq(&zoo, &fleet.manager.ready("fleet/zoo").await?));
    fleet.delete("cluster.x-k8s.io/v1beta2", "Cluster", "zoo")?;
    fleet.engaged(&[]).await
}

#[tokio::test]
async fn a_rotation_in_the_capi_secret_alone_counts_at_once_and_in_place() -> Result<()> {
    let fleet = capi_fleet(&["v1beta2"]).await?;
    fleet.apply(fleet.capi_secret("zoo", "zoo", "before"))?;
    fleet.apply(initialized("zoo"))?;
    let zoo = fleet.manager.ready("fleet/zoo").await?;
    let before = zoo.config();
    fleet.apply(fleet.capi_secret("zoo", "zoo", "after"))?;
    fleet.renewed(&zoo, &before).await?;
    assert!(Arc::ptr_eq(&zoo, &fleet.manager.ready("fleet/zoo").await?));
    // Without its Secret it stays.
    fleet.delete("v1", "Secret", "zoo-kubeconfig")?;
    fleet.problem("its last good cluster stays").await?;
    assert_eq!(fleet.names(), ["fleet/zoo"]);
    Ok(())
}

#[tokio::test]
async fn the_older_version_of_cluster_api_is_read_where_it_alone_is_served() -> Result<()> {
    let fleet = capi_fleet(&["v1beta1"]).await?;
    fleet.apply(fleet.capi_secret("zoo", "zoo", "a"))?;
    fleet.apply(capi_cluster(
        "zoo",
        "v1beta1",
        json!({"controlPlaneReady": true}),
    ))?;
    fleet.engaged(&["fleet/zoo"]).await
}

#[tokio::test]
async fn a_version_that_is_served_no_more_disengages_nobody_and_another_one_takes_its_place()
-> Result<()> {
    let fleet = capi_fleet(&["v1beta1"]).await?;
    fleet.apply(fleet.capi_secret("zoo", "zoo", "a"))?;
    fleet.apply(capi_cluster(
        "zoo",
        "v1beta1",
        json!({"controlPlaneReady": true}),
    ))?;
    let zoo = fleet.manager.ready("fleet/zoo").await?;
    fleet.apply(definition(&[]))?;
    fleet.problem("install its CRD").await?;
    assert_eq!(fleet.names(), ["fleet/zoo"]);
    fleet.apply(definition(&["v1beta2"]))?;
    fleet.apply(fleet.capi_secret("jungle", "jungle", "a"))?;
    fleet.apply(initialized("jungle"))?;
    fleet.engaged(&["fleet/jungle", "fleet/zoo"]).await?;
    assert!(Arc::ptr_eq(&zoo, &fleet.manager.ready("fleet/zoo").await?));
    fleet.no_problems().await
}

#[tokio::test]
async fn cluster_api_can_be_installed_later() -> Result<()> {
    let options = ClusterApiOptions {
        policy: policy()?,
        ..ClusterApiOptions::default()
    };
    let fleet = HubFleet::start(|_| Ok(Arc::new(ClusterApi::new("capi", options)))).await?;
    fleet.problem("install its CRD").await?;
    fleet.apply(definition(&["v1beta2"]))?;
    fleet.apply(fleet.capi_secret("zoo", "zoo", "a"))?;
    fleet.apply(initialized("zoo"))?;
    fleet.engaged(&["fleet/zoo"]).await?;
    fleet.no_problems().await
}
