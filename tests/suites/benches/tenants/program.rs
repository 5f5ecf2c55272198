//! The program at work on clusters that are simulated in the process that measures. Entry point: [`Running::start`].

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use windlass_apiserver::Server;
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;
use windlass_harness::http::Http;
use windlass_harness::program::Program;

/// More than anything takes that is waited for.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// The clusters, and the tenant of every reconciler.
const FLEET: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {name: fleet}\nspec:\n  \
     kubeconfigFiles: {paths: [./fleet.kubeconfig]}\n\
     ---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: bench}\n";

/// A program that runs in a folder of its own; it ends with this value.
pub(super) struct Running {
    folder: TempDir,
    pub(super) http: Http,
    pub(super) program: Program,
}

impl Running {
    /// Starts the program on the clusters that a server has now, with further documents. Files that those name have to be in the folder.
    pub(super) async fn start(folder: TempDir, server: &Server, documents: &str) -> Result<Self> {
        fs::write(folder.path().join("fleet.kubeconfig"), server.kubeconfig())?;
        configure(folder.path(), documents)?;
        let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
        let mut program = Program::start(folder.path(), args)?;
        let line = program.line_with("admin endpoints", SOON).await?;
        let line: Value = serde_json::from_str(&line)?;
        let address = line["address"].as_str().context("an address")?.to_owned();
        Ok(Self {
            folder,
            http: Http { address },
            program,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces the documents given at the start.
    pub(super) fn configure(&self, documents: &str) -> Result<()> {
        configure(self.path(), documents)
    }

    /// What `/api/v1` says of the first thing whose name ends so.
    pub(super) async fn item(&self, of: &str, name: &str) -> Result<Value> {
        let (_, all) = self.http.get(&format!("/api/v1/{of}")).await?;
        let all: Value = serde_json::from_str(&all)?;
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let named = |item: &Value| item["name"].as_str().is_some_and(|of| of.ends_with(name));
        Ok(items.into_iter().find(named).unwrap_or_default())
    }

    /// Waits until that holds.
    pub(super) async fn sees(
        &self,
        of: &str,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        eventually(SOON, name, || async {
            Ok(Seen::of(self.item(of, name).await?, &holds))
        })
        .await
        .map(drop)
    }
}

/// A reconciler of the tenant: its guest's file, the clusters that it is for, its rules' verbs on ConfigMaps, and further fields.
pub(super) fn reconciler(
    name: &str,
    guest: &Path,
    cluster: &str,
    verbs: &str,
    more: &str,
) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: {name}}}\nspec:\n  tenant: bench\n  \
         guest: {{path: {guest:?}}}\n  clusters: {{names: [\"*{cluster}\"]}}\n  \
         rules: [{{apiGroups: [\"\"], resources: [configmaps], verbs: [{verbs}], namespaces: [\"*\"]}}]\n  {more}\n"
    )
}

fn configure(folder: &Path, documents: &str) -> Result<()> {
    Ok(fs::write(
        folder.join("windlass.yaml"),
        format!("{FLEET}{documents}"),
    )?)
}
