//! A hub whose objects stand for clusters of a rig. Entry point: [`Provided::start`].
//!
//! The hub is a simulated server of its own and the manager's local cluster; the clusters that its objects name are those of the rig.

use crate::oracle;
use crate::rig::{Rig, Setup};
use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_apiserver::Server;
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{AllowServers, ClusterConfig, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::cluster_api::{ClusterApi, ClusterApiOptions};
use windlass_fleet::provider::cluster_profiles::{
    AccessStrategy, ClusterProfiles, ClusterProfilesOptions,
};
use windlass_fleet::provider::kubeconfig_secrets::{
    DEFAULT_LABEL, KubeconfigSecrets, KubeconfigSecretsOptions,
};
use windlass_harness::eventually::{Seen, wait};

/// The kinds of objects that stand for clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Secrets,
    ClusterApi,
    Profiles,
}

pub(crate) const SORTS: [Sort; 3] = [Sort::Secrets, Sort::ClusterApi, Sort::Profiles];

impl Sort {
    fn provider(self) -> Result<Arc<dyn Provider>> {
        let policy = KubeconfigPolicy {
            allow_servers: AllowServers::parse(&["127.0.0.1"])?,
            ..KubeconfigPolicy::object()
        };
        let namespaces: BTreeSet<String> = ["default".to_owned()].into();
        Ok(match self {
            Self::Secrets => Arc::new(KubeconfigSecrets::new(
                "secrets",
                KubeconfigSecretsOptions {
                    namespaces,
                    policy,
                    ..KubeconfigSecretsOptions::default()
                },
            )),
            Self::ClusterApi => Arc::new(ClusterApi::new(
                "capi",
                ClusterApiOptions {
                    namespaces,
                    policy,
                    ..ClusterApiOptions::default()
                },
            )),
            Self::Profiles => Arc::new(ClusterProfiles::new(
                "profiles",
                ClusterProfilesOptions {
                    namespaces,
                    policy,
                    ..ClusterProfilesOptions::new(AccessStrategy::secret("windlass")?)
                },
            )),
        })
    }

    /// The object that stands for a cluster, unless its Secret does.
    pub(crate) fn object(self, name: &str) -> Option<Value> {
        let metadata = json!({"name": name, "namespace": "default"});
        match self {
            Self::Secrets => None,
            Self::ClusterApi => Some(
                json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata,
                "status": {"initialization": {"controlPlaneInitialized": true}}}),
            ),
            Self::Profiles => Some(
                json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": metadata,
                "status": {"conditions": [{"type": "ControlPlaneHealthy", "status": "True"}]}}),
            ),
        }
    }

    pub(crate) fn secret(self, name: &str, kubeconfig: &str) -> Value {
        let (name, labels, key) = match self {
            Self::Secrets => (
                name.to_owned(),
                json!({DEFAULT_LABEL: "true"}),
                "kubeconfig",
            ),
            Self::ClusterApi => (
                format!("{name}-kubeconfig"),
                json!({"cluster.x-k8s.io/cluster-name": name}),
                "value",
            ),
            Self::Profiles => (
                format!("{name}-access"),
                json!({"x-k8s.io/cluster-inventory-consumer": "windlass", "x-k8s.io/cluster-profile": name}),
                "Config",
            ),
        };
        let text = k8s_openapi::ByteString(kubeconfig.as_bytes().to_vec());
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default", "labels": labels},
            "data": {key: text}})
    }

    /// The name that a cluster is engaged under.
    pub(crate) fn engaged(self, name: &str) -> String {
        match self {
            Self::Secrets => name.to_owned(),
            Self::ClusterApi | Self::Profiles => format!("default/{name}"),
        }
    }
}

/// A kind of the hub whose fields nobody checks.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

pub(crate) fn refused(error: windlass_apiserver::ApiError) -> anyhow::Error {
    anyhow!("{error:?}")
}

/// A rig whose clusters are found in a hub.
pub(crate) struct Provided {
    pub(crate) rig: Rig,
    hub: Server,
    pub(crate) sort: Sort,
}

