//! The resources that a server serves, by kind. Entry point: [`Discovery::resolve`].
//!
//! Everything is loaded while a cluster is syncing, and again when a kind is unknown, at most once per [`REFRESH_EVERY`]. A load costs two
//! requests if the server has aggregated discovery, else one per group version.
//!
//! Invariants: one load at a time; at most [`MAX_RESOURCES`] are kept. Not guaranteed: that a known kind is still served. The caller
//! [forgets](Discovery::forget) a kind when the server says so.

use crate::api::{ApiCode, ApiError};
use crate::http::status::error_for_status;
use crate::http::transport::{Call, Connection, JSON};
use crate::kind::{GroupKind, GroupVersionKind, Resource};
use arc_swap::ArcSwap;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How much a served kind must be like another one to be proposed in its place; 1 is the same.
const LIKE: f64 = 0.85;

/// Least time between two refreshes because of unknown kinds.
pub(crate) const REFRESH_EVERY: Duration = Duration::from_secs(30);
/// Least time between two refreshes because of a change.
const REFRESH_AFTER_CHANGE_EVERY: Duration = Duration::from_millis(200);
/// Most resources that are kept of a server.
const MAX_RESOURCES: usize = 20_000;
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The resources of one server.
pub(crate) struct Discovery {
    /// `None` until the first load.
    known: ArcSwap<Option<Known>>,
    /// The last refresh. The lock is held during a refresh.
    refreshed: Mutex<Option<Refresh>>,
}

#[derive(Clone)]
struct Refresh {
    began: Instant,
    /// The error of a failed refresh, which answers until the next refresh.
    failed: Option<ApiError>,
}

#[derive(Clone, Default)]
struct Known {
    by_kind: HashMap<GroupVersionKind, Arc<Resource>>,
    by_group_kind: HashMap<GroupKind, Arc<Resource>>,
}

impl Discovery {
    pub(crate) fn new() -> Self {
        Self {
            known: ArcSwap::from_pointee(None),
            refreshed: Mutex::new(None),
        }
    }

    /// The resource of a kind if it is known. No I/O, no waiting.
    pub(crate) fn get(&self, kind: &GroupVersionKind) -> Option<Arc<Resource>> {
        (**self.known.load()).as_ref()?.by_kind.get(kind).cloned()
    }

    /// The resource of a kind in any version, for owner references.
    pub(crate) fn get_any_version(&self, kind: &GroupKind) -> Option<Arc<Resource>> {
        (**self.known.load())
            .as_ref()?
            .by_group_kind
            .get(kind)
            .cloned()
    }

    /// The resource of a kind, after a refresh if the kind is unknown.
    ///
    /// # Errors
    /// [`ApiCode::UnknownKind`]: the server does not serve the kind. Else the error of the refresh.
    pub(crate) async fn resolve(
        &self,
        connection: &Connection,
        kind: &GroupVersionKind,
    ) -> Result<Arc<Resource>, ApiError> {
        if let Some(resource) = self.get(kind) {
            return Ok(resource);
        }
        let mut refreshed = self.refreshed.lock().await;
        if let Some(resource) = self.get(kind) {
            return Ok(resource);
        }
        match &*refreshed {
            Some(last) if last.began.elapsed() < REFRESH_EVERY => {
                if let Some(error) = &last.failed {
                    return Err(error.clone());
                }
            }
            _ => self.refresh(connection, &mut refreshed).await?,
        }
        drop(refreshed);
        self.get(kind).ok_or_else(|| self.unknown(connection, kind))
    }

    /// Loads everything again after a sign of a change. A failure shows when a kind is resolved.
    pub(crate) async fn learn(&self, connection: &Connection) {
        let mut refreshed = self.refreshed.lock().await;
        let last = refreshed.as_ref().map(|last| last.began);
        if last.is_some_and(|began| began.elapsed() < REFRESH_AFTER_CHANGE_EVERY) {
            return;
        }
        let _ = self.refresh(connection, &mut refreshed).await;
    }

