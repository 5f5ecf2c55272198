//! How clusters come and go. Entry point: [`Engage`], which providers call and the manager implements.

use crate::cluster::{ClusterConfig, Description, RefusedClaims, Scope};
use crate::hub::{Hub, HubError};
use crate::name::{ClusterName, NameError};
use crate::pairs::Pairs;
use futures::future::BoxFuture;
use std::sync::Arc;

/// A cluster as its provider knows it.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    /// Its name.
    pub name: ClusterName,
    /// How it is reached.
    pub config: ClusterConfig,
    /// The part of that server that it is. Clusters of one provider that are parts of one server share its caches. Default: all of it.
    pub scope: Scope,
    /// Labels, for filters.
    pub labels: Pairs,
    /// Properties, for reconcilers.
    pub properties: Pairs,
    /// Another name under which it is found. Default: none.
    pub alias: Option<ClusterName>,
    /// What the owner of a workspace of kcp does not let clients use there. Default: nothing.
    pub refused_claims: Arc<RefusedClaims>,
    /// Whether it is a workspace of kcp that has left its endpoint. Its provider has the metadata of its bindings in a cache of the endpoint,
    /// which serves lists without a rule for `watch`. So may a cache of its own.
    pub has_left_endpoint: bool,
    /// What happens to the work on the current server, if this names another one.
    pub on_server_change: ServerChange,
}

/// What happens to an engaged cluster when its name gets the address of another server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerChange {
    /// Work on the current server goes on until the caches of the new one are filled.
    #[default]
    Keep,
    /// Work on the current server ends at once. Nothing is reconciled until the new one answers.
    Stop,
}

impl ClusterSpec {
    /// A cluster without labels and properties, with the default [`ServerChange`].
    #[must_use]
    pub fn new(name: ClusterName, config: ClusterConfig) -> Self {
        Self {
            name,
            config,
            scope: Scope::default(),
            labels: Pairs::default(),
            properties: Pairs::default(),
            alias: None,
            refused_claims: Arc::default(),
            has_left_endpoint: false,
            on_server_change: ServerChange::default(),
        }
    }

    /// The same cluster with a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels = self.labels.with(key, value);
        self
    }

    /// The same cluster with a property.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties = self.properties.with(name, value);
        self
    }

    /// Reaches a workspace of kcp by itself, and no longer as one of many behind an endpoint. Another cluster stays as it is.
    pub fn leave_endpoint(&mut self) {
        let own = self.scope.workspace();
        if let Some(own) = own.and_then(|workspace| self.config.at_workspace(workspace)) {
            self.config = own;
            self.scope = Scope::Whole;
            self.has_left_endpoint = true;
        }
    }

    /// Whether engaging this in place of `other` would change nothing.
    #[must_use]
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.config.same(&other.config)
            && self.scope == other.scope
            && self.description() == other.description()
    }

    /// What is exchanged in place, beside the credentials.
    pub(crate) fn description(&self) -> Description {
        Description {
            labels: self.labels.clone(),
            properties: self.properties.clone(),
            alias: self.alias.clone(),
            refused_claims: self.refused_claims.clone(),
            has_left_endpoint: self.has_left_endpoint,
        }
    }

    /// Whether this is `other` with other credentials, labels and properties at most: the same address.
    #[must_use]
    pub(crate) fn same_but_credentials(&self, other: &Self) -> bool {
        self.name == other.name
            && self.config.same_server(&other.config)
            && self.scope == other.scope
    }

    /// Takes over the description of another specification. Returns whether that is a change.
    pub(crate) fn describe_as(&mut self, other: &Self) -> bool {
        let now = other.description();
        if self.description() == now {
            return false;
        }
        self.labels = now.labels;
        self.properties = now.properties;
        self.alias = now.alias;
        self.refused_claims = now.refused_claims;
        self.has_left_endpoint = now.has_left_endpoint;
        true
    }

    /// Whether work on `before` ends at once when this takes its place.
    pub(crate) fn stops(&self, before: &Self) -> bool {
        let other_server = !self.config.same_server(&before.config);
        (other_server && self.on_server_change == ServerChange::Stop) || self.scope != before.scope
    }
}

