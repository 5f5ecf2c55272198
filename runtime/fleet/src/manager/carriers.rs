//! The servers that several clusters are parts of, or that providers read. Entry point: [`Carriers::get`].

use crate::cluster::{
    Carrier, Cluster, ClusterConfig, Description, Parts, Scope, SharedOptions, StateChanges,
    Transports,
};
use crate::metrics::Metrics;
use crate::name::ClusterName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A provider, and the address of a server that it has. Providers share no server: each may have other credentials and other caches.
type Key = (String, String);

/// The carriers of a manager.
pub(super) struct Carriers {
    pub(super) host: Handle,
    pub(super) metrics: Metrics,
    pub(super) transports: Arc<Transports>,
    pub(super) caches: SharedOptions,
    /// Cancelled when a drain has run out of time: ends every carrier.
    pub(super) cut_off: CancellationToken,
    /// Carriers that are ending.
    pub(super) tasks: TaskTracker,
    /// Those that have ended are removed when one is added.
    pub(super) by_server: Mutex<HashMap<Key, Weak<Carrier>>>,
}

impl Carriers {
    /// The carrier of a server, which is started unless it runs.
    pub(super) fn get(&self, provider: &str, config: &ClusterConfig) -> Arc<Carrier> {
        let key = (provider.to_owned(), config.server());
        let mut by_server = self.by_server.lock();
        let running = by_server.get(&key).and_then(Weak::upgrade);
        // With another certificate authority it may be another server; the users of the one before leave it.
        let serves = |carrier: &Arc<Carrier>| {
            carrier.is_usable() && carrier.cluster().config().same_authority(config)
        };
        if let Some(carrier) = running.filter(serves) {
            return carrier;
        }
        by_server.retain(|_, carrier| carrier.strong_count() > 0);
        let carrier = Arc::new(self.start(provider, config));
        self.lead(&carrier);
        by_server.insert(key, Arc::downgrade(&carrier));
        tracing::info!(
            provider,
            server = config.server(),
            "server of a provider connects"
        );
        carrier
    }

    fn start(&self, provider: &str, config: &ClusterConfig) -> Carrier {
        let name = name(provider);
        let parts = Parts {
            metrics: self.metrics.cluster(&name, &config.host()),
            name,
            provider: None,
            scope: Scope::Whole,
            carrier: None,
            config: config.clone(),
            description: Description::default(),
            caches: self.caches.clone(),
            // It has no keys.
            changes: Arc::new(StateChanges::default()),
            made: None,
        };
        let token = self.cut_off.child_token();
        let cluster = Cluster::start(parts, self.transports.clone(), &self.host, token);
        let (host, metrics, tasks) = (self.host.clone(), self.metrics.clone(), self.tasks.clone());
        Carrier::new(cluster, move |cluster| {
            metrics.forget_cluster(cluster.name(), cluster.metrics());
            tasks.spawn_on(async move { cluster.end().await }, &host);
        })
    }
}

impl Carriers {
    /// Gives the parts of a carrier its states. Ends it once another server answers under its address: its users ask for another one.
    fn lead(&self, carrier: &Arc<Carrier>) {
        let cluster = carrier.cluster();
        let (token, mut changes) = (cluster.token().clone(), cluster.changes());
        let carrier = Arc::downgrade(carrier);
        let follow = async move {
            loop {
                let Some(of) = carrier.upgrade() else {
                    return;
                };
                let is_another = of.cluster().now().identity_changed;
                of.tell_parts();
                drop(of);
                if is_another || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let lead = async move {
            // Either way it ends.
            let _ = token.run_until_cancelled(follow).await;
            token.cancel();
        };
        cluster.tasks().spawn_on(lead, &self.host);
    }
}

/// The name of a provider's carriers in logs and metrics.
fn name(provider: &str) -> ClusterName {
    let mut printable = format!("hub:{provider}");
    printable.retain(|c| (' '..='~').contains(&c));
    printable.truncate(ClusterName::MAX);
    ClusterName::new(printable).unwrap_or_else(|_| ClusterName::local())
}
