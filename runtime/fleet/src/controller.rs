//! Sources, a reconciler and options, to be registered with the manager. Entry points: [`Controller::builder`] and [`Reconciler`].

mod attempt;
mod context;

pub(crate) use attempt::{Attempt, Ended};
pub use context::{Context, ReconcileId};

use crate::backoff::Backoff;
use crate::cache::store::IndexPath;
use crate::cluster::scope::{DeclaredIndex, DeclaredIndexes};
use crate::grant::Grant;
use crate::kind::GroupVersionKind;
use crate::name::{ControllerName, TenantName};
use crate::outcome::{Action, Failure};
use crate::queue::ControllerOptions as QueueOptions;
use crate::source::{ClusterSelection, Enqueue, Index, Watch};
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What brings an object's cluster to where the object says it should be.
///
/// # Contract
/// * Level-triggered: a request says what to look at, never what happened. Equal requests merge; one that arrives during a run
///   runs again after it.
/// * At least once: after a failure, a restart or a reload the key runs again. One key never runs twice at once.
/// * A failure is retried with growing delay unless it is terminal.
///
/// # Cancellation
/// The future is dropped at its deadline, when its cluster leaves and when a drain runs out of time. Shortly before the
/// deadline calls answer `cancelled`.
pub trait Reconciler: Send + Sync + 'static {
    /// Looks at one object.
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

/// Bounds of a controller.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerOptions {
    /// Keys that run at once, over all clusters. Default: what the manager says for the controller's primary kind, else as many as the
    /// tenant may have.
    pub concurrency: Option<usize>,
    /// Keys that run at once in one cluster. Default: [`ControllerOptions::PER_CLUSTER`].
    pub concurrency_per_cluster: usize,
    /// Longest run of one key. Default: 60 s.
    pub timeout: Duration,
    /// Delays of a failing key. Default: 5 ms doubling to 1000 s, with jitter.
    pub backoff: Backoff,
    /// How often every object is looked at though nothing has changed, behind everything else; a tenth more or less. It finds what is
    /// not in any watched object. Predicates see an update that changes nothing. Default: never, as events are not lost here.
    pub resync: Option<Duration>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            concurrency: None,
            concurrency_per_cluster: Self::PER_CLUSTER,
            timeout: Duration::from_secs(60),
            backoff: QueueOptions::default().backoff,
            resync: None,
        }
    }
}

impl ControllerOptions {
    /// Keys that run at once in one cluster where nobody says otherwise.
    pub const PER_CLUSTER: usize = 4;
}

/// A controller, complete.
#[derive(Clone)]
pub struct Controller {
    pub(crate) name: ControllerName,
    pub(crate) tenant: TenantName,
    pub(crate) grant: Arc<Grant>,
    pub(crate) selection: ClusterSelection,
    pub(crate) primary: Option<GroupVersionKind>,
    pub(crate) watches: Vec<Watch>,
    pub(crate) indexes: Arc<DeclaredIndexes>,
    pub(crate) options: ControllerOptions,
    /// Whether it runs only in the process that leads, where there is an election.
    pub(crate) needs_lease: bool,
    pub(crate) reconciler: Arc<dyn Reconciler>,
}

