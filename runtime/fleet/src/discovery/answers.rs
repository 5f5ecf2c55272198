//! The answers of a server about what it serves. Entry points: [`load_core`], [`load_groups`] and [`add_group_version`].

use super::Known;
use crate::api::{ApiCode, ApiError};
use crate::http::status::error_for_status;
use crate::http::transport::{Call, Connection, JSON};
use serde::Deserialize;
use std::sync::Arc;

/// Asks for all groups of an API in one answer (KEP-3352). A server without such answers gives its usual one.
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

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

/// Adds the resources of the core group.
pub(super) async fn load_core(connection: &Connection, known: &mut Known) -> Result<(), ApiError> {
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

/// Adds the resources of all other groups.
pub(super) async fn load_groups(
    connection: &Connection,
    known: &mut Known,
) -> Result<(), ApiError> {
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

/// Adds the resources of one version of a group.
pub(super) async fn add_group_version(
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
    use crate::kind::{GroupKind, GroupVersionKind};

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
}
