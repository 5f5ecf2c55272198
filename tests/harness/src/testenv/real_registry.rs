//! Registries of images. Entry points: [`RealRegistry::start`], with TLS and a login, and [`ReferrersRegistry::start`].

use super::binaries::made_from;
use super::process::Process;
use super::{ATTEMPTS, port};
use crate::eventually::{Seen, eventually};
use anyhow::{Context, Result, bail};
use base64::Engine as _;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;

const READY: Duration = Duration::from_secs(60);
/// The login, and its line for the registry: the password is hashed as `htpasswd -B` does it.
const USER: &str = "me";
const PASSWORD: &str = "hush";
const HASHED: &str = "me:$2y$05$abcdefghijklmnopqrstuulzd.YqjLDl8lvpSmVj3De/fioSBHnUa\n";
/// A name of this machine that only a [`RealProxy`](super::real_proxy::RealProxy) knows.
const BEHIND_PROXY: &str = "registry.test";

/// A running registry, which can be killed and started again. It ends with this value.
#[derive(Debug)]
pub struct RealRegistry {
    made: PathBuf,
    port: u16,
    // The process is dropped before its folder.
    running: Mutex<Option<Process>>,
    folder: TempDir,
}

impl RealRegistry {
    /// Starts an empty registry on a free port.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run, or the registry does not listen in time.
    pub async fn start() -> Result<Self> {
        let made = made_from("registry")?;
        let folder = tempfile::Builder::new()
            .prefix("windlass-registry-")
            .tempdir()
            .context("create a folder for a registry")?;
        let mut registry = Self {
            made,
            port: 0,
            running: Mutex::default(),
            folder,
        };
        registry.make_certificates()?;
        registry.write("htpasswd", HASHED)?;
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            registry.port = port::free()?;
            registry.write("config.yml", &registry.config())?;
            match registry.restart().await {
                Ok(()) => {
                    registry.write_login()?;
                    return Ok(registry);
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.context("the registry was never tried")?)
    }

    /// `HOST:PORT` of the registry.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// The same by a name that only a proxy knows.
    pub fn host_behind_proxy(&self) -> String {
        format!("{BEHIND_PROXY}:{}", self.port)
    }

    /// The file (PEM) with the authority of its certificate.
    pub fn authority(&self) -> PathBuf {
        self.at("authority.pem")
    }

    /// The folder with docker's configuration, in which is the login. For `DOCKER_CONFIG`.
    pub fn docker_config(&self) -> PathBuf {
        self.at("docker")
    }

    /// Docker's configuration with the login, as a pull secret has it.
    pub fn login(&self) -> String {
        let login = format!("{USER}:{PASSWORD}");
        let login = base64::engine::general_purpose::STANDARD.encode(login);
        let entry = |host: &str| format!("\"{host}\":{{\"auth\":\"{login}\"}}");
        let (host, other) = (self.host(), self.host_behind_proxy());
        format!("{{\"auths\":{{{},{}}}}}", entry(&host), entry(&other))
    }

    /// The file of a blob, by its digest.
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
        let start = &hex[..2.min(hex.len())];
        let folder = self.at("data/docker/registry/v2/blobs/sha256");
        folder.join(start).join(hex).join("data")
    }

    /// Kills it without warning, until [`RealRegistry::restart`].
    pub fn kill(&self) {
        drop(self.running.lock().take());
    }

    /// Kills it if it runs, starts it on the same port with the same images, and waits until it listens.
    ///
    /// # Errors
    /// When it ends, or does not listen in time.
    pub async fn restart(&self) -> Result<()> {
        self.kill();
        let config = self.at("config.yml").display().to_string();
        let args = ["serve".to_owned(), config];
        let process = Process::spawn(&self.made.join("registry"), &args, &self.at("log"))?;
        *self.running.lock() = Some(listening(process, self.port).await?);
        Ok(())
    }

    fn config(&self) -> String {
        let file = |name: &str| self.at(name).display().to_string();
        format!(
            "version: 0.1\nlog: {{level: warn}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}\n\
             http:\n  addr: 127.0.0.1:{}\n  tls: {{certificate: {}, key: {}}}\n\
             auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
            file("data"),
            self.port,
            file("certificate.pem"),
            file("key.pem"),
            file("htpasswd"),
        )
    }

    fn make_certificates(&self) -> Result<()> {
        let key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(Vec::<String>::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = authority.self_signed(&key)?;
        self.write("authority.pem", &certificate.pem())?;
        let issuer = Issuer::new(authority, key);
        let key = KeyPair::generate()?;
        let names = ["localhost", "127.0.0.1", BEHIND_PROXY].map(str::to_owned);
        let certificate = CertificateParams::new(names.to_vec())?.signed_by(&key, &issuer)?;
        self.write("certificate.pem", &certificate.pem())?;
        self.write("key.pem", &key.serialize_pem())
    }

    fn write_login(&self) -> Result<()> {
        fs::create_dir_all(self.docker_config()).context("make docker's folder")?;
        self.write("docker/config.json", &self.login())
    }

    fn write(&self, name: &str, content: &str) -> Result<()> {
        fs::write(self.at(name), content).with_context(|| format!("write {name}"))
    }

    fn at(&self, path: &str) -> PathBuf {
        let folder: &Path = self.folder.path();
        folder.join(path)
    }
}

/// A registry in memory, without TLS and login, that has the API of referrers. It ends with this value.
#[derive(Debug)]
pub struct ReferrersRegistry {
    port: u16,
    _running: Process,
    _folder: TempDir,
}

impl ReferrersRegistry {
    /// Starts an empty registry on a free port.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run, or the registry does not listen in time.
    pub async fn start() -> Result<Self> {
        let program = made_from("referrers")?.join("referrers");
        let folder = tempfile::tempdir().context("create a folder for a registry's log")?;
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let port = port::free()?;
            let args = [format!("-listen=127.0.0.1:{port}")];
            let process = Process::spawn(&program, &args, &folder.path().join("log"))?;
            match listening(process, port).await {
                Ok(running) => {
                    return Ok(Self {
                        port,
                        _running: running,
                        _folder: folder,
                    });
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.context("the registry was never tried")?)
    }

    /// `HOST:PORT` of the registry.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }
}

/// The process, once it listens.
async fn listening(mut process: Process, port: u16) -> Result<Process> {
    let listens = eventually(READY, "a registry to listen", || {
        let ended = process.ended();
        async move {
            if ended {
                Ok(Seen::Yes(false))
            } else {
                TcpStream::connect(("127.0.0.1", port)).await?;
                Ok(Seen::Yes(true))
            }
        }
    })
    .await?;
    if !listens {
        bail!("the registry ended: {}", process.log_tail());
    }
    Ok(process)
}
