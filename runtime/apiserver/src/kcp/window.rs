//! Virtual workspaces: [`Window`], what a request through one of them sees, and who may do what there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Kcp;
use super::bindings::Grant;
use super::export::{ExportId, Exported, event_group};
use super::kinds::{self, APIS};
use super::slices::EXPORT;
use crate::call::{Call, Verb};
use crate::cluster::Cluster;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::status::ApiError;

/// Every request comes from this user.
const USER: &str = "kcp-admin";

/// The cluster name of requests about all workspaces.
const WILDCARD: &str = "*";

/// Group and plural of a kind → the label that its objects must have.
type Labels = BTreeMap<(String, String), (Box<str>, Box<str>)>;

/// What a request through a virtual workspace sees.
pub(crate) struct Window {
    /// The kinds that are served.
    pub(crate) registry: Registry,
    /// Objects of these kinds (group and plural) are seen with this label only.
    labels: Labels,
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
    Denied(&'static str),
    /// Reading, of everything that is served.
    Read,
    /// What a binding grants.
    Granted(Arc<Grant>),
}

/// A request that goes through a virtual workspace: the cluster whose store it is about, the path inside it, and what it sees.
pub(crate) struct Entry<'p> {
    pub(crate) cluster: Cluster,
    pub(crate) inner: &'p str,
    pub(crate) window: Window,
}

impl Kcp {
    /// Finds the virtual workspace that a path on a shard leads to.
    pub(crate) fn enter<'p>(&self, shard: usize, path: &'p str) -> Option<Entry<'p>> {
        let rest = path.strip_prefix("/services/apiexport/")?;
        let (cluster, rest) = rest.split_once('/')?;
        let (name, rest) = rest.split_once("/clusters/")?;
        let (target, inner) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let export = ExportId {
            cluster: cluster.into(),
            name: name.into(),
        };
        let here = self.shard(shard)?;
        let all = &here.all;
        let exported = self.exported(&export)?;
        let target = percent_encoding::percent_decode_str(target)
            .decode_utf8()
            .ok()?;
        let (cluster, access) = match &*target {
            WILDCARD => (all.clone(), Access::Read),
            // A path is refused, only names are taken.
            path if path.contains(':') && !path.starts_with("system:") => return None,
            name => self.inside(shard, name, &export).unwrap_or((
                all.clone(),
                Access::Denied("could not find suitable APIBinding in target logical cluster"),
            )),
        };
        let access = here.refusal().map_or(access, Access::Refused);
        let (registry, labels) = served(&export, &exported);
        let window = Window {
            registry,
            labels,
            wildcard: *target == *WILDCARD,
            down: all.is_down(),
            access,
        };
        Some(Entry {
            cluster,
            inner,
            window,
        })
    }

    /// The workspace of a name on a shard, and what it grants to an export.
    fn inside(&self, shard: usize, name: &str, export: &ExportId) -> Option<(Cluster, Access)> {
        let found = self.member(name, |member| {
            let grant = member.grants.values().find(|grant| grant.export == *export);
            let here = member.shard == shard;
            here.then(|| Some((member.cluster.clone(), Access::Granted(grant?.clone()))))
        });
        found.flatten().flatten()
    }
}

/// The kinds that an export's virtual workspace serves, and labels of those that are not seen whole.
fn served(id: &ExportId, exported: &Exported) -> (Registry, Labels) {
    let mut registry = Registry::on(&[]);
    let mut labels = Labels::new();
    for kind in &exported.kinds {
        let at = &kind.collection;
        registry.set_custom(&at.group, &at.plural, kind.versions.clone());
    }
    let mut claim = |group: &str, plural: &str, label: &(Box<str>, Box<str>), versions| {
        if registry.versions_of(group, plural) == 0 {
            registry.set_custom(group, plural, versions);
            labels.insert((group.to_owned(), plural.to_owned()), label.clone());
        }
    };
    for claimed in &exported.claims {
        if (claimed.group.as_str(), claimed.plural.as_str()) == (APIS, "apibindings") {
            continue;
        }
        let versions = claimed.versions.clone();
        claim(&claimed.group, &claimed.plural, &claimed.label, versions);
        if claimed.plural == "events" && matches!(claimed.group.as_str(), "" | "events.k8s.io") {
            for group in ["", "events.k8s.io"] {
                claim(
                    group,
                    "events",
                    &claimed.label,
                    kinds::versions(group, "events"),
                );
            }
        }
    }
    let own = (EXPORT.into(), id.hash().into());
    claim(
        APIS,
        "apibindings",
        &own,
        kinds::versions(APIS, "apibindings"),
    );
    (registry, labels)
}

impl Window {
    /// The label that objects of a kind must have to be seen.
    pub(crate) fn label(&self, resource: &Resource) -> Option<&(Box<str>, Box<str>)> {
        let kind = (resource.group.clone(), resource.plural.clone());
        self.labels.get(&kind)
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
            Access::Read | Access::Refused(_) => return Ok(()),
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
