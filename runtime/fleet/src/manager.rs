//! Owns everything: build → bind → run → drain. Entry point: [`Manager::builder`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use windlass_fleet::k8s_openapi::api::core::v1::ConfigMap;
//! use windlass_fleet::{Action, Context, Controller, Manager, kubectl};
//!
//! let printer = Controller::of::<ConfigMap>("printer").build(|context: Context| async move {
//!     println!("{}", context.request);
//!     Ok(Action::Done)
//! })?;
//! // In the cluster that kubectl would use.
//! Manager::from_kubeconfig()?.controller(printer.clone()).build()?.run_until_signal().await?;
//! // In the cluster of each context.
//! Manager::builder()
//!     .provider(Arc::new(kubectl::every_context()))
//!     .controller(printer)
//!     .build()?
//!     .run_until_signal()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! Modules are listed from the parts to the whole: a module imports only modules above it. `core` says which part
//! owns what, and in which order locks are taken.

mod options;
mod error;
mod shared_queue;
mod recent;
mod hot_keys;
mod leadership;
mod registrations;
mod repeats;
mod pauses;
mod watches;
mod carriers;
mod same_server;
mod engagements;
mod providers;
mod dispatcher;
mod core;
mod pausing;
mod keys;
mod controller_status;
mod explain;
mod idle;
mod observe;
mod signals;
mod handle;

pub use crate::queue::{Cause, HotKeyLimit, KeyState, LastFailure, QueuedKey, TenantOptions};
pub use controller_status::ControllerStatus;
pub use error::ManagerError;
pub use explain::Explanation;
pub use handle::ManagerHandle;
pub use hot_keys::{HotKey, HotKeys};
pub use idle::Idle;
pub use keys::{KeyFilter, KeyPage, KeyStatus};
pub use options::{Concurrency, ManagerOptions};
pub use pauses::PauseSet;
pub use pausing::PauseError;
pub use providers::ProviderStatus;

use self::core::Core;
use crate::controller::Controller;
use crate::election::{Election, ElectionOptions};
use crate::engage::{ClusterSpec, Reroute};
use crate::kubectl::{self, KubectlError};
use crate::metrics::Metrics;
use crate::name::{ClusterName, TenantName};
use crate::provider::Provider;
use crate::shard::{Membership, Sharding};
use leadership::Sharing;
use signals::Signals;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Builds a [`Manager`].
#[derive(Default)]
#[must_use]
pub struct Builder {
    options: ManagerOptions,
    metrics: Option<Metrics>,
    local: Option<ClusterSpec>,
    election: Option<ElectionOptions>,
    sharding: Option<Sharding>,
    providers: Vec<Arc<dyn Provider>>,
    tenants: Vec<(TenantName, TenantOptions)>,
    controllers: Vec<Controller>,
    reroute: Option<Arc<dyn Reroute>>,
}

impl Builder {
    /// Options. Default: [`ManagerOptions::default`].
    pub fn options(mut self, options: ManagerOptions) -> Self {
        self.options = options;
        self
    }

    /// The metrics to count in. Default: metrics that nobody reads.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The local (hub) cluster, whose name is empty. Default: none.
    pub fn local(mut self, local: ClusterSpec) -> Self {
        self.local = Some(local);
        self
    }

    /// Whether there is a local cluster.
    #[must_use]
    pub fn has_local(&self) -> bool {
        self.local.is_some()
    }

    /// Lets one of several processes work, by a Lease in the local cluster, while the others keep their caches filled. Default: every
    /// process works.
    pub fn leader_election(mut self, options: ElectionOptions) -> Self {
        self.election = Some(options);
        self
    }

    /// Lets several processes share the keys, each with those of its shards of the clusters, by Leases in the local cluster. Each watches the
    /// clusters of its shards, and watches with mappers in all clusters. Default: every process works on all keys.
    pub fn sharding(mut self, sharding: Sharding) -> Self {
        self.sharding = Some(sharding);
        self
    }

    /// Adds a provider of clusters.
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Sets the weight and limits of a tenant in the queue. Default: [`TenantOptions::default`].
    pub fn tenant(mut self, name: TenantName, options: TenantOptions) -> Self {
        self.tenants.push((name, options));
        self
    }

