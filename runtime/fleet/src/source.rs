//! Subscriptions to a kind in every engaged cluster, turned into requests. Entry point: [`Watch`].

mod debts;
mod enqueue;
pub(crate) mod mapped;
mod missed;
pub(crate) mod rescan;
mod sink;

pub(crate) use sink::{ControllerQueue, SourceSink, WatchTask};

use crate::api::{Json, Projection};
use crate::cluster::{Caller, Client, Cluster, Fleet};
use crate::grant::{ClusterBound, Grant};
use crate::kind::GroupVersionKind;
use crate::name::{ClusterName, NamePattern};
use crate::pairs::Pairs;
use crate::path::FieldPath;
use crate::predicate::Predicate;
use crate::request::Request;
use crate::selector::{FieldSelector, LabelSelector};
use futures::future::BoxFuture;
use std::sync::Arc;

/// One subscription of a controller.
#[derive(Clone)]
pub struct Watch {
    /// The kind.
    pub kind: GroupVersionKind,
    /// How an event becomes requests.
    pub enqueue: Enqueue,
    /// Which clusters it engages. Default: as the controller is configured.
    pub clusters: WatchClusters,
    /// Of these, only some of the provider's clusters. Default: all.
    pub only: ClusterFilter,
    /// Filters events; an object that stops matching counts as deleted. Default: none.
    pub label_selector: Option<LabelSelector>,
    /// Filters events at the server. Default: none.
    pub field_selector: Option<FieldSelector>,
    /// Which changes count. Default: every one.
    pub predicate: Predicate,
    /// Whether metadata is enough. Default: full objects.
    pub projection: Projection,
}

impl Watch {
    /// A watch of whole objects, every change counting.
    #[must_use]
    pub fn new(kind: impl Into<GroupVersionKind>, enqueue: Enqueue) -> Self {
        Self {
            kind: kind.into(),
            enqueue,
            clusters: WatchClusters::AsConfigured,
            only: ClusterFilter::default(),
            label_selector: None,
            field_selector: None,
            predicate: Predicate::always(),
            projection: Projection::Full,
        }
    }
}

impl PartialEq for Watch {
    /// Whether a running watch can become the other one, in a cluster that both engage, without a restart. Mappers are compared by
    /// identity.
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.enqueue == other.enqueue
            && self.clusters == other.clusters
            && self.label_selector == other.label_selector
            && self.field_selector == other.field_selector
            && self.predicate == other.predicate
            && self.projection == other.projection
    }
}

/// How an event on a watched object becomes requests.
#[derive(Clone)]
pub enum Enqueue {
    /// The object itself.
    Primary,
    /// The owner of the primary kind (by group and kind) that controls it.
    ControllerOwner,
    /// Every owner of the primary kind.
    AnyOwner,
    /// The primary object of the same namespace and name.
    SameName,
    /// Every primary object whose named index holds this object's name (same namespace, or either has none) or
    /// `namespace/name`.
    ByIndex(String),
    /// Code decides.
    Mapped(Arc<dyn Mapper>),
}

impl PartialEq for Enqueue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mapped(a), Self::Mapped(b)) => Arc::ptr_eq(a, b),
            (Self::ByIndex(a), Self::ByIndex(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl Enqueue {
    /// Whether its requests may be for objects of other clusters than the event's.
    pub(crate) fn may_leave_its_cluster(&self) -> bool {
        matches!(self, Self::Mapped(_))
    }

    /// The rule without a mapper's code.
    #[must_use]
    pub fn rule(&self) -> EnqueueRule {
        match self {
            Self::Primary => EnqueueRule::Primary,
            Self::ControllerOwner => EnqueueRule::ControllerOwner,
            Self::AnyOwner => EnqueueRule::AnyOwner,
            Self::SameName => EnqueueRule::SameName,
            Self::ByIndex(index) => EnqueueRule::ByIndex(index.clone()),
            Self::Mapped(_) => EnqueueRule::Mapped,
        }
    }
}

/// An [`Enqueue`] whose mapper, if it needs one, is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnqueueRule {
    /// See [`Enqueue::Primary`].
    Primary,
    /// See [`Enqueue::ControllerOwner`].
    ControllerOwner,
    /// See [`Enqueue::AnyOwner`].
    AnyOwner,
    /// See [`Enqueue::SameName`].
    SameName,
    /// See [`Enqueue::ByIndex`].
    ByIndex(String),
    /// See [`Enqueue::Mapped`].
    Mapped,
}

impl EnqueueRule {
    /// The word in status and errors.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::ControllerOwner => "controller-owner",
            Self::AnyOwner => "any-owner",
            Self::SameName => "same-name",
            Self::ByIndex(_) => "by-index",
            Self::Mapped => "mapped",
        }
    }

    /// The rule, with `mapper` as the code of a mapped watch.
    #[must_use]
    pub fn with_mapper(&self, mapper: &Arc<dyn Mapper>) -> Enqueue {
        match self {
            Self::Primary => Enqueue::Primary,
            Self::ControllerOwner => Enqueue::ControllerOwner,
            Self::AnyOwner => Enqueue::AnyOwner,
            Self::SameName => Enqueue::SameName,
            Self::ByIndex(index) => Enqueue::ByIndex(index.clone()),
            Self::Mapped => Enqueue::Mapped(mapper.clone()),
        }
    }
}

