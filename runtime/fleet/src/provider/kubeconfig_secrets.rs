//! Clusters from kubeconfigs in Secrets of a hub. Entry point: [`KubeconfigSecrets::new`].

#[cfg(test)]
mod tests;

use super::hub_source::HubSource;
use super::inventory::{Desired, HubProvider, Inventory, Watches};
use super::{Problem, Provider, ProviderError, secret};
use crate::cluster::KubeconfigPolicy;
use crate::engage::{ClusterSpec, Engage, ServerChange};
use crate::hub::{Hub, HubObject, WatchSelection};
use crate::name::{ClusterName, NameError};
use crate::request::ObjectKey;
use crate::selector::LabelSelector;
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The label that selects Secrets where no selector is given: that of multicluster-runtime.
pub const DEFAULT_LABEL: &str = "sigs.k8s.io/multicluster-runtime-kubeconfig";

/// Which Secrets to read, and how.
#[derive(Debug, Clone)]
pub struct KubeconfigSecretsOptions {
    /// The hub. Default: the local cluster.
    pub from: HubSource,
    /// The namespaces of the Secrets; none: all namespaces. Default: none.
    pub namespaces: BTreeSet<String>,
    /// The Secrets' labels. Default: [`DEFAULT_LABEL`]`=true`.
    pub label_selector: LabelSelector,
    /// The key of the kubeconfig. Default: `kubeconfig`.
    pub key: String,
    /// The context of the kubeconfig. Default: its current one.
    pub context: Option<String>,
    /// What the kubeconfigs may do. Default: [`KubeconfigPolicy::object`].
    pub policy: KubeconfigPolicy,
    /// Only the Secret of this name, in each of the namespaces, and the name of its cluster. Default: all Secrets.
    pub only: Option<(String, ClusterName)>,
    /// What happens to a cluster whose Secret names another server. Default: [`ServerChange::Keep`].
    pub on_server_change: ServerChange,
}

impl Default for KubeconfigSecretsOptions {
    fn default() -> Self {
        Self {
            from: HubSource::default(),
            namespaces: BTreeSet::new(),
            label_selector: LabelSelector::equal(DEFAULT_LABEL, "true"),
            key: HubSource::SECRET_KEY.to_owned(),
            context: None,
            policy: KubeconfigPolicy::object(),
            only: None,
            on_server_change: ServerChange::default(),
        }
    }
}

/// Provides a cluster for each Secret that the selector selects.
///
/// * The cluster's name is the Secret's, if exactly one namespace is configured, else `<namespace>/<name>`. Its labels are the Secret's.
/// * A Secret that is deleted, is being deleted, or is not selected any more takes its cluster with it.
/// * A Secret without the key, or with a value that cannot be used, keeps its last good cluster, and is reported.
/// * Other credentials for the same server are exchanged in place. Other changes of a Secret leave its cluster undisturbed.
pub struct KubeconfigSecrets(Arc<HubProvider<Secrets>>);

impl KubeconfigSecrets {
    /// A provider of the clusters in these Secrets.
    #[must_use]
    pub fn new(name: impl Into<String>, options: KubeconfigSecretsOptions) -> Self {
        let from = options.from.clone();
        let provider = HubProvider::new(name.into(), from, Secrets { options });
        Self(Arc::new(provider))
    }
}

impl Provider for KubeconfigSecrets {
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

/// Secrets that stand for clusters.
struct Secrets {
    options: KubeconfigSecretsOptions,
}

impl Secrets {
    fn name(&self, key: &ObjectKey) -> Result<ClusterName, NameError> {
        if let Some((_, name)) = &self.options.only {
            return Ok(name.clone());
        }
        if self.options.namespaces.len() == 1 {
            ClusterName::new(&key.name)
        } else {
            ClusterName::new(key.to_string())
        }
    }
}

impl Inventory for Secrets {
    fn watch(&self, hub: &Hub) -> Watches {
        let selection = WatchSelection {
            namespaces: self.options.namespaces.clone(),
            label_selector: self.options.label_selector.clone(),
            name: self.options.only.as_ref().map(|(name, _)| name.clone()),
        };
        Watches {
            clusters: hub.watch(secret::kind(), selection),
            related: Vec::new(),
        }
    }

    fn problem(&self, watches: &Watches) -> Option<Problem> {
        let (name, _) = self.options.only.as_ref()?;
        if !watches.clusters.objects().is_empty() {
            return None;
        }
        let namespaces: Vec<&str> = self.options.namespaces.iter().map(String::as_str).collect();
        Some(Problem {
            subject: format!("Secret {}/{name}", namespaces.join(",")),
            message: "there is no such Secret: create it with the kubeconfig of the cluster"
                .to_owned(),
        })
    }

    fn desired(&self, object: &HubObject, _related: &[HubObject]) -> Desired {
        if object.is_deleting() {
            return Desired::leave();
        }
        let name = match self.name(&object.key()) {
            Ok(name) => name,
            Err(error) => return Desired::nameless(error.to_string()),
        };
        let KubeconfigSecretsOptions {
            key,
            context,
            policy,
            on_server_change,
            ..
        } = &self.options;
        match secret::config(object, key, context.as_deref(), policy) {
            Ok(config) => Desired::engage(ClusterSpec {
                labels: object.labels().into(),
                on_server_change: *on_server_change,
                ..ClusterSpec::new(name, config)
            }),
            Err(error) => Desired::keep(name, error.to_string()),
        }
    }
}
