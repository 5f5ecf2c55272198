//! Workspaces of kcp as clusters. Entry point: [`Kcp::new`].
//!
//! kcp gives the owner of an APIExport, or of a WorkspaceType, one URL for each of its shards. Behind such an endpoint are the workspaces
//! that use the export, or that begin or end: all of them share one connection, discovery, and one watch for each kind; see
//! [`Scope::Workspace`].
//!
//! Invariants:
//! * A workspace is disengaged because its endpoint lists no object of it any more, or because the slice does not have the endpoint any more.
//!   An error, or an endpoint or a kcp that is away, disengages nobody.
//! * The credentials go to no host but their own, unless `allow_servers` says so.
//!
//! Rooms: `endpoints` reads the URLs, `members` the workspaces behind one of them.

mod endpoints;
mod members;

use super::engaged::Engaged;
use super::hub_source::HubSource;
use super::problems::Problems;
use super::{Problem, Provider, ProviderError};
use crate::cluster::{AllowServers, Scope};
use crate::engage::{ClusterSpec, Engage};
use crate::hub::{Hub, HubWatch, WatchSelection};
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use endpoints::{Endpoint, Wanted};
use futures::future::{BoxFuture, select_all};
use members::Member;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Least time between two rounds, so that a burst of changes costs few of them.
const PACE: Duration = Duration::from_millis(20);

/// Which workspaces are clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KcpOptions {
    /// The workspace that has the slice or the workspace type: a kubeconfig whose server ends in `/clusters/<workspace>`. Default: the local
    /// cluster.
    pub from: HubSource,
    /// Whose workspaces.
    pub workspaces: Workspaces,
    /// How their clusters are named. Default: by logical cluster.
    pub names: WorkspaceNames,
    /// The hosts that endpoints may be at. Default: that of the kubeconfig alone.
    pub allow_servers: Option<AllowServers>,
}

impl KcpOptions {
    /// These workspaces, read from the local cluster, named by logical cluster.
    #[must_use]
    pub fn new(workspaces: Workspaces) -> Self {
        Self {
            from: HubSource::default(),
            workspaces,
            names: WorkspaceNames::default(),
            allow_servers: None,
        }
    }
}

/// Whose workspaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workspaces {
    /// Those with an APIBinding to the export of the APIExportEndpointSlice of this name.
    EndpointSlice(String),
    /// Those with an APIBinding to this export, by any slice for it.
    Export {
        /// Its name.
        name: String,
        /// The path of its workspace; `None`: any.
        path: Option<String>,
    },
    /// Those of the WorkspaceType of this name that are being initialized.
    Initializing(String),
    /// Those of the WorkspaceType of this name that are being deleted.
    Terminating(String),
}

/// How the clusters of workspaces are named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkspaceNames {
    /// By the name of the logical cluster, which is never used again.
    #[default]
    LogicalCluster,
    /// By the path, for example `root:org:team`. Without a path it is the name of the logical cluster.
    Path,
}

/// Provides a cluster for each workspace.
///
/// * A workspace that uses an export is engaged when a binding of it is Ready, and stays until its last binding is gone: its objects may
///   have finalizers that a reconciler removes.
/// * Its properties are `path`, `logicalCluster` and `binding`, the names of its bindings. The labels of its bindings are its labels, with the
///   prefix `binding/`: the owner of the workspace writes them, and no rule sees them.
/// * It is found by its path too, whatever it is named by.
///
/// The credentials need read on the slices, `apiexports/content` (or `initialize` or `terminate` on the type), and access to the
/// workspace that has these.
pub struct Kcp {
    name: String,
    options: KcpOptions,
    state: Mutex<State>,
    problems: Problems,
}

/// The state between rounds and runs.
#[derive(Default)]
struct State {
    /// By URL.
    endpoints: BTreeMap<String, Endpoint>,
    engaged: Engaged,
}

impl Kcp {
    /// A provider of these workspaces.
    #[must_use]
    pub fn new(name: impl Into<String>, options: KcpOptions) -> Self {
        Self {
            name: name.into(),
            options,
            state: Mutex::default(),
            problems: Problems::default(),
        }
    }

