//! Owns everything: build → bind → run → drain. Entry point: [`Manager::builder`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use windlass_fleet::cluster::ClusterConfig;
//! use windlass_fleet::engage::ClusterSpec;
//! use windlass_fleet::provider::single::Single;
//! use windlass_fleet::{Action, ClusterName, Context, Controller, ControllerName, GroupVersionKind, Manager};
//!
//! let cluster = ClusterSpec::new(ClusterName::new("alpha")?, ClusterConfig::from_url("http://127.0.0.1:8001")?);
//! let controller = Controller::builder(ControllerName::new("printer")?)
//!     .for_kind(GroupVersionKind::new("", "v1", "ConfigMap"))
//!     .build(Arc::new(|context: Context| async move {
//!         println!("{}", context.request);
//!         Ok(Action::Done)
//!     }))?;
//! let manager = Manager::builder().provider(Arc::new(Single::new(cluster))).controller(controller).build()?;
//! manager.bind().run(tokio_util::sync::CancellationToken::new()).await?;
//! # Ok(())
//! # }
//! ```

mod attach;
mod clusters;
mod controllers;
mod core;
mod dispatch;
mod explain;
mod handle;
mod idle;
mod leadership;
mod observe;
mod providers;
mod recent;
mod storms;

pub use controllers::ControllerStatus;
pub use explain::Explanation;
pub use handle::{KeyFilter, KeyPage, KeyStatus, ManagerHandle};
pub use idle::Idle;
pub use providers::ProviderStatus;
pub use storms::{Storm, Storms};

use self::core::Core;
use crate::cluster::{CacheOptions, TransportOptions};
use crate::controller::Controller;
use crate::election::{Election, ElectionError, ElectionOptions};
use crate::engage::ClusterSpec;
use crate::kind::GroupKind;
use crate::metrics::Metrics;
use crate::name::{ClusterName, ControllerName, TenantName};
use crate::provider::Provider;
use crate::queue::{HotKeyLimit, Limits, TenantOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// How many keys run at once, from when a key is handed to its reconciler until that is done, whatever it waits for.
///
/// A controller's own limit is its [`ControllerOptions::concurrency`](crate::controller::ControllerOptions), as
/// `MaxConcurrentReconciles` is in controller-runtime; `kinds` is what `GroupKindConcurrency` is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concurrency {
    /// Over everything. Default: 512.
    pub global: usize,
    /// In one cluster, over all tenants. Default: 128.
    pub per_cluster: usize,
    /// Of each controller by its primary kind, where it has no limit of its own. Default: none.
    pub kinds: BTreeMap<GroupKind, usize>,
}

impl Default for Concurrency {
    fn default() -> Self {
        let Limits {
            global,
            per_cluster,
            ..
        } = Limits::default();
        Self {
            global,
            per_cluster,
            kinds: BTreeMap::new(),
        }
    }
}

/// Options of a manager.
#[derive(Debug, Clone)]
pub struct ManagerOptions {
    /// How many keys run at once.
    pub concurrency: Concurrency,
    /// Keys that a controller may have in the queue. Beyond that its sources keep a mark and offer theirs again when there is room.
    /// Default: 1,000,000.
    pub keys_per_controller: usize,
    /// How often one key may run.
    pub hot_key: HotKeyLimit,
    /// How long a drain waits for what runs before it cancels it. Default: 30 s.
    pub drain_timeout: Duration,
    /// Bounds on calls to API servers.
    pub transport: TransportOptions,
    /// How caches follow their servers.
    pub caches: CacheOptions,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            concurrency: Concurrency::default(),
            keys_per_controller: Limits::default().keys_per_controller,
            hot_key: HotKeyLimit::default(),
            drain_timeout: Duration::from_secs(30),
            transport: TransportOptions::default(),
            caches: CacheOptions::default(),
        }
    }
}

/// Why a manager cannot be built, or a controller not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// Two controllers of one tenant have one name.
    #[error("tenant {tenant} has two reconcilers named {name}: rename one")]
    DuplicateController {
        /// The tenant.
        tenant: TenantName,
        /// The name.
        name: ControllerName,
    },
    /// Two providers have one name.
    #[error("two providers are named {0:?}: rename one")]
    DuplicateProvider(String),
    /// The local cluster has a name.
    #[error("the local cluster is named {0:?}, but its name is always empty")]
    NamedLocal(ClusterName),
    /// The manager is draining.
    #[error("the manager is stopping")]
    Stopping,
    /// The election cannot be held.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// The lease has nowhere to live.
    #[error(
        "leader election needs a local cluster for its lease: add one, or run one process without it"
    )]
    ElectionWithoutLocal,
    /// The lease was lost: another process may lead by now.
    #[error("leader election lost: the lease {namespace}/{name} could not be renewed in time")]
    ElectionLost {
        /// The namespace of the lease.
        namespace: String,
        /// The name of the lease.
        name: String,
    },
}

