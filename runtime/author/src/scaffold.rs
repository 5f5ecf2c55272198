//! Writes new guest projects: a template and its SDK. Entry points: [`write()`] and [`sdk::upgrade`].
//!
//! A project has the files of its language, and those of what its controller does: it greets, or has a kind of its own.

mod kind;
mod rust;
pub mod sdk;

pub use kind::NewKind;

use crate::embedded;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::path::Path;

/// The part of a template that is the same in every language.
const EVERY: &str = "every-language";

/// The definition of a project's own kind.
const DEFINITION: &str = "seed/crd.yaml";

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
    /// The folder of its part of a template.
    fn template(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Typescript => "typescript",
            Self::Javascript => "javascript",
            Self::Python => "python",
            Self::Go => "go",
            Self::C => "c",
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
pub fn write(folder: &Path, lang: Lang, kind: Option<&NewKind>) -> Result<String> {
    let name = name(folder)?;
    if holds_something(folder) {
        bail!(
            "{}: there is something already: choose another name, or empty the folder",
            folder.display()
        );
    }
    let mut names = vec![("name", name.clone())];
    let mut files = template(lang, if kind.is_some() { "kind" } else { "greets" })?;
    let mut types = None;
    if let Some(kind) = kind {
        names.extend(kind.names());
        let definition = files.get(DEFINITION).context("the template has no kind")?;
        let typed = kind::Typed::of(&fill(definition, &names), lang)?;
        names.extend(typed.names.iter().cloned());
        types = Some(typed);
    }
    for text in files.values_mut() {
        *text = fill(text, &names);
    }
    if let Some(types) = types {
        types.add_to(&mut files)?;
    }
    for (path, text) in files {
        sdk::put(&folder.join(path), text.as_bytes())?;
    }
    sdk::write(folder, lang)?;
    Ok(name)
}

/// The files of a template. A file that several of its parts have begins with the text of the more general one.
fn template(lang: Lang, does: &str) -> Result<BTreeMap<String, String>> {
    let own = lang.template();
    let parts = [
        format!("templates/{EVERY}"),
        format!("templates/{own}"),
        format!("templates/{does}/{EVERY}"),
        format!("templates/{does}/{own}"),
    ];
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for (path, bytes) in parts.iter().flat_map(|part| embedded::below(part)) {
        let text = std::str::from_utf8(bytes).with_context(|| format!("template {path}"))?;
        *files.entry(path.to_owned()).or_default() += text;
    }
    Ok(files)
}

/// A text with the names in their places.
fn fill(text: &str, names: &[(&str, String)]) -> String {
    let replace =
        |text: String, (of, name): &(&str, String)| text.replace(&format!("{{{{{of}}}}}"), name);
    names.iter().fold(text.to_owned(), replace)
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
        assert_eq!(write(&folder, Lang::Rust, None).unwrap(), "my-guest");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(read("Cargo.toml").contains("name = \"my-guest\""));
        assert!(read("windlass.yaml").contains("my-guest"));
        assert!(read("sdk/wit/worlds.wit").contains("world reconcile"));
        assert!(folder.join(".gitignore").is_file() && folder.join("sdk/src/lib.rs").is_file());
        let said = write(&folder, Lang::Rust, None).unwrap_err().to_string();
        assert!(said.contains("something already"), "{said}");
        let begun = parent.path().join("begun");
        std::fs::create_dir_all(begun.join(".git")).unwrap();
        assert_eq!(write(&begun, Lang::Rust, None).unwrap(), "begun");
    }

    #[test]
    fn a_guest_in_go_may_have_the_name_of_a_package_of_go() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("sync");
        write(&folder, Lang::Go, None).unwrap();
        let module = std::fs::read_to_string(folder.join("go.mod")).unwrap();
        // Without a domain in front, Go takes a module for one of its own packages.
        assert!(module.starts_with("module example.com/sync\n"), "{module}");
    }

    /// Projects in all languages: that greet, and of a kind.
    fn each(check: impl Fn(&Path, Lang)) {
        for kind in [None, Some("Website".parse().unwrap())] {
            for lang in Lang::value_variants() {
                let parent = tempfile::tempdir().unwrap();
                let folder = parent.path().join("demo");
                write(&folder, *lang, kind.as_ref()).unwrap();
                check(&folder, *lang);
            }
        }
    }

    #[test]
    fn a_reconciler_to_begin_with_is_read_at_a_glance() {
        each(|folder, lang| {
            let file = match lang {
                Lang::Rust => "src/lib.rs",
                Lang::Javascript => "src/reconciler.js",
                Lang::Typescript => "src/reconciler.ts",
                Lang::Python => "guest.py",
                Lang::Go => "main.go",
                Lang::C => "guest.c",
            };
            let lines = std::fs::read_to_string(folder.join(file)).unwrap();
            assert!(lines.lines().count() < 65, "{file}");
        });
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        each(|folder, _| {
            let kept_out = std::fs::read_to_string(folder.join("clusters/.gitignore")).unwrap();
            assert!(kept_out.contains("\n*\n"), "kubeconfigs are committed");
            assert!(folder.join("README.md").is_file() && folder.join("windlass.yaml").is_file());
            let mut folders = vec![folder.to_owned()];
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path);
                    } else if !path.components().any(|part| part.as_os_str() == SDK) {
                        let text = std::fs::read_to_string(&path).unwrap();
                        assert!(!text.contains("{{"), "{}: {text}", path.display());
                    }
                }
            }
        });
    }

    #[test]
    fn a_kind_has_the_names_that_its_language_has_for_it() {
        for (lang, kind, file, text) in [
            (
                Lang::Rust,
                "Type",
                "src/lib.rs",
                "get::<types::type_kind::Type>(",
            ),
            (
                Lang::Typescript,
                "Record",
                "src/reconciler.ts",
                "import { RecordKind } from './record';",
            ),
            (
                Lang::Javascript,
                "LoadTest",
                "src/reconciler.js",
                "import('./load_test_kind.ts').LoadTest",
            ),
            (
                Lang::Python,
                "Operator",
                "guest.py",
                "import operator_kind as api",
            ),
            (
                Lang::Go,
                "LoadTest",
                "load_test_kind.go",
                "type LoadTest struct",
            ),
            (Lang::C, "Time", "guest.c", "#include \"time_types.h\""),
        ] {
            let parent = tempfile::tempdir().unwrap();
            let folder = parent.path().join("demo");
            write(&folder, lang, Some(&kind.parse().unwrap())).unwrap();
            let written = std::fs::read_to_string(folder.join(file)).unwrap();
            assert!(written.contains(text), "{text} in {written}");
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
