//! Virtual workspaces: [`Window`], what a request through one of them sees, and who may do what there.

use std::sync::Arc;

use serde_json::Value;

use super::Kcp;
use super::bindings::Grant;
use super::export::{ExportId, event_group};
use super::kinds::{self, APIS, CORE};
use super::seen::{Label, Seen};
use super::shard::Shard;
use super::stage::Stage;
use super::workspaces::logical_clusters;
use crate::call::{Call, Verb};
use crate::cluster::Cluster;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::status::ApiError;

/// Every request comes from this user.
const USER: &str = "kcp-admin";

/// The cluster name of requests about all workspaces.
const WILDCARD: &str = "*";

const NO_BINDING: &str = "could not find suitable APIBinding in target logical cluster";

/// What a request through a virtual workspace sees.
pub(crate) struct Window {
    /// The kinds that are served; `None` for all that the workspace serves.
    seen: Option<Arc<Seen>>,
    /// About the workspaces of the shard together.
    wildcard: bool,
    /// Its shard is unreachable.
    pub(crate) down: bool,
    access: Access,
}

/// What is allowed.
enum Access {
    /// Nothing: every request is answered with this status.
    Refused(u16),
    /// Nothing, for this reason.
    Denied(String),
    /// Reading, of everything that is served.
    Read,
    /// What a binding grants.
    Granted(Arc<Grant>),
    /// Reading the LogicalCluster and changing its status.
    OwnStatus,
    /// Everything.
    Whole,
}

/// A request that goes through a virtual workspace: the cluster whose store it is about, the path inside it, and what it sees.
pub(crate) struct Entry<'p> {
    pub(crate) cluster: Cluster,
    pub(crate) inner: &'p str,
    pub(crate) window: Window,
    /// The virtual workspace: its kind and arguments.
    pub(crate) service: &'p str,
}

impl Kcp {
    /// Finds the virtual workspace that a path on a shard leads to.
    pub(crate) fn enter<'p>(&self, shard: usize, path: &'p str) -> Option<Entry<'p>> {
        let (service, rest) = path.strip_prefix("/services/")?.split_once("/clusters/")?;
        let (target, inner) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let target = percent_encoding::percent_decode_str(target)
            .decode_utf8()
            .ok()?;
        // A path is not taken, a name is.
        if target.contains(':') && !target.starts_with("system:") {
            return None;
        }
        let here = self.shard(shard)?;
        let wildcard = *target == *WILDCARD;
        let named = self.member(&target, |member| {
            (member.shard == shard).then(|| member.cluster.clone())
        });
        let cluster = named.flatten();
        let (seen, access) = match service.split_once('/')? {
            ("apiexport", arguments) => {
                let (at, name) = arguments.split_once('/')?;
                let export = ExportId {
                    cluster: at.into(),
                    name: name.into(),
                };
                let seen = Arc::clone(&self.exported(&export)?.seen);
                let access = match &cluster {
                    _ if wildcard => Access::Read,
                    Some(cluster) => self.granted(cluster, &export),
                    None => Access::Denied(NO_BINDING.to_owned()),
                };
                (Some(seen), access)
            }
            ("initializingworkspaces", name) => {
                self.at_stage(Stage::Initializing, name, cluster.as_ref(), inner)?
            }
            ("terminatingworkspaces", name) => {
                self.at_stage(Stage::Terminating, name, cluster.as_ref(), inner)?
            }
            _ => return None,
        };
        Some(Entry {
            cluster: cluster.unwrap_or_else(|| here.all.clone()),
            inner,
            window: window(here, seen, wildcard, access),
            service,
        })
    }

    /// What a workspace grants to an export.
    fn granted(&self, cluster: &Cluster, export: &ExportId) -> Access {
        let found = self.member(cluster.name(), |member| {
            let mut grants = member.grants.values();
            grants.find(|grant| grant.export == *export).cloned()
        });
        let denied = || Access::Denied(NO_BINDING.to_owned());
        found.flatten().map_or_else(denied, Access::Granted)
    }

    /// What the initializer or terminator of a workspace type, `<logical cluster>:<name>`, sees.
    fn at_stage(
        &self,
        stage: Stage,
        name: &str,
        cluster: Option<&Cluster>,
        inner: &str,
    ) -> Option<(Option<Arc<Seen>>, Access)> {
        let (at, of) = name.rsplit_once(':')?;
        self.object(at, &super::workspaces::types(), of)?;
        let label = stage.label(name);
        let mut seen = Seen::default();
        let versions = kinds::versions(CORE, "logicalclusters");
        seen.add(CORE, "logicalclusters", &versions, Some(&label));
        let seen = Some(Arc::new(seen));
        let Some(cluster) = cluster else {
            return Some((seen, Access::Read));
        };
        let call = Call::parse("GET", inner, "");
        if (call.group.as_str(), call.resource.as_str()) == (CORE, "logicalclusters") {
            return Some((seen, Access::OwnStatus));
        }
        let own = self.object(cluster.name(), &logical_clusters(), "cluster");
        let there = own.is_some_and(|own| own["metadata"]["labels"][&*label.0] == *label.1);
        let access = if there {
            Access::Whole
        } else {
            let what = stage.actor();
            Access::Denied(format!("{what} {name:?} cannot access this workspace"))
        };
        Some((None, access))
    }

    /// Whether an object may be created in a workspace.
    ///
    /// # Errors
    /// 403 for a binding to an export, and for a workspace of a type, that is not there.
    pub(crate) fn check_create(
        &self,
        cluster: &str,
        resource: &Resource,
        object: &Value,
    ) -> Result<(), ApiError> {
        if self.member(cluster, |_| ()).is_none() {
            return Ok(());
        }
        let spec = &object["spec"];
        let why = if resource.is(APIS, "apibindings") {
            let reference = &spec["reference"]["export"];
            let path = reference["path"].as_str().unwrap_or_default();
            let name = reference["name"].as_str().unwrap_or_default();
            let unchecked = matches!(path, "" | super::ROOT);
            let known = unchecked || self.exported(&self.export_of(cluster, reference)).is_some();
            (!known).then(|| {
                format!(
                    "unable to create APIBinding: no permission to bind to export {path}:{name}"
                )
            })
        } else if resource.is(kinds::TENANCY, "workspaces") {
            self.missing_type(cluster, &spec["type"])
        } else {
            None
        };
        let Some(why) = why else {
            return Ok(());
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Err(ApiError::forbidden(resource.subject(), name, &why))
    }
}

