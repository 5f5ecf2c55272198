//! The shipped program as a subject: `windlass run` with a configuration as users write it, and the guest `echo`. Entry points:
//! [`start`] and [`settled`].

use super::subject::PATIENCE;
use super::work::Given;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::path::Path;
use std::time::Instant;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::http::Http;
use windlass_harness::program::{Program, binary};

const FILE: &str = "windlass.yaml";

/// Builds the program and its guest, unless they are there. A start that is measured must not do that.
pub(super) fn prepare() -> Result<()> {
    guest("echo");
    binary().map(drop)
}

/// Starts the program on the clusters, and returns when that was. The folder keeps what it has compiled for the next start.
pub(super) fn start(given: &Given, folder: &Path) -> Result<(Instant, Program)> {
    std::fs::write(folder.join(FILE), configuration(given)).context("write a configuration")?;
    // The user's own folder of compiled guests is not for benches, and in it the first start would find its guest.
    let cache = folder.join("cache");
    let cache = cache.to_str().context("a folder's name")?;
    let started = Instant::now();
    let program = Program::start(folder, ["run", "-f", FILE, "--cache", cache])?;
    Ok((started, program))
}

fn configuration(given: &Given) -> String {
    let (guest, slots) = (guest("echo"), given.slots);
    let clusters = match &given.provider {
        Some(workspace) => {
            let slice = workspace.file_stem().unwrap_or_default();
            format!(
                "kcp:\n    from: {{kubeconfig: {workspace:?}}}\n    apiExport: {{endpointSlice: {slice:?}}}"
            )
        }
        None => {
            let files = &given.kubeconfigs;
            format!("kubeconfigFiles: {{paths: {files:?}, name: \"{{file}}\"}}")
        }
    };
    let documents = [
        "kind: Manager\nmetadata: {name: manager}\nspec:\n  admin: {address: \"127.0.0.1:0\"}\n"
            .to_owned(),
        format!("kind: Provider\nmetadata: {{name: clusters}}\nspec:\n  {clusters}\n"),
        "kind: Tenant\nmetadata: {name: bench}\n".to_owned(),
        format!(
            "kind: Reconciler\nmetadata: {{name: echo}}\nspec:\n  tenant: bench\n  guest: {{path: {guest:?}}}\n  rules:\n  \
             - {{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, patch], namespaces: [\"*\"]}}\n  \
             limits: {{concurrencyPerCluster: {slots}}}\n"
        ),
    ];
    let documents =
        documents.map(|document| format!("apiVersion: windlass.dev/v1alpha1\n{document}"));
    documents.join("---\n")
}

/// Waits until the program reports that every cluster is ready, every object was reconciled, and nothing is left to do.
pub(super) async fn settled(program: &mut Program, given: &Given) -> Result<()> {
    let line = program.line_with("admin endpoints", PATIENCE).await?;
    let line: Value = serde_json::from_str(&line)?;
    let address = line["address"].as_str().context("an address")?.to_owned();
    let http = Http { address };
    let clusters = given.kubeconfigs.len();
    let objects = (clusters * given.objects) as u64;
    eventually(PATIENCE, "the program to have nothing to do", || async {
        let echo = items(&http, "reconcilers").await?;
        let number = |of: &str| echo.first().and_then(|echo| echo[of].as_u64()).unwrap_or(0);
        let left = number("ready") + number("running") + number("backoff");
        let done = number("succeeded");
        if left > 0 || done < objects {
            return Ok(Seen::NotYet(format!("{done} reconciles, {left} keys left")));
        }
        // Echoes bring their sources back, so that few clusters may have as many reconciles as all have objects.
        let all = items(&http, "clusters").await?;
        let ready = all.iter().filter(|cluster| cluster["state"] == "Ready");
        Ok(Seen::of(ready.count(), |ready| *ready == clusters))
    })
    .await
    .map(drop)
}

async fn items(http: &Http, of: &str) -> Result<Vec<Value>> {
    let (_, list) = http.get(&format!("/api/v1/{of}")).await?;
    let list: Value = serde_json::from_str(&list)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}
