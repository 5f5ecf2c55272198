//! What Windlass relies on of kcp, asked of a real one.

use anyhow::{Result, ensure};
use serde_json::json;
use windlass_harness::testenv::{self, Kcp};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_kcp_comes_back_with_what_it_acknowledged() -> Result<()> {
    if !testenv::enabled("a killed kcp comes back with what it acknowledged") {
        return Ok(());
    }
    let kcp = Kcp::start(&["stranger"]).await?;
    let client = kcp.client().await?;
    let workspace = client.workspace("root", "kept").await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}});
    let maps = workspace.at("api/v1/namespaces/default/configmaps");
    client.make(&maps, &map).await?;
    ensure!(kcp.resident()? > 100 << 20, "kcp takes half a gigabyte");

    kcp.restart().await?;
    client.get(&format!("{maps}/kept")).await?.ok()?;

    let stranger = kcp.client_of("stranger").await?;
    let refused = stranger.get(&maps).await?;
    ensure!(refused.code == 403, "{}", refused.text);
    Ok(())
}
