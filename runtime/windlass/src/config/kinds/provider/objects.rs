//! Sources of clusters whose kubeconfigs stand in Secrets of a hub. Entry points: [`KubeconfigSecretsSpec`] and [`ClusterApiSpec`].

use super::hub::{self, HubSpec, OnUnready, ReadySpec};
use crate::config::kinds::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kubeconfigs in Secrets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct KubeconfigSecretsSpec {
    /// The cluster that has the Secrets. Default: the local cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<HubSpec>,
    /// Namespaces of the Secrets. With one, a cluster is named as its Secret, else `<namespace>/<name>`. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespaces: Option<Vec<String>>,
    /// Labels of the Secrets, as `kubectl -l` takes them. Default: sigs.k8s.io/multicluster-runtime-kubeconfig=true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
    /// The key of a Secret's data. Default: kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The context of each kubeconfig. Default: its current context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
}

/// Clusters of Cluster API.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ClusterApiSpec {
    /// The management cluster. Default: the local cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<HubSpec>,
    /// Namespaces of the Clusters. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespaces: Option<Vec<String>>,
    /// Labels of the Clusters, as `kubectl -l` takes them. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
    /// When a Cluster is engaged: `Always`, or once `{condition: TYPE}` is true. Default: once its control plane is initialized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<ReadySpec>,
    /// What happens to an engaged cluster that is not ready any more: `Keep` or `Disengage`. Default: Keep.
    pub(crate) on_unready: OnUnready,
}

impl KubeconfigSecretsSpec {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        const PATH: &str = "spec.kubeconfigSecrets";
        let Self {
            from,
            namespaces,
            selector,
            ..
        } = self;
        hub::check(
            PATH,
            from.as_ref(),
            namespaces.as_deref(),
            selector.as_deref(),
        )?;
        hub::check_text(PATH, "key", self.key.as_deref())?;
        hub::check_text(PATH, "context", self.context.as_deref())
    }
}

impl ClusterApiSpec {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let Self {
            from,
            namespaces,
            selector,
            ..
        } = self;
        hub::check(
            "spec.clusterAPI",
            from.as_ref(),
            namespaces.as_deref(),
            selector.as_deref(),
        )
    }
}
