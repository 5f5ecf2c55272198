//! Lists the configuration files of paths. Entry point: [`Listing::of`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_files::Problem;

/// The files of some paths, and the folders that were listed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Listing {
    /// Configuration files, each once, in the order found.
    pub(crate) files: Vec<Arc<str>>,
    /// The folders among the paths.
    pub(crate) folders: Vec<PathBuf>,
}

impl Listing {
    /// Lists the files of `paths`. Of a folder, lists its .yaml and .yml files, sorted, without subfolders.
    pub(crate) fn of(paths: &[PathBuf]) -> (Self, Vec<Problem>) {
        let mut listing = Self::default();
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        for path in paths {
            let name: Arc<str> = path.to_string_lossy().into();
            let found = if path.is_dir() {
                listing.folders.push(path.clone());
                match files_of(path) {
                    Ok(files) if files.is_empty() => {
                        problems.push(Problem::of_file(
                            &name,
                            "the folder has no .yaml or .yml file: add one or name a file",
                        ));
                        files
                    }
                    Ok(files) => files,
                    Err(error) => {
                        problems.push(Problem::of_file(
                            &name,
                            format!("cannot list the folder: {error}"),
                        ));
                        Vec::new()
                    }
                }
            } else {
                vec![path.clone()]
            };
            for file in found {
                let identity = file.canonicalize().unwrap_or_else(|_| file.clone());
                if seen.insert(identity) {
                    listing.files.push(file.to_string_lossy().into());
                }
            }
        }
        (listing, problems)
    }
}

fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let yaml = path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml");
        if yaml && !hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
