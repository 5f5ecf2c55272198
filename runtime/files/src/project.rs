//! What lies where in the source folder of a guest. Entry points: [`built`] and [`is_left_by_tools`].

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The folder for this program's files in a source folder.
pub const STATE: &str = ".windlass";
/// The path of a built guest in its source folder.
const BUILT: &str = ".windlass/guest.wasm";
/// Folders that builds write beside sources.
const BESIDE_SOURCES: [&str; 3] = [CARGOS, "node_modules", "__pycache__"];
/// The folder of cargo's output, and a possible name of a Python package.
const CARGOS: &str = "target";

/// The path of the component after a build of `folder`.
#[must_use]
pub fn built_path(folder: &Path) -> PathBuf {
    folder.join(BUILT)
}

/// The component of an earlier build of `folder`.
#[must_use]
pub fn built(folder: &Path) -> Option<PathBuf> {
    Some(built_path(folder)).filter(|path| path.is_file())
}

/// Whether a file or folder in a source folder is not source: hidden, or made by tools. Otherwise a log that a build writes into the
/// folder would start the build again for ever.
#[must_use]
pub fn is_left_by_tools(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let left = name.starts_with('.') || name.ends_with(".log") || BESIDE_SOURCES.contains(&&*name);
    left && !(name == CARGOS && has_modules(path))
}

/// Whether a folder contains Python modules, whose folder may have any name.
#[must_use]
pub fn has_modules(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().extension() == Some(OsStr::new("py")))
}
