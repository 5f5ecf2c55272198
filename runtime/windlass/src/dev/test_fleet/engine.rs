//! The engine of a test fleet: a manager whose one controller runs what the test begins. Entry point: [`Engine::start`].

use super::Failure;
use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_fleet::cluster::ClusterStatus;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::{ClusterSpec, Engage};
use windlass_fleet::manager::{ManagerHandle, ManagerOptions};
use windlass_fleet::provider::{Problem, Provider, ProviderError};
use windlass_fleet::source::{ClusterSelection, Enqueue, Watch};
use windlass_fleet::{
    ClusterName, Controller, ControllerName, Grant, GroupVersionKind, Manager, ObjectKey, Request,
    TenantName,
};
use windlass_sandbox::{
    GuestOptions, Isolation, Limits, NativeGuest, Run, Runs, Tenant, TenantLimits,
    native_reconciler,
};

/// The name of the controller.
const NAME: &str = "test";

/// How long a cluster may take until the first run in it begins.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the manager is asked meanwhile.
const MOMENT: Duration = Duration::from_millis(1);

/// How long a run may go on: somebody may be debugging it.
const LONGEST_RUN: Duration = Duration::from_secs(86_400);

/// A manager that runs until this is dropped.
pub(super) struct Engine {
    manager: ManagerHandle,
    engage: Arc<dyn Engage>,
    runs: Runs,
    /// Runs so far. Each has a key of its own, so that none waits for the backoff of another.
    count: u64,
    _running: DropGuard,
}

impl Engine {
    /// Starts a manager with a local cluster, or without one.
    ///
    /// # Errors
    /// When it cannot be built.
    pub(super) async fn start(local: Option<ClusterSpec>) -> Result<Self> {
        let (native, runs) = NativeGuest::new();
        let guest = GuestOptions {
            tenant: Tenant::new(TenantName::default(), &TenantLimits::default()),
            name: ControllerName::new(NAME)?,
            grant: Arc::new(Grant::all()),
            http: Arc::default(),
            config: "{}".to_owned(),
            limits: Limits::default(),
            isolation: Isolation::Fresh,
            record: None,
            secrets: Vec::new(),
        };
        let options = ControllerOptions {
            timeout: LONGEST_RUN,
            ..ControllerOptions::default()
        };
        // A controller needs a watch. This one sees nothing, because no object has this name.
        let mut nothing = Watch::new(
            GroupVersionKind::new("", "v1", "Namespace"),
            Enqueue::Primary,
        );
        nothing.field_selector = Some("metadata.name=-".parse()?);
        let everywhere = ClusterSelection {
            local: Some(true),
            provider: Some(true),
            ..ClusterSelection::default()
        };
        let controller = Controller::builder(ControllerName::new(NAME)?)
            .watch(nothing)
            .engage(everywhere)
            .options(options)
            .build(native_reconciler(native, guest))?;
        let (engages, engage) = oneshot::channel();
        let mut manager = Manager::builder()
            .options(ManagerOptions::default())
            .provider(Arc::new(Direct(Mutex::new(Some(engages)))))
            .controller(controller);
        if let Some(local) = local {
            manager = manager.local(local);
        }
        let bound = manager.build()?.bind();
        let manager = bound.handle();
        let stop = CancellationToken::new();
        tokio::spawn(bound.run(stop.clone()));
        Ok(Self {
            manager,
            engage: engage.await.context("the manager has ended")?,
            runs,
            count: 0,
            _running: stop.drop_guard(),
        })
    }

    /// Begins to work on a cluster, anew if it is known: it may serve other kinds now.
    ///
    /// # Errors
    /// When it is refused.
    pub(super) fn engage(&self, spec: ClusterSpec) -> Result<()> {
        self.engage.disengage(&spec.name);
        Ok(self.engage.engage(spec)?)
    }

    /// Ends the work on a cluster, if there is any.
    ///
    /// # Errors
    /// When no cluster can have this name.
    pub(super) fn disengage(&self, name: &str) -> Result<()> {
        self.engage.disengage(&ClusterName::new(name)?);
        Ok(())
    }

    /// Begins a run in a cluster, once all clusters are ready but those that fail, and it is known which are not reached.
    ///
    /// # Errors
    /// When the cluster does not get ready.
    pub(super) async fn begin(
        &mut self,
        cluster: &str,
        failing: &BTreeMap<String, Failure>,
    ) -> Result<Run> {
        self.count += 1;
        let key = ObjectKey {
            namespace: None,
            name: format!("run-{}", self.count).into(),
        };
        let request = Request::new(ClusterName::new(cluster)?, key);
        let begun = async {
            // Guests see whether a cluster is ready.
            let is_known = |known: &ClusterStatus| match failing.get(&known.name) {
                None => known.usable,
                Some(Failure::Unreachable) => !known.usable,
                // A server that answers is reached.
                Some(Failure::Errors) => true,
            };
            while !self.manager.clusters().iter().all(is_known) {
                tokio::time::sleep(MOMENT).await;
            }
            while self.manager.requeue(&request, None) == 0 {
                // The cluster has just been engaged, and its controllers join in the background.
                tokio::time::sleep(MOMENT).await;
            }
            self.runs.next().await.context("the manager has ended")
        };
        let begun = tokio::time::timeout(PATIENCE, begun).await;
        begun.with_context(|| format!("cluster {cluster:?} is not ready after {PATIENCE:?}"))?
    }
}

/// Hands on the means to engage clusters.
struct Direct(Mutex<Option<oneshot::Sender<Arc<dyn Engage>>>>);

impl Provider for Direct {
    fn name(&self) -> &str {
        NAME
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        async move {
            if let Some(waiting) = self.0.lock().take() {
                drop(waiting.send(engage));
            }
            stop.cancelled().await;
            Ok(())
        }
        .boxed()
    }

    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
}
