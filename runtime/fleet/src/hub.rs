//! A hub: a cluster whose objects say which other clusters there are. Entry points: [`Hub::watch`] and [`Hub::client`].
//!
//! Providers that find clusters in Secrets, in Cluster API or in namespaces read a hub. They get it from
//! [`Engage::hub`](crate::engage::Engage::hub): the local cluster, or another server that is reached for this purpose only.
//!
//! * `watch`: the objects of one kind, as they are now. A provider compares them with what it has engaged whenever they change.
//! * `object`: one of these objects.

mod object;
mod watch;

pub use object::{HubObject, ShapeError};
pub use watch::HubWatch;

use crate::cache::store::Excerpt;
use crate::cluster::{Client, Cluster, ClusterConfig};
use crate::grant::Grant;
use crate::kind::GroupVersionKind;
use crate::selector::LabelSelector;
use std::any::Any;
use std::collections::BTreeSet;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A cluster that is read for its objects. Cheap to clone. A hub that was reached for this purpose only ends with its last `Hub` and its
/// last [`HubWatch`].
#[derive(Clone)]
pub struct Hub {
    cluster: Arc<Cluster>,
    /// How its own server is reached, where another one is read in its place.
    original: Option<ClusterConfig>,
    /// Dropped with the last `Hub`, which ends a cluster that nobody else uses.
    _guard: Option<Arc<dyn Any + Send + Sync>>,
}

/// Why there is no hub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// The local cluster was asked for, and the manager has none.
    #[error(
        "there is no local cluster to read: configure one, or name the hub's kubeconfig in `from`"
    )]
    NoLocal,
    /// The manager is draining, or the provider has been replaced or removed.
    #[error("the manager is stopping")]
    Stopping,
    /// This implementation of `Engage` knows no hub.
    #[error("clusters cannot be read here: give the provider to a manager")]
    Unsupported,
}

/// Which objects of a kind a [`HubWatch`] holds. The server selects; other objects are not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchSelection {
    /// One list and watch for each of these namespaces. None: one for all namespaces. Of no effect on a cluster-scoped kind.
    pub namespaces: BTreeSet<String>,
    /// Default: no requirement.
    pub label_selector: LabelSelector,
    /// The one object of this name, in each namespace. Default: all objects.
    pub name: Option<String>,
}

impl Hub {
    /// A hub that reads a cluster, and keeps `guard` for as long.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, guard: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        Self {
            cluster,
            original: None,
            _guard: guard,
        }
    }

    /// The same, read in place of another server.
    pub(crate) fn in_place_of(mut self, original: ClusterConfig) -> Self {
        self.original = Some(original);
        self
    }

    /// Holds the objects of a kind. Never blocks: the hub is reached, the kind is awaited and the objects are listed in the background.
    ///
    /// Must be called within the manager's runtime, as a provider is.
    #[must_use]
    pub fn watch(&self, kind: GroupVersionKind, selection: WatchSelection) -> HubWatch {
        self.watch_first(vec![kind], selection)
    }

    /// As [`Hub::watch_first`] of all objects, of which it holds excerpts.
    pub(crate) fn watch_excerpts(
        &self,
        kinds: Vec<GroupVersionKind>,
        excerpt: Excerpt,
    ) -> HubWatch {
        HubWatch::start(
            self.clone(),
            kinds,
            WatchSelection::default(),
            Some(excerpt),
        )
    }

    /// As [`Hub::watch`], for the first of several kinds that the hub serves, such as the versions of one kind. If that one is no longer
    /// served, the first one that is served then.
    #[must_use]
    pub fn watch_first(&self, kinds: Vec<GroupVersionKind>, selection: WatchSelection) -> HubWatch {
        HubWatch::start(self.clone(), kinds, selection, None)
    }

    /// A client with all rights that the hub's credentials have, for single reads.
    #[must_use]
    pub fn client(&self) -> Client {
        self.cluster.client(Grant::all())
    }

    /// The server's URL, for people.
    #[must_use]
    pub fn server(&self) -> String {
        self.config().server()
    }

    /// How its own server is reached now: the way to other clusters there.
    #[must_use]
    pub(crate) fn config(&self) -> ClusterConfig {
        let original = self.original.clone();
        original.unwrap_or_else(|| self.cluster.config())
    }

    /// Sets the namespaces whose objects are not kept, for all users of the server. Not for the local cluster.
    pub(crate) fn leave_out(&self, namespaces: HashSet<Arc<str>>) {
        if let Some(backend) = self.cluster.backend() {
            backend.stores.leave_out(namespaces);
        }
    }

    /// Whether both read the same cluster, whose watches then go on.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cluster, &other.cluster)
    }

    /// Whether the cluster has ended, so that [`Engage::hub`](crate::engage::Engage::hub) must be asked for another one.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.cluster.token().is_cancelled()
    }

    /// Waits until [`Hub::is_gone`].
    pub async fn gone(&self) {
        self.cluster.token().cancelled().await;
    }

    /// The cluster that is read. Unless it is the local one it is not in the fleet, and no key runs there.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hub").field(&self.server()).finish()
    }
}
