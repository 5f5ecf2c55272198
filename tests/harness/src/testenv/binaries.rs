//! The programs that `tests/testenv/build` made. Entry point: [`Binaries::find`].

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// A complete set of real servers, built from the pinned sources.
#[derive(Clone, Debug)]
pub struct Binaries {
    // Named by the digest of go.sum. It exists only when it is complete.
    folder: PathBuf,
}

impl Binaries {
    /// Finds the folder with the programs that were built from the pinned sources.
    ///
    /// # Errors
    /// When they have not been built; the message names the script to run.
    pub fn find() -> Result<Self> {
        let root = crate::repository();
        let sums = root.join("tests/testenv/kube/go.sum");
        let text = std::fs::read(&sums).with_context(|| format!("read {}", sums.display()))?;
        let digest: String = Sha256::digest(&text)
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let folder = root.join("target/testenv").join(digest);
        if !folder.is_dir() {
            bail!(
                "the real servers are not built ({} is missing): run tests/testenv/build",
                folder.display()
            );
        }
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
