//! Copies of components that were read from files: the file may have another one when a rollback needs it. Entry point: [`Archive`].
//!
//! Any number of processes of this user share the folder. A copy is compared with its digest when it is loaded.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use windlass_fleet::Digest;
use windlass_fleet::private_folder::make_private;

/// Bytes that are kept.
const MOST: u64 = 512 << 20;
/// How the names of copies end that are not complete.
const DRAFT: &str = "draft";

/// A folder of components, by digest.
#[derive(Debug)]
pub(super) struct Archive {
    folder: PathBuf,
    most: u64,
}

impl Archive {
    /// Makes the folder, or checks that it is this user's alone. Blocks.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        make_private(&folder)?;
        Ok(Self { folder, most: MOST })
    }

    /// The copy of a component, if there is one. Blocks.
    pub(super) fn find(&self, digest: Digest) -> Option<PathBuf> {
        let path = self.path(digest);
        // The time orders removal. If this fails, the copy is just removed earlier.
        let file = fs::File::open(&path).ok()?;
        file.set_modified(SystemTime::now()).ok();
        Some(path)
    }

    /// Copies a component, unless it is there. Blocks.
    ///
    /// # Errors
    /// When it cannot be copied, or the file has another component by now.
    pub(super) fn keep(&self, digest: Digest, file: &Path) -> io::Result<()> {
        if self.find(digest).is_some() {
            return Ok(());
        }
        let name = format!("{}-{}.{DRAFT}", std::process::id(), fastrand::u64(..));
        let draft = self.folder.join(name);
        let kept = self.copy(digest, file, &draft);
        if kept.is_err() {
            let _ = fs::remove_file(&draft);
        }
        self.sweep(&self.path(digest));
        kept
    }

    fn copy(&self, digest: Digest, file: &Path, draft: &Path) -> io::Result<()> {
        fs::copy(file, draft)?;
        let (copied, _) = Digest::of_file(fs::File::open(draft)?, u64::MAX)?;
        if copied != digest {
            return Err(io::Error::other("it has changed since it was loaded"));
        }
        fs::rename(draft, self.path(digest))
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}.wasm"))
    }

    /// Removes the copies that were not used for longest until the rest fits, but never the newest.
    fn sweep(&self, newest: &Path) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let known = entries.filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        });
        let mut all: Vec<(SystemTime, u64, PathBuf)> = known.collect();
        all.sort();
        let mut bytes: u64 = all.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in all {
            if bytes <= self.most {
                break;
            }
            if path != newest {
                bytes -= size;
                let _ = fs::remove_file(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_outlives_its_file_and_the_oldest_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive {
            most: 20,
            ..Archive::open(folder.path().join("kept")).unwrap()
        };
        let file = folder.path().join("guest.wasm");
        let keep = |text: &[u8]| {
            fs::write(&file, text).unwrap();
            let digest = Digest::of(text);
            archive.keep(digest, &file).unwrap();
            digest
        };
        let first = keep(b"component one");
        let second = keep(b"second");
        let path = archive.find(first).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"component one");
        // The file has another component by now.
        assert!(archive.keep(Digest::of(b"gone"), &file).is_err());
        assert_eq!(fs::read_dir(folder.path().join("kept")).unwrap().count(), 2);
        // The first one was used last.
        keep(b"third!!");
        assert!(archive.find(second).is_none() && archive.find(first).is_some());
    }
}
