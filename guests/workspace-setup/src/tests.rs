//! Tests of the guest, in clusters in memory.

use super::*;
use windlass_sdk::testing::{TestCluster, TestFleet, Verb};

const KEY: &str = "cluster";

fn logical_cluster(status: &Value, deleted: bool) -> Value {
    let mut object = json!({
        "apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster",
        "metadata": {"name": KEY, "annotations": {NAME: "1x2y3z", PATH: "root:blue"}},
        "status": status,
    });
    if deleted {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["metadata"]["finalizers"] = json!(["kcp.io/has-terminators"]);
    }
    object
}

/// The local cluster, and a workspace.
fn stage(status: &Value, deleted: bool) -> (TestCluster, TestCluster) {
    let fleet = TestFleet::new().config(&json!({"type": "team", "register": "workspaces", "objects": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "apps", "name": "small"},
            "spec": {"hard": {"count/configmaps": "10"}}}]}));
    let (local, workspace) = (fleet.cluster(""), fleet.cluster("new#1x2y3z"));
    local.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "workspaces"}}));
    workspace.put(logical_cluster(status, deleted));
    (local, workspace)
}

fn key() -> ObjectKey {
    ObjectKey::cluster_scoped(KEY)
}

fn registered(local: &TestCluster) -> Option<ConfigMap> {
    local.object(&ObjectKey::namespaced("workspaces", "1x2y3z"))
}

#[test]
fn a_new_workspace_is_filled_and_registered_and_goes_on() {
    let (local, workspace) = stage(
        &json!({"initializers": ["root:universal", "abc:team"]}),
        false,
    );
    assert_eq!(workspace.reconcile::<Setup>(&key()), Ok(Action::Done));
    let kinds: Vec<_> = workspace
        .objects()
        .iter()
        .filter_map(|it| it.text_at("/kind").map(str::to_owned))
        .collect();
    assert!(kinds.contains(&"Namespace".to_owned()) && kinds.contains(&"ResourceQuota".to_owned()));
    assert_eq!(registered(&local).unwrap().data["path"], "root:blue");
    let cluster: LogicalCluster = workspace.object(&key()).unwrap();
    assert_eq!(cluster.status.initializers, ["root:universal"]);
    assert_eq!(workspace.reconciled_writes::<Setup>(&key()), Ok(0));
}

#[test]
fn a_workspace_that_cannot_be_filled_waits() {
    let (local, workspace) = stage(&json!({"initializers": ["abc:team"]}), false);
    let refused = ApiError::new(ApiCode::Forbidden, "no");
    workspace.fail_next(Verb::Apply, refused);
    assert!(workspace.reconcile::<Setup>(&key()).is_err());
    assert!(registered(&local).is_none());
    let cluster: LogicalCluster = workspace.object(&key()).unwrap();
    assert_eq!(cluster.status.initializers, ["abc:team"]);
}

#[test]
fn a_deleted_workspace_leaves_the_register_and_goes() {
    let (local, workspace) = stage(
        &json!({"initializers": ["abc:team"], "terminators": ["abc:team", "abc:team-b"]}),
        true,
    );
    local.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "workspaces", "name": "1x2y3z"}}));
    assert_eq!(workspace.reconcile::<Setup>(&key()), Ok(Action::Done));
    assert!(registered(&local).is_none());
    let cluster: LogicalCluster = workspace.object(&key()).unwrap();
    assert_eq!(cluster.status.terminators, ["abc:team-b"]);
    assert_eq!(
        cluster.status.initializers,
        ["abc:team"],
        "nobody begins in what ends"
    );
}