/// Why a controller cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControllerError {
    /// Nothing would ever trigger it.
    #[error("reconciler {0} has no watches and would never run: add a watch")]
    NoWatches(ControllerName),
    /// Two watches enqueue the object itself.
    #[error(
        "reconciler {name} has two primary watches, {first} and {second}: keep one, and let the other enqueue by owner, name, index or code"
    )]
    TwoPrimaries {
        /// The controller.
        name: ControllerName,
        /// Kind of the first.
        first: GroupVersionKind,
        /// Kind of the second.
        second: GroupVersionKind,
    },
    /// A watch enqueues the object itself, and its kind is not the primary one.
    #[error(
        "reconciler {name} declares {primary} as its primary kind, but its primary watch is of {watched}: make them the same"
    )]
    OtherPrimary {
        /// The controller.
        name: ControllerName,
        /// The kind declared.
        primary: GroupVersionKind,
        /// The kind watched.
        watched: GroupVersionKind,
    },
    /// An enqueue rule needs to know what the primary kind is.
    #[error("reconciler {name} watches {kind} by {rule}, which needs a primary kind: declare one")]
    NeedsPrimary {
        /// The controller.
        name: ControllerName,
        /// Kind of the watch.
        kind: GroupVersionKind,
        /// Its enqueue rule.
        rule: &'static str,
    },
    /// A watch names an index that is not declared on the primary kind.
    #[error(
        "reconciler {name} watches {kind} by index {index:?}, which is not declared on its primary kind: declare it"
    )]
    UnknownIndex {
        /// The controller.
        name: ControllerName,
        /// Kind of the watch.
        kind: GroupVersionKind,
        /// The index.
        index: String,
    },
    /// Two indexes of one kind have one name.
    #[error(
        "reconciler {name} declares index {index:?} of {kind} twice with different paths: rename one"
    )]
    DuplicateIndex {
        /// The controller.
        name: ControllerName,
        /// The kind.
        kind: GroupVersionKind,
        /// The index.
        index: String,
    },
}

impl Controller {
    /// Begins a controller of the tenant `default` with everything granted, as native code is trusted.
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

    /// What its sources may see, and what [`Context::typed_client`] may touch; events outside granted namespaces never reach it.
    /// Default: everything.
    pub fn grant(mut self, grant: Arc<Grant>) -> Self {
        self.grant = grant;
        self
    }

    /// Which clusters it engages. Default: the provider's clusters, or the local one when there is no provider.
    pub fn engage(mut self, selection: ClusterSelection) -> Self {
        self.selection = selection;
        self
    }

    /// The kind that requests name, where no watch says it. Default: that of the primary watch.
    pub fn primary(mut self, kind: impl Into<GroupVersionKind>) -> Self {
        self.primary = Some(kind.into());
        self
    }

