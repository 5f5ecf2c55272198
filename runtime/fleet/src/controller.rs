//! A controller: watches, a reconciler and options, for the manager. Entry points: [`Controller::builder`] and [`Reconciler`].

mod attempt;
mod context;
mod shape;

pub(crate) use attempt::{Attempt, Ended};
pub use context::{Context, ReconcileId};
pub use shape::{ShapeError, check_shape};

use crate::backoff::Backoff;
use crate::cache::store::IndexPath;
use crate::cluster::call_scope::{DeclaredIndex, DeclaredIndexes};
use crate::grant::Grant;
use crate::kind::GroupVersionKind;
use crate::name::{ControllerName, TenantName};
use crate::outcome::{Action, Failure};
use crate::queue::QueueOptions;
use crate::source::{ClusterSelection, Enqueue, Index, Watch};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// Brings the state of a cluster to the state that an object specifies.
///
/// # Contract
/// * Level-triggered: a request names an object, never an event. Equal requests merge. A request that arrives during a run of its key causes
///   another run.
/// * At least once: after a failure, a restart or a reload the key runs again. One key never runs twice at once.
/// * A failure is retried with a growing delay unless it is terminal.
///
/// # Cancellation
/// The future is dropped at its deadline, when its cluster leaves, and when a drain runs out of time. Calls fail with `cancelled` shortly
/// before.
pub trait Reconciler: Send + Sync + 'static {
    /// Reconciles one object.
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>>;
}

impl<F, Fut> Reconciler for F
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        Box::pin(self(context))
    }
}

/// Limits of a controller.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerOptions {
    /// Keys that run at once, in all clusters together. Default: the manager's setting for the primary kind, else the tenant's limit.
    pub concurrency: Option<usize>,
    /// The most of that, wherever it comes from. Default: no bound.
    pub most_concurrency: Option<usize>,
    /// Keys that run at once in one cluster. Default: [`ControllerOptions::PER_CLUSTER`].
    pub concurrency_per_cluster: usize,
    /// Longest run of one key. Default: 60 s.
    pub timeout: Duration,
    /// Delays of a failing key. Default: 5 ms doubling to 1000 s, with jitter.
    pub backoff: Backoff,
    /// How often every object is enqueued without a change, give or take a tenth, with the lowest priority. Useful if a result depends on
    /// things that no watch covers. Predicates see an update that changes nothing. Default: never, as no event is lost.
    pub resync: Option<Duration>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            concurrency: None,
            most_concurrency: None,
            concurrency_per_cluster: Self::PER_CLUSTER,
            timeout: Duration::from_secs(60),
            backoff: QueueOptions::default().backoff,
            resync: None,
        }
    }
}

impl ControllerOptions {
    /// Default of `concurrency_per_cluster`.
    pub const PER_CLUSTER: usize = 4;
}

/// A controller that was checked.
#[derive(Clone)]
pub struct Controller {
    pub(crate) name: ControllerName,
    pub(crate) tenant: TenantName,
    pub(crate) grant: Arc<Grant>,
    pub(crate) selection: ClusterSelection,
    pub(crate) primary: Option<GroupVersionKind>,
    /// Shared by their tasks and sinks in every cluster.
    pub(crate) watches: Vec<Arc<Watch>>,
    pub(crate) indexes: Arc<DeclaredIndexes>,
    pub(crate) options: ControllerOptions,
    /// Whether it runs only in the leader, if there is an election.
    pub(crate) needs_lease: bool,
    pub(crate) reconciler: Arc<dyn Reconciler>,
}

/// Why a controller cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reconciler {name} cannot be built: {error}")]
pub struct ControllerError {
    /// The controller.
    pub name: ControllerName,
    /// The reason.
    pub error: ShapeError,
}

