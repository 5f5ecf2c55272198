//! Namespaces of one cluster as clusters. Entry point: [`NamespacesSpec`].

use super::hub::{self, HubSpec};
use crate::config::kinds::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Each namespace of one cluster as a cluster, whose objects are in its namespace `default`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct NamespacesSpec {
    /// The cluster that has the namespaces. Default: the local cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<HubSpec>,
    /// Labels of the namespaces, as `kubectl -l` takes them. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
}

impl NamespacesSpec {
    /// Whether the kubeconfig of the cluster stands in an object.
    pub(super) fn is_in_object(&self) -> bool {
        let from = self.from.as_ref();
        from.is_some_and(|from| from.kubeconfig_secret.is_some())
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        hub::check(
            "spec.namespaces",
            self.from.as_ref(),
            None,
            self.selector.as_deref(),
        )
    }
}
