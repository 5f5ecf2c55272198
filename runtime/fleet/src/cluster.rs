//! Engaged clusters: name, client, caches, lifetime. Entry point: [`Cluster`].
//!
//! Each cluster has a tree of tasks under one token, so that a dead cluster does not affect the others. Caches and discovery call the
//! server for all users of the cluster. A caller makes calls of its own only through [`Cluster::client`], within a grant.
//!
//! * `backend`: one API server, with its connection, discovery and caches.
//! * `lifecycle`: the states of a cluster; `handover`: a cluster that replaces another one; `fleet`: the clusters that are engaged now.
//! * `scope`: the part of a server that a cluster is; `part`: how it has the state of its `carrier`, the whole server below all parts.
//! * `state_changes`: the clusters whose keys are to be held or released.
//! * `client`: reads and writes under a grant; `call_scope`: the run that they belong to; `call_policy`: the limits of their caller.
//! * `objects`: clusters as objects of a kind.
//! * `description`: what its provider says of it; `claims`: what the owner of a workspace lets clients use. `events`: records events; `lease`: calls for elections.
//! * `review`: what a server says of itself and of users' rights.
//! * `crd_arrival`: waits for a kind that is not served yet; `sync_check`: compares caches with the server now.

mod backend;
mod call_policy;
pub(crate) mod call_scope;
mod carrier;
mod claims;
mod client;
mod crd_arrival;
mod description;
mod events;
mod fleet;
mod handover;
pub(crate) mod lease;
mod lifecycle;
mod objects;
mod part;
mod review;
mod scope;
mod state_changes;
mod sync_check;

pub use crate::cache::watch::CacheOptions;
pub use crate::http::config::{
    AllowServers, AllowServersError, ClusterConfig, ConfigError, ContextConfig, CredentialPlugin,
    ExecPolicy, Kubeconfig, KubeconfigPolicy, ServerNotAllowed,
};
pub use crate::http::proxy::{ProxyFromEnvironment, ProxyUrlError, ProxyVariableError};
pub use crate::http::service::HttpService;
pub use crate::http::transport::{
    AnswerAccount, AnswerUse, ConnectionCount, ConnectionCounts, OpenStream, ProxiedConnector,
    SocketUse, Stream, TransportError, TransportOptions,
};
pub use crate::rate_limit::{Bucket, RateLimit};
pub use call_policy::{CallPolicy, MemoryCharge, Permit};
pub use call_scope::Caller;
pub use claims::RefusedClaims;
pub use client::{Client, HeldPage, PodAnswer, PodCall, TypedClient};
pub use fleet::Fleet;
pub use lifecycle::ClusterState;
pub use review::Review;
pub use scope::{NamespaceScope, SHOWN_NAMESPACE, Scope};

pub(crate) use crate::cache::stores::{IndexUse, StoreUse, TooManyStores};
pub(crate) use crate::cache::watch::SharedOptions;
pub(crate) use crate::http::transport::Transports;
pub(crate) use backend::Backend;
pub(crate) use carrier::Carrier;
pub(crate) use client::WRITE_DEADLINE;
pub(crate) use crd_arrival::CrdArrival;
pub(crate) use description::Description;
pub(crate) use fleet::{Awaited, FleetChanges};
pub(crate) use lifecycle::{Pending, Reach};
pub(crate) use objects::{ClusterObjects, may_see};
pub(crate) use state_changes::StateChanges;

