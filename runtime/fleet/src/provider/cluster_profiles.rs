//! Clusters of an inventory of ClusterProfiles (`multicluster.x-k8s.io/v1alpha1`; KEP-4322, KEP-2149 and KEP-5339). Entry point:
//! [`ClusterProfiles::new`].
//!
//! `inventory` watches the hub and brings the clusters in line. Here is what one ClusterProfile asks for:
//!
//! * `profile`: the fields of a ClusterProfile, when it is ready, and its properties.
//! * `access`: the server and the credential plugin, from the profile's access providers.
//! * `secrets`: the kubeconfig, from a Secret beside the profile.

mod access;
mod profile;
mod secrets;
#[cfg(test)]
mod tests;

pub use crate::cluster::CredentialPlugin;
pub use access::{AccessProvider, ProfileArgs, ProfileVariables};

use super::hub_source::HubSource;
use super::inventory::{Desired, HubProvider, Inventory, Related, Watches};
use super::readiness::{OnUnready, Readiness};
use super::{Problem, Provider, ProviderError, secret};
use crate::cluster::{ClusterConfig, KubeconfigPolicy};
use crate::engage::{ClusterSpec, Engage, ServerChange};
use crate::hub::{Hub, HubObject, HubWatch, WatchSelection};
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use crate::selector::LabelSelector;
use access::AccessError;
use futures::future::BoxFuture;
use profile::Profile;
use secrets::SecretError;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The condition that says by default whether a cluster is ready.
pub const DEFAULT_CONDITION: &str = "ControlPlaneHealthy";

/// Which ClusterProfiles stand for clusters, and how their clusters are reached.
#[derive(Debug, Clone)]
pub struct ClusterProfilesOptions {
    /// The hub. Default: the local cluster.
    pub from: HubSource,
    /// The namespaces of the ClusterProfiles; none: all namespaces. Default: none.
    pub namespaces: BTreeSet<String>,
    /// The labels of the ClusterProfiles. Default: no requirement.
    pub label_selector: LabelSelector,
    /// When a cluster is engaged. Default: [`DEFAULT_CONDITION`] is true.
    pub ready: Readiness,
    /// What happens to an engaged cluster that is not ready any more. Default: it stays.
    pub on_unready: OnUnready,
    /// How the clusters are reached.
    pub access: AccessStrategy,
    /// What the ClusterProfiles, or the kubeconfigs in Secrets, may do. Default: [`KubeconfigPolicy::object`]. Configured plugins are not
    /// concerned by it.
    pub policy: KubeconfigPolicy,
    /// What happens to a cluster whose ClusterProfile or Secret names another server. Default: [`ServerChange::Keep`].
    pub on_server_change: ServerChange,
}

impl ClusterProfilesOptions {
    /// The ClusterProfiles in all namespaces of the local cluster, with the defaults.
    #[must_use]
    pub fn new(access: AccessStrategy) -> Self {
        Self {
            from: HubSource::default(),
            namespaces: BTreeSet::new(),
            label_selector: LabelSelector::default(),
            ready: Readiness::default(),
            on_unready: OnUnready::default(),
            access,
            policy: KubeconfigPolicy::object(),
            on_server_change: ServerChange::default(),
        }
    }
}

/// How the clusters of ClusterProfiles are reached. Made by [`AccessStrategy::access_providers`] or [`AccessStrategy::secret`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessStrategy(Strategy);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Strategy {
    AccessProviders(Vec<AccessProvider>),
    Secret {
        /// Selects the Secrets of all profiles.
        selector: LabelSelector,
        consumer: String,
    },
}

/// Why the clusters of ClusterProfiles could not be reached in this way.
#[derive(Debug, thiserror::Error)]
pub enum AccessStrategyError {
    /// No access provider was given.
    #[error("no access provider is configured: name at least one, with its plugin")]
    NoProviders,
    /// An access provider has no name.
    #[error("an access provider has no name: give the one that the ClusterProfiles have")]
    NoName,
    /// An access provider was given twice.
    #[error("access provider {0:?} is configured twice: remove one")]
    Twice(String),
    /// An access provider's plugin has no command.
    #[error("access provider {0:?} has no command: name the program that prints its credentials")]
    NoCommand(String),
    /// The Secrets' consumer is no value of a label.
    #[error("consumer {0:?} is no value of a label: give the one that the Secrets have")]
    Consumer(String),
    /// No consumer was given.
    #[error("no consumer is named: give the value of the label {label} that the Secrets have", label = secrets::CONSUMER)]
    NoConsumer,
}

