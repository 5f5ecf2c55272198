//! A real kcp with its own etcd. Entry point: [`Kcp::start`]; what a test asks of it and makes there is in [`Client`].
//!
//! One takes half a gigabyte of memory, so tests of one binary share it. A test that harms it starts one of its own.

mod client;
mod make;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use parking_lot::Mutex;
use serde_json::Value;

pub use client::{Answer, Client};
pub use make::{Claim, Export, Workspace};

use super::binaries::made_from;
use super::process::Process;
use super::{ATTEMPTS, Folder, port};
use crate::eventually::{Seen, eventually};

/// It needs 10 s; a loaded machine takes longer.
const READY: Duration = Duration::from_secs(120);
/// The workspace above all others.
const ROOT: &str = "root";
/// The administrator, with a token of ours: kcp's own one is another after a restart. It is no member of `system:masters`, as kcp notes
/// no owner for workspaces that one of those makes.
const ADMIN: &str = "kcp-admin,kcp-admin,system:kcp:admin";

/// A real kcp that can be killed and started again. It stops when this is dropped.
#[derive(Debug)]
pub struct Kcp {
    program: PathBuf,
    admin: String,
    users: Vec<(String, String)>,
    ports: Ports,
    ca: String,
    running: Mutex<Option<Process>>,
    // After the process.
    folder: Folder,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    server: u16,
    etcd: u16,
    etcd_peer: u16,
}

impl Kcp {
    /// Starts a kcp and waits until workspaces can be made. Beside the administrator it knows these users, who have no rights: letters,
    /// digits and dashes.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run, or kcp ends or is not ready within two minutes; the error shows the end of its log.
    pub async fn start(users: &[&str]) -> Result<Self> {
        let token = || format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let users = users.iter().map(|user| ((*user).to_owned(), token()));
        let mut kcp = Self {
            program: made_from("kcp")?.join("kcp"),
            admin: token(),
            users: users.collect(),
            ports: Ports::free()?,
            ca: String::new(),
            running: Mutex::new(None),
            folder: Folder::create()?,
        };
        let mut tokens = format!("{},{ADMIN}\n", kcp.admin);
        for (user, token) in &kcp.users {
            // Writing to a String cannot fail.
            let _ = writeln!(tokens, "{token},{user},{user}");
        }
        std::fs::write(kcp.tokens(), tokens).context("write the token file")?;

        let mut failure = None;
        for _ in 0..ATTEMPTS {
            match kcp.run().await {
                Ok(ca) => {
                    kcp.ca = ca;
                    return Ok(kcp);
                }
                Err(error) => failure = Some(error),
            }
            // Its etcd would look for itself at the ports it had.
            drop(std::fs::remove_dir_all(kcp.root()));
            kcp.ports = Ports::free()?;
        }
        Err(failure.context("kcp was never tried")?)
    }

