//! The answers of a server about what it serves. Entry points: [`load`], [`add_versions`] and [`add_version_of`].

use super::{GroupVersion, Known};
use crate::api::{ApiCode, ApiError};
use crate::http::status::error_for_status;
use crate::http::transport::{Call, Connection, JSON};
use crate::outcome::Blame;
use futures::stream::{self, StreamExt};
use serde::{Deserialize, Deserializer};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Group versions that are asked for beside each other.
const AT_ONCE: usize = 8;
/// Longest wait for one group version. All together have the time of one call.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most group versions of a server that are asked for.
const MAX_VERSIONS: usize = 5_000;

/// Asks for all groups of an API in one answer (KEP-3352). A server without such answers gives its usual one.
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

async fn fetch(
    connection: &Connection,
    workspace: Option<&Arc<str>>,
    path: &str,
    accept: &'static str,
    timeout: Duration,
) -> Result<bytes::Bytes, ApiError> {
    let call = Call::get(path.to_owned(), accept).in_workspace(workspace);
    Ok(error_for_status(connection.send(call, timeout).await?)?.body)
}

/// As [`fetch`], of a list of groups. A server that is not reached is named in the error, without the path.
async fn fetch_groups(connection: &Connection, path: &str) -> Result<bytes::Bytes, ApiError> {
    let timeout = connection.options().call_timeout;
    let body = fetch(connection, None, path, AGGREGATED, timeout).await;
    body.map_err(|error| match error.http_status {
        0 => error,
        _ => failure(path, error),
    })
}

/// The error of a path that cannot be read. It is never the fault of who asks for a kind.
fn failure(path: &str, error: ApiError) -> ApiError {
    let code = match error.blame() {
        Blame::Api | Blame::Host => error.code,
        Blame::Guest => ApiCode::Unavailable,
    };
    let message = format!("discovery of {path} fails: {}", error.message);
    ApiError {
        code,
        message,
        ..error
    }
}

fn parse<'a, T: Deserialize<'a>>(path: &str, body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the answer cannot be parsed at byte {}", error.column());
        failure(path, ApiError::host(ApiCode::Other, message))
    })
}

/// Asks for everything. A group version that fails keeps what is known of it `before`.
///
/// # Errors
/// There is no answer that names the groups, or none of them answers.
pub(super) async fn load(connection: &Connection, before: &Known) -> Result<Known, ApiError> {
    let mut known = Known::default();
    let mut versions = core_versions(connection, before, &mut known).await?;
    versions.extend(group_versions(connection, before, &mut known).await?);
    versions.truncate(MAX_VERSIONS);
    add_versions(connection, versions, before, &mut known).await;
    match known.failed.values().next() {
        Some(error) if known.by_kind.is_empty() => Err(error.clone()),
        _ => Ok(known),
    }
}

/// Adds the core group if the answer has all of it, else returns its versions.
async fn core_versions(
    connection: &Connection,
    before: &Known,
    known: &mut Known,
) -> Result<Vec<GroupVersion>, ApiError> {
    let body = fetch_groups(connection, "/api").await?;
    if add_aggregated("/api", &body, before, known)? {
        return Ok(Vec::new());
    }
    let versions: Versions = parse("/api", &body)?;
    let of_core = |version: String| GroupVersion::new("", &version);
    Ok(versions.versions.into_iter().map(of_core).collect())
}