    async fn refresh(
        &self,
        connection: &Connection,
        refreshed: &mut Option<Refresh>,
    ) -> Result<(), ApiError> {
        let mut refresh = Refresh {
            began: Instant::now(),
            failed: Some(interrupted(connection)),
        };
        // Recorded before the load: one whose caller is dropped counts too.
        *refreshed = Some(refresh.clone());
        let loaded = self.load(connection).await;
        refresh.failed = loaded.clone().err();
        *refreshed = Some(refresh);
        loaded
    }

    /// The resource of a kind in a workspace with kinds of its own, by one request if the kind is unknown.
    ///
    /// # Errors
    /// [`ApiCode::UnknownKind`]: the workspace does not serve the kind. Else the error of the request.
    pub(crate) async fn resolve_in(
        &self,
        workspace: &Arc<str>,
        connection: &Connection,
        kind: &GroupVersionKind,
    ) -> Result<Arc<Resource>, ApiError> {
        if let Some(resource) = self.get(kind) {
            return Ok(resource);
        }
        let mut known = (**self.known.load()).clone().unwrap_or_default();
        let workspace = Some(workspace);
        match add_group_version(
            connection,
            workspace,
            &kind.group,
            &kind.version,
            &mut known,
        )
        .await
        {
            Err(error) if error.http_status == 404 => {}
            loaded => loaded?,
        }
        self.known.store(Arc::new(Some(known)));
        self.get(kind).ok_or_else(|| self.unknown(connection, kind))
    }

    fn unknown(&self, connection: &Connection, kind: &GroupVersionKind) -> ApiError {
        let server = connection.server();
        let remedy = match self.most_like(kind) {
            Some(like) => format!("did you mean {like}? Else install its CRD"),
            None => "install its CRD, or check group, version and kind".to_owned(),
        };
        let message = format!("{server} does not serve {kind}: {remedy}");
        ApiError::host(ApiCode::UnknownKind, message)
    }

    /// The served kind that is most like one that is not served, if any is like it.
    fn most_like(&self, kind: &GroupVersionKind) -> Option<GroupVersionKind> {
        let known = self.known.load();
        let all = (**known).as_ref()?.by_kind.keys();
        let likeness = |of: &GroupVersionKind| {
            let of_name = strsim::jaro_winkler(&of.kind, &kind.kind);
            let of_group = strsim::jaro_winkler(&of.group, &kind.group);
            // Many groups are alike, so the name counts for more.
            (of_name * 3.0 + of_group) / 4.0
        };
        let likely = all.map(|of| (likeness(of), of));
        let likely = likely.filter(|(likeness, _)| *likeness >= LIKE);
        // Of equal ones the same each time.
        let most = likely.max_by(|(a, one), (b, other)| {
            a.total_cmp(b)
                .then_with(|| other.to_string().cmp(&one.to_string()))
        });
        most.map(|(_, of)| of.clone())
    }

    /// Removes a kind that the server no longer serves.
    pub(crate) fn forget(&self, kind: &GroupVersionKind) {
        self.known.rcu(|known| {
            let mut known = (**known).clone();
            if let Some(known) = &mut known {
                known.remove(kind);
            }
            known
        });
    }

    /// Loads everything.
    ///
    /// # Errors
    /// The server's error status, or there is no answer.
    pub(crate) async fn load(&self, connection: &Connection) -> Result<(), ApiError> {
        let mut known = Known::default();
        load_core(connection, &mut known).await?;
        load_groups(connection, &mut known).await?;
        self.known.store(Arc::new(Some(known)));
        Ok(())
    }
}

impl Known {
    fn remove(&mut self, kind: &GroupVersionKind) {
        let Some(removed) = self.by_kind.remove(kind) else {
            return;
        };
        let group_kind = kind.group_kind();
        let chosen = self.by_group_kind.get(&group_kind);
        if !chosen.is_some_and(|chosen| Arc::ptr_eq(chosen, &removed)) {
            return;
        }
        let other = self
            .by_kind
            .values()
            .find(|other| other.kind.group_kind() == group_kind)
            .cloned();
        match other {
            Some(other) => self.by_group_kind.insert(group_kind, other),
            None => self.by_group_kind.remove(&group_kind),
        };
    }

