//! The programs that `tests/testenv/build` made. Entry point: [`Binaries::find`].

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// A complete set of real servers, built from the pinned sources.
#[derive(Clone, Debug)]
pub struct Binaries {
    // It exists only when it is complete.
    folder: PathBuf,
}

impl Binaries {
    /// Finds the folder with the programs that were built from the pinned sources.
    ///
    /// # Errors
    /// When they have not been built; the message names the script to run.
    pub fn find() -> Result<Self> {
        let folder = made_from("kube")?;
        Ok(Self { folder })
    }

    /// `kubectl`, of the servers' version.
    pub fn kubectl(&self) -> PathBuf {
        self.folder.join("kubectl")
    }

    pub(crate) fn etcd(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    pub(crate) fn kube_apiserver(&self) -> PathBuf {
        self.folder.join("kube-apiserver")
    }

    pub(crate) fn kube_controller_manager(&self) -> PathBuf {
        self.folder.join("kube-controller-manager")
    }

    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.folder.join("service-account.key")
    }
}

/// What `tests/testenv/build` made of one of the folders beside it.
pub(crate) fn made_from(folder: &str) -> Result<PathBuf> {
    let root = crate::repository();
    let sources = root.join("tests/testenv").join(folder);
    let made = root.join("target/testenv").join(digest(&sources)?);
    if !made.is_dir() {
        bail!(
            "what tests/testenv/{folder} pins is not built ({} is missing): run tests/testenv/build {folder}",
            made.display()
        );
    }
    Ok(made)
}

/// Of the folder's pinned sums, and of the program beside them, if there is one.
fn digest(folder: &Path) -> Result<String> {
    let read = |file: &str| {
        let file = folder.join(file);
        std::fs::read(&file).with_context(|| format!("read {}", file.display()))
    };
    let mut digest = Sha256::new_with_prefix(read("go.sum")?);
    if folder.join("main.go").exists() {
        digest.update(read("main.go")?);
    }
    let bytes = digest.finalize();
    let hex = bytes.iter().take(8).map(|byte| format!("{byte:02x}"));
    Ok(hex.collect())
}
