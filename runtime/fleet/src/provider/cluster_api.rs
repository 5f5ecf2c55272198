//! Clusters of Cluster API in a hub. Entry point: [`ClusterApi::new`].
//!
//! Rooms: `object` reads what counts of a `Cluster`.

mod object;
#[cfg(test)]
mod tests;

use super::hub_source::HubSource;
use super::inventory::{Desired, HubProvider, Inventory, Related, Watches};
use super::readiness::{OnUnready, Readiness};
use super::{Problem, Provider, ProviderError, secret};
use crate::cluster::{ClusterConfig, KubeconfigPolicy};
use crate::engage::{ClusterSpec, Engage, ServerChange};
use crate::hub::{Hub, HubObject, HubWatch, WatchSelection};
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use crate::request::ObjectKey;
use crate::selector::LabelSelector;
use futures::future::BoxFuture;
use object::CapiCluster;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The end of the name of a cluster's Secret with its kubeconfig.
const SECRET_SUFFIX: &str = "-kubeconfig";

/// The key of the kubeconfig in that Secret.
const SECRET_KEY: &str = "value";

/// The label of Cluster API's Secrets. Cluster API itself reads no kubeconfig from a Secret without it. Other Secrets are not stored.
const SECRET_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// Which clusters to engage, and when.
#[derive(Debug, Clone)]
pub struct ClusterApiOptions {
    /// The hub. Default: the local cluster.
    pub from: HubSource,
    /// The namespaces of the clusters; none: all namespaces. Default: none.
    pub namespaces: BTreeSet<String>,
    /// The clusters' labels. Default: no requirement.
    pub label_selector: LabelSelector,
    /// When a cluster is engaged. Default: once its control plane is initialized, which is the condition `ControlPlaneInitialized` or
    /// `status.initialization.controlPlaneInitialized`, for v1beta1 also `status.controlPlaneReady`.
    pub ready: Readiness,
    /// What happens to an engaged cluster that is not ready any more. Default: it stays.
    pub on_unready: OnUnready,
    /// What the kubeconfigs may do. Default: [`KubeconfigPolicy::object`].
    pub policy: KubeconfigPolicy,
    /// What happens to a cluster whose kubeconfig names another server. Default: [`ServerChange::Keep`].
    pub on_server_change: ServerChange,
}

impl Default for ClusterApiOptions {
    fn default() -> Self {
        Self {
            from: HubSource::default(),
            namespaces: BTreeSet::new(),
            label_selector: LabelSelector::default(),
            ready: Readiness::default(),
            on_unready: OnUnready::default(),
            policy: KubeconfigPolicy::object(),
            on_server_change: ServerChange::default(),
        }
    }
}

/// Provides each `Cluster` of `cluster.x-k8s.io` (v1beta2, else v1beta1) that is ready, with the kubeconfig of its Secret
/// `<name>-kubeconfig`.
///
/// * Its name is `<namespace>/<name>`, its labels are the object's. Its properties are `phase`, and with a managed topology
///   `topology.version` and `topology.class`.
/// * A cluster that is deleted, is being deleted, or is not selected any more is disengaged.
/// * A Secret that is missing or cannot be used keeps the last good cluster, and is reported. Other credentials are exchanged in place
///   as soon as the Secret has them.
pub struct ClusterApi(Arc<HubProvider<CapiClusters>>);

impl ClusterApi {
    /// A provider of the clusters of a hub with Cluster API.
    #[must_use]
    pub fn new(name: impl Into<String>, options: ClusterApiOptions) -> Self {
        let from = options.from.clone();
        let provider = HubProvider::new(name.into(), from, CapiClusters { options });
        Self(Arc::new(provider))
    }
}

impl Provider for ClusterApi {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(self.0.clone().run(engage, stop))
    }

    fn problems(&self) -> Vec<Problem> {
        self.0.problems()
    }
}

/// Objects of Cluster API that stand for clusters.
struct CapiClusters {
    options: ClusterApiOptions,
}