    fn add(&mut self, group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) {
        if plural.contains('/')
            || plural.is_empty()
            || kind.is_empty()
            || self.by_kind.len() >= MAX_RESOURCES
        {
            return;
        }
        let kind = GroupVersionKind::new(group, version, kind);
        let resource = Arc::new(Resource {
            kind: kind.clone(),
            plural: plural.into(),
            namespaced,
        });
        // Servers list versions by preference, so the first one wins.
        self.by_group_kind
            .entry(kind.group_kind())
            .or_insert_with(|| resource.clone());
        self.by_kind.entry(kind).or_insert(resource);
    }
}

fn interrupted(connection: &Connection) -> ApiError {
    let server = connection.server();
    let message = format!("discovery of {server} was interrupted: try again later");
    ApiError::host(ApiCode::Unavailable, message)
}

async fn fetch(
    connection: &Connection,
    workspace: Option<&Arc<str>>,
    path: &str,
    accept: &'static str,
) -> Result<bytes::Bytes, ApiError> {
    let timeout = connection.options().call_timeout;
    let call = Call::get(path.to_owned(), accept).in_workspace(workspace);
    Ok(error_for_status(connection.send(call, timeout).await?)?.body)
}

fn parse<'a, T: Deserialize<'a>>(path: &str, body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::host(
            ApiCode::Other,
            format!(
                "the discovery answer of {path} cannot be parsed at byte {}",
                error.column()
            ),
        )
    })
}

async fn load_core(connection: &Connection, known: &mut Known) -> Result<(), ApiError> {
    let body = fetch(connection, None, "/api", AGGREGATED).await?;
    if add_aggregated("/api", &body, known)? {
        return Ok(());
    }
    let versions: Versions = parse("/api", &body)?;
    for version in versions.versions {
        match add_group_version(connection, None, "", &version, known).await {
            // A virtual workspace of kcp names the version also where it serves no kind of it.
            Err(error) if error.http_status == 404 => {}
            other => other?,
        }
    }
    Ok(())
}

async fn load_groups(connection: &Connection, known: &mut Known) -> Result<(), ApiError> {
    let body = match fetch(connection, None, "/apis", AGGREGATED).await {
        Ok(body) => body,
        // A server with the core group only.
        Err(error) if error.http_status == 404 => return Ok(()),
        Err(error) => return Err(error),
    };
    if add_aggregated("/apis", &body, known)? {
        return Ok(());
    }
    let groups: Groups = parse("/apis", &body)?;
    for group in groups.groups {
        let preferred = group
            .preferred_version
            .map(|v| v.version)
            .unwrap_or_default();
        let mut versions: Vec<String> = group.versions.into_iter().map(|v| v.version).collect();
        versions.sort_by_key(|v| *v != preferred);
        for version in versions {
            match add_group_version(connection, None, &group.name, &version, known).await {
                // An aggregated API server that is down must not hide the others.
                Err(error) if error.http_status == 503 || error.http_status == 404 => {}
                other => other?,
            }
        }
    }
    Ok(())
}

async fn add_group_version(
    connection: &Connection,
    workspace: Option<&Arc<str>>,
    group: &str,
    version: &str,
    known: &mut Known,
) -> Result<(), ApiError> {
    let path = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let body = fetch(connection, workspace, &path, JSON).await?;
    let list: ResourceList = parse(&path, &body)?;
    for resource in list.resources {
        known.add(
            group,
            version,
            &resource.kind,
            &resource.name,
            resource.namespaced,
        );
    }
    Ok(())
}

