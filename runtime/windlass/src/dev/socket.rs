//! A socket of this machine for the processes of guests, which only this user reaches: lines of at most [`LINE`] bytes. Entry points:
//! [`Socket::open`] and [`Lines`].

use anyhow::{Context, Result, bail};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

/// The longest line, in bytes: an object as large as etcd takes it, with room for what encloses it, and a page of objects.
const LINE: u64 = 64 << 20;

/// How long a caller of [`Socket::accept`] waits after it has failed: descriptors come back when others close theirs.
pub(crate) const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A socket in a folder that only this user can open. Both are removed when this is dropped.
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    _folder: TempDir,
}

impl Socket {
    /// Makes a folder among the temporary files, which is short enough for the name of a socket, and listens there.
    ///
    /// # Errors
    /// When the folder or the socket cannot be made.
    pub(crate) fn open() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("windlass-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .context("make a folder for a socket")?;
        let path = folder.path().join("socket");
        let listener =
            UnixListener::bind(&path).with_context(|| format!("listen at {}", path.display()))?;
        Ok(Self {
            listener,
            path,
            _folder: folder,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next process of this user that connects.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    ///
    /// # Cancellation
    /// Loses nothing.
    pub(crate) async fn accept(&self) -> Result<Lines> {
        loop {
            let (stream, _) = self.listener.accept().await.context("accept a process")?;
            let own = rustix::process::geteuid().as_raw();
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == own => return Ok(Lines::new(stream)),
                _ => tracing::warn!("a process of another user is refused"),
            }
        }
    }
}

/// A process that is connected.
pub(crate) struct Lines {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Lines {
    fn new(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        Self {
            read: BufReader::new(read),
            write,
        }
    }

    /// The next line, without its end. `None`: the process has gone.
    ///
    /// # Errors
    /// When the line is too long, or ends in the middle.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.read).take(LINE);
        let read = bounded.read_until(b'\n', &mut line);
        if read.await.context("read from a guest's process")? == 0 {
            return Ok(None);
        }
        match line.pop() {
            Some(b'\n') => Ok(Some(line)),
            _ => bail!("a line of a guest's process is longer than {LINE} bytes, or is cut off"),
        }
    }

    /// Sends a line.
    ///
    /// # Errors
    /// When the process has gone.
    pub(crate) async fn send(&mut self, mut line: Vec<u8>) -> Result<()> {
        line.push(b'\n');
        let written = self.write.write_all(&line).await;
        written.context("write to a guest's process")
    }
}
