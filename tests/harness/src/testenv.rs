//! Real servers on free ports of this machine. Entry points: [`Environment::start`] for `etcd` and `kube-apiserver`s, [`Kcp::start`].
//!
//! The binaries come from `tests/testenv/build`. A test that needs them says `#[ignore = "needs real servers"]`.
//!
//! Everything started here ends with the [`Environment`] or [`Kcp`], or with the test process, however that ends.

mod binaries;
pub mod collector;
mod controller_runtime;
pub mod cosign;
pub mod crds;
mod etcd;
mod helm;
pub mod kcp;
pub mod kind;
mod kubelet;
mod mcr;
mod mongodb;
mod port;
mod process;
pub mod real_proxy;
pub mod real_registry;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use tempfile::TempDir;

pub use binaries::Binaries;
pub use controller_runtime::controller_runtime;
pub use etcd::Snapshot;
pub use helm::helm;
pub use kcp::Kcp;
pub use kubelet::Kubelet;
pub use mcr::mcr;
pub use mongodb::MongoOperator;
pub use port::free as free_port;
pub use server::{Server, Spec};

use etcd::Etcd;

/// Attempts to start a process: another process may take its ports first.
const ATTEMPTS: usize = 3;

/// Real API servers that share one etcd, each with its own objects. They stop when this is dropped.
#[derive(Debug)]
pub struct Environment {
    servers: BTreeMap<String, Server>,
    binaries: Binaries,
    // Fields are dropped in this order: etcd after the servers, the folder last.
    etcd: Etcd,
    folder: Arc<Folder>,
}

impl Environment {
    /// Starts an etcd and one API server for each spec, all at the same time, and waits until all are ready (about 3 s).
    ///
    /// # Errors
    /// When the binaries are missing or a process ends or is not ready within a minute; the error shows the end of its log.
    pub async fn start(specs: impl IntoIterator<Item = Spec>) -> Result<Self> {
        let binaries = Binaries::find()?;
        let folder = Arc::new(Folder::create()?);
        let etcd = Etcd::start(binaries.etcd(), folder.path()).await?;
        let etcd_url = etcd.url();
        let starts = specs
            .into_iter()
            .map(|spec| Server::start(spec, &binaries, &etcd_url, Arc::clone(&folder)));
        let mut servers = BTreeMap::new();
        for server in futures::future::try_join_all(starts).await? {
            let name = server.name().to_owned();
            if servers.insert(name.clone(), server).is_some() {
                bail!("two servers are called {name:?}");
            }
        }
        Ok(Self {
            servers,
            binaries,
            etcd,
            folder,
        })
    }

    /// The server of that name.
    ///
    /// # Panics
    /// When no spec had that name.
    pub fn server(&self, name: &str) -> &Server {
        match self.servers.get(name) {
            Some(server) => server,
            None => panic!("no server is called {name:?}"),
        }
    }

    /// All servers, by name.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.values()
    }

    /// Compacts etcd to its newest revision, so that older versions cannot be read. A running API server may still have them in
    /// its cache; a restarted one does not.
    ///
    /// # Errors
    /// When etcd fails.
    pub async fn compact(&self) -> Result<()> {
        self.etcd.compact().await
    }

    /// Copies etcd's data, for [`Environment::restore`]. Etcd stops during the copy (a second or two). The API
    /// servers keep running; this returns when they are ready again.
    ///
    /// # Errors
    /// When the data cannot be copied, or etcd or a server is not ready in time.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        self.etcd.kill();
        let snapshot = self.etcd.copy_data();
        self.etcd.run().await?;
        for server in self.servers.values().filter(|server| server.is_running()) {
            server.ready().await?;
        }
        snapshot
    }

    /// Restores every server from a snapshot, as after the loss of etcd's data: kills the servers and etcd, replaces the data, and
    /// restarts etcd and the servers that were running, with the same URLs and certificates. Later objects are gone, and
    /// resource versions that were used since the snapshot are used again for other changes.
    ///
    /// # Errors
    /// When the data cannot be replaced, or etcd or a server is not ready in time.
    pub async fn restore(&self, snapshot: &Snapshot) -> Result<()> {
        let ran: Vec<&Server> = self
            .servers
            .values()
            .filter(|server| server.is_running())
            .collect();
        ran.iter().for_each(|server| server.kill());
        self.etcd.kill();
        self.etcd.replace_data(snapshot)?;
        self.etcd.run().await?;
        futures::future::try_join_all(ran.iter().map(|server| server.restart())).await?;
        Ok(())
    }

    /// The folder of the built programs, including `kubectl`.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// A folder for the test's own files; it is deleted with the environment.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// The temporary folder of an environment, with every process's files and log.
#[derive(Debug)]
pub(crate) struct Folder(Mutex<Option<TempDir>>, PathBuf);

impl Folder {
    fn create() -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("windlass-testenv-")
            .tempdir()
            .context("create a temporary folder for the servers")?;
        let path = dir.path().to_path_buf();
        Ok(Self(Mutex::new(Some(dir)), path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.1
    }
}

impl Drop for Folder {
    /// Keeps the logs after a failure.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        if let Some(dir) = self.0.lock().take() {
            eprintln!(
                "the servers' files and logs are kept in {}",
                dir.keep().display()
            );
        }
    }
}