/// Code that turns changed objects into requests for any cluster.
pub trait Mapper: Send + Sync {
    /// The requests that objects of one cluster ask for, in any cluster of the fleet; an update passes the old and the new one. A
    /// failure is retried with backoff: an event is never lost to it.
    fn map(
        &self,
        context: MapContext,
        kind: GroupVersionKind,
        objects: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>>;
}

/// Why objects could not be mapped. They are mapped again, with backoff.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The mapper failed, for this reason.
    #[error("{0}")]
    Failed(String),
    /// The mapper panicked.
    #[error("the mapper panicked")]
    Panicked,
}

/// The cluster in which mapped objects changed, and the controller that they are mapped for. Cheap to clone.
#[derive(Clone)]
pub struct MapContext {
    /// The cluster of the objects.
    pub cluster: Arc<Cluster>,
    /// All engaged clusters.
    pub fleet: Fleet,
    pub(crate) caller: Caller,
}

impl MapContext {
    /// A client for the cluster of the objects, within a grant. It knows the controller's indexes, and its reads are answered by
    /// caches alone: a mapper runs for every event.
    #[must_use]
    pub fn client(&self, grant: &Arc<Grant>) -> Client {
        let client = self.cluster.client_for(self.caller.clone(), grant.clone());
        client.cached_only()
    }
}

/// Which clusters a watch engages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WatchClusters {
    /// As the controller is configured.
    #[default]
    AsConfigured,
    /// The local cluster only.
    Local,
    /// The provider's clusters only.
    Provider,
    /// Both.
    All,
}

/// Some of the provider's clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterFilter {
    /// Patterns over their names, of which one must match. Default: `*`.
    pub names: Vec<NamePattern>,
    /// Labels that they must have. Default: none.
    pub selector: Option<LabelSelector>,
}

impl Default for ClusterFilter {
    fn default() -> Self {
        Self {
            names: vec![NamePattern::any()],
            selector: None,
        }
    }
}

impl ClusterFilter {
    /// Whether a cluster is one of them. The local cluster always is: [`WatchClusters`] and [`ClusterSelection::local`] decide on it.
    #[must_use]
    pub fn admits(&self, cluster: &Cluster) -> bool {
        self.matches(cluster.name(), &cluster.labels())
    }

    /// The same for a cluster of this name and with these labels.
    #[must_use]
    pub fn matches(&self, name: &ClusterName, labels: &Pairs) -> bool {
        let mut names = self.names.iter();
        let selector = self.selector.as_ref();
        name.is_local()
            || names.any(|pattern| pattern.matches(name.as_str()))
                && selector.is_none_or(|selector| selector.matches(labels))
    }
}

/// Which clusters a controller engages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterSelection {
    /// Whether the local cluster is one. Default: exactly if there is no provider.
    pub local: Option<bool>,
    /// Whether the provider's clusters are. Default: exactly if there is a provider.
    pub provider: Option<bool>,
    /// Which of the provider's clusters. Default: all.
    pub only: ClusterFilter,
    /// A further selection that must engage a cluster as well. Default: none.
    pub within: Option<Box<ClusterSelection>>,
    /// Clusters outside of which nothing is engaged, whatever the watch asks for. Default: no bound.
    pub bound: Option<ClusterBound>,
}

impl ClusterSelection {
    /// Whether a watch engages a cluster.
    #[must_use]
    pub fn engages(&self, watch: &Watch, cluster: &Cluster, has_provider: bool) -> bool {
        let within = |more: &Self| more.engages(watch, cluster, has_provider);
        let labels = cluster.labels();
        let bounded = |bound: &ClusterBound| bound.admits(&cluster.facts(&labels, true));
        self.bound.as_ref().is_none_or(bounded)
            && self.selects(watch, cluster, has_provider)
            && watch.only.admits(cluster)
            && self.within.as_deref().is_none_or(within)
    }

    fn selects(&self, watch: &Watch, cluster: &Cluster, has_provider: bool) -> bool {
        let (local, provider) = match watch.clusters {
            // The only cluster that has the host's kinds.
            _ if watch.kind.is_of_host() => (true, false),
            WatchClusters::AsConfigured => (
                self.local.unwrap_or(!has_provider),
                self.provider.unwrap_or(has_provider),
            ),
            WatchClusters::Local => (true, false),
            WatchClusters::Provider => (false, true),
            WatchClusters::All => (true, true),
        };
        if cluster.name().is_local() {
            return local;
        }
        provider && self.only.admits(cluster)
    }
}

/// A field index that a controller declares on a kind, for every cluster, those engaged later included.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// The kind.
    pub kind: GroupVersionKind,
    /// The controller's name for it.
    pub name: String,
    /// Where the values stand.
    pub path: FieldPath,
    /// Where the namespace of the referred object stands; values are then `namespace/name`. Default: none.
    pub namespace_path: Option<FieldPath>,
}