/// Says where clusters are reached in place of their own servers. It is asked before anything connects, and answers the same for the same
/// server each time. It must not block.
pub trait Reroute: Send + Sync {
    /// Says so of a cluster that a provider engages, or of the local one.
    fn cluster(&self, spec: &mut ClusterSpec);

    /// Where the hub of a provider is reached.
    fn hub(&self, provider: &str, config: &ClusterConfig) -> ClusterConfig;

    /// How the own server of a configuration that this has made is reached; of any other one, itself.
    fn original(&self, config: ClusterConfig) -> ClusterConfig;
}

/// Why a cluster was not engaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngageError {
    /// Another provider's cluster has this name.
    #[error(
        "cluster {name:?} is provided by {by} already: give one of the two providers a prefix, or rename the cluster; this one is engaged once the name is free"
    )]
    Duplicate {
        /// The name.
        name: ClusterName,
        /// The provider that was first.
        by: String,
    },
    /// The name of the local cluster, which no provider provides.
    #[error("a provider's cluster has no name: the empty one is the local cluster's")]
    Local,
    /// With the provider's prefix, its name is no name of a cluster.
    #[error("with the prefix {prefix:?} its name cannot be used, {reason}: shorten the prefix")]
    Prefix {
        /// The prefix.
        prefix: String,
        /// Why the name cannot be used.
        reason: NameError,
    },
    /// The manager is draining, or the provider has been replaced or removed.
    #[error("the manager is stopping")]
    Stopping,
}

/// Begins and ends work on clusters.
///
/// # Contract
/// * Idempotent: engaging a cluster that is engaged already, with the same configuration, does nothing. Other credentials for the same
///   address are exchanged in place: caches and keys stay. So are labels and properties; with other labels, watches whose filter
///   selects by them begin or end. Another address under the same name makes another cluster, which takes over once its caches are
///   filled; until then the one before goes on, unless [`ServerChange::Stop`] is asked for.
/// * Never blocks: connecting, syncing and ending go on in the background, and one dead cluster costs the others nothing. A
///   cluster that cannot be reached joins by itself once it can.
/// * Names belong to the provider that engaged them first; a duplicate is refused and never renamed. A provider that was refused
///   engages again once [`Engage::freed`] ends.
pub trait Engage: Send + Sync {
    /// Begins work on a cluster.
    ///
    /// # Errors
    /// [`EngageError`], and then nothing has changed.
    fn engage(&self, spec: ClusterSpec) -> Result<(), EngageError>;

    /// Ends work on a cluster; an unknown name does nothing.
    fn disengage(&self, name: &ClusterName);

    /// Says that a cluster is known, and that it cannot be engaged or brought in line as it is now: it is not ready, or what describes it is
    /// invalid. If it is engaged in the provider's name, it stays as it is, also through a change of the provider. To be said again before
    /// each [`Engage::listed`], for as long as it holds.
    fn keep(&self, name: &ClusterName);

    /// Says that every cluster known has been engaged by now, or refused, or kept. Clusters of the provider that an earlier run, or another
    /// provider of its name, had engaged and this run has not are disengaged at the first call of a run. Each further call says that the
    /// provider has read its source to the end again; [`ProviderStatus`](crate::manager::ProviderStatus) shows when it last has.
    fn listed(&self);

    /// A cluster to read objects from: the local one (`None`), or a server of its own. Users of one provider with the same URL share the
    /// server, and other credentials are exchanged in place. It ends with the last [`Hub`]. Never blocks: the server is reached in the
    /// background.
    ///
    /// # Errors
    /// [`HubError`].
    fn hub(&self, _config: Option<ClusterConfig>) -> Result<Hub, HubError> {
        Err(HubError::Unsupported)
    }

    /// Ends once a name has become free, since this ended last, that a provider was refused as an [`EngageError::Duplicate`]. Waits
    /// without end where no name is ever refused.
    fn freed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
