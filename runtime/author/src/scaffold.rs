//! Writes new guest projects: a template and its SDK. Entry points: [`write()`] and [`sdk::upgrade`].

mod rust;
pub mod sdk;

use crate::embedded;
use anyhow::{Result, bail};
use clap::ValueEnum;
use std::borrow::Cow;
use std::path::Path;

/// The part of a template that is the same in every language: its documents, seeds and tests of the component.
const EVERY: &str = "templates/every-language";

/// The longest name of a Reconciler, which has the name of its project.
const LONGEST_NAME: usize = 63;

/// A language with a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lang {
    /// Rust
    Rust,
    /// TypeScript
    #[value(alias = "ts")]
    Typescript,
    /// JavaScript
    #[value(alias = "js")]
    Javascript,
    /// Python
    Python,
    /// Go
    Go,
    /// C
    C,
}

impl Lang {
    /// The folder of its template.
    fn template(self) -> &'static str {
        match self {
            Self::Rust => "templates/rust",
            Self::Typescript => "templates/typescript",
            Self::Javascript => "templates/javascript",
            Self::Python => "templates/python",
            Self::Go => "templates/go",
            Self::C => "templates/c",
        }
    }

    /// The command that runs the unit tests of a project.
    pub fn unit_tests(self) -> &'static str {
        match self {
            Self::Rust => "cargo test",
            Self::Typescript | Self::Javascript => "npm install && npm test",
            Self::Python => "PYTHONPATH=sdk python3 -m unittest",
            Self::Go => "go test ./...",
            Self::C => "make test",
        }
    }
}

/// Writes a project into `folder`, which must be empty or absent, and returns its name: the name of the folder.
///
/// # Errors
/// When the name is not valid for a Reconciler, the folder is not empty, or a file cannot be written.
pub fn write(folder: &Path, lang: Lang) -> Result<String> {
    let name = name(folder)?;
    if holds_something(folder) {
        bail!(
            "{}: there is something already: choose another name, or empty the folder",
            folder.display()
        );
    }
    let module = name.replace('-', "_");
    let fill = |text: &str| {
        text.replace("{{name}}", &name)
            .replace("{{module}}", &module)
    };
    let mut files: Vec<(String, Cow<'static, [u8]>)> = Vec::new();
    for (path, bytes) in embedded::below(lang.template()).chain(embedded::below(EVERY)) {
        let bytes = match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Owned(fill(text).into_bytes()),
            Err(_) => Cow::Borrowed(bytes),
        };
        files.push((fill(path), bytes));
    }
    for (path, bytes) in files {
        sdk::put(&folder.join(path), &bytes)?;
    }
    sdk::write(folder, lang)?;
    Ok(name)
}

/// Whether the folder contains anything except a new repository.
fn holds_something(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    folder.is_file() || entries.into_iter().any(|entry| entry.file_name() != ".git")
}

/// The name of a project: the last part of its path.
fn name(folder: &Path) -> Result<String> {
    let folder = std::path::absolute(folder).unwrap_or_default(); // resolves `.`, which has no name
    let last = folder.file_name().unwrap_or_default().to_string_lossy();
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = last.starts_with(|c: char| c.is_ascii_lowercase())
        && last.chars().all(legal)
        && !last.ends_with('-')
        && last.len() <= LONGEST_NAME;
    if good {
        return Ok(last.into_owned());
    }
    bail!(
        "{last:?} cannot be the name of a guest: at most {LONGEST_NAME} of a-z, 0-9 and -, beginning with a letter, for example my-guest"
    )
}

#[cfg(test)]
mod tests {
    use super::sdk::SDK;
    use super::*;

    #[test]
    fn a_project_is_whole_and_named() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("my-guest");
        assert_eq!(write(&folder, Lang::Rust).unwrap(), "my-guest");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(read("Cargo.toml").contains("name = \"my-guest\""));
        assert!(read("windlass.yaml").contains("my-guest"));
        assert!(read("sdk/wit/worlds.wit").contains("world reconcile"));
        assert!(folder.join(".gitignore").is_file() && folder.join("sdk/src/lib.rs").is_file());
        let said = write(&folder, Lang::Rust).unwrap_err().to_string();
        assert!(said.contains("something already"), "{said}");
        let begun = parent.path().join("begun");
        std::fs::create_dir_all(begun.join(".git")).unwrap();
        assert_eq!(write(&begun, Lang::Rust).unwrap(), "begun");
    }

    #[test]
    fn a_guest_in_go_may_have_the_name_of_a_package_of_go() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("sync");
        write(&folder, Lang::Go).unwrap();
        let module = std::fs::read_to_string(folder.join("go.mod")).unwrap();
        // Without a domain in front, Go takes a module for one of its own packages.
        assert!(module.starts_with("module example.com/sync\n"), "{module}");
    }

    #[test]
    fn a_reconciler_to_begin_with_is_read_at_a_glance() {
        for lang in Lang::value_variants() {
            let parent = tempfile::tempdir().unwrap();
            let folder = parent.path().join("demo");
            write(&folder, *lang).unwrap();
            let file = match lang {
                Lang::Rust => "src/lib.rs",
                Lang::Javascript => "src/reconciler.js",
                Lang::Typescript => "src/reconciler.ts",
                Lang::Python => "guest.py",
                Lang::Go => "main.go",
                Lang::C => "guest.c",
            };
            let lines = std::fs::read_to_string(folder.join(file)).unwrap();
            assert!(lines.lines().count() < 60, "{file}");
        }
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        for lang in Lang::value_variants() {
            let parent = tempfile::tempdir().unwrap();
            let folder = parent.path().join("demo");
            write(&folder, *lang).unwrap();
            let kept_out = std::fs::read_to_string(folder.join("clusters/.gitignore")).unwrap();
            assert!(kept_out.contains("\n*\n"), "kubeconfigs are committed");
            assert!(folder.join("README.md").is_file() && folder.join("windlass.yaml").is_file());
            let mut folders = vec![folder];
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path);
                    } else if !path.components().any(|part| part.as_os_str() == SDK) {
                        let text =
                            String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                        assert!(
                            !text.contains("{{name}}") && !text.contains("{{module}}"),
                            "{}",
                            path.display()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_name_must_suit_a_reconciler() {
        for bad in ["My", "a b", "1a", "a-", "", "..", &"a".repeat(64)] {
            assert!(name(Path::new(bad)).is_err(), "{bad}");
        }
        assert_eq!(name(Path::new("x/my-guest-2/")).unwrap(), "my-guest-2");
        assert_eq!(name(Path::new("x/my-guest/.")).unwrap(), "my-guest");
    }
}
