//! What is served, for clients that ask: discovery (legacy and aggregated), version, health. Entry point: [`serve`].

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::accept::{aggregated, view};
use super::{Answer, Routed, json, openapi, raw};
use crate::registry::Registry;
use crate::resource::{Resource, api_version};
use crate::status::ApiError;

pub(super) fn serve(request: &Routed) -> Result<Answer, ApiError> {
    if request.call.method != "GET" && request.call.method != "HEAD" {
        return Err(ApiError::method_not_allowed());
    }
    let parts: Vec<&str> = request
        .call
        .path
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let registry = |look: &dyn Fn(&Registry) -> Option<Value>| request.registry(look);
    let mut wanted = aggregated(&request.accept);
    // A kcp has the plain kind of discovery alone.
    if wanted.is_some() && request.is_of_kcp() {
        view(&request.accept)?;
        wanted = None;
    }
    let found = match parts.as_slice() {
        [] => Some(
            json!({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}),
        ),
        ["version"] => Some(version()),
        ["healthz" | "livez" | "readyz", ..] => {
            return Ok(raw(
                200,
                "text/plain; charset=utf-8",
                Bytes::from_static(b"ok"),
            ));
        }
        ["openapi", rest @ ..] => return openapi::serve(request, rest),
        ["api"] if wanted.is_some() => return Ok(aggregate(request, true, wanted.unwrap_or("v2"))),
        ["apis"] if wanted.is_some() => {
            return Ok(aggregate(request, false, wanted.unwrap_or("v2")));
        }
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]})),
        ["apis"] => registry(&|registry| {
            let groups: Vec<Value> = registry
                .groups()
                .into_iter()
                .map(|name| group(registry, name))
                .collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }),
        ["api", version] => registry(&|registry| resources(registry, "", version)),
        ["apis", name] => registry(&|registry| {
            registry.groups().contains(name).then(|| {
                let mut found = group(registry, name);
                found["kind"] = "APIGroup".into();
                found["apiVersion"] = "v1".into();
                found
            })
        }),
        ["apis", name, version] => registry(&|registry| resources(registry, name, version)),
        _ => None,
    };
    if found.is_none() && parts.first() == Some(&"api") {
        return Err(ApiError::no_such_resource());
    }
    found.map_or_else(
        || Ok(super::page_not_found()),
        |value| Ok(json(200, &value)),
    )
}

fn version() -> Value {
    json!({"major": "1", "minor": "36", "gitVersion": "v1.36.1+windlass", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "in-memory"})
}

fn group(registry: &Registry, name: &str) -> Value {
    let versions: Vec<Value> = registry
        .versions(name)
        .into_iter()
        .map(|version| json!({"groupVersion": api_version(name, version), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn in_version<'r>(
    registry: &'r Registry,
    group: &'r str,
    version: &'r str,
) -> impl Iterator<Item = &'r Arc<Resource>> {
    registry
        .all()
        .filter(move |resource| resource.group == group && resource.version == version)
}

fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let list: Vec<Value> = in_version(registry, group, version)
        .flat_map(|resource| legacy(resource))
        .collect();
    if list.is_empty() {
        return None;
    }
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version), "resources": list}),
    )
}

fn legacy(resource: &Resource) -> Vec<Value> {
    let mut main = json!({"name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs});
    optional_lists(&mut main, resource);
    let entry = |sub: Sub<'_>| {
        let mut entry = json!({"name": format!("{}/{}", resource.plural, sub.name), "singularName": "", "namespaced": resource.namespaced,
            "kind": sub.kind, "verbs": sub.verbs});
        if (sub.group, sub.version) != (&*resource.group, &*resource.version) {
            entry["group"] = sub.group.into();
            entry["version"] = sub.version.into();
        }
        entry
    };
    let mut all = vec![main];
    all.extend(subresources(resource).into_iter().map(entry));
    all
}

/// A subresource, as discovery shows it.
struct Sub<'r> {
    name: &'r str,
    group: &'r str,
    version: &'r str,
    kind: &'r str,
    verbs: Vec<&'r str>,
}

/// All subresources by name.
fn subresources(resource: &Resource) -> Vec<Sub<'_>> {
    let written = |name, (group, version, kind)| Sub {
        name,
        group,
        version,
        kind,
        verbs: vec!["get", "patch", "update"],
    };
    let own = (&*resource.group, &*resource.version, &*resource.kind);
    let scale = resource.scale.as_ref();
    let scale = scale.map(|_| written("scale", ("autoscaling", "v1", "Scale")));
    let status = resource.status.then(|| written("status", own));
    let others = resource.subresources.iter().map(|sub| Sub {
        name: &sub.name,
        group: &sub.kind.group,
        version: &sub.kind.version,
        kind: &sub.kind.kind,
        verbs: sub.verbs.iter().map(String::as_str).collect(),
    });
    let mut all: Vec<Sub<'_>> = scale.into_iter().chain(status).chain(others).collect();
    all.sort_by_key(|sub| sub.name);
    all
}

fn optional_lists(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
}

fn aggregate(request: &Routed, core: bool, form: &'static str) -> Answer {
    let items: Vec<Value> = request.registry(|registry| {
        let groups = if core { vec![""] } else { registry.groups() };
        groups
            .into_iter()
            .map(|name| aggregated_group(registry, name))
            .collect()
    });
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{form}"), "metadata": {}, "items": items});
    let media_type = if form == "v2" {
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    } else {
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    };
    raw(200, media_type, list.to_string())
}

fn aggregated_group(registry: &Registry, name: &str) -> Value {
    let version = |version: &str| {
        let list: Vec<Value> = in_version(registry, name, version)
            .map(|resource| aggregated_resource(resource))
            .collect();
        json!({"version": version, "freshness": "Current", "resources": list})
    };
    let versions: Vec<Value> = registry.versions(name).into_iter().map(version).collect();
    let metadata = if name.is_empty() {
        json!({})
    } else {
        json!({ "name": name })
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = kind(&resource.group, &resource.version, &resource.kind);
    let mut entry = json!({"resource": resource.plural, "responseKind": own, "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs});
    optional_lists(&mut entry, resource);
    let subresources: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|sub| json!({"subresource": sub.name, "responseKind": kind(sub.group, sub.version, sub.kind), "verbs": sub.verbs}))
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}