    /// The URL, without a workspace: `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.server)
    }

    /// A kubeconfig of the administrator for a workspace, by path or logical cluster. Its one context is the current one; it needs no
    /// other file.
    pub fn kubeconfig(&self, workspace: &str) -> String {
        self.kubeconfig_below(&format!("/clusters/{workspace}"))
    }

    /// As [`Kcp::kubeconfig`], of one of the users that kcp was started with.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn kubeconfig_of(&self, user: &str, workspace: &str) -> String {
        let server = format!("{}/clusters/{workspace}", self.url());
        kubeconfig(&server, &self.ca, self.token_of(user))
    }

    /// A client of the administrator.
    ///
    /// # Errors
    /// When the client cannot be built; no connection is made.
    pub async fn client(&self) -> Result<Client> {
        Client::new(&kubeconfig(&self.url(), &self.ca, &self.admin)).await
    }

    /// A typed client of the administrator for everything below a path, such as `/clusters/root`.
    ///
    /// # Errors
    /// As [`Kcp::client`].
    pub async fn client_below(&self, path: &str) -> Result<kube_client::Client> {
        super::server::client(&self.kubeconfig_below(path)).await
    }

    /// A kubeconfig of the administrator for everything below a path, such as that of a virtual workspace.
    pub fn kubeconfig_below(&self, path: &str) -> String {
        kubeconfig(&format!("{}{path}", self.url()), &self.ca, &self.admin)
    }

    /// A client of one of the users that kcp was started with.
    ///
    /// # Errors
    /// As [`Kcp::client`].
    ///
    /// # Panics
    /// When there is no such user.
    pub async fn client_of(&self, user: &str) -> Result<Client> {
        Client::new(&kubeconfig(&self.url(), &self.ca, self.token_of(user))).await
    }

    fn token_of(&self, user: &str) -> &str {
        match self.users.iter().find(|(name, _)| name == user) {
            Some((_, token)) => token,
            None => panic!("kcp was started without the user {user:?}"),
        }
    }

    /// Kills it without warning, until [`Kcp::restart`]. What it acknowledged stays in its folder.
    pub fn kill(&self) {
        drop(self.running.lock().take());
    }

    /// Kills it if it runs, restarts it with the same folder, URL, certificates and tokens, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends or is not ready in time; the error shows the end of its log.
    pub async fn restart(&self) -> Result<()> {
        self.kill();
        self.run().await.map(drop)
    }

    /// Its resident memory, in bytes. Only Linux tells it.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resident(&self) -> Result<usize> {
        let running = self.running.lock();
        running.as_ref().context("kcp does not run")?.resident()
    }

    /// Starts the process and waits until it is ready; returns the certificates of its CA.
    async fn run(&self) -> Result<String> {
        let log = self.folder.path().join("kcp.log");
        let mut process = Process::spawn(&self.program, &self.args(), &log)?;
        let ready = eventually(READY, "kcp to be ready", || {
            let ended = process.ended();
            async move {
                if ended {
                    return Ok(Seen::Yes(None));
                }
                self.probe().await.map(|ca| Seen::Yes(Some(ca)))
            }
        })
        .await;
        let tail = || format!("kcp; its log ends with\n{}", process.log_tail());
        let Some(ca) = ready.with_context(tail)? else {
            bail!("{}", tail())
        };
        *self.running.lock() = Some(process);
        Ok(ca)
    }

    /// Succeeds when the root workspace serves workspaces, which is some seconds after `/readyz` succeeds.
    async fn probe(&self) -> Result<String> {
        let file = self.root().join("admin.kubeconfig");
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let ca = ca_of(&text)?;
        let client = Client::new(&kubeconfig(&self.url(), &ca, &self.admin)).await?;
        let workspaces = format!("/clusters/{ROOT}/apis/tenancy.kcp.io/v1alpha1/workspaces");
        for path in ["/readyz", &workspaces] {
            client.get(path).await?.ok()?;
        }
        Ok(ca)
    }

    fn args(&self) -> Vec<String> {
        let Ports {
            server,
            etcd,
            etcd_peer,
        } = self.ports;
        [
            "start".to_owned(),
            format!("--root-directory={}", self.root().display()),
            "--bind-address=127.0.0.1".to_owned(),
            "--external-hostname=127.0.0.1".to_owned(),
            format!("--secure-port={server}"),
            format!("--embedded-etcd-client-port={etcd}"),
            format!("--embedded-etcd-peer-port={etcd_peer}"),
            format!("--token-auth-file={}", self.tokens().display()),
        ]
        .into()
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("kcp")
    }

    fn tokens(&self) -> PathBuf {
        self.folder.path().join("tokens.csv")
    }
}

impl Ports {
    fn free() -> Result<Self> {
        Ok(Self {
            server: port::free()?,
            etcd: port::free()?,
            etcd_peer: port::free()?,
        })
    }
}

/// The certificates in the kubeconfig that kcp writes.
fn ca_of(kubeconfig: &str) -> Result<String> {
    let kubeconfig: Value =
        serde_saphyr::from_str(kubeconfig).context("read the kubeconfig of kcp")?;
    let ca = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"].as_str();
    let ca = base64::engine::general_purpose::STANDARD
        .decode(ca.context("the kubeconfig of kcp has no CA")?)
        .context("decode kcp's CA")?;
    String::from_utf8(ca).context("kcp's CA is not PEM")
}

fn kubeconfig(server: &str, ca: &str, token: &str) -> String {
    super::server::kubeconfig("kcp", server, ca, token)
}