use crate::api::{ApiCode, ApiError, Event};
use crate::cache::made::Made;
use crate::cache::store::Store;
use crate::discovery::Discovery;
use crate::grant::Grant;
use crate::http::fence::Fence;
use crate::http::transport::Connection;
use crate::json::Object;
use crate::kind::{GroupVersionKind, Resource};
use crate::metrics::ClusterMetrics;
use crate::name::{ClusterName, TenantName};
use crate::request::ObjectKey;
use crate::task;
use arc_swap::{ArcSwap, ArcSwapOption};
use events::Recorder;
use lifecycle::Lifecycle;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One engaged cluster: an API server, or a part of one. Shared as `Arc<Cluster>`; lives until it is disengaged.
pub struct Cluster {
    name: ClusterName,
    /// The name of its provider; none: the local cluster, or a hub.
    provider: Option<Arc<str>>,
    /// The part of its server that it is.
    scope: Scope,
    /// The cluster of the whole server, if this one is a part of it: it has the backend.
    carrier: ArcSwapOption<Carrier>,
    /// Exchanged in place.
    description: ArcSwap<Description>,
    /// Exchanged in place when only credentials change.
    config: ArcSwap<ClusterConfig>,
    /// Notified when the configuration was exchanged, for a cluster that is still connecting.
    reconfigured: Notify,
    /// The cluster that replaces this one once its caches are filled.
    replacement: ArcSwapOption<Self>,
    caches: SharedOptions,
    /// Empty until the cluster has connected, and in a part of a server.
    backend: ArcSwapOption<Backend>,
    lifecycle: Lifecycle,
    recorder: Recorder,
    metrics: Arc<ClusterMetrics>,
    /// Objects that it has and its server does not.
    made: Option<Arc<dyn Made>>,
    engaged: SystemTime,
    /// The kinds of a workspace that is being initialized, beside those of all workspaces of its endpoint.
    own_kinds: OnceLock<Box<Discovery>>,
    /// Cancelled when the cluster is disengaged; ends every task of the cluster.
    token: CancellationToken,
    tasks: TaskTracker,
    /// Notified whenever a store starts, ends, or changes its progress.
    changed: Arc<Notify>,
}

/// The parts of a new cluster.
pub(crate) struct Parts {
    pub(crate) name: ClusterName,
    /// None: the local cluster, or a hub.
    pub(crate) provider: Option<Arc<str>>,
    pub(crate) scope: Scope,
    /// Present exactly if the scope is a part of a server.
    pub(crate) carrier: Option<Arc<Carrier>>,
    pub(crate) config: ClusterConfig,
    pub(crate) description: Description,
    pub(crate) metrics: Arc<ClusterMetrics>,
    pub(crate) caches: SharedOptions,
    /// Where it notes changes of its state that concern its keys.
    pub(crate) changes: Arc<StateChanges>,
    /// Objects that it has and its server does not.
    pub(crate) made: Option<Arc<dyn Made>>,
}

/// A cluster as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ClusterStatus {
    /// Its name; empty for the local cluster.
    pub name: String,
    /// Its state.
    pub state: ClusterState,
    /// Why it is in that state, for people.
    pub reason: String,
    /// Whether keys may run: its caches were filled once, and its server is reached. A watch that is refused or fails does not change
    /// that, because only the controllers that use the watch are concerned.
    pub usable: bool,
    /// Since when, in seconds since the epoch.
    pub since: u64,
    /// When a failed connection, list or watch is tried again, in seconds since the epoch: the earliest of all.
    pub next_attempt: Option<u64>,
    /// The server's URL.
    pub server: String,
    /// The namespace of that server that it is; `None`: the whole server.
    pub namespace: Option<String>,
    /// The logical cluster of that server that it is; `None`: the server is not a wildcard endpoint of kcp.
    pub workspace: Option<String>,
    /// Objects in its caches.
    pub objects: usize,
    /// Bytes of their texts.
    pub bytes: usize,
    /// Connections to its server, shared with other clusters of the same server and credentials.
    pub connections: ConnectionCounts,
    /// When its credentials expire, in seconds since the epoch, if that is known.
    pub credentials_until: Option<u64>,
    /// Events that were not recorded: refused, or too many.
    pub events_dropped: u64,
    /// Another server that takes over once its caches are filled; until then this one serves.
    pub replacement: Option<ReplacementStatus>,
    /// Its caches.
    pub stores: Vec<StoreStatus>,
}

