//! The etcd that all API servers of an environment share. Entry point: [`Etcd::start`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::Process;
use super::{ATTEMPTS, port};
use crate::eventually::{Seen, eventually};

const DEADLINE: Duration = Duration::from_secs(30);

/// A copy of etcd's data, for [`Environment::restore`](super::Environment::restore). Dropping it deletes its files.
#[derive(Debug)]
pub struct Snapshot(TempDir);

/// An etcd that can be stopped and started again on the same ports.
#[derive(Debug)]
pub(super) struct Etcd {
    program: PathBuf,
    folder: PathBuf,
    client: u16,
    peer: u16,
    running: Mutex<Option<Process>>,
}

impl Etcd {
    /// Starts an etcd on free ports, with its data and its log in `folder`.
    pub(super) async fn start(program: PathBuf, folder: &Path) -> Result<Self> {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let etcd = Self {
                program: program.clone(),
                folder: folder.to_path_buf(),
                client: port::free()?,
                peer: port::free()?,
                running: Mutex::new(None),
            };
            match etcd.run().await {
                Ok(()) => return Ok(etcd),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.context("etcd was never tried")?)
    }

    /// The URL for clients.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client)
    }

    /// Compacts to the newest revision.
    pub(super) async fn compact(&self) -> Result<()> {
        compact(&self.url()).await
    }

    /// Kills etcd without warning. Acknowledged writes stay in its data folder.
    pub(super) fn kill(&self) {
        drop(self.running.lock().take());
    }

    /// Starts the process and waits until it listens.
    pub(super) async fn run(&self) -> Result<()> {
        let url = self.url();
        let args = [
            format!("--data-dir={}", self.data().display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{}", self.peer),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let mut etcd = Process::spawn(&self.program, &args, &self.folder.join("etcd.log"))?;
        listening(&mut etcd, self.client).await?;
        *self.running.lock() = Some(etcd);
        Ok(())
    }

    /// Copies the data folder; the process must not run.
    pub(super) fn copy_data(&self) -> Result<Snapshot> {
        let copy = tempfile::Builder::new()
            .prefix("etcd-snapshot-")
            .tempdir_in(&self.folder)
            .context("create a folder for the snapshot of etcd")?;
        copy_folder(&self.data(), copy.path()).context("copy etcd's data")?;
        Ok(Snapshot(copy))
    }

    /// Replaces the data folder by a copy of the snapshot; the process must not run.
    pub(super) fn replace_data(&self, snapshot: &Snapshot) -> Result<()> {
        let data = self.data();
        std::fs::remove_dir_all(&data).with_context(|| format!("remove {}", data.display()))?;
        copy_folder(snapshot.0.path(), &data)
            .context("put the snapshot in the place of etcd's data")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("etcd")
    }
}

/// Copies the files of a folder and of its subfolders.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Waits until something listens on the port; fails at once when the process has ended.
async fn listening(process: &mut Process, port: u16) -> Result<()> {
    let ready = eventually(DEADLINE, "etcd to listen", || {
        let ended = process.ended();
        async move {
            if ended {
                return Ok(Seen::Yes(false));
            }
            TcpStream::connect(("127.0.0.1", port)).await?;
            Ok(Seen::Yes(true))
        }
    })
    .await;
    match ready {
        Ok(true) => Ok(()),
        Ok(false) => bail!("etcd ended; its log ends with\n{}", process.log_tail()),
        Err(error) => Err(error.context(process.log_tail())),
    }
}

/// Compacts to the newest revision.
async fn compact(url: &str) -> Result<()> {
    // The key is one zero byte: only the header of the answer is needed.
    let now = call(url, "/v3/kv/range", &json!({"key": "AA=="})).await?;
    let revision = now["header"]["revision"]
        .as_str()
        .context("etcd returned no revision")?;
    let compaction = json!({"revision": revision, "physical": true});
    call(url, "/v3/kv/compaction", &compaction).await?;
    Ok(())
}

/// One call over HTTP/1.0, whose answer ends with the connection.
async fn call(url: &str, path: &str, body: &Value) -> Result<Value> {
    let address = url.strip_prefix("http://").context("etcd serves HTTP")?;
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = tokio::time::timeout(DEADLINE, async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    })
    .await
    .context("etcd did not answer")??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200"), "etcd answered {status}: {body}");
    serde_json::from_str(body).context("etcd answered no JSON")
}
