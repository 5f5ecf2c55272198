//! Namespaces of one server as clusters. Entry point: [`Namespaces::new`].
//!
//! All of them share one connection to the server and one watch for each kind: see [`Scope`]. The server is read apart from the local
//! cluster even if both are the same, because its caches leave out the namespaces that are no clusters.

use super::hub_source::HubSource;
use super::inventory::{Desired, HubProvider, Inventory, Watches};
use super::{Problem, Provider, ProviderError};
use crate::cluster::{ClusterConfig, NamespaceScope, Scope};
use crate::engage::{ClusterSpec, Engage, ServerChange};
use crate::hub::{Hub, HubObject, WatchSelection};
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use crate::selector::LabelSelector;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Which namespaces are clusters.
#[derive(Debug, Clone, Default)]
pub struct NamespacesOptions {
    /// The server. Default: the local cluster's.
    pub from: HubSource,
    /// The namespaces' labels. Default: all namespaces.
    pub label_selector: LabelSelector,
    /// What happens to the clusters when `from` names another server. Default: [`ServerChange::Keep`].
    pub on_server_change: ServerChange,
}

/// Provides a cluster for each namespace of a server that the selector selects.
///
/// * The cluster's name is the namespace's. Its labels are the namespace's.
/// * A namespace that is being deleted stays a cluster until it is gone: its objects may have finalizers that a reconciler removes.
/// * A namespace that is not selected any more is disengaged, and its objects are not cached any more.
/// * A namespace that is made anew under the same name is another cluster.
///
/// The credentials need get, list and watch of namespaces, and list and watch in *all* namespaces of every kind that a controller watches.
pub struct Namespaces(Arc<HubProvider<Selected>>);

impl Namespaces {
    /// A provider of these namespaces.
    #[must_use]
    pub fn new(name: impl Into<String>, options: NamespacesOptions) -> Self {
        let from = options.from.clone();
        let selected = Selected {
            options,
            server: Mutex::default(),
        };
        Self(Arc::new(HubProvider::new(name.into(), from, selected)))
    }
}

impl Provider for Namespaces {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(self.0.clone().run(engage, stop))
    }

    fn problems(&self) -> Vec<Problem> {
        self.0.problems()
    }
}

/// Namespaces that stand for clusters.
struct Selected {
    options: NamespacesOptions,
    /// The server of the current hub. Only its address counts: credentials are exchanged below all clusters at once.
    server: Mutex<Option<ClusterConfig>>,
}

impl Inventory for Selected {
    fn is_apart(&self) -> bool {
        true
    }

    fn watch(&self, hub: &Hub) -> Watches {
        *self.server.lock() = Some(hub.config());
        let kind = GroupVersionKind::new("", "v1", "Namespace");
        Watches {
            // All of them: those that are not selected have to be known to be left out.
            clusters: hub.watch(kind, WatchSelection::default()),
            related: Vec::new(),
        }
    }

    fn prepare(&self, watches: &Watches) {
        if self.options.label_selector == LabelSelector::default() {
            return;
        }
        let namespaces = watches.clusters.objects().into_iter();
        let left_out = namespaces.filter(|namespace| !self.selects(namespace));
        let names = left_out.map(|namespace| namespace.key().name);
        watches.clusters.hub().leave_out(names.collect());
    }

    fn desired(&self, namespace: &HubObject, _related: &[HubObject]) -> Desired {
        if !self.selects(namespace) {
            return Desired::leave();
        }
        let key = namespace.key();
        let name = match ClusterName::new(&key.name) {
            Ok(name) => name,
            Err(error) => return Desired::nameless(error.to_string()),
        };
        let Some(server) = self.server.lock().clone() else {
            return Desired::keep(name, "its server is not known yet");
        };
        let scope = NamespaceScope {
            name: key.name,
            uid: namespace.uid().into(),
        };
        Desired::engage(ClusterSpec {
            scope: Scope::Namespace(scope),
            labels: namespace.labels().into(),
            on_server_change: self.options.on_server_change,
            ..ClusterSpec::new(name, server)
        })
    }
}

impl Selected {
    fn selects(&self, namespace: &HubObject) -> bool {
        self.options.label_selector.matches(&namespace.labels())
    }
}
