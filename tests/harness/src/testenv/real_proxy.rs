//! A proxy program, of libraries that many proxies are built on. Entry point: [`RealProxy::start`].

use super::binaries::made_from;
use super::process::Process;
use super::{ATTEMPTS, port};
use crate::eventually::{Seen, eventually};
use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;

const READY: Duration = Duration::from_secs(30);
/// The user and password that a proxy may demand, and as a URL has them.
const LOGIN: &str = "me:p@ss";
const ESCAPED_LOGIN: &str = "me:p%40ss";
/// What the program prints before each address that it connects to.
const CONNECTS: &str = "connects to ";

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP, with CONNECT.
    Http,
    /// HTTP over TLS.
    Https,
    /// SOCKS5.
    Socks5,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Http, Self::Https, Self::Socks5];

    /// As URLs have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
        }
    }
}

/// A running proxy, which can be killed and started again. It ends with this value.
///
/// It knows each name below `.test` as this machine; nobody else knows those names.
#[derive(Debug)]
pub struct RealProxy {
    scheme: Scheme,
    with_login: bool,
    address: SocketAddr,
    made: PathBuf,
    // The process is dropped before its folder.
    running: Mutex<Option<Process>>,
    folder: TempDir,
}

impl RealProxy {
    /// Starts a proxy on a free port. `with_login`: it demands the user and the password that [`RealProxy::url`] has.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run, or the program does not listen in time.
    pub async fn start(scheme: Scheme, with_login: bool) -> Result<Self> {
        let made = made_from("proxy")?;
        let folder = tempfile::Builder::new()
            .prefix("windlass-proxy-")
            .tempdir()
            .context("create a folder for a proxy's log")?;
        let mut proxy = Self {
            scheme,
            with_login,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            made,
            running: Mutex::default(),
            folder,
        };
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            proxy.address.set_port(port::free()?);
            match proxy.restart().await {
                Ok(()) => return Ok(proxy),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.context("the proxy was never tried")?)
    }

    /// Its URL, with what it demands.
    pub fn url(&self) -> String {
        if self.with_login {
            self.url_with(ESCAPED_LOGIN)
        } else {
            self.bare_url()
        }
    }

    /// Its URL with another user and password, which are escaped: `USER:PASSWORD`.
    pub fn url_with(&self, login: &str) -> String {
        format!("{}://{login}@{}", self.scheme.as_str(), self.address)
    }

    /// Its URL without a user and a password.
    pub fn bare_url(&self) -> String {
        format!("{}://{}", self.scheme.as_str(), self.address)
    }

    /// The certificate (PEM) of a proxy for HTTPS, which is its own authority.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn certificate(&self) -> Result<String> {
        let file = self.made.join("cert.pem");
        std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))
    }

    /// Every `HOST:PORT` that it has connected to, over all its starts.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn connections(&self) -> Result<Vec<String>> {
        let log = std::fs::read_to_string(self.log()).context("read the proxy's log")?;
        let lines = log.lines().filter_map(|line| line.strip_prefix(CONNECTS));
        Ok(lines.map(str::to_owned).collect())
    }

    /// Kills it without warning, and every connection with it, until [`RealProxy::restart`].
    pub fn kill(&self) {
        drop(self.running.lock().take());
    }

    /// Kills it if it runs, starts it on the same port, and waits until it listens.
    ///
    /// # Errors
    /// When it ends, or does not listen in time.
    pub async fn restart(&self) -> Result<()> {
        self.kill();
        let mut process = Process::spawn(&self.made.join("proxy"), &self.args(), &self.log())?;
        let listens = eventually(READY, "a proxy to listen", || {
            let ended = process.ended();
            async move {
                if ended {
                    Ok(Seen::Yes(false))
                } else {
                    TcpStream::connect(self.address).await?;
                    Ok(Seen::Yes(true))
                }
            }
        })
        .await?;
        if !listens {
            bail!("the proxy ended: {}", process.log_tail());
        }
        *self.running.lock() = Some(process);
        Ok(())
    }

    fn args(&self) -> Vec<String> {
        let file = |name: &str| self.made.join(name).display().to_string();
        let mut args = vec![
            format!("-listen={}", self.address),
            format!("-scheme={}", self.scheme.as_str()),
            format!("-certificate={}", file("cert.pem")),
            format!("-key={}", file("key.pem")),
        ];
        if self.with_login {
            args.push(format!("-login={LOGIN}"));
        }
        args
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}
