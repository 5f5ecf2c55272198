//! Builds guests from source. Entry points: [`build`], and [`built`] for what was built before.

mod cargo;

use std::path::{Path, PathBuf};

/// Where a built guest is kept in its source folder.
const BUILT: &str = ".windlass/guest.wasm";

/// Why a guest does not build.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// The folder is none.
    #[error("{0}: no such folder: check the path")]
    NoFolder(PathBuf),
    /// No language is recognised.
    #[error(
        "{0}: there is no guest to build: it has no Cargo.toml (guests in other languages are built by their own tools; give their .wasm file instead of a folder)"
    )]
    NoGuest(PathBuf),
    /// A tool is not installed.
    #[error("{tool} is needed to build {folder} and was not found: {remedy}")]
    NoTool {
        /// The tool.
        tool: &'static str,
        /// The guest.
        folder: PathBuf,
        /// How to get it.
        remedy: String,
    },
    /// The compiler refused; it has said why on standard error.
    #[error("{folder}: the guest does not build ({status}): mend what the compiler says above")]
    Compiler {
        /// The guest.
        folder: PathBuf,
        /// How the compiler ended.
        status: std::process::ExitStatus,
    },
    /// The build brought no component, or several.
    #[error(
        "{folder}: expected one component, cargo built {found}: give the package [lib] crate-type = [\"cdylib\"]"
    )]
    NotOne {
        /// The guest.
        folder: PathBuf,
        /// How many.
        found: usize,
    },
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Builds the guest in `folder` and returns the path of its component. The compiler's messages go to standard error.
/// Dropping the future stops the build.
///
/// # Errors
/// [`BuildError`] says what is missing or refused.
pub(crate) async fn build(folder: &Path) -> Result<PathBuf, BuildError> {
    if !folder.is_dir() {
        return Err(BuildError::NoFolder(folder.to_owned()));
    }
    if !folder.join("Cargo.toml").is_file() {
        return Err(BuildError::NoGuest(folder.to_owned()));
    }
    let artifact = cargo::build(folder).await?;
    keep(folder, &artifact)
}

/// Where a build of `folder` leaves its component.
pub(crate) fn built_path(folder: &Path) -> PathBuf {
    folder.join(BUILT)
}

/// The component that an earlier build left in `folder`.
pub(crate) fn built(folder: &Path) -> Option<PathBuf> {
    Some(built_path(folder)).filter(|path| path.is_file())
}

/// Puts the component where everybody finds it, in one step, so that a watcher never sees half of it.
fn keep(folder: &Path, artifact: &Path) -> Result<PathBuf, BuildError> {
    let path = built_path(folder);
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| BuildError::Io { path, error }
    };
    let bytes = std::fs::read(artifact).map_err(io(artifact))?;
    if std::fs::read(&path).is_ok_and(|old| old == bytes) {
        return Ok(path);
    }
    state_folder(folder).map_err(io(&path))?;
    let fresh = path.with_extension(format!("wasm.{}", std::process::id()));
    std::fs::write(&fresh, bytes).map_err(io(&fresh))?;
    std::fs::rename(&fresh, &path).map_err(io(&path))?;
    Ok(path)
}

/// Makes the folder `.windlass` in `folder`, which version control ignores.
pub(crate) fn state_folder(folder: &Path) -> std::io::Result<PathBuf> {
    let state = folder.join(".windlass");
    std::fs::create_dir_all(&state)?;
    let ignore = state.join(".gitignore");
    if !ignore.exists() {
        std::fs::write(ignore, "*\n")?;
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_without_a_guest_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = build(folder.path()).await.unwrap_err();
        assert!(matches!(error, BuildError::NoGuest(_)), "{error}");
        let error = build(&folder.path().join("nope")).await.unwrap_err();
        assert!(matches!(error, BuildError::NoFolder(_)), "{error}");
    }

    #[test]
    fn a_kept_component_is_replaced_only_when_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let artifact = folder.path().join("x.wasm");
        std::fs::write(&artifact, "one").unwrap();
        assert!(built(folder.path()).is_none());
        let path = keep(folder.path(), &artifact).unwrap();
        assert_eq!(built(folder.path()).as_ref(), Some(&path));
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        keep(folder.path(), &artifact).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().modified().unwrap(),
            before
        );
        std::fs::write(&artifact, "two").unwrap();
        keep(folder.path(), &artifact).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert!(folder.path().join(".windlass/.gitignore").is_file());
    }
}
