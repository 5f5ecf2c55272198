//! What the user of a provider must be allowed. Only a real kcp has users.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::testenv::kcp::Client;

use super::shop::{ALL_MAPS, ALL_WIDGETS, DENIED, SLICES, Shop, WIDGETS, refused, widget};

/// A user without rights.
pub(super) const USER: &str = "provider";

const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";

pub(super) async fn a_provider_needs_three_rights(admin: &Client, user: &Client) -> Result<()> {
    let shop = Shop::open(admin, "rights").await?;
    let one = shop.consumer("one", true).await?;
    let slice = shop.provider.at(&format!("{SLICES}/things"));
    let paths = [
        slice.clone(),
        shop.all("apis"),
        shop.all(ALL_WIDGETS),
        shop.of(&one, ALL_WIDGETS),
    ];
    for path in &paths {
        refused(&user.get(path).await?, 403, DENIED).with_context(|| path.clone())?;
    }
    let rules = json!([
        {"apiGroups": ["apis.kcp.io"], "resources": ["apiexportendpointslices"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "resourceNames": ["things"], "verbs": ["*"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": USER}, "rules": rules});
    let path = shop.provider.at(&format!("{RBAC}/clusterroles"));
    admin.make(&path, &role).await?;
    let bindings = shop.provider.at(&format!("{RBAC}/clusterrolebindings"));
    admin.make(&bindings, &granted(USER)).await?;
    // Who may not enter the provider's workspace has no use of them.
    refused(&user.get(&slice).await?, 403, DENIED)?;
    let access = granted("system:kcp:workspace:access");
    admin.make(&bindings, &access).await?;

    for path in paths.iter().chain([&shop.all(ALL_MAPS)]) {
        let what = format!("{USER} to be let to {path}");
        eventually(DEADLINE, &what, || async {
            Ok(Seen::of(user.get(path).await?, |answer| answer.code == 200))
        })
        .await?;
    }
    let through = user.post(&shop.of(&one, WIDGETS), &widget("a")).await?;
    ensure!(through.code == 201, "{}", through.text);
    // Only there: the consumer's workspace itself stays closed.
    refused(&user.get(&one.at(WIDGETS)).await?, 403, DENIED)
}

/// Grants a ClusterRole to the user.
fn granted(role: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}]})
}
