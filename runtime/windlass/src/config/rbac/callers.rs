//! Roles for callers of the admin API. Entry points: [`callers`] and [`nonresource_url`].

use super::manifest::GROUP;
use serde_json::{Value as Json, json};

/// The `nonResourceURL` that rights to a path of the admin endpoints are about. Every user of a cluster may `get` `/api/*`, because
/// discovery is there, so the API's paths have a word before them.
pub(crate) fn nonresource_url(path: &str) -> String {
    if path.starts_with("/api/") {
        format!("/windlass{path}")
    } else {
        path.to_owned()
    }
}

/// ClusterRoles for callers: `NAME-view` reads, `NAME-edit` changes something and reads recordings as well, and `NAME-proxy`, which is to be bound in the
/// manager's namespace, finds the process to call by Leases, calls it through the API server, and makes tokens of service accounts.
pub(crate) fn callers(name: &str) -> Vec<Json> {
    let read =
        json!({"nonResourceURLs": [nonresource_url("/api/v1/*"), "/metrics"], "verbs": ["get"]});
    // The contents of objects, which recordings hold.
    let contents =
        json!({"nonResourceURLs": [nonresource_url("/api/contents/v1/*")], "verbs": ["get"]});
    let change = [
        "drain", "pause", "record", "release", "requeue", "resume", "rollback",
    ];
    let change = change.map(|what| nonresource_url(&format!("/api/v1/{what}")));
    let change = json!({"nonResourceURLs": change, "verbs": ["post"]});
    let resources = |group: &str, resources: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resources], "verbs": verbs});
    let proxy = [
        resources("coordination.k8s.io", "leases", &["get", "list"]),
        resources("", "pods/proxy", &["get", "create"]),
        resources("", "serviceaccounts/token", &["create"]),
    ];
    let roles = [
        ("view", json!([read])),
        ("edit", json!([read, contents, change])),
        ("proxy", json!(proxy)),
    ];
    let manifests = roles.into_iter().map(|(what, rules)| {
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole",
            "metadata": {"name": format!("{name}-{what}")}, "rules": rules,
        })
    });
    manifests.collect()
}
