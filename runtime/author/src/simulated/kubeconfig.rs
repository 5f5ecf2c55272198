//! The kubeconfig of an in-memory fleet. Each `dev` that runs in a folder has a file of its own. Entry point: [`KubeconfigFile`].

use crate::guest_build::state_folder;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The files, in the order in which they are taken: one for each `dev` that runs in the folder.
const NAMES: [&str; 4] = ["kubeconfig", "kubeconfig-2", "kubeconfig-3", "kubeconfig-4"];

/// A kubeconfig file that no other process writes.
pub(super) struct KubeconfigFile {
    path: PathBuf,
    /// Locked until this is dropped, or the process ends.
    _lock: File,
}

impl KubeconfigFile {
    /// Takes the first file in `folder/.windlass` that no process has.
    ///
    /// # Errors
    /// When all are taken, or the folder cannot be written.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let state = state_folder(folder).with_context(|| cannot_write(folder))?;
        for name in NAMES {
            let lock = state.join(format!("{name}.lock"));
            let lock = File::create(&lock).with_context(|| cannot_write(folder))?;
            match lock.try_lock() {
                Ok(()) => {
                    let path = state.join(name);
                    return Ok(Self { path, _lock: lock });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| cannot_write(folder));
                }
            }
        }
        bail!(
            "{} processes of `windlass dev` run in {} already: end one of them",
            NAMES.len(),
            folder.display()
        )
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it in one step: kubectl may be reading it.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(super) fn write(&self, text: &str) -> Result<()> {
        let write = || {
            let fresh = self.path.with_extension(std::process::id().to_string());
            fs::write(&fresh, text)?;
            fs::rename(&fresh, &self.path)?;
            io::Result::Ok(())
        };
        write().with_context(|| cannot_write(&self.path))
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the kubeconfig into {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_of_a_folder_has_a_file_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let first = KubeconfigFile::take(folder.path()).unwrap();
        let second = KubeconfigFile::take(folder.path()).unwrap();
        first.write("a").unwrap();
        second.write("b").unwrap();
        assert_eq!(fs::read_to_string(first.path()).unwrap(), "a");
        assert_eq!(fs::read_to_string(second.path()).unwrap(), "b");
        let name = |of: &KubeconfigFile| of.path().file_name().unwrap().to_owned();
        assert_eq!(
            (name(&first), name(&second)),
            (NAMES[0].into(), NAMES[1].into())
        );
        drop(first);
        assert_eq!(
            name(&KubeconfigFile::take(folder.path()).unwrap()),
            NAMES[0]
        );
        let all = NAMES.map(|_| KubeconfigFile::take(folder.path()));
        let refused = all.into_iter().find_map(Result::err).unwrap();
        assert!(refused.to_string().contains("end one of them"), "{refused}");
    }
}
