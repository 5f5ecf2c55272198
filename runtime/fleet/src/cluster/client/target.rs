//! The resource of a call, and the checks before it. Entry points: [`Client::target`] and [`Client::check`].

use super::Client;
use crate::api::{ApiCode, ApiError};
use crate::cache::made::Made;
use crate::cluster::backend::Backend;
use crate::cluster::call_scope::{OVERDUE, cancelled};
use crate::cluster::scope::Scope;
use crate::grant::{Access, ClusterFacts, Denied, Grant, Namespaces, Verb};
use crate::kind::{GroupVersionKind, Resource};
use crate::request::{ObjectKey, check_name};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a cluster to connect, or for a cache to sync, in one call.
pub(super) const WAIT: Duration = Duration::from_secs(30);

/// What a call waits for.
#[derive(Clone, Copy)]
pub(super) enum Awaited<'a> {
    Connection,
    Discovery(&'a GroupVersionKind),
    FirstList(&'a GroupVersionKind),
    Watch(&'a GroupVersionKind),
    Room,
    Answer,
}

impl fmt::Display for Awaited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection => f.write_str("the connection"),
            Self::Discovery(kind) => write!(f, "the server's answer whether it serves {kind}"),
            Self::FirstList(kind) => write!(f, "the first list of {kind}"),
            Self::Watch(kind) => write!(f, "an event of {kind} that another cache has"),
            Self::Room => f.write_str("room for the server's answer"),
            Self::Answer => f.write_str("the server's answer"),
        }
    }
}

/// A kind that the grant names and the server serves.
pub(super) struct Target {
    pub(super) backend: Arc<Backend>,
    pub(super) resource: Arc<Resource>,
    /// Whether no cache can have objects of it.
    pub(super) is_live: bool,
}

impl Target {
    /// What makes its objects, if the host does: then no call of it goes to the server.
    pub(super) fn made(&self) -> Option<&Arc<dyn Made>> {
        self.backend.stores.made(&self.resource.kind)
    }
}

impl Client {
    /// Finds the resource of a kind. A group that no rule names is denied before discovery is asked.
    pub(super) async fn target(&self, kind: &GroupVersionKind) -> Result<Target, ApiError> {
        match self.known_target(kind)? {
            Some(target) => Ok(target),
            None => self.find_target(kind).await,
        }
    }

    /// As [`Self::target`], without a wait. `None`: call [`Self::find_target`], which waits.
    pub(super) fn known_target(&self, kind: &GroupVersionKind) -> Result<Option<Target>, ApiError> {
        self.scope.check()?;
        check_kind(kind)?;
        let grant = self.grant();
        if !grant.names_group(&kind.group) {
            return Err(self.ungranted(&grant, kind));
        }
        let known = self.cluster.backend().and_then(|backend| {
            let resource = backend.resource(kind)?;
            Some(self.target_of(backend, resource, false))
        });
        known.transpose()
    }

    /// The rest of [`Self::target`]: waits for the connection, and asks the server whether it serves the kind.
    pub(super) async fn find_target(&self, kind: &GroupVersionKind) -> Result<Target, ApiError> {
        let grant = self.grant();
        let backend = self.backend().await?;
        let (resource, is_live) = match backend.resource(kind) {
            Some(resource) => (resource, false),
            None => {
                let awaited = Awaited::Discovery(kind);
                let found = self.within(awaited, self.unknown_resource(&backend, kind));
                let found = found.await?;
                if found
                    .as_ref()
                    .is_err_and(|error| error.code == ApiCode::UnknownKind)
                {
                    grant.note_unknown(kind, backend.discovery.most_like(kind));
                }
                found?
            }
        };
        self.target_of(backend, resource, is_live)
    }

    fn target_of(
        &self,
        backend: Arc<Backend>,
        resource: Arc<Resource>,
        is_live: bool,
    ) -> Result<Target, ApiError> {
        self.part().check_kind(&resource)?;
        self.cluster.check_claims(&resource)?;
        Ok(Target {
            backend,
            resource,
            is_live,
        })
    }

    /// The denial of a kind whose group no rule names. The server is not asked: where it is not known what it serves, the resource is a guess.
    fn ungranted(&self, grant: &Grant, kind: &GroupVersionKind) -> ApiError {
        let backend = self.cluster.backend();
        // A part of a server may have kinds of its own, which are not known here.
        let backend = backend.filter(|_| self.part().is_whole());
        let discovery = backend.as_ref().map(|backend| &backend.discovery);
        let known = discovery.and_then(|discovery| discovery.get(kind));
        let guess = format!("{}s", kind.kind.to_lowercase());
        let labels = self.cluster.labels();
        let access = Access {
            cluster: self.facts(&labels),
            group: &kind.group,
            resource: known.as_ref().map_or(&guess, |known| &known.plural),
            subresource: None,
            verb: Verb::Get,
            namespaced: known.as_ref().is_none_or(|known| known.namespaced),
            namespace: None,
            name: None,
        };
        let Err(missing) = grant.check(&access) else {
            let message = format!("no rule names the group {:?}", kind.group);
            return ApiError::host(ApiCode::Denied, message);
        };
        let like = discovery.and_then(|discovery| discovery.most_like(kind));
        match like.filter(|like| known.is_none() && like.group == kind.group) {
            Some(like) => self.denied(&missing.of_misspelt(kind, &like)),
            None => self.denied(&missing),
        }
    }

