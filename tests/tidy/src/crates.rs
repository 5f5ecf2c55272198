//! The crates of the repository and their dependencies. Entry point: [`crates`].

use crate::repository::{Repository, TextFile};

/// A crate, by its manifest.
#[derive(Clone, Copy, Debug)]
pub struct Crate<'a> {
    /// Its folder, relative to the repository's root.
    pub folder: &'a str,
    /// Its `Cargo.toml`.
    pub manifest: &'a TextFile,
}

/// One dependency as written in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// The name on its left.
    pub name: &'a str,
    /// The section, for instance `dev-dependencies`.
    pub section: &'a str,
    /// The text behind the name.
    pub rest: &'a str,
    /// Counted from 1.
    pub line: usize,
}

/// All crates, without the manifests of workspaces.
pub fn crates(repository: &Repository) -> Vec<Crate<'_>> {
    let manifests = repository
        .texts_ending("Cargo.toml")
        .filter(|file| file.text.contains("[package]"));
    let mut crates: Vec<_> = manifests
        .map(|manifest| Crate {
            folder: manifest
                .path
                .trim_end_matches("Cargo.toml")
                .trim_end_matches('/'),
            manifest,
        })
        .collect();
    crates.sort_by_key(|krate| krate.folder);
    crates
}

impl<'a> Crate<'a> {
    /// All dependencies of the manifest, in every section.
    pub fn dependencies(self) -> Vec<Dependency<'a>> {
        let mut section = "";
        let mut found = Vec::new();
        for (index, line) in self.manifest.text.lines().enumerate() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']');
                continue;
            }
            let Some((name, rest)) = line.split_once('=') else {
                continue;
            };
            if !section.ends_with("dependencies") || line.starts_with('#') {
                continue;
            }
            let (name, key) = name.trim().split_once('.').unwrap_or((name.trim(), ""));
            let rest = if key == "workspace" {
                "workspace"
            } else {
                rest.trim()
            };
            found.push(Dependency {
                name,
                section,
                rest,
                line: index + 1,
            });
        }
        found
    }

    /// True if the file is part of this crate and not of a crate in a subfolder.
    pub fn owns(self, path: &str, all: &[Crate<'_>]) -> bool {
        let mut owner = "";
        for krate in all {
            let inside = path
                .strip_prefix(krate.folder)
                .is_some_and(|rest| rest.starts_with('/'));
            if inside && krate.folder.len() > owner.len() {
                owner = krate.folder;
            }
        }
        owner == self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_dependencies_of_every_section() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nx.workspace = true\ny = { workspace = true }\n[dev-dependencies]\nz = \"1\" # why\n";
        let repository = Repository::of(&[("a/Cargo.toml", manifest)]);
        let crates = crates(&repository);
        let found: Vec<_> = crates[0]
            .dependencies()
            .into_iter()
            .map(|d| (d.name, d.section, d.rest, d.line))
            .collect();
        assert_eq!(
            found,
            [
                ("x", "dependencies", "workspace", 4),
                ("y", "dependencies", "{ workspace = true }", 5),
                ("z", "dev-dependencies", "\"1\"", 7),
            ]
        );
    }

    #[test]
    fn a_file_belongs_to_the_innermost_crate() {
        let manifest = "[package]";
        let repository =
            Repository::of(&[("a/Cargo.toml", manifest), ("a/b/Cargo.toml", manifest)]);
        let all = crates(&repository);
        let owners: Vec<_> = all
            .iter()
            .filter(|krate| krate.owns("a/b/src/lib.rs", &all))
            .map(|krate| krate.folder)
            .collect();
        assert_eq!(owners, ["a/b"]);
    }
}
