//! Virtual workspaces: [`Window`], what a request through one of them sees, and who may do what there.

use std::sync::Arc;

use serde_json::Value;

use super::Kcp;
use super::bindings::{Accepted, Grant};
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
use crate::status::{ApiError, FieldError, Subject};

/// Every request comes from this user.
const USER: &str = "kcp-admin";

/// The cluster name of requests about all workspaces.
const WILDCARD: &str = "*";

/// What a request through a virtual workspace sees.
pub(crate) struct Window {
    /// The kinds that are served; `None` for all that the workspace serves.
    seen: Option<Arc<Seen>>,
    /// About the workspaces of the shard together.
    wildcard: bool,
    /// Nobody on the shard has bound the export: its kinds are not served there.
    vacant: bool,
    /// Its shard is unreachable.
    pub(crate) down: bool,
    access: Access,
    /// Whose work on workspaces it is for.
    actor: Option<(Stage, String)>,
}

/// What is allowed.
enum Access {
    /// Nothing: this is answered.
    Answered(ApiError),
    /// Nothing but discovery.
    Denied,
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
    /// What a path that begins with `/services/` leads to on a shard; `None` where there is no such shard.
    pub(crate) fn enter<'p>(&self, shard: usize, path: &'p str) -> Option<Entry<'p>> {
        let here = self.shard(shard)?;
        let mut entry = self
            .resolve_service(shard, here, path)
            .unwrap_or_else(|| Entry {
                cluster: here.all.clone(),
                inner: path,
                window: Window::new(Access::Answered(unresolved(path))),
                service: "",
            });
        entry.window.down = here.all.is_down();
        if let Some(status) = here.refusal() {
            entry.window.access = Access::Answered(refused(path, status));
        }
        Some(entry)
    }

    fn resolve_service<'p>(&self, index: usize, here: &Shard, path: &'p str) -> Option<Entry<'p>> {
        let (service, rest) = path.strip_prefix("/services/")?.split_once("/clusters/")?;
        let (target, inner) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let target = percent_encoding::percent_decode_str(target)
            .decode_utf8()
            .ok()?;
        // A path is not taken, a name is.
        if target.contains(':') && !target.starts_with("system:") {
            return None;
        }
        let wildcard = *target == *WILDCARD;
        let named = self.member(&target, |member| {
            (member.shard == index).then(|| member.cluster.clone())
        });
        let cluster = named.flatten();
        let mut window = match service.split_once('/')? {
            ("apiexport", arguments) => {
                let (at, name) = arguments.split_once('/')?;
                let export = ExportId {
                    cluster: at.into(),
                    name: name.into(),
                };
                self.window_of_export(index, &export, cluster.as_ref(), wildcard, path)
            }
            ("initializingworkspaces", name) => {
                self.window_at(Stage::Initializing, name, cluster.as_ref(), inner)
            }
            ("terminatingworkspaces", name) => {
                self.window_at(Stage::Terminating, name, cluster.as_ref(), inner)
            }
            _ => return None,
        };
        window.wildcard = wildcard;
        Some(Entry {
            cluster: cluster.unwrap_or_else(|| here.all.clone()),
            inner,
            window,
            service,
        })
    }

    fn window_of_export(
        &self,
        shard: usize,
        export: &ExportId,
        cluster: Option<&Cluster>,
        wildcard: bool,
        path: &str,
    ) -> Window {
        let Some(exported) = self.exported(export) else {
            let name = &export.name;
            let text = format!(
                "Internal Server Error: {path:?}: API export not found: apiexport.apis.kcp.io {name:?} not found"
            );
            return Window::new(Access::Answered(ApiError::internal(text)));
        };
        let access = match cluster {
            _ if wildcard => Access::Read,
            Some(cluster) => self.granted(cluster, export),
            None => Access::Denied,
        };
        Window {
            seen: Some(Arc::clone(&exported.seen)),
            vacant: wildcard && !self.is_bound(shard, export),
            ..Window::new(access)
        }
    }

    /// Whether a workspace on a shard serves what an export offers.
    fn is_bound(&self, shard: usize, export: &ExportId) -> bool {
        let bound = |grant: &Arc<Grant>| grant.export == *export && !grant.bound.is_empty();
        let members = self.members.read();
        let mut here = members.values().filter(|member| member.shard == shard);
        here.any(|member| member.grants.values().any(bound))
    }

    /// What a workspace grants to an export.
    fn granted(&self, cluster: &Cluster, export: &ExportId) -> Access {
        let found = self.member(cluster.name(), |member| {
            let of_export = member
                .grants
                .values()
                .filter(|grant| grant.export == *export);
            // Of two bindings one serves nothing.
            of_export.max_by_key(|grant| grant.bound.len()).cloned()
        });
        found.flatten().map_or(Access::Denied, Access::Granted)
    }

    /// What the initializer or terminator of a workspace type, `<logical cluster>:<name>`, sees.
    fn window_at(
        &self,
        stage: Stage,
        name: &str,
        cluster: Option<&Cluster>,
        inner: &str,
    ) -> Window {
        let label = stage.label(name);
        let mut seen = Seen::default();
        let versions = kinds::versions(CORE, "logicalclusters");
        seen.add(CORE, "logicalclusters", &versions, Some(&label));
        let own = Window {
            seen: Some(Arc::new(seen)),
            actor: Some((stage, name.to_owned())),
            ..Window::new(Access::Read)
        };
        let Some(cluster) = cluster else {
            return own;
        };
        let call = Call::parse("GET", inner, "");
        if (call.group.as_str(), call.resource.as_str()) == (CORE, "logicalclusters") {
            return Window {
                access: Access::OwnStatus,
                ..own
            };
        }
        let found = self.object(cluster.name(), &logical_clusters(), "cluster");
        let mine = found.is_some_and(|found| found["metadata"]["labels"][&*label.0] == *label.1);
        if stage == Stage::Initializing && mine {
            return Window::new(Access::Whole);
        }
        let text = format!("{} {name:?} cannot access this workspace", stage.actor());
        Window::new(Access::Answered(ApiError::new(403, "Forbidden", text)))
    }

    /// Whether an object may be created in a workspace.
    ///
    /// # Errors
    /// 403 for a binding to an export, and for a workspace of a type, that is not there, and for kinds whose binding is being deleted.
    pub(crate) fn check_create(
        &self,
        cluster: &str,
        resource: &Resource,
        object: &Value,
    ) -> Result<(), ApiError> {
        let closing = self.member(cluster, |member| {
            let id = resource.collection();
            let mut grants = member.grants.values();
            grants.any(|grant| grant.closing && grant.bound.contains(&id))
        });
        let Some(closing) = closing else {
            return Ok(());
        };
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
            let text = "the APIBinding of this kind is being deleted";
            closing.then(|| text.to_owned())
        };
        let Some(why) = why else {
            return Ok(());
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Err(ApiError::forbidden(resource.subject(), name, &why))
    }
}

