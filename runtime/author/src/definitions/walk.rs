//! The files of a project. Entry point: [`files`].

use std::path::{Path, PathBuf};
use windlass_files::is_left_by_tools;

/// How many folders may lie in each other. It ends circles of links.
const DEEPEST: usize = 8;

/// Folders with what others wrote, beside those that tools leave: `sdk` is from `windlass new`.
const OF_OTHERS: [&str; 3] = ["vendor", "sdk", "dist"];

/// The files with one of these extensions in `folder` and below it, sorted.
pub(super) fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    add(folder, extensions, DEEPEST, &mut found);
    let mut found: Vec<PathBuf> = found.into_iter().map(short).collect();
    found.sort();
    found
}

/// The path without a `./` before it.
pub(super) fn short(path: PathBuf) -> PathBuf {
    path.strip_prefix(".").map(Path::to_owned).unwrap_or(path)
}

fn add(folder: &Path, extensions: &[&str], deeper: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if deeper > 0 && !is_left_by_tools(&path) && !OF_OTHERS.contains(&&*name) {
                add(&path, extensions, deeper - 1, found);
            }
        } else if path
            .extension()
            .is_some_and(|end| extensions.iter().any(|one| end == *one))
        {
            found.push(path);
        }
    }
}
