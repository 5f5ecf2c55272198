//! Kubeconfigs that name another server than before.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, ask, client_of, fleet, named, start, table};
use anyhow::Result;
use serde_json::Value as Json;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

async fn cluster(project: &Project, address: &str) -> Result<Json> {
    let clusters = ask(project, address, &["get", "clusters"]).await?;
    Ok(clusters["items"][0].clone())
}

#[tokio::test]
async fn a_server_that_does_not_come_is_shown_while_the_one_before_goes_on_or_stops() -> Result<()>
{
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let server = fleet(&project, &["alpha"]).await?;
    let alpha = client_of(&project, "alpha").await?;
    let (_program, address) = start(&project).await?;
    let http = Http {
        address: address.clone(),
    };
    alpha.ask("a", "world").await?;
    alpha.expect_greeted("a").await?;
    let pending = "windlass_cluster_replacement_pending";
    let series = http.series(pending).await?;
    assert!(series.iter().all(|(_, value)| *value == 0.0), "{series:?}");

    let moved = server.kubeconfig().replace(&server.url("alpha"), NOWHERE);
    project.write("clusters/fleet.kubeconfig", moved)?;
    let shown = eventually(SOON, "a server that waits to take over", || async {
        let shown = cluster(&project, &address).await?;
        Ok(Seen::of(shown, |shown| {
            let reason = shown["replacement"]["reason"].as_str().unwrap_or_default();
            reason.contains("refused")
        }))
    })
    .await?;
    assert_eq!(shown["state"], "Ready", "{shown}");
    assert_eq!(shown["replacement"]["server"], format!("{NOWHERE}/"));
    let rows = table(&project, &address, &["get", "clusters"]).await?;
    let reason = rows[0].get("REASON").cloned().unwrap_or_default();
    assert!(
        reason.contains("this server is still used: the kubeconfig names http://127.0.0.1:1/ now, which is Connecting: "),
        "{reason}"
    );
    let series = http.series(pending).await?;
    let of = format!("cluster=\"{}\"", named("alpha"));
    assert!(
        series
            .iter()
            .any(|(labels, value)| labels.contains(&of) && *value == 1.0),
        "{series:?}"
    );
    // The server before is reconciled meanwhile.
    alpha.ask("b", "world").await?;
    alpha.expect_greeted("b").await?;

    // An operator who does not want that says so.
    let text = std::fs::read_to_string(project.path().join("windlass.yaml"))?;
    let stops = text.replace(
        "  kubeconfigFiles: {",
        "  onServerChange: stop\n  kubeconfigFiles: {",
    );
    project.write("windlass.yaml", stops)?;
    eventually(SOON, "the server before to be left", || async {
        let shown = cluster(&project, &address).await?;
        Ok(Seen::of(shown, |shown| {
            shown["state"] == "Connecting"
                && shown["server"] == format!("{NOWHERE}/")
                && shown["replacement"].is_null()
        }))
    })
    .await?;
    eventually(SOON, "its watches to end", || async {
        let watchers = server.cluster("alpha").map(|alpha| alpha.watchers());
        Ok(Seen::of(watchers, |watchers| *watchers == Some(0)))
    })
    .await?;
    Ok(())
}
