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
use crate::desired::{Dependents, owner_index};
use crate::grant::Grant;
use crate::kind::GroupVersionKind;
use crate::name::{ControllerName, NameError, TenantName};
use crate::outcome::{Action, Result};
use crate::queue::QueueOptions;
use crate::selector::{LabelSelector, SelectorError};
use crate::source::{ClusterSelection, Enqueue, Index, Watch};
use crate::typed::Typed;
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
///
/// # State
/// An async function is a reconciler, and so is a closure that calls a method of the state that it holds:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use windlass_fleet::k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_fleet::{Action, Context, Controller, Result};
///
/// #[derive(Default)]
/// struct Counter {
///     runs: AtomicU64,
/// }
///
/// impl Counter {
///     async fn reconcile(self: Arc<Self>, _: Context) -> Result<Action> {
///         self.runs.fetch_add(1, Ordering::Relaxed);
///         Ok(Action::Done)
///     }
/// }
///
/// let counter = Arc::new(Counter::default());
/// let controller = Controller::of::<ConfigMap>("counter")
///     .build(move |context| counter.clone().reconcile(context))?;
/// # Ok::<(), windlass_fleet::controller::ControllerError>(())
/// ```
pub trait Reconciler: Send + Sync + 'static {
    /// Reconciles one object.
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action>>;
}

impl<F, Fut> Reconciler for F
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action>> + Send + 'static,
{
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action>> {
        Box::pin(self(context))
    }
}

