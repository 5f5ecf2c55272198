//! The program `kind` over a stand-in for its container runtime. Entry point: [`Kind::start`].

use super::Server;
use super::binaries::made_from;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A machine with `kind` and a container runtime, whose clusters are API servers of the test.
#[derive(Debug)]
pub struct Kind {
    home: TempDir,
}

impl Kind {
    /// A machine without clusters.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run, or the files cannot be written.
    pub fn start() -> Result<Self> {
        let kind = made_from("kind")?.join("kind");
        let home = tempfile::Builder::new()
            .prefix("windlass-kind-")
            .tempdir()
            .context("create a folder for kind")?;
        let machine = Self { home };
        for folder in ["bin", "clusters"] {
            fs::create_dir(machine.at(folder))?;
        }
        // The stand-in finds its clusters from where it lies.
        let docker = crate::repository().join("tests/testenv/kind/docker");
        fs::copy(&docker, machine.at("bin/docker")).context("copy the stand-in for docker")?;
        // Finds that docker, and no runtime of the machine that the test runs on.
        let script = format!(
            "#!/bin/sh\nPATH={}:/usr/bin:/bin exec {} \"$@\"\n",
            machine.at("bin").display(),
            kind.display()
        );
        let program = machine.program();
        fs::write(&program, script)?;
        fs::set_permissions(&program, fs::metadata(&docker)?.permissions())?;
        Ok(machine)
    }

    /// The program. It needs no variable of the environment.
    pub fn program(&self) -> PathBuf {
        self.at("bin/kind")
    }

    /// Makes a cluster of a server, or makes it anew of another.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn put(&self, cluster: &str, server: &Server) -> Result<()> {
        let url = server.url();
        let endpoint = url
            .strip_prefix("https://")
            .and_then(|address| address.rsplit_once(':'))
            .map(|(host, port)| format!("{host}\t{port}\n"))
            .context("a server's URL has a host and a port")?;
        // A cluster is there at once and whole.
        let folder = self.at("clusters").join(cluster);
        let next = self.at(&format!("next-{cluster}"));
        fs::create_dir(&next)?;
        fs::write(next.join("endpoint"), endpoint)?;
        fs::write(next.join("admin.conf"), server.kubeconfig())?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::rename(next, folder).context("put a cluster in its place")
    }

    /// Deletes a cluster.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn delete(&self, cluster: &str) -> Result<()> {
        fs::remove_dir_all(self.at("clusters").join(cluster))
            .with_context(|| format!("delete the kind cluster {cluster}"))
    }

    /// Makes a cluster whose kubeconfig cannot be used.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn put_damaged(&self, cluster: &str) -> Result<()> {
        let next = self.at(&format!("next-{cluster}"));
        fs::create_dir(&next)?;
        fs::write(next.join("admin.conf"), "{")?;
        fs::rename(next, self.at("clusters").join(cluster)).context("put a cluster in its place")
    }

    /// Whether the container runtime's daemon answers.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_runtime(&self, answers: bool) -> Result<()> {
        let down = self.at("down");
        if answers {
            fs::remove_file(down).context("have the runtime answer")
        } else {
            fs::write(down, "").context("have the runtime not answer")
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        let home: &Path = self.home.path();
        home.join(path)
    }
}