/// A cluster that replaces another one once its caches are filled, as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ReplacementStatus {
    /// Its server's URL.
    pub server: String,
    /// Its state.
    pub state: ClusterState,
    /// Why it is in that state, for people.
    pub reason: String,
}

/// A cache as status pages show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct StoreStatus {
    /// The kind, as `group/version/Kind`.
    pub kind: String,
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// Whether the first list is in.
    pub synced: bool,
    /// Whether a watch is established.
    pub watching: bool,
    /// Objects held.
    pub objects: usize,
    /// Paths of its field indexes; with ` in ` and the path of the namespace, where there is one.
    pub indexes: Vec<String>,
    /// The resource version reached.
    pub version: String,
    /// Whether the server's versions are integers. Without them the cache cannot detect an older state.
    pub monotonic: bool,
    /// How often it differed from its server, which had sent no event, and was listed again.
    pub repairs: u64,
    /// Why the watch does not run, while it does not.
    pub problem: Option<String>,
    /// When a failed list or watch is tried again, in seconds since the epoch.
    pub next_attempt: Option<u64>,
}

impl Cluster {
    /// Starts a cluster: returns at once, and connects in the background on the host's runtime.
    pub(crate) fn start(
        parts: Parts,
        transports: Arc<Transports>,
        host: &Handle,
        token: CancellationToken,
    ) -> Arc<Self> {
        let is_part = parts.carrier.is_some();
        let cluster = Arc::new(Self {
            name: parts.name.clone(),
            provider: parts.provider,
            scope: parts.scope,
            carrier: ArcSwapOption::from(parts.carrier),
            description: ArcSwap::from_pointee(parts.description),
            config: ArcSwap::from_pointee(parts.config),
            reconfigured: Notify::new(),
            replacement: ArcSwapOption::empty(),
            caches: parts.caches,
            backend: ArcSwapOption::empty(),
            lifecycle: Lifecycle::new(parts.name, parts.changes, is_part),
            recorder: Recorder::new(host.clone()),
            metrics: parts.metrics,
            made: parts.made,
            engaged: SystemTime::now(),
            own_kinds: OnceLock::new(),
            token,
            tasks: TaskTracker::new(),
            changed: Arc::new(Notify::new()),
        });
        if !cluster.join_carrier() {
            let (token, this) = (cluster.token.clone(), cluster.clone());
            task::spawn(&cluster.tasks, host, token, this.live(transports));
        }
        cluster
    }

    /// Its name; empty for the local cluster.
    #[must_use]
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// The name of the provider that engaged it; `None`: it is the local cluster, or a hub.
    #[must_use]
    pub fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    /// The part of its server that it is.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Its current configuration.
    #[must_use]
    pub fn config(&self) -> ClusterConfig {
        (**self.config.load()).clone()
    }

    /// When it was engaged.
    pub(crate) fn engaged(&self) -> SystemTime {
        self.engaged
    }

    /// Its current state.
    #[must_use]
    pub fn state(&self) -> ClusterState {
        self.lifecycle.now().state
    }

