//! Compiled components on disk, so that each is compiled once. Entry point: [`Cache`].
//!
//! Compiled code is run as it is, so nobody else may put any here. The folder belongs to this user and is open to nobody else, or it
//! is not used; every entry carries a keyed hash over what it is of and what it holds, and one whose hash does not fit is as good
//! as absent. The key lies in the folder and never leaves it.

mod entry;
mod key;

use crate::digest::Digest;
use crate::options::CacheOptions;
use entry::Name;
use key::Key;
use parking_lot::Mutex;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Others could put code there.
    #[error("{} {what}: compiled code from there could be anybody's; make it this user's with mode 0700, or name another folder", .path.display())]
    NotPrivate {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        what: &'static str,
    },
    /// It cannot be read or made.
    #[error("the cache in {} cannot be used", .path.display())]
    Unusable {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// How old the leftover of a writer that died must be to be removed.
const LEFTOVER: Duration = Duration::from_secs(600);

/// A folder of compiled components for engines of one fingerprint. Any number of processes may share it.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Holds the key and a folder for each fingerprint.
    root: PathBuf,
    /// Of this engine's fingerprint.
    folder: PathBuf,
    fingerprint: String,
    key: Key,
    most: u64,
    /// Held while old entries are removed.
    sweeping: Mutex<()>,
}

impl Cache {
    pub(crate) fn open(options: &CacheOptions, fingerprint: &str) -> Result<Self, CacheError> {
        let root = options.folder.clone();
        let folder = root.join(fingerprint);
        make_private(&root)?;
        make_private(&folder)?;
        Ok(Self {
            key: Key::of(&root)?,
            root,
            folder,
            fingerprint: fingerprint.to_owned(),
            most: options.bytes,
            sweeping: Mutex::new(()),
        })
    }

    /// The code that was put for a component; none if there is none, or none that can be trusted.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        let path = self.path(digest);
        match entry::read(&path, &self.key, &self.name(digest)) {
            Ok(code) => {
                // The order in which entries leave. A failure makes this one leave earlier, no more.
                if let Ok(file) = fs::File::open(&path) {
                    let _ = file.set_modified(SystemTime::now());
                }
                Some(code)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), error = %error, "compiled code from the cache is not used, the guest is compiled again");
                None
            }
        }
    }

    /// Keeps the code of a component. What goes wrong is logged: the next start compiles again.
    pub(crate) fn put(&self, digest: &Digest, code: &[u8]) {
        if code.len() as u64 > self.most {
            return;
        }
        let path = self.path(digest);
        if let Err(error) = entry::write(&path, &self.key, &self.name(digest), code) {
            tracing::warn!(path = %path.display(), error = %error, "compiled code cannot be kept in the cache");
        }
        self.sweep();
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{}.cwasm", digest))
    }

    fn name<'a>(&'a self, digest: &'a Digest) -> Name<'a> {
        Name {
            fingerprint: &self.fingerprint,
            digest,
        }
    }

    /// Removes what was not used for longest until the rest fits.
    fn sweep(&self) {
        let Some(_alone) = self.sweeping.try_lock() else {
            return; // somebody is at it
        };
        let mut kept = self.entries();
        kept.sort_by_key(|(used, ..)| *used);
        let mut bytes: u64 = kept.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in kept {
            if bytes <= self.most {
                break;
            }
            bytes -= size;
            let _ = fs::remove_file(path); // another process may have been faster
        }
    }

    /// When each entry of any fingerprint was used last, its size and its path. Removes what writers that died left behind.
    fn entries(&self) -> Vec<(SystemTime, u64, PathBuf)> {
        let mut found = Vec::new();
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok());
        for file in files.flatten().flatten() {
            let Ok(metadata) = file.metadata() else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let path = file.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "cwasm")
            {
                found.push((used, metadata.len(), path));
            } else if used.elapsed().is_ok_and(|age| age > LEFTOVER) {
                let _ = fs::remove_file(path);
            }
        }
        found
    }
}

/// Makes a folder for this user alone, or makes sure that it is one.
fn make_private(path: &Path) -> Result<(), CacheError> {
    let unusable = |source| CacheError::Unusable {
        path: path.to_owned(),
        source,
    };
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(unusable)?;
    let metadata = fs::symlink_metadata(path).map_err(unusable)?;
    if !metadata.is_dir() {
        return Err(CacheError::NotPrivate {
            path: path.to_owned(),
            what: "is not a folder",
        });
    }
    check_private(path, &metadata)
}

/// Whether nobody but this user can write, or read, what this is the metadata of.
fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), CacheError> {
    let what = if metadata.uid() != rustix::process::geteuid().as_raw() {
        "belongs to another user"
    } else if metadata.mode() & 0o077 != 0 {
        "is open to others"
    } else {
        return Ok(());
    };
    Err(CacheError::NotPrivate {
        path: path.to_owned(),
        what,
    })
}

#[cfg(test)]
mod tests;
