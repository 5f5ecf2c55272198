//! A connection to an API server, as kubectl makes one. Entry point: [`ApiServer::connect`].

use crate::config::kinds::ManagerSpec;
use crate::run::manager_options;
use anyhow::{Context, Result, anyhow};
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::{Client, ClusterName, Grant, Manager, kubectl};

/// Time for a connection to the API server, credential plugins included.
const PATIENCE: Duration = Duration::from_secs(30);

/// An API server that is reached. The connection ends with this value.
pub(super) struct ApiServer {
    pub(super) client: Client,
    /// The namespace of the context.
    pub(super) namespace: String,
    _stop: DropGuard,
}

impl ApiServer {
    /// Connects to the server of a context of a kubeconfig: the current one, and the usual file, if they are not given.
    ///
    /// # Errors
    /// When there is no such context, or its server is not reached.
    pub(super) async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self> {
        let config = kubectl::cluster(kubeconfig, context)?;
        let namespace = config.namespace().to_owned();
        let spec = ClusterSpec::new(ClusterName::local(), config);
        let builder = Manager::builder().options(manager_options(&ManagerSpec::default())?);
        let mut bound = builder.local(spec).build()?.bind();
        bound.engage_local()?;
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        tokio::spawn(bound.run(stop.clone()));
        let stop = stop.drop_guard();
        let cluster = handle.fleet().cluster(&ClusterName::local());
        let cluster = cluster.context("the API server is not known")?;
        let reached = timeout(PATIENCE, cluster.reached()).await;
        reached
            .map_err(|_| anyhow!("no answer within {PATIENCE:?}"))
            .and_then(|reached| reached.map_err(|error| anyhow!(error.message)))
            .with_context(|| format!("reach {}", cluster.config().server()))?;
        Ok(Self {
            client: cluster.client(Grant::all()),
            namespace,
            _stop: stop,
        })
    }
}