    /// Brings the endpoints in line with the slices, and the engaged clusters with the endpoints. False if the manager is stopping.
    fn round(
        &self,
        slices: Option<&HubWatch>,
        hub_problem: Option<Problem>,
        engage: &dyn Engage,
    ) -> bool {
        let mut state = self.state.lock();
        let State { endpoints, engaged } = &mut *state;
        let mut problems: Vec<Problem> = hub_problem.into_iter().collect();
        let mut listed = false;
        if let Some(slices) = slices {
            problems.extend(problem_of(slices));
            if slices.listed() {
                listed = true;
                let wanted = Wanted::read(&self.options, slices, &mut problems);
                wanted.bring_in_line(endpoints, engage, &mut problems);
            }
        }
        for endpoint in endpoints.values_mut() {
            problems.extend(problem_of(&endpoint.watch));
            listed &= endpoint.read(&self.options.workspaces);
        }
        let clusters = self.clusters(endpoints, engaged, engage, &mut problems);
        let goes_on = engaged.bring_in_line(clusters, engage, &mut problems);
        if listed && goes_on {
            engage.listed();
        }
        self.problems.replace(&self.name, problems);
        goes_on
    }

    /// The clusters of all endpoints.
    fn clusters(
        &self,
        endpoints: &BTreeMap<String, Endpoint>,
        engaged: &Engaged,
        engage: &dyn Engage,
        problems: &mut Vec<Problem>,
    ) -> BTreeMap<ClusterName, ClusterSpec> {
        let mut clusters: BTreeMap<ClusterName, ClusterSpec> = BTreeMap::new();
        let members = endpoints.values().flat_map(|endpoint| {
            let members = endpoint.members.iter();
            members.map(move |(workspace, member)| (endpoint, workspace, member))
        });
        for (endpoint, workspace, member) in members {
            let spec = match self.spec(endpoint, workspace, member) {
                Ok(spec) => spec,
                Err(message) => {
                    let subject = workspace.to_string();
                    problems.push(Problem { subject, message });
                    continue;
                }
            };
            if !member.is_ready && !engaged.has(&spec.name) {
                engage.keep(&spec.name);
                continue;
            }
            if let Some(other) = clusters.get(&spec.name) {
                problems.push(same_name(&spec, other));
                continue;
            }
            clusters.insert(spec.name.clone(), spec);
        }
        clusters
    }

    fn spec(
        &self,
        endpoint: &Endpoint,
        workspace: &Arc<str>,
        member: &Member,
    ) -> Result<ClusterSpec, String> {
        let path = member.properties.get(members::PATH);
        let by_path = path.filter(|_| self.options.names == WorkspaceNames::Path);
        let name = match by_path {
            Some(path) => ClusterName::new(path),
            None => ClusterName::shared(workspace.clone()),
        };
        let name = name.map_err(|error| error.to_string())?;
        let other = match by_path {
            Some(_) => Some(&**workspace),
            None => path,
        };
        Ok(ClusterSpec {
            scope: Scope::Workspace(workspace.clone()),
            labels: member.labels.clone(),
            properties: member.properties.clone(),
            // A path that is no name of a cluster finds nothing.
            alias: other.and_then(|other| ClusterName::new(other).ok()),
            refused_claims: member.refused_claims.clone(),
            ..ClusterSpec::new(name, endpoint.config.clone())
        })
    }
}

fn same_name(spec: &ClusterSpec, other: &ClusterSpec) -> Problem {
    let of = |spec: &ClusterSpec| {
        let workspace = spec.scope.workspace();
        workspace.map(ToString::to_string).unwrap_or_default()
    };
    Problem {
        subject: spec.name.to_string(),
        message: format!(
            "the logical clusters {} and {} have this name, and the first of them is engaged: name clusters by logical cluster",
            of(other),
            of(spec)
        ),
    }
}

fn problem_of(watch: &HubWatch) -> Option<Problem> {
    Some(Problem {
        subject: watch.hub().server(),
        message: format!(
            "{}; the workspaces that are known from it stay",
            watch.problem()?
        ),
    })
}