    /// As [`Self::target`], for a write.
    pub(super) async fn writable(&self, kind: &GroupVersionKind) -> Result<Target, ApiError> {
        let target = self.target(kind).await?;
        if target.made().is_none() {
            return Ok(target);
        }
        let message = format!("{kind} is read-only: the host makes its objects");
        Err(ApiError::host(ApiCode::Invalid, message))
    }

    /// The resource of a kind that is not known yet, and whether no cache can have objects of it.
    async fn unknown_resource(
        &self,
        backend: &Backend,
        kind: &GroupVersionKind,
    ) -> Result<(Arc<Resource>, bool), ApiError> {
        match backend.resolve(kind).await {
            Ok(resource) => Ok((resource, false)),
            Err(error) if error.code == ApiCode::UnknownKind => {
                let own = self.cluster.own_kind(backend, kind, error).await?;
                Ok((own, true))
            }
            Err(error) => Err(error),
        }
    }

    /// The part of its server that the cluster is. Keys and objects of calls have their shown form until the call has been checked.
    pub(super) fn part(&self) -> &Scope {
        self.cluster.scope()
    }

    async fn backend(&self) -> Result<Arc<Backend>, ApiError> {
        match self.cluster.backend() {
            Some(backend) => Ok(backend),
            None => {
                self.within(Awaited::Connection, self.cluster.connected())
                    .await?
            }
        }
    }

    /// Waits for something of the cluster, at most until the run or the cluster ends.
    pub(super) async fn within<T>(
        &self,
        awaited: Awaited<'_>,
        wait: impl Future<Output = T>,
    ) -> Result<T, ApiError> {
        let limit = self.scope.time_left(WAIT);
        tokio::select! {
            value = wait => Ok(value),
            () = self.cluster.token().cancelled() => Err(self.cluster.gone()),
            () = self.scope.token.cancelled() => {
                let mut ended = cancelled();
                if self.scope.is_overdue() {
                    ended.reason = OVERDUE.to_owned();
                    ended.message = format!("{}; {}", ended.message, self.overdue(awaited));
                }
                Err(ended)
            }
            () = tokio::time::sleep(limit) => {
                Err(ApiError::host(ApiCode::Timeout, self.overdue(awaited)))
            }
        }
    }

    /// Why a wait has taken all of its time.
    fn overdue(&self, awaited: Awaited<'_>) -> String {
        let (name, now) = (self.cluster.name(), self.cluster.status());
        format!(
            "{awaited} did not come in time; cluster {:?} is {}: {}",
            name.as_str(),
            now.state.as_str(),
            now.reason
        )
    }

    /// Checks one call on one object or collection.
    pub(super) fn check(
        &self,
        resource: &Resource,
        subresource: Option<&str>,
        verb: Verb,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), ApiError> {
        let namespace = if resource.namespaced { namespace } else { None };
        let labels = self.cluster.labels();
        let access = access(
            self.facts(&labels),
            resource,
            subresource,
            verb,
            namespace,
            name,
        );
        self.grant()
            .check(&access)
            .map_err(|missing| self.denied(&missing))
    }

    /// Checks one call on one object.
    pub(super) fn check_object(
        &self,
        resource: &Resource,
        subresource: Option<&str>,
        verb: Verb,
        key: &ObjectKey,
    ) -> Result<(), ApiError> {
        let namespace = key.namespace.as_deref();
        self.check(resource, subresource, verb, namespace, Some(&key.name))
    }

    /// The error for a denial, which is reported to the policy, or else to the log.
    fn denied(&self, missing: &Denied) -> ApiError {
        match &self.policy {
            Some(policy) => policy.denied(missing),
            None => tracing::info!(
                target: "audit",
                tenant = %self.scope.caller.tenant,
                reconciler = self.scope.caller.controller.as_ref().map(|c| c.as_str()),
                cluster = %self.cluster.name(),
                rule = missing.misspelt().is_none().then(|| format!("- {}", missing.missing_rule())),
                reason = missing.misspelt(),
                "call denied"
            ),
        }
        ApiError::host(ApiCode::Denied, missing.to_string())
    }

    /// Whether a verb is granted on one object. A denial is not reported.
    pub(crate) fn may(&self, resource: &Resource, verb: Verb, key: &ObjectKey) -> bool {
        let namespace = if resource.namespaced {
            key.namespace.as_deref()
        } else {
            None
        };
        let labels = self.cluster.labels();
        self.grant()
            .check(&access(
                self.facts(&labels),
                resource,
                None,
                verb,
                namespace,
                Some(&key.name),
            ))
            .is_ok()
    }

    /// As [`Self::namespaces`], for a call that cannot be without: a grant that notes has some, unless its ceiling has none.
    pub(super) fn needed_namespaces(
        &self,
        resource: &Resource,
        verb: Verb,
        name: Option<&str>,
    ) -> Namespaces {
        let labels = self.cluster.labels();
        let access = access(self.facts(&labels), resource, None, verb, None, name);
        self.grant().needed_namespaces(&access)
    }