impl Window {
    fn new(access: Access) -> Self {
        Self {
            seen: None,
            wildcard: false,
            vacant: false,
            down: false,
            access,
            actor: None,
        }
    }

    /// Whether what an apply comes to is written as an update, as virtual workspaces of exports do.
    pub(crate) fn applies_by_update(&self) -> bool {
        matches!(self.access, Access::Granted(_))
    }

    /// Whether only objects that are being deleted are seen.
    pub(crate) fn deleting_only(&self) -> bool {
        matches!(self.actor, Some((Stage::Terminating, _)))
    }

    /// Gives a new object the labels that it needs to be seen here.
    pub(crate) fn complete(&self, call: &Call, object: &mut Value) {
        let Access::Granted(grant) = &self.access else {
            return;
        };
        let labels = &object["metadata"]["labels"];
        if !labels.is_null() && !labels.is_object() {
            return;
        }
        let group = event_group(&call.group, &call.resource);
        let claim = |claim: &&Accepted| claim.group == group && claim.plural == call.resource;
        let wanted = grant.accepted.iter().find(claim);
        for (key, value) in wanted.iter().flat_map(|claim| &claim.labels) {
            object["metadata"]["labels"][key.as_str()] = value.as_str().into();
        }
    }

    /// Whether somebody works on workspaces through it.
    pub(crate) fn is_of_actor(&self) -> bool {
        self.actor.is_some()
    }