impl Provider for Kcp {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(async move {
            // Clusters that an earlier run had engaged may have left since, and its endpoints have ended.
            *self.state.lock() = State::default();
            let mut hubs = self.options.from.open(engage.clone(), false);
            let (mut slices, mut problem): (Option<Arc<HubWatch>>, _) = (None, None);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    found = hubs.next() => match found {
                        Ok(hub) => {
                            problem = None;
                            slices = Some(self.follow(hub, slices.take()));
                        }
                        Err(found) => problem = Some(found),
                    },
                    () = self.changed(slices.as_deref()) => {}
                    () = engage.freed() => {}
                }
                let (this, to) = (self.clone(), engage.clone());
                let (slices, problem) = (slices.clone(), problem.clone());
                let round = tokio::task::spawn_blocking(move || {
                    this.round(slices.as_deref(), problem, &*to)
                });
                let goes_on = round.await.map_err(|error| ProviderError {
                    provider: self.name.clone(),
                    reason: error.to_string(),
                })?;
                let pause = tokio::time::sleep(PACE);
                if !goes_on || stop.run_until_cancelled(pause).await.is_none() {
                    return Ok(());
                }
            }
        })
    }

    fn problems(&self) -> Vec<Problem> {
        self.problems.all()
    }
}

impl Kcp {
    /// Watches the slices or types of a hub, unless they are watched already.
    fn follow(&self, hub: Hub, before: Option<Arc<HubWatch>>) -> Arc<HubWatch> {
        match before {
            Some(watch) if watch.hub().is(&hub) => watch,
            _ => Arc::new(self.options.workspaces.watch_source(&hub)),
        }
    }

    /// Waits for a change of the slices, or of the objects behind an endpoint.
    async fn changed(&self, slices: Option<&HubWatch>) {
        let endpoints: Vec<Arc<HubWatch>> = {
            let state = self.state.lock();
            let endpoints = state.endpoints.values();
            endpoints.map(|endpoint| endpoint.watch.clone()).collect()
        };
        let watches = slices
            .into_iter()
            .chain(endpoints.iter().map(|watch| &**watch));
        let each: Vec<_> = watches
            .map(|watch| {
                Box::pin(async move {
                    tokio::select! {
                        () = watch.changed() => {}
                        () = watch.hub().gone() => {}
                    }
                })
            })
            .collect();
        if each.is_empty() {
            return std::future::pending().await;
        }
        select_all(each).await;
    }
}

impl Workspaces {
    /// Watches the objects that have the URLs of the endpoints.
    fn watch_source(&self, hub: &Hub) -> HubWatch {
        let (kind, name) = match self {
            Self::EndpointSlice(name) => (slice_kind(), Some(name.clone())),
            Self::Export { .. } => (slice_kind(), None),
            Self::Initializing(name) | Self::Terminating(name) => {
                let kind = GroupVersionKind::new("tenancy.kcp.io", "v1alpha1", "WorkspaceType");
                (kind, Some(name.clone()))
            }
        };
        let selection = WatchSelection {
            name,
            ..WatchSelection::default()
        };
        hub.watch(kind, selection)
    }

    /// Watches the objects behind an endpoint that tell its workspaces.
    fn watch_members(&self, hub: &Hub) -> HubWatch {
        match self {
            Self::EndpointSlice(_) | Self::Export { .. } => {
                let binding = |version| GroupVersionKind::new("apis.kcp.io", version, "APIBinding");
                let versions = vec![binding("v1alpha2"), binding("v1alpha1")];
                hub.watch_excerpts(versions, members::BINDING)
            }
            Self::Initializing(_) | Self::Terminating(_) => {
                let kind = GroupVersionKind::new("core.kcp.io", "v1alpha1", "LogicalCluster");
                hub.watch(kind, WatchSelection::default())
            }
        }
    }
}

fn slice_kind() -> GroupVersionKind {
    GroupVersionKind::new("apis.kcp.io", "v1alpha1", "APIExportEndpointSlice")
}
