//! The file that a guest is read from. Entry points: [`component`] and [`File::read`].

use crate::config::kinds::{Bytes, ReconcilerSpec};
use crate::config::load::Document;
use crate::dev::guest_build::built;
use crate::guests::LoadFailure;
use std::path::{Path, PathBuf};
use windlass_fleet::file::{self, FileError};
use windlass_sandbox::Digest;

/// The file of a guest, as it was read.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// The digest of the component.
    pub(super) digest: Result<Digest, LoadFailure>,
}

impl File {
    /// Reads the guest that a document names, but no more than `most` bytes.
    pub(super) async fn read(document: Document, spec: ReconcilerSpec, most: usize) -> Self {
        let there = document.resolve(spec.guest.path());
        let read = tokio::task::spawn_blocking(move || match component(&document, &spec) {
            Ok(path) => Self {
                digest: digest(&path, most as u64),
                path,
            },
            Err(failure) => Self {
                path: document.resolve(spec.guest.path()),
                digest: Err(failure),
            },
        });
        read.await.unwrap_or_else(|error| Self {
            digest: Err(unreadable(&there, &error)),
            path: there,
        })
    }
}

/// The file of the component that a document names: the path itself, or the build result of a source folder.
///
/// # Errors
/// When the folder was not built, with what to do.
pub(crate) fn component(
    document: &Document,
    spec: &ReconcilerSpec,
) -> Result<PathBuf, LoadFailure> {
    let path = document.resolve(spec.guest.path());
    if !path.is_dir() {
        return Ok(path);
    }
    built(&path).ok_or_else(|| {
        let path = path.display();
        LoadFailure::permanent(format!(
            "{path} is a source folder that was not built yet: run windlass build {path}"
        ))
    })
}

/// The component's digest. A component that is too large is not read.
fn digest(path: &Path, most: u64) -> Result<Digest, LoadFailure> {
    let read_digest = || {
        let file = file::open(path)?;
        let size = file.metadata()?.len();
        if size > most {
            return Ok((None, size));
        }
        // It may grow while it is read.
        let (digest, read) = Digest::of_file(file, most + 1)?;
        Ok::<_, FileError>(((read <= most).then_some(digest), size.max(read)))
    };
    match read_digest() {
        Ok((Some(digest), _)) => Ok(digest),
        Ok((None, size)) => Err(LoadFailure::permanent(format!(
            "{} has {}: at most {} are loaded",
            path.display(),
            Bytes(size),
            Bytes(most)
        ))),
        Err(error) if error.is_not_found() => Err(LoadFailure::permanent(format!(
            "{}: no such file: check spec.guest.path",
            path.display()
        ))),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> LoadFailure {
    LoadFailure::transient(format!(
        "{}: the guest cannot be read: {error}",
        path.display()
    ))
}