impl CapiClusters {
    /// Why a cluster is not ready.
    fn unready(&self, cluster: &CapiCluster) -> Option<String> {
        match &self.options.ready {
            Readiness::Always => None,
            Readiness::Default if cluster.is_initialized() => None,
            Readiness::Default => {
                Some("its control plane is not initialized yet: it joins once it is".to_owned())
            }
            Readiness::Condition(name) if cluster.has_condition(name) => None,
            Readiness::Condition(name) => Some(format!(
                "its condition {name} is not True yet: it joins once it is"
            )),
        }
    }

    /// The kubeconfig of a cluster's Secret, or why there is none.
    fn config(&self, key: &ObjectKey, secret: Option<&HubObject>) -> Result<ClusterConfig, String> {
        let name = key.sibling(&format!("{}{SECRET_SUFFIX}", key.name));
        let Some(secret) = secret else {
            return Err(format!(
                "there is no Secret {name} with the label {SECRET_LABEL}: Cluster API writes it, or add the label to it"
            ));
        };
        secret::config(secret, SECRET_KEY, None, &self.options.policy)
            .map_err(|error| format!("Secret {name}: {error}"))
    }

    fn spec(
        &self,
        object: &HubObject,
        cluster: &CapiCluster,
        config: ClusterConfig,
        name: ClusterName,
    ) -> ClusterSpec {
        ClusterSpec {
            labels: object.labels().into(),
            properties: cluster.properties().into(),
            on_server_change: self.options.on_server_change,
            ..ClusterSpec::new(name, config)
        }
    }
}

impl Inventory for CapiClusters {
    fn watch(&self, hub: &Hub) -> Watches {
        let kinds = ["v1beta2", "v1beta1"];
        let kinds =
            kinds.map(|version| GroupVersionKind::new("cluster.x-k8s.io", version, "Cluster"));
        let clusters = WatchSelection {
            namespaces: self.options.namespaces.clone(),
            label_selector: self.options.label_selector.clone(),
            name: None,
        };
        let secrets = WatchSelection {
            namespaces: self.options.namespaces.clone(),
            label_selector: LabelSelector::exists(SECRET_LABEL),
            name: None,
        };
        Watches {
            clusters: hub.watch_first(kinds.into(), clusters),
            related: vec![hub.watch(secret::kind(), secrets)],
        }
    }

    fn related(&self, watches: &[HubWatch]) -> Related {
        let secrets = watches.iter().flat_map(HubWatch::objects);
        let of_cluster = |secret: HubObject| {
            let key = secret.key();
            let cluster = key.name.strip_suffix(SECRET_SUFFIX)?;
            Some((key.sibling(cluster), vec![secret]))
        };
        secrets.filter_map(of_cluster).collect()
    }

    fn desired(&self, object: &HubObject, related: &[HubObject]) -> Desired {
        if object.is_deleting() {
            return Desired::leave();
        }
        let key = object.key();
        let name = match ClusterName::new(key.to_string()) {
            Ok(name) => name,
            Err(error) => return Desired::nameless(error.to_string()),
        };
        let cluster: CapiCluster = match object.parse() {
            Ok(cluster) => cluster,
            Err(error) => return Desired::keep(name, error.to_string()),
        };
        let unready = self.unready(&cluster);
        if let (Some(reason), OnUnready::Disengage) = (&unready, self.options.on_unready) {
            return Desired::leave_because(reason);
        }
        let config = self.config(&key, related.first());
        match (config, unready) {
            (Ok(config), None) => Desired::engage(self.spec(object, &cluster, config, name)),
            (Ok(config), Some(reason)) => {
                Desired::refresh(self.spec(object, &cluster, config, name), reason)
            }
            // Before a cluster is ready, its Secret is not expected.
            (Err(_), Some(reason)) | (Err(reason), None) => Desired::keep(name, reason),
        }
    }
}