/// Adds all other groups if the answer has all of them, else returns their versions, the preferred one of each first.
async fn group_versions(
    connection: &Connection,
    before: &Known,
    known: &mut Known,
) -> Result<Vec<GroupVersion>, ApiError> {
    let body = match fetch_groups(connection, "/apis").await {
        Ok(body) => body,
        // A server with the core group only.
        Err(error) if error.http_status == 404 => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    if add_aggregated("/apis", &body, before, known)? {
        return Ok(Vec::new());
    }
    let groups: Groups = parse("/apis", &body)?;
    let mut all = Vec::new();
    for group in groups.groups {
        let preferred = group.preferred_version.map(|v| v.version);
        let mut versions: Vec<String> = group.versions.into_iter().map(|v| v.version).collect();
        versions.sort_by_key(|version| Some(version) != preferred.as_ref());
        let of_group = |version: String| GroupVersion::new(&group.name, &version);
        all.extend(versions.into_iter().map(of_group));
    }
    Ok(all)
}

/// Adds the resources of group versions, which are asked for beside each other. One that fails keeps what is known of it `before`.
pub(super) async fn add_versions(
    connection: &Connection,
    versions: Vec<GroupVersion>,
    before: &Known,
    known: &mut Known,
) {
    let until = Instant::now() + connection.options().call_timeout;
    let asked = versions.into_iter().map(|version| async move {
        let left = until.saturating_duration_since(Instant::now());
        let listed = list(connection, None, &version, left.min(PATIENCE)).await;
        (version, listed)
    });
    // In the order of the versions, so that the preferred one of a kind is known first.
    let mut answers = stream::iter(asked).buffered(AT_ONCE);
    while let Some((version, listed)) = answers.next().await {
        match listed {
            Ok(list) => list.add_to(&version, known),
            // It is not served any more. A virtual workspace of kcp names the core group also where it serves no kind of it.
            Err(error) if error.http_status == 404 => {}
            Err(error) => known.keep(version, error, before),
        }
    }
}

/// Adds the resources of one version of a group in a workspace.
pub(super) async fn add_version_of(
    connection: &Connection,
    workspace: &Arc<str>,
    version: &GroupVersion,
    known: &mut Known,
) -> Result<(), ApiError> {
    let timeout = connection.options().call_timeout;
    let listed = list(connection, Some(workspace), version, timeout).await?;
    listed.add_to(version, known);
    Ok(())
}

async fn list(
    connection: &Connection,
    workspace: Option<&Arc<str>>,
    version: &GroupVersion,
    timeout: Duration,
) -> Result<ResourceList, ApiError> {
    let path = version.path();
    let body = fetch(connection, workspace, &path, JSON, timeout).await;
    parse(&path, &body.map_err(|error| failure(&path, error))?)
}

impl ResourceList {
    fn add_to(self, of: &GroupVersion, known: &mut Known) {
        for resource in self.resources {
            known.add(
                &of.group,
                &of.version,
                &resource.kind,
                &resource.name,
                resource.namespaced,
            );
        }
    }
}

/// Adds the resources of an aggregated answer. `false`: the body is another answer.
fn add_aggregated(
    path: &str,
    body: &[u8],
    before: &Known,
    known: &mut Known,
) -> Result<bool, ApiError> {
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
        let group_name = &group.metadata.name;
        for version in group.versions {
            // The server of the group has never answered, or not for long.
            if version.freshness == "Stale" && version.resources.is_empty() {
                let of = GroupVersion::new(group_name, &version.version);
                let stale = "its API server does not answer the one that serves discovery";
                let error = failure(&of.path(), ApiError::host(ApiCode::Unavailable, stale));
                known.keep(of, error, before);
            }
            for resource in version.resources {
                let Some(kind) = resource.response_kind else {
                    continue;
                };
                let namespaced = resource.scope == "Namespaced";
                known.add(
                    group_name,
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

/// Go's encoder writes an empty list as `null`.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    list: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(list)?.unwrap_or_default())
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default, deserialize_with = "null_is_empty")]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default, deserialize_with = "null_is_empty")]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    versions: Vec<ListedVersion>,
    #[serde(default)]
    preferred_version: Option<ListedVersion>,
}

#[derive(Deserialize)]
struct ListedVersion {
    version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default, deserialize_with = "null_is_empty")]
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
    #[serde(default, deserialize_with = "null_is_empty")]
    items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: GroupName,
    #[serde(default, deserialize_with = "null_is_empty")]
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
    freshness: String,
    #[serde(default, deserialize_with = "null_is_empty")]
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
    use crate::kind::{GroupKind, GroupVersionKind};

    #[test]
    fn aggregated_answers_are_parsed() {
        let body = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[
            {"version":"v1","resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced"}]},
            {"version":"v1beta1","resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced"}]}]},
            {"versions":[{"version":"v1","resources":[{"resource":"nodes","responseKind":{"kind":"Node"},"scope":"Cluster"}]}]}]}"#;
        let mut known = Known::default();
        assert!(add_aggregated("/apis", body, &Known::default(), &mut known).unwrap());
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
                &Known::default(),
                &mut known
            )
            .unwrap()
        );
    }

    #[test]
    fn a_stale_version_keeps_what_was_known_of_it() {
        let body = |version: &str| {
            format!(
                r#"{{"kind":"APIGroupDiscoveryList","items":[{{"metadata":{{"name":"metrics.k8s.io"}},"versions":[{version}]}},
                {{"metadata":{{"name":"apps"}},"versions":null}}]}}"#
            )
        };
        let answered = r#"{"version":"v1","freshness":"Current","resources":[{"resource":"pods","responseKind":{"kind":"PodMetrics"},"scope":"Namespaced"}]}"#;
        let stale = r#"{"version":"v1","freshness":"Stale","resources":null}"#;
        let (mut known, mut later) = (Known::default(), Known::default());
        let (answered, stale) = (body(answered), body(stale));
        assert!(
            add_aggregated("/apis", answered.as_bytes(), &Known::default(), &mut known).unwrap()
        );
        assert!(known.failed.is_empty());
        assert!(add_aggregated("/apis", stale.as_bytes(), &known, &mut later).unwrap());
        let kind = GroupVersionKind::new("metrics.k8s.io", "v1", "PodMetrics");
        assert!(later.by_kind.contains_key(&kind));
        let error = &later.failed[&GroupVersion::of(&kind)];
        assert_eq!(
            error.message,
            "discovery of /apis/metrics.k8s.io/v1 fails: its API server does not answer the one that serves discovery"
        );
    }

    #[test]
    fn a_version_without_resources_may_say_null() {
        let list: ResourceList = parse(
            "/apis/a/v1",
            br#"{"kind":"APIResourceList","resources":null}"#,
        )
        .unwrap();
        assert!(list.resources.is_empty());
        let html = parse::<ResourceList>("/apis/a/v1", b"<html>").map(drop);
        let error = html.unwrap_err();
        assert!(
            error.message.starts_with("discovery of /apis/a/v1 fails: "),
            "{error}"
        );
    }
}