impl Provided {
    /// Starts a manager. No object stands for a cluster yet.
    pub(crate) async fn start(sort: Sort, mut setup: Setup) -> Result<Self> {
        let hub = Server::builder().cluster("hub").bind("127.0.0.1:0").await?;
        let admin = hub.cluster("hub").context("it is there")?;
        for kind in [
            definition("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
            definition(
                "multicluster.x-k8s.io",
                "v1alpha1",
                "ClusterProfile",
                "clusterprofiles",
            ),
        ] {
            admin.apply(kind).map_err(refused)?;
        }
        let config = ClusterConfig::from_url(&hub.url("hub"))?;
        let local = ClusterSpec::new(ClusterName::local(), config);
        let provider = sort.provider()?;
        setup.build = Box::new(|builder| builder.local(local).provider(provider));
        Ok(Self {
            rig: Rig::idle(setup).await?,
            hub,
            sort,
        })
    }

    pub(crate) fn admin(&self) -> windlass_apiserver::Cluster {
        self.hub.cluster("hub").expect("the hub is there")
    }

    /// A kubeconfig of a simulated cluster.
    pub(crate) fn kubeconfig(&self, cluster: &str) -> String {
        let text = self.rig.server.kubeconfig();
        let lines = text
            .lines()
            .filter(|line| !line.starts_with("current-context"));
        let lines: Vec<&str> = lines.collect();
        format!("{}\ncurrent-context: {cluster}\n", lines.join("\n"))
    }

    /// Has the hub say that a cluster is reached so.
    pub(crate) fn tell(&self, cluster: &str, kubeconfig: &str) -> Result<()> {
        let secret = self.sort.secret(cluster, kubeconfig);
        let objects = self.sort.object(cluster).into_iter().chain([secret]);
        for object in objects {
            self.admin().apply(object).map_err(refused)?;
        }
        Ok(())
    }

    /// Has the hub name a simulated cluster, whose children are right from now on.
    pub(crate) fn add(&self, cluster: &str) -> Result<()> {
        self.tell(cluster, &self.kubeconfig(cluster))?;
        self.rig.keep(cluster);
        Ok(())
    }

    /// Takes a cluster off the hub.
    pub(crate) fn remove(&self, cluster: &str) -> Result<()> {
        self.rig.keep_no_more(cluster);
        let secret = self.sort.secret(cluster, "");
        for object in self.sort.object(cluster).into_iter().chain([secret]) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
            let name = text(&object["metadata"]["name"]);
            let deleted = self.admin().delete(&version, &kind, "default", &name);
            deleted.map_err(refused)?;
        }
        Ok(())
    }

    /// Names of the clusters that are engaged, the hub left out.
    pub(crate) fn names(&self) -> Vec<String> {
        let clusters = self.rig.handle.clusters().into_iter();
        let names = clusters.map(|cluster| cluster.name.to_string());
        names.filter(|name| !name.is_empty()).collect()
    }

    pub(crate) async fn has(&self, wanted: &[&str]) -> Result<()> {
        let mut wanted: Vec<String> = wanted.iter().map(|name| self.sort.engaged(name)).collect();
        wanted.sort();
        wait("the clusters of the hub", || {
            let problems = self.rig.handle.provider_problems();
            Seen::of((self.names(), problems), |(names, _)| *names == wanted)
        })
        .await
        .map(drop)
    }

    /// Asks the oracle, takes all clusters off the hub, and holds that nobody watches them any more.
    pub(crate) async fn finish(self) -> Result<()> {
        oracle::settled(&self.rig).await?;
        for cluster in self.rig.kept() {
            self.remove(&cluster)?;
        }
        self.has(&[]).await?;
        for cluster in self.rig.server.clusters() {
            let simulated = self.rig.simulated(&cluster);
            wait("closed watches", || {
                Seen::of(simulated.watchers(), |n| *n == 0)
            })
            .await?;
        }
        Ok(())
    }
}
