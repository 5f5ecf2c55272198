//! The token that the user of the process finds in a file. Entry points: [`TokenFile::write`] for the process, [`find`] for commands.
//!
//! Each process has a token of its own, in a file that is named by the address of its API. So a command gives the token of a process to
//! nobody but what listens at that address. The folder must belong to the user, and be open to nobody else.
//!
//! The process holds a lock on its file. A file without a lock was left by a process that did not end in order, and is removed by the next
//! one.

use crate::guests::engine::usual_cache;
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest token that is read.
const LONGEST: u64 = 16 << 10;
/// A file that is younger may be one that another process has not locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Why there is no token file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenFileError {
    /// The environment names no folder.
    #[error("there is no folder for the token file: set XDG_RUNTIME_DIR or HOME")]
    NoFolder,
    /// Other users may read or replace files there.
    #[error(
        "the folder {0:?} is open to other users or belongs to one: make it yours alone (chmod 700)"
    )]
    Open(PathBuf),
    /// The system refuses it.
    #[error("the token file {path:?} cannot be written: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The token of this process. The file is removed when this is dropped.
pub(super) struct TokenFile {
    path: PathBuf,
    digest: [u8; 32],
    /// Locked for as long as the process lives.
    _lock: File,
}

impl TokenFile {
    /// Makes a token and writes it to the file for an address.
    ///
    /// # Errors
    /// [`TokenFileError`].
    pub(super) fn write(address: SocketAddr) -> Result<Self, TokenFileError> {
        let mut refused = TokenFileError::NoFolder;
        for folder in folders() {
            match Self::write_in(&folder, address) {
                Ok(file) => return Ok(file),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn write_in(folder: &Path, address: SocketAddr) -> Result<Self, TokenFileError> {
        let path = folder.join(name(address));
        let failed = |error| TokenFileError::Io {
            path: path.clone(),
            error,
        };
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        made.map_err(failed)?;
        let own = fs::symlink_metadata(folder).map_err(failed)?;
        let is_mine = own.uid() == rustix::process::geteuid().as_raw();
        if !own.is_dir() || !is_mine || own.mode() & 0o077 != 0 {
            return Err(TokenFileError::Open(folder.to_owned()));
        }
        remove_abandoned(folder);
        let token = token().map_err(failed)?;
        // A reader never sees half a token, and an old file's readers never the new one.
        let new = folder.join(format!(".{}.{}", name(address), std::process::id()));
        let written = write_new(&new, &token).and_then(|file| {
            file.lock()?;
            fs::rename(&new, &path)?;
            Ok(file)
        });
        let lock = written.inspect_err(|_| drop(fs::remove_file(&new)));
        Ok(Self {
            digest: Sha256::digest(&token).into(),
            _lock: lock.map_err(failed)?,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is this token. Digests are compared, so the time that it takes says nothing about the token.
    pub(super) fn is(&self, token: &str) -> bool {
        self.digest == <[u8; 32]>::from(Sha256::digest(token))
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // Another process may have written its own for this address meanwhile.
        let mine = self._lock.metadata().map(|own| (own.dev(), own.ino()));
        let there = fs::symlink_metadata(&self.path).map(|there| (there.dev(), there.ino()));
        if let (Ok(mine), Ok(there)) = (mine, there)
            && mine == there
        {
            // What is left is removed by the next process.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The token of the process that serves its API at an address, if this user may read it.
pub(crate) fn find(address: SocketAddr) -> Option<String> {
    let mut files = folders()
        .into_iter()
        .map(|folder| folder.join(name(address)));
    files.find_map(|file| read(&file).ok())
}

/// The token in a file.
///
/// # Errors
/// When it cannot be read or is no token.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    let token = text.trim();
    if token.is_empty() {
        Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty"))
    } else {
        Ok(token.to_owned())
    }
}

/// The folders that may have token files, the first ones first.
fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|folder| folder.is_absolute());
    let runtime = runtime.map(|folder| folder.join("windlass"));
    let all = [runtime, usual_cache()].into_iter().flatten();
    all.map(|folder| folder.join("admin")).collect()
}

fn name(address: SocketAddr) -> String {
    format!("{address}.token")
}

fn write_new(path: &Path, token: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{token}")?;
    Ok(file)
}

/// 256 bits from the system's source of random numbers, in hexadecimal digits.
pub(crate) fn token() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Removes the files that no process holds.
fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_token = path.to_string_lossy().contains(".token");
        let age = |file: &File| {
            file.metadata()?
                .modified()?
                .elapsed()
                .map_err(io::Error::other)
        };
        let is_abandoned =
            |file: File| age(&file).is_ok_and(|age| age >= YOUNG) && file.try_lock().is_ok();
        if is_token && File::open(&path).is_ok_and(is_abandoned) {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::time::SystemTime;

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn only_the_user_can_read_the_token_and_it_goes_with_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("admin");
        let one = TokenFile::write_in(&folder, address(1)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(one.path())), (0o700, 0o600));
        let token = read(one.path()).unwrap();
        assert_eq!(token.len(), 64);
        assert!(one.is(&token) && !one.is("") && !one.is(&token[1..]));
        // Another process at the address: the token is another one, and stays when the first one ends.
        let two = TokenFile::write_in(&folder, address(1)).unwrap();
        assert!(!one.is(&read(two.path()).unwrap()));
        drop(one);
        assert!(two.is(&read(two.path()).unwrap()));
        let path = two.path().to_owned();
        drop(two);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_a_killed_process_left_is_removed_and_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("admin");
        let held = TokenFile::write_in(&folder, address(1)).unwrap();
        let old = SystemTime::now() - 2 * YOUNG;
        held._lock
            .set_times(FileTimes::new().set_modified(old))
            .unwrap();
        let left = write_new(&folder.join(name(address(2))), "left").unwrap();
        left.set_times(FileTimes::new().set_modified(old)).unwrap();
        drop(left);
        drop(write_new(&folder.join(name(address(3))), "young").unwrap());
        let _new = TokenFile::write_in(&folder, address(4)).unwrap();
        let left: Vec<bool> = (1..=4)
            .map(|port| folder.join(name(address(port))).exists())
            .collect();
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        DirBuilder::new().mode(0o755).create(&open).unwrap();
        let refused = TokenFile::write_in(&open, address(1)).err().unwrap();
        assert!(refused.to_string().contains("chmod 700"), "{refused}");
    }
}
