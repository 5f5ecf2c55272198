//! A user's folder: documents, seeds, guests. Entry point: [`Project`].

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Grants what the hello guest needs.
pub(crate) const HELLO_RULES: &str = r#"[
      {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, patch], namespaces: ["*"]}]"#;

/// A folder that is gone when this is dropped.
pub(crate) struct Project {
    folder: TempDir,
}

impl Project {
    /// An empty folder.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            folder: TempDir::new().context("make a folder")?,
        })
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, with the folders it needs.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Writes `windlass.yaml`: a provider of the kubeconfigs in `clusters/`, a tenant, and these reconcilers.
    pub(crate) fn write_config(&self, reconcilers: &[String]) -> Result<PathBuf> {
        fs::create_dir_all(self.path().join("clusters"))?;
        let head = "\
apiVersion: windlass.dev/v1alpha1
kind: Provider
metadata: {name: fleet}
spec:
  kubeconfigFiles: {paths: [./clusters], globs: [\"*.kubeconfig\"]}
---
apiVersion: windlass.dev/v1alpha1
kind: Tenant
metadata: {name: team-a}
spec: {weight: 1, limits: {concurrency: 32}}
";
        self.write("windlass.yaml", format!("{head}{}", reconcilers.concat()))
    }

    /// A copy of the hello guest's source in `guest/`, to be edited. It builds into the guests' own target folder, so that
    /// what it depends on is built once; the name tells it apart there from the copies of other tests.
    pub(crate) fn copy_hello(&self, name: &str) -> Result<PathBuf> {
        let repository = windlass_harness::repository();
        let guests = repository.join("guests");
        let source = guests.join("hello");
        for file in ["src/lib.rs", "src/tests.rs"] {
            self.write(&format!("guest/{file}"), fs::read(source.join(file))?)?;
        }
        self.write("guest/Cargo.lock", fs::read(guests.join("Cargo.lock"))?)?;
        let profile = fs::read_to_string(guests.join("Cargo.toml"))?;
        let profile = profile
            .split_once("[profile.release]")
            .context("the guests have a release profile")?
            .1;
        let manifest = format!(
            "[package]\nname = \"edited-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n\
             [dependencies]\nwindlass-sdk = {{ path = {:?} }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n\n\
             [workspace]\n\n[profile.release]{profile}",
            repository.join("guest-sdk/rust"),
        );
        self.write("guest/Cargo.toml", manifest)?;
        let target = guests.join("target");
        self.write(
            "guest/.cargo/config.toml",
            format!("[build]\ntarget-dir = {target:?}\n"),
        )?;
        Ok(self.path().join("guest"))
    }
}

/// A reconciler document of tenant `team-a`.
pub(crate) fn reconciler(name: &str, guest: &Path) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: {name}}}\nspec:\n  tenant: team-a\n  \
         guest: {{path: {guest:?}}}\n  config: {{greeting: hello}}\n  rules: {HELLO_RULES}\n"
    )
}
