//! Clusters that take over from another one of the same name once their caches are filled. Entry point:
//! [`Engagements::prepare_replacement`].

use super::{Engaged, Engagements, Replacement};
use crate::cluster::{Cluster, ClusterState};
use crate::engage::ClusterSpec;
use std::sync::Arc;
use std::time::Duration;

/// How long a replacement may take, once it serves, until its watches hold its caches themselves.
const CACHES_HELD: Duration = Duration::from_secs(60);

impl Engagements {
    /// Starts a cluster that replaces another one once its caches are filled.
    pub(super) fn prepare_replacement(self: &Arc<Self>, engaged: &mut Engaged, spec: ClusterSpec) {
        tracing::info!(
            cluster = %spec.name,
            server = spec.config.server(),
            before = engaged.spec.config.server(),
            "the cluster is replaced once the caches of the new one are filled; work on the one before goes on"
        );
        let cluster = self.start(&engaged.provider, &spec);
        engaged.cluster.set_replacement(Some(cluster.clone()));
        let fill = self
            .clone()
            .fill_replacement(engaged.cluster.clone(), cluster.clone());
        self.spawn(&cluster, fill);
        engaged.replacement = Some(Box::new(Replacement { spec, cluster }));
    }

    /// Fills a replacement's caches, then replaces the old cluster. Until then, however long that takes, the old cluster serves. A
    /// replacement that has reached the same server only gives its credentials to the old cluster.
    async fn fill_replacement(self: Arc<Self>, old: Arc<Cluster>, new: Arc<Cluster>) {
        if new.connected().await.is_ok() && self.exchange_if_same(&old, &new) {
            return;
        }
        let filled = new.fill_like(&old).await;
        drop(old);
        if !self.replace_by(&new) {
            return;
        }
        // The caches are held here until the new cluster's watches hold them.
        let mut changes = new.changes();
        let ready = async {
            while new.now().state != ClusterState::Ready && changes.changed().await.is_ok() {}
        };
        let _ = tokio::time::timeout(CACHES_HELD, ready).await;
        drop(filled);
    }

    /// Exchanges a cluster's credentials for those with which its replacement has reached the same server. `false`: it has reached another
    /// server, or another address.
    fn exchange_if_same(&self, old: &Arc<Cluster>, new: &Arc<Cluster>) -> bool {
        let mut table = self.engaged.lock();
        let Some(engaged) = table.get_mut(old.name()) else {
            return false;
        };
        let is_new = |replacement: &&Replacement| Arc::ptr_eq(&replacement.cluster, new);
        let Some(replacement) = engaged.replacement.as_deref().filter(is_new) else {
            return false;
        };
        // Parts of a server move to the carrier of their new credentials, one after the other.
        let may_stay =
            old.scope().is_whole() && replacement.spec.same_but_credentials(&engaged.spec);
        if !may_stay || !new.is_server_of(old) {
            return false;
        }
        engaged.spec = replacement.spec.clone();
        let config = engaged.spec.config.clone();
        old.exchange(config, &self.environment.transports);
        self.drop_replacement(engaged);
        true
    }

    /// Replaces a cluster by the one that was prepared. `false`: that is not its replacement any more.
    fn replace_by(self: &Arc<Self>, new: &Arc<Cluster>) -> bool {
        let mut table = self.engaged.lock();
        let Some(engaged) = table.get_mut(new.name()) else {
            return false;
        };
        let is_new = |replacement: &mut Box<Replacement>| Arc::ptr_eq(&replacement.cluster, new);
        if self.environment.draining.is_cancelled() {
            return false;
        }
        let Some(replacement) = engaged.replacement.take_if(is_new) else {
            return false;
        };
        engaged.spec = replacement.spec;
        self.replace(engaged, replacement.cluster);
        true
    }

    pub(super) fn drop_replacement(&self, engaged: &mut Engaged) {
        if let Some(replacement) = engaged.replacement.take() {
            engaged.cluster.set_replacement(None);
            let cluster = replacement.cluster;
            cluster.token().cancel();
            self.environment
                .metrics
                .forget_cluster(cluster.name(), cluster.metrics());
            self.end(cluster);
        }
    }
}