fn window(shard: &Shard, seen: Option<Arc<Seen>>, wildcard: bool, access: Access) -> Window {
    Window {
        seen,
        wildcard,
        down: shard.all.is_down(),
        access: shard.refusal().map_or(access, Access::Refused),
    }
}

impl Window {
    /// The kinds that are served; `None` for all that the workspace serves.
    pub(crate) fn registry(&self) -> Option<&Registry> {
        Some(&self.seen.as_ref()?.registry)
    }

    /// The label that objects of a kind must have to be seen.
    pub(crate) fn label(&self, resource: &Resource) -> Option<&Label> {
        self.seen.as_ref()?.label(resource)
    }

    /// Whether a call is allowed.
    ///
    /// # Errors
    /// 403 that says why not, 400 and 405 for what cannot be done to all workspaces together.
    pub(crate) fn check(&self, call: &Call) -> Result<(), ApiError> {
        if let Access::Refused(status) = self.access {
            return Err(refused(call, status));
        }
        if call.resource.is_empty() {
            return Ok(());
        }
        let (group, plural) = (call.group.as_str(), call.resource.as_str());
        if self.wildcard {
            return check_wildcard(call);
        }
        let grant = match &self.access {
            Access::Denied(why) => return Err(denied(call, why)),
            Access::Read | Access::Whole | Access::Refused(_) => return Ok(()),
            Access::OwnStatus => return check_own_status(call),
            Access::Granted(grant) => grant,
        };
        if grant
            .bound
            .iter()
            .any(|id| *id.group == *group && *id.plural == *plural)
        {
            return Ok(());
        }
        let wanted = verb(call);
        let group_of_events = event_group(group, plural);
        let accepted = grant.accepted.iter().any(|claim| {
            claim.plural == plural
                && event_group(&claim.group, plural) == group_of_events
                && claim.verbs.iter().any(|verb| verb == wanted || verb == "*")
        });
        if accepted {
            return Ok(());
        }
        if (group, plural) != (APIS, "apibindings") {
            let why = "failed to find suitable reason to allow access in APIBinding";
            return Err(denied(call, why));
        }
        if matches!(call.verb, Verb::Get | Verb::List | Verb::Watch) {
            return Ok(());
        }
        let why = "write access to APIBinding is not allowed from virtual workspace";
        Err(denied(call, why))
    }
}

/// Of a LogicalCluster only the status can be written.
fn check_own_status(call: &Call) -> Result<(), ApiError> {
    match (call.verb, call.subresource.as_str()) {
        (Verb::Get, _) | (Verb::Update | Verb::Patch, "status") => Ok(()),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn check_wildcard(call: &Call) -> Result<(), ApiError> {
    if !matches!(call.verb, Verb::List | Verb::Watch) {
        let kind = if call.group.is_empty() {
            call.resource.clone()
        } else {
            format!("{}.{}", call.resource, call.group)
        };
        let text = format!(
            "{} is not supported on resources of kind \"{kind}\" in the `*` logical cluster",
            verb(call)
        );
        return Err(ApiError::new(405, "MethodNotAllowed", text));
    }
    if !call.namespace.is_empty() {
        let text = format!(
            "cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to namespace {}",
            call.namespace
        );
        return Err(ApiError::bad_request(text));
    }
    Ok(())
}

/// What a virtual workspace answers that does not serve yet.
fn refused(call: &Call, status: u16) -> ApiError {
    match status {
        403 => denied(call, "access is not permitted yet"),
        404 => ApiError::no_such_resource(),
        other => ApiError::new(
            other,
            "ServiceUnavailable",
            "the virtual workspace is not ready",
        ),
    }
}

fn verb(call: &Call) -> &'static str {
    match call.verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
        Verb::Other => "other",
    }
}

/// 403 in the words of an API server whose authorizer gave a reason.
fn denied(call: &Call, why: &str) -> ApiError {
    let resource = if call.subresource.is_empty() {
        call.resource.clone()
    } else {
        format!("{}/{}", call.resource, call.subresource)
    };
    let subject = if call.group.is_empty() {
        call.resource.clone()
    } else {
        format!("{}.{}", call.resource, call.group)
    };
    let name = if call.name.is_empty() {
        String::new()
    } else {
        format!(" {:?}", call.name)
    };
    let scope = if call.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", call.namespace)
    };
    let text = format!(
        "{subject}{name} is forbidden: User {USER:?} cannot {} resource {resource:?} in API group {:?} {scope}: {why}",
        verb(call),
        call.group
    );
    ApiError::new(403, "Forbidden", text)
}