impl<R: Reconciler + ?Sized> Reconciler for Arc<R> {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action>> {
        (**self).reconcile(context)
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
#[error("reconciler {name} cannot be built: {problem}")]
pub struct ControllerError {
    /// The name of the controller.
    pub name: String,
    /// The reason.
    pub problem: ControllerProblem,
}

/// What is wrong with a controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControllerProblem {
    /// Its name is not a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Its label selector is not a selector.
    #[error(transparent)]
    Labels(#[from] SelectorError),
    /// There is a label selector and no watch that enqueues the object itself.
    #[error("labels select objects of the primary kind, which is not watched: watch it")]
    LabelsWithoutPrimary,
    /// Watches, indexes and the primary kind do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl Controller {
    /// Begins a controller of objects of a type: its requests name them. [`Builder::build`] checks the name.
    pub fn of<T: Typed>(name: &str) -> Builder {
        Self::named(name.to_owned()).for_kind(T::gvk())
    }

    /// A builder for the tenant `default` with everything granted, as native code is trusted.
    pub fn builder(name: ControllerName) -> Builder {
        Self::named(name.to_string())
    }

    fn named(name: String) -> Builder {
        Builder {
            name,
            labels: None,
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
    name: String,
    /// The label selector of the primary watch.
    labels: Option<String>,
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

    /// Selects the primary objects by their labels, as kubectl's `-l`. An object that stops matching counts as deleted. Default: all objects.
    pub fn labels(mut self, selector: &str) -> Self {
        self.labels = Some(selector.to_owned());
        self
    }

    /// Watches a type of objects that the primary objects control.
    pub fn owns<T: Typed>(self) -> Self {
        self.owns_kind(T::gvk())
    }

    /// Watches a kind whose objects the primary objects control.
    pub fn owns_kind(self, kind: impl Into<GroupVersionKind>) -> Self {
        self.watch(Watch::new(kind, Enqueue::ControllerOwner))
    }

    /// Watches the kinds of dependents, so that an event on one enqueues its owner, and indexes them by their owner.
    pub fn dependents(self, dependents: &Dependents<'_>) -> Self {
        let kinds = dependents.kinds.iter().cloned();
        kinds.fold(self, |builder, kind| {
            builder.owns_kind(kind.clone()).index(owner_index(kind))
        })
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
    pub fn build(mut self, reconciler: impl Reconciler) -> Result<Controller, ControllerError> {
        let checked = self.check();
        let name = checked.map_err(|problem| ControllerError {
            name: self.name.clone(),
            problem,
        })?;
        let primary = self.primary_kind();
        let indexes = self.indexes.into_iter().map(|index| {
            let path = IndexPath {
                path: index.path,
                namespace_path: index.namespace_path,
            };
            ((index.kind, index.name), Arc::new(DeclaredIndex::new(path)))
        });
        Ok(Controller {
            name,
            tenant: self.tenant,
            grant: self.grant,
            selection: self.selection,
            primary,
            watches: self.watches.into_iter().map(Arc::new).collect(),
            indexes: Arc::new(indexes.collect()),
            options: self.options,
            needs_lease: self.needs_lease,
            reconciler: Arc::new(reconciler),
        })
    }

    /// Gives the primary watch its labels, and checks everything.
    fn check(&mut self) -> Result<ControllerName, ControllerProblem> {
        let name = ControllerName::new(&self.name)?;
        if let Some(selector) = &self.labels {
            let selector = LabelSelector::parse(selector)?;
            let mut watches = self.watches.iter_mut();
            let primary = watches.find(|watch| watch.enqueue == Enqueue::Primary);
            let primary = primary.ok_or(ControllerProblem::LabelsWithoutPrimary)?;
            primary.label_selector = Some(selector);
        }
        let primary = self.primary_kind();
        let watches: Vec<_> = self
            .watches
            .iter()
            .map(|watch| (&watch.kind, watch.enqueue.rule()))
            .collect();
        check_shape(primary.as_ref(), &watches, &self.indexes)?;
        Ok(name)
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
        let controller = builder.build(|_: Context| async { Ok(Action::Done) })?;
        Ok(controller.primary)
    }

    #[test]
    fn the_primary_kind_is_that_of_the_primary_watch_where_none_is_declared() {
        let [pod, node] = ["Pod", "Node"].map(kind);
        let watched = build(|builder| builder.for_kind(pod.clone()));
        assert_eq!(watched, Ok(Some(pod.clone())));
        let declared = build(|builder| builder.primary(pod.clone()).owns_kind(node.clone()));
        assert_eq!(declared, Ok(Some(pod.clone())));
        let refused = build(|builder| builder.primary(pod).for_kind(node)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "reconciler c cannot be built: watch 1 (v1/Node) enqueues the object itself, but the primary kind is v1/Pod: make them the same"
        );
    }

    fn problem(with: impl FnOnce(Builder) -> Builder) -> ControllerProblem {
        build(with).unwrap_err().problem
    }

    #[test]
    fn labels_select_the_primary_objects() {
        let labelled = |builder: Builder| builder.labels("copy=yes");
        let mut both = labelled(Controller::builder(ControllerName::new("c").unwrap()))
            .owns_kind(kind("Node"))
            .for_kind(kind("Pod"));
        both.check().unwrap();
        let selectors = both
            .watches
            .iter()
            .map(|watch| watch.label_selector.clone());
        let copies = LabelSelector::parse("copy=yes").unwrap();
        assert!(selectors.eq([None, Some(copies)]));
        let without = problem(|builder| {
            labelled(builder)
                .primary(kind("Pod"))
                .owns_kind(kind("Node"))
        });
        assert_eq!(without, ControllerProblem::LabelsWithoutPrimary);
        let wrong = problem(|builder| builder.for_kind(kind("Pod")).labels("a b"));
        assert!(matches!(wrong, ControllerProblem::Labels(_)));
    }

    #[cfg(feature = "kube")]
    #[test]
    fn a_name_that_is_none_is_refused_when_the_controller_is_built() {
        let pods = Controller::of::<k8s_openapi::api::core::v1::Pod>("no name");
        let refused = pods.build(|_: Context| async { Ok(Action::Done) });
        let refused = refused.err().unwrap();
        assert!(
            refused
                .to_string()
                .starts_with("reconciler no name cannot be built: ")
        );
        assert!(matches!(refused.problem, ControllerProblem::Name(_)));
    }
}
