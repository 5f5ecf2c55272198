//! Where the `dev` of a folder serves its admin endpoints, for commands that begin in that folder. Entry points: [`Address::write`] and [`find`].
//!
//! The file holds an address of this machine and no secret: the token is found by the address, among the files of this user. A file that a
//! process has left behind does no harm, because nobody answers there.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use windlass_files::STATE;

/// The file, in the folder's `.windlass`.
const FILE: &str = "admin";
/// The longest address, in bytes.
const LONGEST: usize = 64;
/// How long a process of this machine may take to accept a connection.
const DEADLINE: Duration = Duration::from_millis(500);

/// An address that is written down until this is dropped.
pub(crate) struct Address {
    file: PathBuf,
    text: String,
}

impl Address {
    /// Writes the address down, in place of the one of an earlier process. None where the file cannot be written: the log says why.
    pub(crate) fn write(folder: &Path, address: SocketAddr) -> Option<Self> {
        let (file, text) = (folder.join(STATE).join(FILE), format!("{address}\n"));
        let write = || {
            std::fs::create_dir_all(folder.join(STATE))?;
            let fresh = file.with_extension(std::process::id().to_string());
            std::fs::write(&fresh, &text)?;
            // In one step, and not through a link that a repository may have here.
            std::fs::rename(&fresh, &file)
        };
        match write() {
            Ok(()) => Some(Self { file, text }),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "other commands do not find this process by its folder");
                None
            }
        }
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        // A later process may have written its own.
        if read(&self.file).is_ok_and(|text| text == self.text) {
            // Left behind, it does no harm.
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

fn read(file: &Path) -> io::Result<String> {
    if std::fs::metadata(file)?.len() > LONGEST as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    std::fs::read_to_string(file)
}

/// The address of the process that runs in a folder or in the nearest one around it, if one answers.
pub(crate) async fn find(folder: &Path) -> Option<SocketAddr> {
    for folder in folder.ancestors() {
        let Ok(text) = read(&folder.join(STATE).join(FILE)) else {
            continue;
        };
        let Ok(address) = text.trim().parse::<SocketAddr>() else {
            continue;
        };
        // The author of the file cannot send commands to another machine.
        if !address.ip().is_loopback() {
            continue;
        }
        if let Ok(Ok(_)) = timeout(DEADLINE, TcpStream::connect(address)).await {
            return Some(address);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_process_is_found_in_and_below_its_folder_and_a_file_that_is_left_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path(), folder.path().join("guest/src"));
        std::fs::create_dir_all(inner.join("deep")).unwrap();
        let listeners = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let [one, other] = listeners.each_ref().map(|it| it.local_addr().unwrap());
        let [first, second] = listeners.map(|listener| {
            listener.set_nonblocking(true).unwrap();
            TcpListener::from_std(listener).unwrap()
        });
        assert_eq!(find(&inner).await, None);
        let around = Address::write(outer, one);
        let nearest = Address::write(&inner, other);
        assert_eq!(find(&inner.join("deep")).await, Some(other));
        assert_eq!(find(outer).await, Some(one));
        // A later process of the folder keeps its file when the earlier one ends.
        let later = Address::write(outer, other);
        drop(around);
        assert_eq!(find(outer).await, Some(other));
        drop((second, first, later, nearest));
        assert_eq!(find(&inner.join("deep")).await, None);
        let stale = Address::write(&inner, other);
        assert_eq!(find(&inner).await, None, "nobody answers");
        drop(stale);
        for text in ["192.0.2.1:80", "no address", &"1".repeat(1000)] {
            std::fs::write(inner.join(STATE).join(FILE), text).unwrap();
            assert_eq!(find(&inner).await, None, "{text}");
        }
    }
}