impl AccessStrategy {
    /// By the first of these access providers that a ClusterProfile has.
    ///
    /// # Errors
    /// [`AccessStrategyError`] when there is none, or one is incomplete or there twice.
    pub fn access_providers(providers: Vec<AccessProvider>) -> Result<Self, AccessStrategyError> {
        if providers.is_empty() {
            return Err(AccessStrategyError::NoProviders);
        }
        for (at, provider) in providers.iter().enumerate() {
            let name = &provider.name;
            if name.is_empty() {
                return Err(AccessStrategyError::NoName);
            }
            if provider.plugin.command.is_empty() {
                return Err(AccessStrategyError::NoCommand(name.clone()));
            }
            if providers[..at].iter().any(|before| before.name == *name) {
                return Err(AccessStrategyError::Twice(name.clone()));
            }
        }
        Ok(Self(Strategy::AccessProviders(providers)))
    }

    /// By a kubeconfig in a Secret beside the ClusterProfile, which its manager has written for this consumer.
    ///
    /// # Errors
    /// [`AccessStrategyError`] when no label can have this value.
    pub fn secret(consumer: impl Into<String>) -> Result<Self, AccessStrategyError> {
        let consumer = consumer.into();
        if consumer.is_empty() {
            return Err(AccessStrategyError::NoConsumer);
        }
        match secrets::selector(&consumer) {
            Some(selector) => Ok(Self(Strategy::Secret { selector, consumer })),
            None => Err(AccessStrategyError::Consumer(consumer)),
        }
    }
}

/// Provides the cluster of each ClusterProfile, named `<namespace>/<name>`, with the labels of the ClusterProfile.
///
/// * A cluster is engaged once its ClusterProfile is ready. It leaves with its ClusterProfile, and when that is being deleted.
/// * Its properties are `version.kubernetes`, the `status.properties` by their own names, and `condition/<type>` for each condition.
/// * A ClusterProfile that cannot be used keeps its last good cluster, and is reported.
pub struct ClusterProfiles(Arc<HubProvider<Profiles>>);

impl ClusterProfiles {
    /// A provider of the clusters of ClusterProfiles.
    #[must_use]
    pub fn new(name: impl Into<String>, options: ClusterProfilesOptions) -> Self {
        let from = options.from.clone();
        let provider = HubProvider::new(name.into(), from, Profiles { options });
        Self(Arc::new(provider))
    }
}

impl Provider for ClusterProfiles {
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

/// What each ClusterProfile asks for.
struct Profiles {
    options: ClusterProfilesOptions,
}

/// Why a ClusterProfile cannot be used. Quotes nothing of a Secret.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Secret(#[from] SecretError),
}

impl Inventory for Profiles {
    fn watch(&self, hub: &Hub) -> Watches {
        let select = |label_selector: &LabelSelector| WatchSelection {
            namespaces: self.options.namespaces.clone(),
            label_selector: label_selector.clone(),
            name: None,
        };
        let profiles = GroupVersionKind::new("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile");
        let related = match &self.options.access.0 {
            Strategy::AccessProviders(_) => Vec::new(),
            Strategy::Secret { selector, .. } => {
                vec![hub.watch(secret::kind(), select(selector))]
            }
        };
        Watches {
            clusters: hub.watch(profiles, select(&self.options.label_selector)),
            related,
        }
    }

    fn related(&self, watches: &[HubWatch]) -> Related {
        let secrets = watches.iter().flat_map(HubWatch::objects);
        secrets::by_profile(secrets)
    }

    fn desired(&self, object: &HubObject, related: &[HubObject]) -> Desired {
        if object.is_deleting() {
            return Desired::leave();
        }
        let name = match ClusterName::new(object.key().to_string()) {
            Ok(name) => name,
            Err(error) => return Desired::nameless(error.to_string()),
        };
        let profile: Profile = match object.parse() {
            Ok(profile) => profile,
            Err(error) => return Desired::keep(name, error.to_string()),
        };
        let unready = profile.why_unready(&self.options.ready);
        if let (Some(reason), OnUnready::Disengage) = (&unready, self.options.on_unready) {
            return Desired::leave_because(reason);
        }
        let config = match (self.config(&profile, related), &unready) {
            (Ok(config), _) => config,
            (Err(error), None) => return Desired::keep(name, error.to_string()),
            (Err(error), Some(reason)) => return Desired::keep(name, format!("{reason}; {error}")),
        };
        let spec = ClusterSpec {
            labels: object.labels().into(),
            properties: profile.properties().into(),
            on_server_change: self.options.on_server_change,
            ..ClusterSpec::new(name, config)
        };
        match unready {
            None => Desired::engage(spec),
            Some(reason) => Desired::refresh(spec, reason),
        }
    }
}

impl Profiles {
    fn config(&self, profile: &Profile, secrets: &[HubObject]) -> Result<ClusterConfig, Unusable> {
        let policy = &self.options.policy;
        match &self.options.access.0 {
            Strategy::AccessProviders(configured) => {
                Ok(access::config(configured, &profile.status, policy)?)
            }
            Strategy::Secret { consumer, .. } => Ok(secrets::config(consumer, secrets, policy)?),
        }
    }
}
