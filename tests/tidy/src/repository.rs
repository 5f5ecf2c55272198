//! The files of the repository that checks read. Entry point: [`Repository::load`].

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::rust::RustFile;

/// Folders of built or downloaded files.
const BUILT: [&str; 4] = ["target", "node_modules", "__pycache__", "dist"];

/// The endings of files whose text is read. Files without a dot are read too.
const TEXT: [&str; 11] = [
    ".rs", ".toml", ".md", ".wit", ".yaml", ".yml", ".sh", ".json", ".js", ".py", ".go",
];

/// Every text file of the repository, without built files.
#[derive(Clone, Debug, Default)]
pub struct Repository {
    /// Rust files.
    pub rust: Vec<RustFile>,
    /// All other text files: manifests, documents, WIT, scripts.
    pub texts: Vec<TextFile>,
    /// The paths of all files, including files that are not read.
    pub paths: Vec<String>,
}

/// A text file that is not Rust.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Relative to the repository's root, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

impl Repository {
    /// Reads the repository.
    ///
    /// # Errors
    /// When a folder or file cannot be read.
    pub fn load(root: &Path) -> Result<Self> {
        let mut repository = Self::default();
        repository.read_folder(root, "")?;
        repository.mark_test_modules();
        Ok(repository)
    }

    /// A repository of these files, for the checks' own tests.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut repository = Self::default();
        for (path, text) in files {
            repository.add((*path).to_owned(), (*text).to_owned());
        }
        repository.mark_test_modules();
        repository
    }

    /// The Rust file at a path.
    pub fn rust_file(&self, path: &str) -> Option<&RustFile> {
        self.rust.iter().find(|file| file.path == path)
    }

    /// The files with this ending.
    pub fn texts_ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a TextFile> + 'a {
        self.texts
            .iter()
            .filter(move |file| file.path.ends_with(end))
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries =
            fs::read_dir(folder).with_context(|| format!("read folder {}", folder.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.with_context(|| format!("read folder {}", folder.display()))?;
            let kind = entry
                .file_type()
                .with_context(|| format!("look at {}", entry.path().display()))?;
            names.push((entry.file_name().to_string_lossy().into_owned(), kind));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in names {
            let path = format!("{prefix}{name}");
            if kind.is_dir()
                && !BUILT.contains(&name.as_str())
                && (!name.starts_with('.') || name == ".ci")
            {
                self.read_folder(&folder.join(&name), &format!("{path}/"))?;
            }
            if !kind.is_file() {
                continue;
            }
            self.paths.push(path.clone());
            if is_text(&name) {
                let file = folder.join(&name);
                let bytes = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
                self.add_read(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, text: String) {
        self.paths.push(path.clone());
        self.add_read(path, text);
    }

    fn add_read(&mut self, path: String, text: String) {
        if path.ends_with(".rs") {
            self.rust.push(RustFile::new(&path, &text));
        } else {
            self.texts.push(TextFile { path, text });
        }
    }

    /// A file that a `mod` under `#[cfg(test)]` links is a test, and so are the files that it links.
    fn mark_test_modules(&mut self) {
        loop {
            let mut found = Vec::new();
            for file in &self.rust {
                let links = file
                    .links()
                    .into_iter()
                    .filter(|link| file.in_test(link.at));
                found.extend(
                    links.filter_map(|link| {
                        self.linked_file(file, &link.name, link.path.as_deref())
                    }),
                );
            }
            let before = self.rust.iter().filter(|file| file.is_test).count();
            for file in &mut self.rust {
                file.is_test |= found.contains(&file.path);
            }
            if self.rust.iter().filter(|file| file.is_test).count() == before {
                return;
            }
        }
    }

    /// The path of the file that a `mod` declaration in `file` links, if it is there.
    pub(crate) fn linked_file(
        &self,
        file: &RustFile,
        module: &str,
        attribute: Option<&str>,
    ) -> Option<String> {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        if let Some(path) = attribute {
            let path = normal(&format!("{folder}/{path}"));
            return self.rust_file(&path).map(|file| file.path.clone());
        }
        let stem = name.trim_end_matches(".rs");
        let beside = format!("{folder}/{module}");
        let below = format!("{folder}/{stem}/{module}");
        // A crate's root links files beside itself; any other file links files in its own folder.
        let bases = if self.is_root(file) || stem == "mod" {
            [beside, below]
        } else {
            [below, beside]
        };
        bases
            .into_iter()
            .flat_map(|base| [format!("{base}.rs"), format!("{base}/mod.rs")])
            .find(|path| self.rust_file(path).is_some())
    }

    fn is_root(&self, file: &RustFile) -> bool {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        matches!(name, "lib.rs" | "main.rs")
    }
}

fn is_text(name: &str) -> bool {
    TEXT.iter().any(|end| name.ends_with(end)) || !name.contains('.')
}

/// Resolves `..` and `.` in a relative path.
pub(crate) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_linked_for_tests_is_a_test_with_all_below_it() {
        let repository = Repository::of(&[
            ("runtime/a/src/lib.rs", "mod queue;"),
            (
                "runtime/a/src/queue.rs",
                "#[cfg(test)]\nmod model;\nmod real;",
            ),
            ("runtime/a/src/queue/model.rs", "mod deep;"),
            ("runtime/a/src/queue/model/deep.rs", ""),
            ("runtime/a/src/queue/real.rs", ""),
        ]);
        let tests: Vec<_> = repository
            .rust
            .iter()
            .filter(|file| file.is_test)
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(
            tests,
            [
                "runtime/a/src/queue/model.rs",
                "runtime/a/src/queue/model/deep.rs"
            ]
        );
    }

    #[test]
    fn paths_are_resolved() {
        assert_eq!(normal("a/./b/../c.md"), "a/c.md");
    }
}
