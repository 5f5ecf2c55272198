//! The sources of clusters that are compared. Entry point: [`Source`].

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use windlass_fleet::cluster::{AllowServers, KubeconfigPolicy};
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::cluster_profiles::{
    AccessStrategy, ClusterProfiles, ClusterProfilesOptions,
};
use windlass_fleet::provider::kubeconfig_files::{KubeconfigFiles, KubeconfigFilesOptions};
use windlass_fleet::provider::kubeconfig_secrets::{
    DEFAULT_LABEL, KubeconfigSecrets, KubeconfigSecretsOptions,
};
use windlass_fleet::provider::namespaces::{Namespaces, NamespacesOptions};

/// Where clusters come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Files,
    Secrets,
    Profiles,
    Namespaces,
}

/// The files come first: they are the measure of the others.
pub(crate) const ALL: [Source; 4] = [
    Source::Files,
    Source::Secrets,
    Source::Profiles,
    Source::Namespaces,
];

pub(crate) fn cluster_name(n: usize) -> String {
    format!("c{n:04}")
}

impl Source {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Files => "kubeconfigFiles",
            Self::Secrets => "kubeconfigSecrets",
            Self::Profiles => "clusterProfiles",
            Self::Namespaces => "namespaces",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self> {
        let mut all = ALL.into_iter();
        all.find(|source| source.as_str() == name)
            .with_context(|| format!("no source {name:?}"))
    }

    /// The provider, of files in a folder or of objects in the local cluster.
    pub(crate) fn provider(self, folder: &Path) -> Result<Arc<dyn Provider>> {
        let policy = KubeconfigPolicy {
            allow_servers: AllowServers::parse(&["127.0.0.1"])?,
            ..KubeconfigPolicy::object()
        };
        Ok(match self {
            Self::Files => {
                let options = KubeconfigFilesOptions {
                    base: folder.to_owned(),
                    paths: vec![".".into()],
                    ..KubeconfigFilesOptions::default()
                };
                Arc::new(KubeconfigFiles::new(options))
            }
            Self::Secrets => {
                let options = KubeconfigSecretsOptions {
                    policy,
                    ..KubeconfigSecretsOptions::default()
                };
                Arc::new(KubeconfigSecrets::new("clusters", options))
            }
            Self::Profiles => {
                let options = ClusterProfilesOptions {
                    policy,
                    ..ClusterProfilesOptions::new(AccessStrategy::secret("windlass")?)
                };
                Arc::new(ClusterProfiles::new("clusters", options))
            }
            Self::Namespaces => {
                let options = NamespacesOptions {
                    label_selector: "bench=yes".parse()?,
                    ..NamespacesOptions::default()
                };
                Arc::new(Namespaces::new("clusters", options))
            }
        })
    }

    /// What the hub has for a cluster.
    pub(crate) fn objects(self, name: &str, url: &str) -> Vec<Value> {
        let secret = |name: &str, labels: Value, key: &str| {
            let text = format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: it\nclusters:\n- name: it\n  cluster: {{server: {url}}}\n\
                 users:\n- name: it\n  user: {{}}\ncontexts:\n- name: it\n  context: {{cluster: it, user: it}}\n"
            );
            let text = k8s_openapi::ByteString(text.into_bytes());
            json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": "default", "labels": labels}, "data": {key: text}})
        };
        match self {
            Self::Files => Vec::new(),
            Self::Secrets => vec![secret(name, json!({DEFAULT_LABEL: "true"}), "kubeconfig")],
            Self::Profiles => {
                let labels = json!({"x-k8s.io/cluster-inventory-consumer": "windlass", "x-k8s.io/cluster-profile": name});
                let status = json!({"conditions": [{"type": "ControlPlaneHealthy", "status": "True"}],
                    "version": {"kubernetes": "1.36.1"}});
                vec![
                    definition(),
                    json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
                        "metadata": {"name": name, "namespace": "default"}, "status": status}),
                    secret(&format!("{name}-access"), labels, "Config"),
                ]
            }
            Self::Namespaces => vec![json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {"bench": "yes"}}})],
        }
    }
}

/// The kind ClusterProfile, whose fields nobody checks.
fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterprofiles.multicluster.x-k8s.io"},
        "spec": {"group": "multicluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "ClusterProfile", "plural": "clusterprofiles", "singular": "clusterprofile", "listKind": "ClusterProfileList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}