/// Adds the resources of an aggregated answer. `false`: the body is another answer.
fn add_aggregated(path: &str, body: &[u8], known: &mut Known) -> Result<bool, ApiError> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    let kind: Kind = parse(path, body)?;
    if kind.kind != "APIGroupDiscoveryList" {
        return Ok(false);
    }
    let list: Aggregated = parse(path, body)?;
    for group in list.items {
        for version in group.versions {
            for resource in version.resources {
                let Some(kind) = resource.response_kind else {
                    continue;
                };
                let namespaced = resource.scope == "Namespaced";
                known.add(
                    &group.metadata.name,
                    &version.version,
                    &kind.kind,
                    &resource.resource,
                    namespaced,
                );
            }
        }
    }
    Ok(true)
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default)]
    versions: Vec<GroupVersion>,
    #[serde(default)]
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<ListedResource>,
}

#[derive(Deserialize)]
struct ListedResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}

#[derive(Deserialize)]
struct Aggregated {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: GroupName,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
struct GroupName {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(default)]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_served_is_taken_for_the_one_that_is_most_like_it() {
        let kind = GroupVersionKind::new;
        let mut known = Known::default();
        for served in [
            kind("apps", "v1", "Deployment"),
            kind("example.com", "v1", "Website"),
            kind("", "v1", "ConfigMap"),
        ] {
            let resource = Arc::new(Resource {
                plural: "of-no-interest".into(),
                namespaced: true,
                kind: served.clone(),
            });
            known.by_kind.insert(served, resource);
        }
        let discovery = Discovery::new();
        discovery.known.store(Arc::new(Some(known)));
        let like = |asked: GroupVersionKind| discovery.most_like(&asked);
        assert_eq!(
            like(kind("example.com", "v1", "Webiste")),
            Some(kind("example.com", "v1", "Website"))
        );
        assert_eq!(
            like(kind("example.com", "v2", "Website")),
            Some(kind("example.com", "v1", "Website"))
        );
        assert_eq!(
            like(kind("", "v1", "Configmap")),
            Some(kind("", "v1", "ConfigMap"))
        );
        assert_eq!(like(kind("", "v1", "Goose")), None);
    }

    #[test]
    fn aggregated_answers_are_parsed() {
        let body = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[
            {"version":"v1","resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced"}]},
            {"version":"v1beta1","resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced"}]}]},
            {"versions":[{"version":"v1","resources":[{"resource":"nodes","responseKind":{"kind":"Node"},"scope":"Cluster"}]}]}]}"#;
        let mut known = Known::default();
        assert!(add_aggregated("/apis", body, &mut known).unwrap());
        let any = &known.by_group_kind[&GroupKind {
            group: "apps".into(),
            kind: "Deployment".into(),
        }];
        assert_eq!(
            (&*any.plural, &*any.kind.version, any.namespaced),
            ("deployments", "v1", true)
        );
        assert!(!known.by_kind[&GroupVersionKind::new("", "v1", "Node")].namespaced);
        assert!(
            !add_aggregated(
                "/api",
                br#"{"kind":"APIVersions","versions":["v1"]}"#,
                &mut known
            )
            .unwrap()
        );
    }

    #[test]
    fn a_kind_that_is_forgotten_leaves_its_other_versions() {
        let widget = |version| GroupVersionKind::new("example.com", version, "Widget");
        let mut known = Known::default();
        for version in ["v2", "v1"] {
            known.add("example.com", version, "Widget", "widgets", true);
        }
        known.remove(&widget("v2"));
        assert!(!known.by_kind.contains_key(&widget("v2")));
        let any = known.by_group_kind.get(&widget("v1").group_kind());
        assert_eq!(any.map(|any| &*any.kind.version), Some("v1"));
        known.remove(&widget("v1"));
        assert!(known.by_kind.is_empty() && known.by_group_kind.is_empty());
    }

    #[test]
    fn subresources_are_not_kinds() {
        let mut known = Known::default();
        known.add("", "v1", "Pod", "pods/status", true);
        assert!(known.by_kind.is_empty());
    }
}
