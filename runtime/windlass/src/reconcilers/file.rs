//! The file that a guest is read from. Entry points: [`component`] and [`File::look`].

use crate::config::kinds::{Bytes, ReconcilerSpec};
use crate::config::load::Document;
use crate::dev::guest_build::built;
use crate::guests::Trouble;
use std::path::{Path, PathBuf};
use windlass_fleet::file::{self, FileError};
use windlass_sandbox::Digest;

/// What a guest is read from, and what was found there.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Of the component.
    pub(super) digest: Result<Digest, Trouble>,
}

impl File {
    /// Looks what a document's guest is now.
    pub(super) async fn look(document: Document, spec: ReconcilerSpec, most: usize) -> Self {
        let there = document.resolve(&spec.guest.path);
        let looked = tokio::task::spawn_blocking(move || match component(&document, &spec) {
            Ok(path) => Self {
                digest: digest(&path, most as u64),
                path,
            },
            Err(problem) => Self {
                path: document.resolve(&spec.guest.path),
                digest: Err(problem.into()),
            },
        });
        looked.await.unwrap_or_else(|error| Self {
            digest: Err(unreadable(&there, &error)),
            path: there,
        })
    }
}

/// The component that a document means: its file, or what was built in its folder.
///
/// # Errors
/// When it was not built, with what to do.
pub(crate) fn component(document: &Document, spec: &ReconcilerSpec) -> Result<PathBuf, String> {
    let path = document.resolve(&spec.guest.path);
    if !path.is_dir() {
        return Ok(path);
    }
    built(&path).ok_or_else(|| {
        format!(
            "{} is a source folder that was not built yet: run windlass build {}",
            path.display(),
            path.display()
        )
    })
}

/// The component's digest; one that is too large is not read.
fn digest(path: &Path, most: u64) -> Result<Digest, Trouble> {
    let look = || {
        let file = file::open(path)?;
        let size = file.metadata()?.len();
        if size > most {
            return Ok((None, size));
        }
        // It may grow while it is read.
        let (digest, read) = Digest::of_file(file, most + 1)?;
        Ok::<_, FileError>(((read <= most).then_some(digest), size.max(read)))
    };
    match look() {
        Ok((Some(digest), _)) => Ok(digest),
        Ok((None, size)) => Err(format!(
            "{} has {}: at most {} are loaded",
            path.display(),
            Bytes(size),
            Bytes(most)
        )
        .into()),
        Err(error) if error.is_not_found() => {
            Err(format!("{}: no such file: check spec.guest.path", path.display()).into())
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> Trouble {
    Trouble {
        problem: format!("{}: the guest cannot be read: {error}", path.display()),
        may_pass: true,
    }
}