    /// Notes, for a grant that does, what a guest needs that looks for its dependents: it writes them, and deletes those that are no longer
    /// desired. Tests may cause neither.
    pub(super) fn note_dependents(&self, resource: &Resource, namespace: Option<&str>) {
        let (grant, labels) = (self.grant(), self.cluster.labels());
        for verb in [Verb::Create, Verb::Patch, Verb::Delete] {
            let facts = self.facts(&labels);
            grant.note(&access(facts, resource, None, verb, namespace, None));
        }
    }

    /// The namespaces where a verb is granted on all objects, or on those of a name.
    pub(super) fn namespaces(
        &self,
        resource: &Resource,
        verb: Verb,
        name: Option<&str>,
    ) -> Namespaces {
        let (group, plural) = (&resource.kind.group, &resource.plural);
        let labels = self.cluster.labels();
        self.grant()
            .namespaces(&self.facts(&labels), group, plural, verb, name)
    }
}

fn access<'a>(
    cluster: ClusterFacts<'a>,
    resource: &'a Resource,
    subresource: Option<&'a str>,
    verb: Verb,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
) -> Access<'a> {
    Access {
        cluster,
        group: &resource.kind.group,
        resource: &resource.plural,
        subresource,
        verb,
        namespaced: resource.namespaced,
        namespace,
        name,
    }
}

/// Checks that a key fits its resource: a namespace exactly where the resource has one, and a name.
pub(super) fn check_key(resource: &Resource, key: &ObjectKey) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::host(ApiCode::Invalid, message));
    if key.name.is_empty() {
        return invalid(format!("the name of the {} is empty", resource.kind.kind));
    }
    check_segment(&key.name)?;
    key.namespace.as_deref().map_or(Ok(()), check_segment)?;
    match (resource.namespaced, key.namespace.as_deref()) {
        (true, None | Some("")) => invalid(format!(
            "{} {:?} needs a namespace",
            resource.kind.kind, key.name
        )),
        (false, Some(namespace)) => invalid(format!(
            "{} {:?} is cluster-scoped and has no namespace, but {namespace:?} was given",
            resource.kind.kind, key.name
        )),
        _ => Ok(()),
    }
}

/// Checks a reference that is not used in a URL, such as the object of an event: the server would accept its kind and names.
pub(crate) fn check_reference(kind: &GroupVersionKind, key: &ObjectKey) -> Result<(), ApiError> {
    /// As kube-apiserver: a namespace is a label of DNS.
    const LONGEST_NAMESPACE: usize = 63;
    check_kind(kind)?;
    check_segment(&key.name)?;
    let namespace = key.namespace.as_deref();
    let is_one = |namespace: &str| (1..=LONGEST_NAMESPACE).contains(&namespace.len());
    if key.name.is_empty() || !namespace.is_none_or(is_one) {
        let message = format!(
            "an object has a name, and a namespace of 1 to {LONGEST_NAMESPACE} bytes or none"
        );
        return Err(ApiError::host(ApiCode::Invalid, message));
    }
    namespace.map_or(Ok(()), check_segment)
}

/// Checks the namespace of a collection: none, or one with a name where the resource has namespaces.
pub(super) fn check_namespace(
    resource: &Resource,
    namespace: Option<&str>,
) -> Result<(), ApiError> {
    let kind = &resource.kind.kind;
    match namespace {
        // In a URL an empty segment would give the next one another meaning.
        Some("") => Err(ApiError::host(
            ApiCode::Invalid,
            format!("the namespace of the {kind} is empty: leave it out for all namespaces"),
        )),
        Some(_) if !resource.namespaced => Err(ApiError::host(
            ApiCode::Invalid,
            format!("{kind} is cluster-scoped: leave the namespace out"),
        )),
        Some(namespace) => check_segment(namespace),
        None => Ok(()),
    }
}

/// Checks the length of a kind, which guests choose and errors repeat.
fn check_kind(kind: &GroupVersionKind) -> Result<(), ApiError> {
    const LONGEST: usize = 253;
    let parts = [&kind.group, &kind.version, &kind.kind];
    if parts.iter().any(|part| part.len() > LONGEST) {
        let message = format!("group, version and kind have at most {LONGEST} bytes each");
        return Err(ApiError::host(ApiCode::Invalid, message));
    }
    Ok(())
}

/// Checks that a name is one segment of a URL's path.
pub(super) fn check_segment(name: &str) -> Result<(), ApiError> {
    check_name(name).map_err(|error| ApiError::host(ApiCode::Invalid, error.to_string()))
}

/// Checks that a subresource is one segment of a URL: an empty one would mean the object itself.
pub(super) fn check_subresource(subresource: Option<&str>) -> Result<(), ApiError> {
    match subresource {
        Some("") => Err(ApiError::host(
            ApiCode::Invalid,
            "the subresource is empty: give one such as \"status\", or leave it out",
        )),
        Some(name) => check_segment(name),
        None => Ok(()),
    }
}
