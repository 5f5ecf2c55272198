//! Compiled components on disk, so that each is compiled once. Entry point: [`Cache`].
//!
//! Compiled code is run unchecked, so nobody else may write it here. All of it is in a folder inside the one that is named: the named
//! one may be anybody's, as a volume of a pod, which is root's and open to all. The inner one must belong to this user, and be closed to
//! all others, and so must each file. Every entry has a keyed hash over its name and its code; an entry with another hash is ignored.
//! The key is in the inner folder. Others who may write to the named folder can take the cache away, and put nothing in its place.

mod entry;
mod key;

use crate::options::CacheOptions;
use entry::Name;
use key::Key;
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use windlass_fleet::Digest;

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Other users could write code there.
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

/// The folder for compiled components, inside the one that is named.
const INNER: &str = "compiled";

/// A draft of this age is removed: its writer has died.
const LEFTOVER: Duration = Duration::from_secs(600);

/// A folder of compiled components for engines of one fingerprint. Any number of processes may share it.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Has the key, and a folder for each fingerprint.
    root: PathBuf,
    /// The folder of this engine's fingerprint.
    folder: PathBuf,
    fingerprint: String,
    key: Key,
    most: u64,
    /// Held while old entries are removed.
    sweeping: Mutex<()>,
}

impl Cache {
    pub(crate) fn open(options: &CacheOptions, fingerprint: &str) -> Result<Self, CacheError> {
        let root = options.folder.join(INNER);
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

    /// The code of a component, unless there is none or its hash is wrong.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        let path = self.path(digest);
        match entry::read(&path, &self.key, &self.name(digest)) {
            Ok(code) => {
                // The time orders removal. If this fails, the entry is just removed earlier.
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

    /// Stores the code of a component. A failure is logged, and the next start compiles again.
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

    /// Removes the entries that were not used for longest until the rest fits.
    fn sweep(&self) {
        let Some(_alone) = self.sweeping.try_lock() else {
            return; // another thread is doing it
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

    /// Of each entry of any fingerprint: when it was used last, its size and its path. Removes drafts of writers that died.
    ///
    /// The root may have other files, of versions to come.
    fn entries(&self) -> Vec<(SystemTime, u64, PathBuf)> {
        let mut found = Vec::new();
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let own = folders.filter(|folder| {
            let is_folder = folder.file_type().is_ok_and(|of| of.is_dir());
            is_folder && folder.file_name().to_str().is_some_and(is_fingerprint)
        });
        let files = own.filter_map(|folder| fs::read_dir(folder.path()).ok());
        for file in files.flatten().flatten() {
            let Ok(metadata) = file.metadata() else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let path = file.path();
            match path.extension().and_then(OsStr::to_str) {
                Some("cwasm") => found.push((used, metadata.len(), path)),
                Some("tmp") if used.elapsed().is_ok_and(|age| age > LEFTOVER) => {
                    let _ = fs::remove_file(path); // another process may have been faster
                }
                _ => {}
            }
        }
        found
    }
}

/// Whether a folder has the name that a fingerprint gives it: 16 bytes in hexadecimal digits.
pub(crate) fn is_fingerprint(name: &str) -> bool {
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    name.len() == 32 && name.bytes().all(is_digit)
}

/// Makes a folder for this user alone, or checks that it is one.
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

/// Checks that only this user can read and write the file or folder with this metadata.
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