impl Controller {
    /// A builder for the tenant `default` with everything granted, as native code is trusted.
    pub fn builder(name: ControllerName) -> Builder {
        Builder {
            name,
            tenant: TenantName::default(),
            grant: Arc::new(Grant::all()),
            selection: ClusterSelection::default(),
            primary: None,
            watches: Vec::new(),
            indexes: Vec::new(),
            options: ControllerOptions::default(),
            needs_lease: true,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &ControllerName {
        &self.name
    }

    /// Its tenant.
    #[must_use]
    pub fn tenant(&self) -> &TenantName {
        &self.tenant
    }
}

/// Builds a [`Controller`].
#[must_use]
pub struct Builder {
    name: ControllerName,
    tenant: TenantName,
    grant: Arc<Grant>,
    selection: ClusterSelection,
    primary: Option<GroupVersionKind>,
    watches: Vec<Watch>,
    indexes: Vec<Index>,
    options: ControllerOptions,
    needs_lease: bool,
}

impl Builder {
    /// The tenant. Default: `default`.
    pub fn tenant(mut self, tenant: TenantName) -> Self {
        self.tenant = tenant;
        self
    }

    /// The rights of its watches and of [`Context::typed_client`]. Events outside granted namespaces never reach it. Default: everything.
    pub fn grant(mut self, grant: Arc<Grant>) -> Self {
        self.grant = grant;
        self
    }

    /// Which clusters it engages. Default: the provider's clusters, or the local one when there is no provider.
    pub fn engage(mut self, selection: ClusterSelection) -> Self {
        self.selection = selection;
        self
    }

    /// The kind of the objects that requests name. Default: the kind of the primary watch.
    pub fn primary(mut self, kind: impl Into<GroupVersionKind>) -> Self {
        self.primary = Some(kind.into());
        self
    }

    /// Adds a watch.
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watches.push(watch);
        self
    }

    /// Watches the primary kind.
    pub fn for_kind(self, kind: impl Into<GroupVersionKind>) -> Self {
        self.watch(Watch::new(kind, Enqueue::Primary))
    }

    /// Watches a kind whose objects the primary objects control.
    pub fn owns(self, kind: impl Into<GroupVersionKind>) -> Self {
        self.watch(Watch::new(kind, Enqueue::ControllerOwner))
    }

    /// Declares an index.
    pub fn index(mut self, index: Index) -> Self {
        self.indexes.push(index);
        self
    }

    /// Its limits.
    pub fn options(mut self, options: ControllerOptions) -> Self {
        self.options = options;
        self
    }

    /// Whether it runs only in the leader of an election. If not, it runs in every process, and its writes do not pass the fence. Default:
    /// true.
    pub fn needs_leader_election(mut self, needs: bool) -> Self {
        self.needs_lease = needs;
        self
    }

    /// Checks everything and builds the controller.
    ///
    /// # Errors
    /// [`ControllerError`].
    pub fn build(self, reconciler: Arc<dyn Reconciler>) -> Result<Controller, ControllerError> {
        let primary = self.primary_kind();
        let watches: Vec<_> = self
            .watches
            .iter()
            .map(|watch| (&watch.kind, watch.enqueue.rule()))
            .collect();
        if let Err(error) = check_shape(primary.as_ref(), &watches, &self.indexes) {
            let name = self.name;
            return Err(ControllerError { name, error });
        }
        let indexes = self.indexes.into_iter().map(|index| {
            let path = IndexPath {
                path: index.path,
                namespace_path: index.namespace_path,
            };
            ((index.kind, index.name), Arc::new(DeclaredIndex::new(path)))
        });
        Ok(Controller {
            name: self.name,
            tenant: self.tenant,
            grant: self.grant,
            selection: self.selection,
            primary,
            watches: self.watches.into_iter().map(Arc::new).collect(),
            indexes: Arc::new(indexes.collect()),
            options: self.options,
            needs_lease: self.needs_lease,
            reconciler,
        })
    }

    /// The declared primary kind, else that of the first primary watch.
    fn primary_kind(&self) -> Option<GroupVersionKind> {
        let is_primary = |watch: &&Watch| watch.enqueue == Enqueue::Primary;
        let watched = self.watches.iter().find(is_primary);
        self.primary.clone().or_else(|| Some(watched?.kind.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str) -> GroupVersionKind {
        GroupVersionKind::new("", "v1", kind)
    }

    fn build(
        with: impl FnOnce(Builder) -> Builder,
    ) -> Result<Option<GroupVersionKind>, ControllerError> {
        let builder = with(Controller::builder(ControllerName::new("c").unwrap()));
        let reconciler = Arc::new(|_: Context| async { Ok(Action::Done) });
        Ok(builder.build(reconciler)?.primary)
    }

    #[test]
    fn the_primary_kind_is_that_of_the_primary_watch_where_none_is_declared() {
        let [pod, node] = ["Pod", "Node"].map(kind);
        let watched = build(|builder| builder.for_kind(pod.clone()));
        assert_eq!(watched, Ok(Some(pod.clone())));
        let declared = build(|builder| builder.primary(pod.clone()).owns(node.clone()));
        assert_eq!(declared, Ok(Some(pod.clone())));
        let refused = build(|builder| builder.primary(pod).for_kind(node)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "reconciler c cannot be built: watch 1 (v1/Node) enqueues the object itself, but the primary kind is v1/Pod: make them the same"
        );
    }
}
