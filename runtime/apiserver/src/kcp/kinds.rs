//! The kinds that a workspace serves from the beginning: [`base`], some built-in ones and those of kcp itself.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::builtin::builtin;
use crate::crd;
use crate::resource::{CollectionId, Resource};

pub(crate) const APIS: &str = "apis.kcp.io";
pub(crate) const CORE: &str = "core.kcp.io";
pub(crate) const TENANCY: &str = "tenancy.kcp.io";

/// Groups of built-in kinds that a workspace serves whole.
const GROUPS: [&str; 6] = [
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "rbac.authorization.k8s.io",
];
/// Core kinds that a workspace serves: those that need no node.
const PLURALS: [&str; 7] = [
    "configmaps",
    "events",
    "limitranges",
    "namespaces",
    "resourcequotas",
    "secrets",
    "serviceaccounts",
];

/// What every workspace serves.
pub(crate) fn base() -> Arc<[Arc<Resource>]> {
    static BASE: LazyLock<Arc<[Arc<Resource>]>> = LazyLock::new(|| load().into());
    BASE.clone()
}

/// Every version of one of these kinds.
pub(crate) fn versions(group: &str, plural: &str) -> Vec<Arc<Resource>> {
    base()
        .iter()
        .filter(|resource| resource.is(group, plural))
        .cloned()
        .collect()
}

/// Where objects of a kind of kcp are kept.
pub(crate) fn collection(group: &str, plural: &str) -> CollectionId {
    CollectionId {
        group: group.into(),
        plural: plural.into(),
        identity: "".into(),
    }
}

fn load() -> Vec<Arc<Resource>> {
    let served = |resource: &&Arc<Resource>| {
        GROUPS.contains(&resource.group.as_str())
            || resource.group.is_empty() && PLURALS.contains(&resource.plural.as_str())
    };
    let mut all: Vec<Arc<Resource>> = builtin().resources.iter().filter(served).cloned().collect();
    let one = ["v1alpha1"].as_slice();
    // The last version is the one that objects are kept in.
    let both = ["v1alpha1", "v1alpha2"].as_slice();
    let kinds = [
        definition(
            APIS,
            "apiresourceschemas",
            "APIResourceSchema",
            one,
            &json!({"type": "object"}),
        ),
        definition(APIS, "apiexports", "APIExport", both, &export()),
        definition(APIS, "apibindings", "APIBinding", both, &binding()),
        definition(
            APIS,
            "apiexportendpointslices",
            "APIExportEndpointSlice",
            one,
            &slice(),
        ),
        definition(CORE, "logicalclusters", "LogicalCluster", one, &free()),
        definition(CORE, "shards", "Shard", one, &free()),
        definition(TENANCY, "workspaces", "Workspace", one, &free()),
        definition(TENANCY, "workspacetypes", "WorkspaceType", one, &free()),
    ];
    all.extend(kinds.iter().flat_map(|kind| crd::resources(kind, "")));
    all
}

/// A definition as a CRD has it: cluster-scoped, with a status.
fn definition(group: &str, plural: &str, kind: &str, versions: &[&str], spec: &Value) -> Value {
    let last = versions.last();
    let conditions = json!({"type": "array", "items": free(), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]});
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let mut spec = spec.clone();
            // What the kinds have beside what is told here is kept as it comes.
            spec["x-kubernetes-preserve-unknown-fields"] = true.into();
            let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"conditions": conditions}});
            let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
            json!({"name": version, "served": true, "storage": Some(version) == last,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}})
        })
        .collect();
    let names = json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(), "categories": ["kcp"]});
    json!({"spec": {"group": group, "scope": "Cluster", "names": names, "versions": versions}})
}

fn free() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn text() -> Value {
    json!({"type": "string"})
}

/// A list that server-side apply merges by `keys`, of objects that need `required`.
fn list(keys: &[&str], required: &[&str]) -> Value {
    let mut item = free();
    item["required"] = json!(required);
    let keyed: serde_json::Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), text())).collect();
    item["properties"] = keyed.into();
    json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
}

fn export() -> Value {
    json!({"type": "object", "properties": {"resources": list(&["name", "group"], &["name", "group", "schema"])}})
}

fn reference() -> Value {
    let export = json!({"type": "object", "required": ["name"], "properties": {"name": text(), "path": text()}});
    json!({"type": "object", "properties": {"export": export}})
}

fn binding() -> Value {
    json!({"type": "object", "required": ["reference"], "properties": {"reference": reference()}})
}

fn slice() -> Value {
    let mut spec = reference();
    spec["required"] = json!(["export"]);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_serves_kinds_of_kcp_and_none_that_needs_a_node() {
        let kept = versions(APIS, "apibindings");
        let names: Vec<&str> = kept.iter().map(|one| one.version.as_str()).collect();
        assert_eq!(names, ["v1alpha2", "v1alpha1"]);
        assert!(kept.iter().all(|one| one.storage_version == "v1alpha2"));
        assert!(versions("", "configmaps").len() == 1 && versions("", "pods").is_empty());
    }
}