    /// Whether keys may run, as [`ClusterStatus::usable`].
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.lifecycle.now().is_usable()
    }

    /// Says that the cluster of this name is the same server and is worked on, so that this one is not; none: this one is.
    pub(crate) fn set_duplicate_of(&self, other: Option<&ClusterName>) {
        let reason = other.map(|other| {
            format!("it is the same server as the cluster {:?}, which is worked on: leave one of the two out", other.as_str()).into()
        });
        if !self.lifecycle.set_duplicate(reason) {
            return;
        }
        match other {
            Some(other) => {
                tracing::warn!(cluster = %self.name, %other, "both clusters are the same server: only the other one is worked on");
            }
            None => {
                tracing::info!(cluster = %self.name, "no other cluster is the same server any more")
            }
        }
    }

    /// Whether the first attempt to reach its server goes on, or a further one.
    pub(crate) fn is_being_reached(&self) -> bool {
        self.backend().is_none() && self.lifecycle.now().next_attempt.is_none()
    }

    pub(crate) fn reach(&self) -> Reach {
        self.lifecycle.now().reach
    }

    /// A client for code outside controllers, with the rights of a grant; native code takes [`Grant::all`].
    #[must_use]
    pub fn client(self: &Arc<Self>, grant: Grant) -> Client {
        self.client_for(Caller::program(), Arc::new(grant))
    }

    /// As [`Self::client`], with a fence for its writes.
    pub(crate) fn fenced_client(
        self: &Arc<Self>,
        grant: Grant,
        fence: Option<Arc<Fence>>,
    ) -> Client {
        let token = self.token.child_token();
        let scope = call_scope::CallScope::of_run(Caller::program(), token, None, fence);
        Client::new(self.clone(), Arc::new(grant), scope, None)
    }

    /// A client for a caller's calls outside of runs.
    pub(crate) fn client_for(self: &Arc<Self>, caller: Caller, grant: Arc<Grant>) -> Client {
        let scope = call_scope::CallScope::new(caller, self.token.child_token(), None);
        Client::new(self.clone(), grant, scope, None)
    }

    /// Records an event of the program itself in the background. `process` distinguishes this process from others that run the same
    /// program. The event's object is not looked up, so it may be one that this server does not have, such as a document. A `tenant`
    /// whose reconcilers caused the event pays for it from its own budget. Never fails: events that are refused or too many are counted,
    /// as with [`Client::record_event`].
    pub fn record_own_event(
        self: &Arc<Self>,
        event: Event,
        process: &str,
        tenant: Option<&TenantName>,
    ) {
        let client = self.client(Grant::all());
        self.recorder.record_own(&client, event, process, tenant);
    }

    /// The newest state of an object that its caches have, in its stored form.
    pub(crate) fn held(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Object> {
        let backend = self.backend()?;
        let key = &*self.scope.stored_key(key).ok()?;
        let newest = backend.stores.with_kind(kind, |stores| {
            let held = stores.iter().filter_map(|store| store.get(key));
            held.max_by_key(|(_, version)| *version)
        });
        newest.map(|(object, _)| object)
    }

    /// Whether one of its caches would have the object of a key.
    pub(crate) fn caches(&self, kind: &GroupVersionKind, key: &ObjectKey) -> bool {
        let Some(backend) = self.backend() else {
            return false;
        };
        let Ok(key) = self.scope.stored_key(key) else {
            return false;
        };
        backend.stores.with_kind(kind, |stores| {
            let mut namespaces = stores.iter().map(|store| store.key.namespace.as_deref());
            namespaces.any(|of| of.is_none() || of == key.namespace.as_deref())
        })
    }

    /// Its state, with its caches.
    #[must_use]
    pub fn status(&self) -> ClusterStatus {
        let now = self.lifecycle.now();
        let backend = self.backend();
        let connection = backend.as_ref().map(|backend| &backend.connection);
        let stores = backend
            .as_ref()
            .map(|backend| backend.stores.all())
            .unwrap_or_default();
        let sizes = stores.iter().map(|store| size(store, &self.scope));
        let (objects, bytes) =
            sizes.fold((0, 0), |(objects, bytes), (o, b)| (objects + o, bytes + b));
        let mut stores: Vec<StoreStatus> = stores
            .iter()
            .map(|store| store_status(store, &self.scope))
            .collect();
        stores.sort_by(|a, b| (&a.kind, &a.namespace).cmp(&(&b.kind, &b.namespace)));
        ClusterStatus {
            name: self.name.to_string(),
            state: now.state,
            usable: now.is_usable(),
            reason: now.reason.to_string(),
            since: seconds(now.since),
            next_attempt: stores
                .iter()
                .filter_map(|store| store.next_attempt)
                .chain(now.next_attempt.map(seconds))
                .min(),
            server: self.config().server(),
            namespace: self.scope.namespace().map(|name| name.to_string()),
            workspace: self.scope.workspace().map(|name| name.to_string()),
            objects,
            bytes,
            connections: connection.map(Connection::counts).unwrap_or_default(),
            credentials_until: connection.and_then(Connection::valid_until).map(seconds),
            events_dropped: self.recorder.dropped(),
            replacement: self.replacement.load().as_deref().map(Self::as_replacement),
            stores,
        }
    }

    fn as_replacement(&self) -> ReplacementStatus {
        let now = self.lifecycle.now();
        ReplacementStatus {
            server: self.config().server(),
            state: now.state,
            reason: now.reason.to_string(),
        }
    }

    /// The resource of a kind as rules name it, if the server is known to serve the kind. No I/O.
    #[must_use]
    pub fn plural(&self, kind: &GroupVersionKind) -> Option<Arc<str>> {
        let resource = self.backend()?.discovery.get(kind)?;
        Some(resource.plural.clone())
    }

    /// The kinds whose objects it has, each in the version that its server prefers, as far as they are known; `None`: it has not been reached
    /// yet. Kinds of a single workspace are not among them. No I/O.
    #[must_use]
    pub fn kinds(&self) -> Option<Vec<Arc<Resource>>> {
        let mut all = self.backend()?.discovery.all();
        all.retain(|resource| self.scope.check_kind(resource).is_ok());
        Some(all)
    }

    pub(crate) fn backend(&self) -> Option<Arc<Backend>> {
        match &*self.carrier.load() {
            Some(carrier) => carrier.cluster().backend(),
            None => self.backend.load_full(),
        }
    }

    /// Waits for the first connection.
    pub(crate) async fn connected(&self) -> Result<Arc<Backend>, ApiError> {
        if let Some(backend) = self.backend() {
            return Ok(backend);
        }
        let mut changes = self.lifecycle.changes();
        loop {
            // Before the backend is looked for, so that a change that comes after the look wakes this again.
            let is_gone = self.lifecycle.now().state == ClusterState::Gone;
            if let Some(backend) = self.backend() {
                return Ok(backend);
            }
            if is_gone || changes.changed().await.is_err() {
                return Err(self.gone());
            }
        }
    }

    pub(crate) fn events(&self) -> &Recorder {
        &self.recorder
    }

    /// Where its tasks run.
    pub(crate) fn host(&self) -> &Handle {
        self.recorder.host()
    }

    pub(crate) fn metrics(&self) -> &Arc<ClusterMetrics> {
        &self.metrics
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Its state, with what belongs to it.
    pub(crate) fn now(&self) -> lifecycle::Now {
        self.lifecycle.now()
    }

    /// Notifies of changes of [`Self::now`] that come after this.
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.lifecycle.changes()
    }

    /// Keeps the cluster `Syncing` while a source is still being attached to it.
    pub(crate) fn pending(self: &Arc<Self>) -> Pending {
        Pending::new(self.clone())
    }

    pub(crate) fn gone(&self) -> ApiError {
        ApiError::host(
            ApiCode::ClusterGone,
            format!("cluster {:?} has left the fleet", self.name.as_str()),
        )
    }
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Number of a store's objects in a scope, and bytes of their texts.
fn size(store: &Store, scope: &Scope) -> (usize, usize) {
    match scope.part() {
        Some(part) => store.size_in(&part),
        None => store.size(),
    }
}

fn store_status(store: &Store, scope: &Scope) -> StoreStatus {
    let progress = store.progress().borrow().clone();
    StoreStatus {
        kind: store.key.kind.to_string(),
        namespace: store.key.namespace.as_deref().map(str::to_owned),
        synced: progress.synced,
        watching: progress.watching,
        objects: size(store, scope).0,
        indexes: store.indexes(),
        version: store.version(),
        monotonic: store.is_monotonic(),
        repairs: store.repairs(),
        next_attempt: progress.next_attempt.map(seconds),
        problem: progress.problem.map(|problem| problem.message),
    }
}