/// Builds a [`Manager`].
#[derive(Default)]
#[must_use]
pub struct Builder {
    options: ManagerOptions,
    metrics: Option<Metrics>,
    local: Option<ClusterSpec>,
    election: Option<ElectionOptions>,
    providers: Vec<Arc<dyn Provider>>,
    tenants: Vec<(TenantName, TenantOptions)>,
    controllers: Vec<Controller>,
}

impl Builder {
    /// Options. Default: [`ManagerOptions::default`].
    pub fn options(mut self, options: ManagerOptions) -> Self {
        self.options = options;
        self
    }

    /// Where to count. Default: nowhere that anybody sees.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The local (hub) cluster, whose name is empty. Default: none.
    pub fn local(mut self, local: ClusterSpec) -> Self {
        self.local = Some(local);
        self
    }

    /// Has one of several processes work, by a Lease in the local cluster, while the others keep their caches warm. Default: every
    /// process works.
    pub fn leader_election(mut self, options: ElectionOptions) -> Self {
        self.election = Some(options);
        self
    }

    /// Adds a provider of clusters.
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Sets a tenant's share. Default for tenants that are not named: [`TenantOptions::default`].
    pub fn tenant(mut self, name: TenantName, options: TenantOptions) -> Self {
        self.tenants.push((name, options));
        self
    }

    /// Adds a controller.
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// [`ManagerError`].
    pub fn build(self) -> Result<Manager, ManagerError> {
        if let Some(local) = &self.local
            && !local.name.is_local()
        {
            return Err(ManagerError::NamedLocal(local.name.clone()));
        }
        for (i, provider) in self.providers.iter().enumerate() {
            if self.providers[..i]
                .iter()
                .any(|p| p.name() == provider.name())
            {
                return Err(ManagerError::DuplicateProvider(provider.name().to_owned()));
            }
        }
        if let Some(election) = &self.election {
            election.check()?;
            if self.local.is_none() {
                return Err(ManagerError::ElectionWithoutLocal);
            }
        }
        for (i, controller) in self.controllers.iter().enumerate() {
            let same = |other: &&Controller| {
                other.tenant == controller.tenant && other.name == controller.name
            };
            if self.controllers[..i].iter().any(|other| same(&other)) {
                return Err(ManagerError::DuplicateController {
                    tenant: controller.tenant.clone(),
                    name: controller.name.clone(),
                });
            }
        }
        Ok(Manager { parts: self })
    }
}

/// A manager that has been checked and does nothing yet.
pub struct Manager {
    parts: Builder,
}

impl Manager {
    /// Begins a manager.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Takes the current tokio runtime as the host's and makes the manager ready to run. Engages nothing yet.
    #[must_use]
    pub fn bind(self) -> BoundManager {
        let parts = self.parts;
        let core = Core::new(
            Handle::current(),
            parts.options,
            parts.metrics.unwrap_or_default(),
            !parts.providers.is_empty(),
            parts.election.map(Election::new),
        );
        for (name, options) in parts.tenants {
            core.put_tenant(&name, options);
        }
        for controller in parts.controllers {
            core.put_controller(controller);
        }
        BoundManager {
            core,
            local: parts.local,
            providers: parts.providers,
        }
    }
}

/// A manager that can be run, and asked while it runs.
pub struct BoundManager {
    core: Arc<Core>,
    local: Option<ClusterSpec>,
    providers: Vec<Arc<dyn Provider>>,
}

impl BoundManager {
    /// A handle to change and ask the manager while it runs.
    #[must_use]
    pub fn handle(&self) -> ManagerHandle {
        ManagerHandle::new(self.core.clone())
    }

    /// Runs until `stop` is cancelled, then drains: sources stop, what runs is finished within the drain timeout and cancelled
    /// after it, and a lease is given back once nothing works under it. Returns when everything has ended.
    ///
    /// # Errors
    /// [`ManagerError::ElectionLost`] when this process led and could not keep its lease: what worked under it was cancelled. A
    /// provider that fails is no error: it is started again, and the failure is reported.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ManagerError> {
        let core = self.core;
        if let Some(local) = self.local {
            core.engage("local", &core.draining, local)
                .map_err(|_| ManagerError::Stopping)?;
        }
        for provider in self.providers {
            core.put_provider(provider);
        }
        let dispatcher = core.host.spawn(core.clone().dispatch());
        core.stand();
        tokio::select! {
            () = stop.cancelled() => {}
            () = core.leadership.lost().cancelled() => {}
        }
        core.drain().await;
        // The dispatcher ends once the core is stopped.
        let _ = dispatcher.await;
        match core.leadership.status() {
            Some(status) if core.leadership.lost().is_cancelled() => {
                let (namespace, name) = (status.namespace, status.name);
                Err(ManagerError::ElectionLost { namespace, name })
            }
            _ => Ok(()),
        }
    }
}
