//! The roles of a process that reads objects of the local cluster, and of the people who write these. Entry point: [`cluster_roles`].

use super::Subject;
use super::manifest::binding;
use serde_json::{Value as Json, json};

const API: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "windlass.dev";
const READ: [&str; 3] = ["get", "list", "watch"];
/// Of the process: it writes the annotations of pauses.
const OWN: [&str; 3] = ["list", "watch", "patch"];
const WATCH: [&str; 2] = ["list", "watch"];
const WRITE: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// The ClusterRoles, and with a subject the binding of the process's.
///
/// * `windlass-admin`, for the platform's team: everything of all three kinds.
/// * `windlass-edit` and `windlass-view`, for teams: a part of the roles admin, edit and view that clusters have. They are about Reconcilers,
///   because the other two kinds say what teams may do.
/// * `name`, for the process itself.
/// * `<name>-config`, for the process in the namespaces whose Reconcilers have `configFrom`.
pub(crate) fn cluster_roles(name: &str, bind: Option<&Subject>) -> Vec<Json> {
    let kinds = ["providers", "tenants", "reconcilers"];
    let everything: Vec<&str> = READ.into_iter().chain(WRITE).collect();
    let status = kinds.map(|kind| format!("{kind}/status"));
    let own = [rule(GROUP, &["reconcilers"], &everything)];
    let seen = [rule(GROUP, &["reconcilers", "reconcilers/status"], &READ)];
    let mut manifests = vec![
        role("windlass-admin", &[], &[rule(GROUP, &kinds, &everything)]),
        role("windlass-edit", &["admin", "edit"], &own),
        role("windlass-view", &["admin", "edit", "view"], &seen),
        role(
            name,
            &[],
            &[
                rule(GROUP, &kinds, &OWN),
                // Pauses of its clusters stand in one annotation, which is read before it is changed.
                rule(GROUP, &["providers"], &["get"]),
                rule(GROUP, &status.each_ref().map(String::as_str), &["patch"]),
                rule("", &["namespaces"], &READ),
                rule("", &["events"], &["create", "patch"]),
                rule(
                    "apiextensions.k8s.io",
                    &["customresourcedefinitions"],
                    &WATCH,
                ),
            ],
        ),
    ];
    manifests.extend(bind.map(|subject| binding(name, subject)));
    let secrets = rule("", &["secrets"], &READ);
    let values = rule("", &["configmaps"], &WATCH);
    manifests.push(role(&format!("{name}-config"), &[], &[secrets, values]));
    manifests
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Json {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// A ClusterRole that is a part of the roles with these names.
fn role(name: &str, part_of: &[&str], rules: &[Json]) -> Json {
    let mut metadata = json!({"name": name});
    for whole in part_of {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{whole}");
        metadata["labels"][label] = "true".into();
    }
    json!({"apiVersion": API, "kind": "ClusterRole", "metadata": metadata, "rules": rules})
}