    /// Adds a watch.
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watches.push(watch);
        self
    }

    /// Watches the kind that requests name.
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

    /// Its bounds.
    pub fn options(mut self, options: ControllerOptions) -> Self {
        self.options = options;
        self
    }

    /// Whether it runs only in the process that leads, where several stand for election. One that does not need that runs in every
    /// process, and its writes are not held back when a lease is lost. Default: true.
    pub fn needs_leader_election(mut self, needs: bool) -> Self {
        self.needs_lease = needs;
        self
    }

    /// Checks everything and makes the controller.
    ///
    /// # Errors
    /// [`ControllerError`].
    pub fn build(self, reconciler: Arc<dyn Reconciler>) -> Result<Controller, ControllerError> {
        let primary = self.find_primary()?;
        let indexes = self.declare_indexes()?;
        for watch in &self.watches {
            self.check_watch(watch, primary.as_ref(), &indexes)?;
        }
        Ok(Controller {
            name: self.name,
            tenant: self.tenant,
            grant: self.grant,
            selection: self.selection,
            primary,
            watches: self.watches,
            indexes: Arc::new(indexes),
            options: self.options,
            needs_lease: self.needs_lease,
            reconciler,
        })
    }

    fn find_primary(&self) -> Result<Option<GroupVersionKind>, ControllerError> {
        if self.watches.is_empty() {
            return Err(ControllerError::NoWatches(self.name.clone()));
        }
        let mut watched = self
            .watches
            .iter()
            .filter(|w| w.enqueue == Enqueue::Primary)
            .map(|w| &w.kind);
        let first = watched.next();
        if let (Some(first), Some(second)) = (first, watched.next()) {
            return Err(ControllerError::TwoPrimaries {
                name: self.name.clone(),
                first: first.clone(),
                second: second.clone(),
            });
        }
        match (&self.primary, first) {
            (Some(primary), Some(watched)) if primary != watched => {
                Err(ControllerError::OtherPrimary {
                    name: self.name.clone(),
                    primary: primary.clone(),
                    watched: watched.clone(),
                })
            }
            (primary, watched) => Ok(primary.as_ref().or(watched).cloned()),
        }
    }

    fn declare_indexes(&self) -> Result<DeclaredIndexes, ControllerError> {
        let mut declared: DeclaredIndexes = HashMap::new();
        for index in &self.indexes {
            let path = IndexPath {
                path: index.path.clone(),
                namespace_path: index.namespace_path.clone(),
            };
            let key = (index.kind.clone(), index.name.clone());
            if declared.get(&key).is_some_and(|there| there.path != path) {
                let (kind, index) = key;
                return Err(ControllerError::DuplicateIndex {
                    name: self.name.clone(),
                    kind,
                    index,
                });
            }
            declared.insert(key, Arc::new(DeclaredIndex::new(path)));
        }
        Ok(declared)
    }

    fn check_watch(
        &self,
        watch: &Watch,
        primary: Option<&GroupVersionKind>,
        indexes: &DeclaredIndexes,
    ) -> Result<(), ControllerError> {
        let (name, kind) = (self.name.clone(), watch.kind.clone());
        if matches!(watch.enqueue, Enqueue::Primary | Enqueue::Mapped(_)) {
            return Ok(());
        }
        let Some(primary) = primary else {
            return Err(ControllerError::NeedsPrimary {
                name,
                kind,
                rule: watch.enqueue.as_str(),
            });
        };
        match &watch.enqueue {
            Enqueue::ByIndex(index) if !indexes.contains_key(&(primary.clone(), index.clone())) => {
                Err(ControllerError::UnknownIndex {
                    name,
                    kind,
                    index: index.clone(),
                })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str) -> GroupVersionKind {
        GroupVersionKind::new("", "v1", kind)
    }

    fn builder() -> Builder {
        Controller::builder(ControllerName::new("c").unwrap())
    }

    fn build(builder: Builder) -> Result<Controller, ControllerError> {
        builder.build(Arc::new(|_: Context| async { Ok(Action::Done) }))
    }

    fn refused(builder: Builder) -> ControllerError {
        build(builder).err().unwrap()
    }

    // What the builder refuses: nothing to watch, two primaries, an owner rule or an index without what it needs. A name and a reconciler
    // cannot be left out.

    #[test]
    fn a_controller_that_could_never_run_is_refused() {
        assert!(matches!(refused(builder()), ControllerError::NoWatches(_)));
        assert!(matches!(
            refused(builder().owns(kind("Pod"))),
            ControllerError::NeedsPrimary {
                rule: "controller-owner",
                ..
            }
        ));
    }

    #[test]
    fn there_is_one_primary_kind() {
        assert!(matches!(
            refused(builder().for_kind(kind("Pod")).for_kind(kind("Node"))),
            ControllerError::TwoPrimaries { .. }
        ));
        assert!(matches!(
            refused(builder().primary(kind("Pod")).for_kind(kind("Node"))),
            ControllerError::OtherPrimary { .. }
        ));
        assert_eq!(
            build(builder().for_kind(kind("Pod"))).unwrap().primary,
            Some(kind("Pod"))
        );
        assert!(build(builder().primary(kind("Pod")).owns(kind("Node"))).is_ok());
    }

    #[test]
    fn an_index_rule_needs_its_index() {
        let by_index = || {
            builder().for_kind(kind("Pod")).watch(Watch::new(
                kind("ConfigMap"),
                Enqueue::ByIndex("refs".into()),
            ))
        };
        assert!(matches!(
            refused(by_index()),
            ControllerError::UnknownIndex { .. }
        ));
        let index = |path: &str| Index {
            kind: kind("Pod"),
            name: "refs".into(),
            path: path.parse().unwrap(),
            namespace_path: None,
        };
        assert!(build(by_index().index(index("spec.ref")).index(index("spec.ref"))).is_ok());
        assert!(matches!(
            refused(
                by_index()
                    .index(index("spec.ref"))
                    .index(index("spec.other"))
            ),
            ControllerError::DuplicateIndex { .. }
        ));
    }
}