    /// Whether a LogicalCluster may come to be `after`: an initializer or terminator takes itself off its list, and nobody else.
    ///
    /// # Errors
    /// 422 for any other change of the list.
    pub(crate) fn check_own_work(&self, before: &Value, after: &Value) -> Result<(), ApiError> {
        let Some((stage, name)) = &self.actor else {
            return Ok(());
        };
        let list = |of: &Value| -> Vec<Value> {
            let list = of["status"][stage.list()].as_array();
            list.cloned().unwrap_or_default()
        };
        let (before, after) = (list(before), list(after));
        let wanted = before.len() == after.len() + 1
            && before.iter().any(|one| one == name.as_str())
            && after.iter().all(|one| one != name.as_str());
        if wanted {
            return Ok(());
        }
        let detail = format!("only removing the {name:?} {} is supported", stage.actor());
        let field = format!("status.{}", stage.list());
        let error = FieldError::invalid(field, &after.into(), &detail);
        let subject = Subject {
            group: kinds::TENANCY,
            plural: "logicalclusters",
            kind: "LogicalCluster",
        };
        Err(ApiError::invalid(subject, "cluster", &[error]))
    }

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
    /// 403, 400 and 404 for what cannot be done to all workspaces together, and 500 for an export that is not there.
    pub(crate) fn check(&self, call: &Call) -> Result<(), ApiError> {
        if let Access::Answered(error) = &self.access {
            return Err(error.clone());
        }
        if call.resource.is_empty() {
            return Ok(());
        }
        let (group, plural) = (call.group.as_str(), call.resource.as_str());
        if self.wildcard {
            let whole = self
                .seen
                .as_ref()
                .is_none_or(|seen| seen.is_whole(group, plural));
            return check_wildcard(call, self.vacant && whole);
        }
        let grant = match &self.access {
            Access::Denied => return Err(denied(call)),
            Access::Read | Access::Whole | Access::Answered(_) => return Ok(()),
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
                && claim.group == group_of_events
                && claim.verbs.iter().any(|verb| verb == wanted || verb == "*")
        });
        if accepted {
            return Ok(());
        }
        // Bindings are read, and never written.
        let reads = matches!(call.verb, Verb::Get | Verb::List | Verb::Watch);
        if (group, plural) == (APIS, "apibindings") && reads {
            return Ok(());
        }
        Err(denied(call))
    }
}

/// Of a LogicalCluster only the status can be written.
fn check_own_status(call: &Call) -> Result<(), ApiError> {
    match (call.verb, call.subresource.as_str()) {
        (Verb::Get, _) | (Verb::Update | Verb::Patch, "status") => Ok(()),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn check_wildcard(call: &Call, absent: bool) -> Result<(), ApiError> {
    let reads = matches!(call.verb, Verb::List | Verb::Watch);
    if absent || !reads {
        return Err(ApiError::no_such_resource());
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

fn unresolved(path: &str) -> ApiError {
    let text = format!(
        "forbidden: User {USER:?} cannot get path {path:?}: Path not resolved to a valid virtual workspace"
    );
    ApiError::new(403, "Forbidden", text)
}

/// What a virtual workspace answers that does not serve yet.
fn refused(path: &str, status: u16) -> ApiError {
    match status {
        403 => {
            let text = format!("forbidden: User {USER:?} cannot get path {path:?}: access denied");
            ApiError::new(403, "Forbidden", text)
        }
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

/// 403, in kcp's words: it keeps the reason back.
fn denied(call: &Call) -> ApiError {
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
        "{subject}{name} is forbidden: User {USER:?} cannot {} resource {resource:?} in API group {:?} {scope}: access denied",
        verb(call),
        call.group
    );
    ApiError::new(403, "Forbidden", text)
}