    /// Reaches every cluster and hub, the local cluster too, where `reroute` says. Default: where their configurations say.
    pub fn reroute(mut self, reroute: Arc<dyn Reroute>) -> Self {
        self.reroute = Some(reroute);
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
        if let Some(sharding) = &self.sharding {
            sharding.check()?;
            if self.local.is_none() {
                return Err(ManagerError::ShardingWithoutLocal);
            }
            if self.election.is_some() {
                return Err(ManagerError::ElectionAndShards);
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

    /// Begins a manager of one cluster, which is its local cluster: that of the current context that kubectl would use, or in a pod without
    /// kubeconfig that of the pod. [`Builder::provider`] adds further clusters; then [`ClusterSelection`](crate::source::ClusterSelection)
    /// says whether controllers engage this one too. Blocks on the file system.
    ///
    /// # Errors
    /// [`KubectlError`].
    pub fn from_kubeconfig() -> Result<Builder, KubectlError> {
        let config = kubectl::cluster(None, None)?;
        Ok(Self::builder().local(ClusterSpec::new(ClusterName::local(), config)))
    }

    /// Runs on the current tokio runtime until SIGTERM or SIGINT, then drains as [`BoundManager::run`]. A second signal ends the drain.
    ///
    /// # Errors
    /// As [`BoundManager::run`]; [`ManagerError::Interrupted`] after a second signal, [`ManagerError::Signals`].
    pub async fn run_until_signal(self) -> Result<(), ManagerError> {
        let mut signals = Signals::listen()?;
        let stop = CancellationToken::new();
        let run = self.bind().run(stop.clone());
        tokio::pin!(run);
        tokio::select! {
            ended = &mut run => return ended,
            () = signals.next() => stop.cancel(),
        }
        tokio::select! {
            ended = &mut run => ended,
            () = signals.next() => Err(ManagerError::Interrupted),
        }
    }

    /// Takes the current tokio runtime as the host's and makes the manager ready to run. Engages nothing yet.
    #[must_use]
    pub fn bind(self) -> BoundManager {
        let parts = self.parts;
        let mut providers = parts.providers.iter();
        let core = Core::new(
            Handle::current(),
            parts.options,
            parts.metrics.unwrap_or_default(),
            providers.any(|provider| provider.provides_clusters()),
            sharing(parts.election, parts.sharding),
            parts.reroute,
        );
        for (name, options) in parts.tenants {
            core.queue.set_tenant(&name, options);
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

/// At most one of them is there: [`Builder::build`] has checked it.
fn sharing(election: Option<ElectionOptions>, sharding: Option<Sharding>) -> Sharing {
    match (election, sharding) {
        (Some(election), _) => Sharing::Election(Election::new(election)),
        (None, Some(sharding)) => Sharing::Shards(Membership::new(sharding)),
        (None, None) => Sharing::None,
    }
}

/// A manager that can be run, and queried while it runs.
pub struct BoundManager {
    core: Arc<Core>,
    local: Option<ClusterSpec>,
    providers: Vec<Arc<dyn Provider>>,
}

impl BoundManager {
    /// A handle to change and query the manager while it runs.
    #[must_use]
    pub fn handle(&self) -> ManagerHandle {
        ManagerHandle::new(self.core.clone())
    }

    /// Engages the local cluster now. Otherwise that happens when the manager runs, and providers that are put before that do not find it.
    ///
    /// # Errors
    /// [`ManagerError::Stopping`].
    pub fn engage_local(&mut self) -> Result<(), ManagerError> {
        let Some(local) = self.local.take() else {
            return Ok(());
        };
        let engaged = self.core.engage_local(local);
        engaged.map_err(|_| ManagerError::Stopping)
    }

    /// Runs until `stop` is cancelled, then drains: sources stop, reconciles may end within the drain timeout and are cancelled
    /// after it, and the lease is given back once no reconcile runs. Returns when everything has ended.
    ///
    /// # Errors
    /// [`ManagerError::ElectionLost`] when this process led and could not keep its lease: reconciles that need the lease were
    /// cancelled. A provider that fails is no error: it is started again, and the failure is reported.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), ManagerError> {
        self.engage_local()?;
        let core = self.core;
        for provider in self.providers {
            core.providers.put(provider);
        }
        let states = core.host.spawn(core.engagements.clone().follow_states());
        let dispatcher = core.host.spawn(core.dispatcher.clone().run());
        core.stand();
        tokio::select! {
            () = stop.cancelled() => {}
            () = core.leadership.lost().cancelled() => {}
        }
        core.drain().await;
        // The dispatcher ends when the drain begins, the other with the last cluster.
        let _ = tokio::join!(dispatcher, states);
        match core.leadership.status() {
            Some(status) if core.leadership.lost().is_cancelled() => {
                let (namespace, name) = (status.namespace, status.name);
                Err(ManagerError::ElectionLost { namespace, name })
            }
            _ => Ok(()),
        }
    }
}
